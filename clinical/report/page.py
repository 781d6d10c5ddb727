"""The evaluation as one self-contained HTML page with its documents, and as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinical.evaluation.drift import QUANTITIES, size
from clinical.evaluation.groups import SMALLEST_GROUP
from clinical.evaluation.measures import GROUP_MEASURES, MEASURES
from clinical.report import figures
from clinical.report.facts import (
    CHECKLIST,
    FLAGS,
    NUMBERS,
    QUESTIONS,
    RULE,
    Hospital,
    environment,
    source_attributes,
    tripod,
)
from domainbert.files import atomic_path
from domainbert.statistics.figures import save_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from clinical.evaluation.comparison import Comparison
    from clinical.evaluation.monitoring import Monitoring
    from clinical.report.facts import Facts, Origin

_METRICS_VERSION = 5


def write_report(
    comparison: Comparison,
    folder: str | Path,
    *,
    title: str,
    facts: Mapping[str, Any] | None = None,
    flow: pd.DataFrame | None = None,
    about: Facts | None = None,
    hospital: Origin | None = None,
) -> Path:
    """Write `report.html`, its figures and `metrics.json`; returns the path of the report.

    The page is one file with its figures and style inside, which loads nothing. With `about`, it
    also has the source attributes, TRIPOD+AI and the open questions, which
    `hospital-template.toml`, beside it, asks.

    Args:
        comparison: what was measured.
        folder: made if it does not exist.
        title: heading of the page.
        facts: short facts about the model for a list: name, data, c, seed.
        flow: how the cohort was selected, one row a step.
        about: facts and answers for the documents, from `gather`.
        hospital: its answers, for the template of its file.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    images = {
        name: _inline(save_figure(figure, folder / f"{name}.png"))
        for name, figure in _draw(comparison).items()
    }
    write_metrics(folder, comparison, facts=facts)
    names = about or {}
    attributes = source_attributes(names) if about else []
    checklist = tripod(names) if about else []
    verdicts = comparison.verdicts()
    content = {
        "title": title,
        "comparison": comparison,
        "own": comparison.model,
        "verdicts": {
            status: [v.text for v in verdicts if v.status == status]
            for status in ("shown", "against", "not shown")
        },
        "images": images,
        "flow": flow,
        "facts": dict(facts or {}),
        "about": names,
        "hospital": hospital,
        "measures": MEASURES,
        "group_measures": GROUP_MEASURES,
        "quantities": QUANTITIES,
        "size": size,
        "smallest_group": SMALLEST_GROUP,
        "rule": RULE,
        "checklist_name": CHECKLIST,
        "attributes": attributes,
        "checklist": checklist,
        "questions": {key: text for key, text in QUESTIONS.items() if not names.get(key)},
    }
    page = environment().get_template("page.html.j2").render(content)
    if about is not None:
        _write(folder, "hospital-template.toml", hospital_template(hospital or Hospital()))
    return _write(folder, "report.html", page)


def _draw(comparison: Comparison) -> dict[str, Figure]:
    """The figures that these stays allow, by name."""
    outcome, scores = comparison.stays["readmitted"], comparison.scores
    drawn = {"calibration": figures.plot_calibration(outcome, next(iter(scores.values())))}
    if outcome.nunique() == 2:
        levels = [point.threshold for point in comparison.points.values()]
        drawn["decision_curve"] = figures.plot_decision_curve(comparison.curve, points=levels)
        drawn["ranking"] = figures.plot_ranking(outcome, scores, evaluations=comparison.evaluations)
    return drawn


def hospital_template(hospital: Origin) -> str:
    """The TOML file for the hospital to fill in, with the answers there are."""
    template = environment().get_template("hospital.toml.j2")
    return template.render(hospital=hospital, numbers=NUMBERS, flags=FLAGS, questions=QUESTIONS)


def write_metrics(
    folder: str | Path, comparison: Comparison, *, facts: Mapping[str, Any] | None = None
) -> Path:
    """Write `metrics.json`, always with the same keys, in full precision; gaps are null."""
    (_, own), *others = comparison.evaluations.items()
    content = {
        "version": _METRICS_VERSION,
        "model": own.to_dict(),
        "baselines": {name: other.to_dict() for name, other in others},
        "differences": {
            name: {field: vars(each) for field, each in own.minus(other).items()}
            for name, other in others
        },
        "groups": records(comparison.groups),
        "decision_curve": records(comparison.curve),
        "net_benefit": records(comparison.benefit),
        "alerts": records(comparison.burden),
        "periods": records(comparison.periods),
        "drift": records(comparison.inputs),
        "facts": dict(facts or {}),
        "verdicts": [vars(verdict) for verdict in comparison.verdicts()],
        "caveats": comparison.caveats,
    }
    return _write(folder, "metrics.json", _json(content))


def write_monitoring(found: Monitoring, folder: str | Path) -> Path:
    """Write `drift.csv`, `monitor.json` and, with outcomes, `months.csv`.

    Returns the path of the JSON file.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tables = {"drift": found.inputs, "months": found.periods}
    for name, table in tables.items():
        if table is not None and len(table):
            with atomic_path(folder / f"{name}.csv") as temporary:
                table.to_csv(temporary, index=False)
    content = {
        "stays": found.n_stays,
        "unscored": found.n_unscored,
        "alerts_per_100": found.alerts_per_100,
        "findings": found.findings,
        "evaluation": found.evaluation.to_dict() if found.evaluation else None,
        **{name: records(table) for name, table in tables.items()},
    }
    return _write(folder, "monitor.json", _json(content))


def records(frame: pd.DataFrame | None) -> list[dict[str, Any]]:
    """The rows of a table as Python objects, None where a value is missing."""
    if frame is None:
        return []
    objects = frame.astype(object)
    return objects.where(objects.notna(), None).to_dict("records")


def _json(content: Any) -> str:
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False, default=_plain)
    return text + "\n"


def _plain(value: Any) -> Any:
    """NumPy numbers as numbers, anything else that JSON does not know as a string."""
    return value.item() if hasattr(value, "item") else str(value)


def _write(folder: str | Path, name: str, text: str) -> Path:
    path = Path(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _inline(path: Path) -> str:
    """The data URI of a figure."""
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"
