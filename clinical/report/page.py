"""The evaluation as one self-contained HTML page with its documents, and as JSON."""

from __future__ import annotations

import base64
import json
from itertools import groupby
from mimetypes import guess_type
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinical.evaluation.drift import QUANTITIES, SINCE, size
from clinical.evaluation.group_measures import GROUP_MEASURES
from clinical.evaluation.groups import READINGS, SMALLEST_GROUP
from clinical.evaluation.measures import MEASURES
from clinical.evaluation.verdicts import FEW_EVENTS
from clinical.report import documents, figures, figures_of_use
from clinical.report.facts import environment
from clinical.report.hospital import FLAGS, NUMBERS, questions
from domainbert.errors import UserError
from domainbert.statistics.figures import save_figure
from domainbert.tables import atomic_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from matplotlib.figure import Figure

    from clinical.evaluation.comparison import Comparison
    from clinical.evaluation.monitoring import Monitoring
    from clinical.report.facts import About

_IMAGES = (".png", ".svg", ".jpg", ".jpeg")
_METRICS_VERSION = 4
_LONGEST = 200  # characters of a table's cell; a longer one is likely to be a note


def write_comparison(
    comparison: Comparison,
    folder: str | Path,
    *,
    title: str,
    facts: Mapping[str, Any],
    flow: pd.DataFrame | None = None,
    about: About | None = None,
) -> Path:
    """Write `metrics.json`, the figures and `report.html`; returns the path of the report.

    For the arguments see `write_report`.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    drawn = _draw(comparison)
    paths = [save_figure(figure, folder / f"{name}.png") for name, figure in drawn.items()]
    write_metrics(folder, comparison, facts=facts)
    return write_report(
        folder, comparison, title=title, figures=paths, flow=flow, facts=facts, about=about
    )


def _draw(comparison: Comparison) -> dict[str, Figure]:
    """The figures that these stays allow, by name."""
    outcome, scores, use = comparison.stays["readmitted"], comparison.scores, comparison.use
    drawn, numbers = {}, comparison.evaluations
    varies = outcome.nunique() == 2
    if varies:
        drawn["roc"] = figures.plot_roc(outcome, scores, evaluations=numbers)
        drawn["precision_recall"] = figures.plot_precision_recall(
            outcome, scores, evaluations=numbers
        )
    drawn["calibration"] = figures.plot_calibration(outcome, scores)
    if use is not None and varies:
        levels = [point.threshold for point in use.points.values()]
        drawn["decision_curve"] = figures_of_use.plot_decision_curve(use.curve, points=levels)
    if (comparison.groups["reason"] == "").any():
        drawn["groups"] = figures_of_use.plot_groups(comparison.groups)
    if use is not None and use.periods is not None and len(use.periods) > 1:
        drawn["periods"] = figures_of_use.plot_periods(use.periods)
    return drawn


def write_report(
    folder: str | Path,
    comparison: Comparison,
    *,
    title: str,
    figures: Sequence[str | Path] = (),
    flow: pd.DataFrame | None = None,
    facts: Mapping[str, Any] | None = None,
    about: About | None = None,
) -> Path:
    """Write `report.html`: one file with its figures and style inside, which loads nothing.

    With `about`, the page also has the source attributes, TRIPOD+AI and the open questions, and
    beside it are `source_attributes.json`, `tripod_ai.json`, `chai_card.xml`, `chai_card.json` and
    `hospital-template.toml`.

    Args:
        folder: made if it does not exist.
        comparison: what was measured.
        title: heading of the page.
        figures: PNG, SVG or JPEG files; those that `templates/pictures.html.j2` knows by name are
            put into their section.
        flow: how the cohort was selected, one row a step.
        facts: short facts about the model for a list: name, data, c, seed.
        about: what the documents need.

    Raises:
        UserError: a table contains what may be note text (a column `text`, lists, long strings),
            or a figure of another kind.
    """
    for name, frame in (("groups", comparison.groups), ("flow", flow)):
        if frame is not None:
            _refuse_notes(frame, name=name)
    names = about.namespace() if about else {}
    attributes = documents.source_attributes(names) if about else []
    verdicts = comparison.verdicts()
    content = {
        "title": title,
        "comparison": comparison,
        "own": comparison.model,
        "use": comparison.use,
        "verdicts": {
            status: [v.text for v in verdicts if v.status == status]
            for status in ("shown", "against", "not shown")
        },
        "images": {Path(path).stem: _inline(Path(path)) for path in figures},
        "flow": flow,
        "facts": dict(facts or {}),
        "about": names,
        "hospital": about.hospital if about else None,
        "examples": about.examples if about else (),
        "measures": MEASURES,
        "group_measures": {name: READINGS[name] for name in GROUP_MEASURES},
        "quantities": QUANTITIES,
        "since": SINCE,
        "size": size,
        "smallest_group": SMALLEST_GROUP,
        "few_events": FEW_EVENTS,
        "rule": documents.RULE,
        "checklist_name": documents.CHECKLIST,
        "attributes": attributes,
        "attribute_groups": [
            (group, list(items)) for group, items in groupby(attributes, lambda item: item.group)
        ],
        "checklist": documents.tripod(names) if about else [],
        "questions": documents.open_questions(names) if about else [],
    }
    page = environment().get_template("page.html.j2").render(content)
    if about is not None:
        _write_documents(folder, about, comparison)
    return _write(folder, "report.html", page)


def _write_documents(folder: str | Path, about: About, comparison: Comparison) -> None:
    names = about.namespace()
    card = documents.chai_card(names, comparison)
    heads: list[tuple[str, dict[str, str], list[documents.Item]]] = [
        ("source_attributes", {"rule": documents.RULE}, documents.source_attributes(names)),
        ("tripod_ai", {"checklist": documents.CHECKLIST}, documents.tripod(names)),
    ]
    for name, head, items in heads:
        content = {**head, "items": [item.to_dict() for item in items]}
        _write(folder, f"{name}.json", _json(content))
    _write(folder, "chai_card.json", _json(card))
    _write(folder, "chai_card.xml", documents.chai_xml(card))
    _write(folder, "hospital-template.toml", hospital_template(about))


def hospital_template(about: About) -> str:
    """The TOML file for the hospital to fill in, with the answers there are."""
    template = environment().get_template("hospital.toml.j2")
    return template.render(
        hospital=about.hospital,
        numbers=NUMBERS,
        flags=FLAGS,
        questions=questions(),
        needs=documents.uses(),
    )


def write_metrics(
    folder: str | Path, comparison: Comparison, *, facts: Mapping[str, Any] | None = None
) -> Path:
    """Write `metrics.json`, always with the same keys, in full precision; gaps are null."""
    (_, own), *others = comparison.evaluations.items()
    use = comparison.use
    content = {
        "version": _METRICS_VERSION,
        "model": own.to_dict(),
        "baselines": {name: other.to_dict() for name, other in others},
        "differences": {
            name: {field: vars(each) for field, each in own.minus(other).items()}
            for name, other in others
        },
        "groups": records(comparison.groups),
        "decision_curve": records(use.curve if use else None),
        "net_benefit": records(use.benefit if use else None),
        "alerts": records(use.burden if use else None),
        "periods": records(use.periods if use else None),
        "drift": records(use.inputs if use else None),
        "facts": dict(facts or {}),
        "verdicts": [vars(verdict) for verdict in comparison.verdicts()],
        "caveats": comparison.caveats,
    }
    return _write(folder, "metrics.json", _json(content))


def write_monitoring(found: Monitoring, folder: str | Path) -> Path:
    """Write `drift.csv`, `monitor.json` and, with outcomes, `months.csv` and `months.png`.

    Returns the path of the JSON file.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tables = {"drift": found.inputs, "months": found.periods}
    for name, table in tables.items():
        if table is not None and len(table):
            with atomic_path(folder / f"{name}.csv") as temporary:
                table.to_csv(temporary, index=False)
    if found.periods is not None and len(found.periods):
        save_figure(figures_of_use.plot_periods(found.periods), folder / "months.png")
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


def _refuse_notes(frame: pd.DataFrame, *, name: str) -> None:
    for column in frame.columns:
        if str(column).lower() == "text" or any(map(_noteish, frame[column])):
            raise UserError(
                f"{name} has a column {str(column)!r} that may hold notes (lists, or more than "
                f"{_LONGEST} characters), which a report must not show; drop that column"
            )


def _noteish(value: object) -> bool:
    return len(str(value)) > _LONGEST or (not isinstance(value, str) and hasattr(value, "__len__"))


def _inline(path: Path) -> str:
    """The data URI of a figure."""
    if path.suffix.lower() not in _IMAGES:
        raise UserError(f"{path.name} is not a figure; expected {', '.join(_IMAGES)}")
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return f"data:{guess_type(path.name)[0]};base64,{data}"
