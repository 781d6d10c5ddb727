"""The evaluation as one self-contained HTML page with its documents, and as JSON."""

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import (
    Environment,
    PackageLoader,
    StrictUndefined,
    select_autoescape,
)
from matplotlib.figure import Figure

from clinical.evaluation.comparison import Comparison
from clinical.evaluation.diagnoses import DiagnosisComparison
from clinical.evaluation.drift import QUANTITIES, number_text
from clinical.evaluation.groups import SMALLEST_GROUP
from clinical.evaluation.measures import GROUP_MEASURES, MEASURES
from clinical.evaluation.monitoring import Monitoring
from clinical.report import figures
from clinical.report.facts import (
    ASKED,
    QUESTIONS,
    Hospital,
    checklist,
    model_card_xml,
)
from domainbert.files import data_text, write_json, write_text
from domainbert.settings import Settings
from domainbert.statistics.figures import save_figure
from domainbert.tables import write_table


def _number(value: float | None, digits: int = 3) -> str:
    """A number with three digits and a true minus sign; a dash for none."""
    if value is None or value != value:
        return "–"
    return f"{value:.{digits}f}".replace("-", "−")


_TEMPLATES = Environment(
    loader=PackageLoader("clinical.report"),
    autoescape=select_autoescape(["html.j2"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["number"] = _number
_TEMPLATES.filters["json"] = partial(
    json.dumps, ensure_ascii=False, allow_nan=False
)


def write_report(
    comparison: Comparison,
    folder: str | Path,
    *,
    title: str,
    facts: Mapping[str, object] = {},
    flow: pd.DataFrame | None = None,
    about: Mapping[str, str | None] = {},
    hospital: Settings | None = None,
) -> Path:
    """Write `report.html`, its figures and `metrics.json`; returns the path of the report.

    The page is one file that loads nothing. With `about`, it also has the source attributes,
    TRIPOD+AI and the open questions, which `hospital-template.toml`, beside it, asks;
    `chai-model-card.xml` has the same answers in the form of the Coalition for Health AI.

    Args:
        comparison: what was measured.
        folder: made if it does not exist.
        title: heading of the page.
        facts: about the model, by name.
        flow: how the cohort was selected, one row per step.
        about: facts and answers for the documents, from `gather`.
        hospital: its answers, for the template of its file.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    images = {}
    for name, figure in _draw(comparison).items():
        images[name] = _embedded(save_figure(figure, folder / f"{name}.png"))
    write_metrics(folder, comparison, facts=facts)
    hospital = hospital or Hospital()
    if about:
        template = hospital_template(hospital)
        write_text(template, folder / "hospital-template.toml")
        card = model_card_xml(about, comparison.model)
        write_text(card, folder / "chai-model-card.xml")
    html = _filled(
        "page.html.j2",
        title=title,
        comparison=comparison,
        images=images,
        flow=flow,
        facts=facts,
        about=about,
        hospital=hospital,
        measures=MEASURES,
        group_measures=GROUP_MEASURES,
        quantities=QUANTITIES,
        number_text=number_text,
        smallest_group=SMALLEST_GROUP,
        attributes=checklist("attributes.toml", about),
        tripod=checklist("tripod.toml", about),
        questions={
            key: text for key, text in QUESTIONS.items() if not about.get(key)
        },
    )
    page = folder / "report.html"
    write_text(html, page)
    return page


def write_diagnoses(
    comparison: DiagnosisComparison,
    folder: str | Path,
    *,
    title: str,
    facts: Mapping[str, object] = {},
) -> Path:
    """Write the report of a model of diagnoses and `metrics.json`; returns the path of the report.

    Args:
        comparison: what was measured.
        folder: made if it does not exist.
        title: heading of the page.
        facts: about the model, by name.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    evaluation = comparison.model
    table = evaluation.by_group.sort_values("positive", ascending=False)
    drawn = table[table["auroc"].notna()]
    image = ""
    if len(drawn):
        figure = figures.plot_groups(drawn, comparison.names)
        image = _embedded(save_figure(figure, folder / "groups.png"))
    head, *rows = comparison.rows()
    script = data_text(__file__, "templates/sort.js")
    digest = hashlib.sha256(script.encode()).digest()
    html = _filled(
        "diagnoses.html.j2",
        title=title,
        evaluation=evaluation,
        head=head,
        rows=rows,
        groups=[_group_cells(row, comparison.names) for row in records(table)],
        labels=list(_GROUP_COLUMNS),
        image=image,
        facts=facts,
        caveats=comparison.caveats,
        script=script,
        script_hash=base64.b64encode(digest).decode(),
    )
    page = folder / "report.html"
    write_text(html, page)
    content = {
        "version": 1,
        "stays": evaluation.n_stays,
        "patients": evaluation.n_patients,
        "overall": {
            name: measured.overall
            for name, measured in comparison.evaluations.items()
        },
        "differences": {
            name: evaluation.minus(other)
            for name, other in comparison.evaluations.items()
            if other is not evaluation
        },
        "groups": records(evaluation.by_group),
        "facts": dict(facts),
        "caveats": comparison.caveats,
    }
    write_json(content, folder / "metrics.json")
    return page


_GROUP_COLUMNS = {
    "group": "Group",
    "name": "Name",
    "positive": "Stays",
    "auroc": "AUROC",
    "auprc": "Average precision",
    "f1": "F1",
    "ece": "Calibration error",
}


def _group_cells(
    row: Mapping[str, Any], names: Mapping[str, str]
) -> list[str]:
    """The cells of a group, a dash where nothing may be said."""
    cells = []
    for column in _GROUP_COLUMNS:
        value = {**row, "name": names.get(row["group"], "")}[column]
        low = row.get(f"{column}_low")
        if isinstance(value, float):
            value = _number(value)
        if low is not None:
            high = row[f"{column}_high"]
            value = f"{value} ({_number(low)} to {_number(high)})"
        if value is None:
            value = "–"
        cells.append(str(value))
    return cells


def _embedded(png: Path) -> str:
    """A figure as an address that a page holds."""
    content = base64.b64encode(png.read_bytes()).decode("ascii")
    return f"data:image/png;base64,{content}"


def _filled(name: str, **values: object) -> str:
    return _TEMPLATES.get_template(name).render(values)


def _draw(comparison: Comparison) -> dict[str, Figure]:
    """The figures that these stays allow, by name."""
    outcome = comparison.stays["readmitted"]
    risks = comparison.risks
    drawn = {
        "calibration": figures.plot_calibration(
            outcome, next(iter(risks.values()))
        )
    }
    if len(comparison.remaining):
        drawn["remaining"] = figures.plot_remaining(comparison.remaining)
    if outcome.nunique() == 2:
        levels = [point.threshold for point in comparison.points.values()]
        drawn["decision_curve"] = figures.plot_decision_curve(
            comparison.curve,
            points=levels,
        )
        drawn["ranking"] = figures.plot_ranking(
            outcome,
            risks,
            evaluations=comparison.evaluations,
        )
    return drawn


def hospital_template(hospital: Settings) -> str:
    """The TOML file for the hospital to fill in, with the answers there are."""
    return _filled("hospital.toml.j2", hospital=hospital, asked=ASKED)


def write_metrics(
    folder: Path,
    comparison: Comparison,
    *,
    facts: Mapping[str, object] = {},
) -> None:
    """Write `metrics.json`, always with the same keys, in full precision; gaps are null."""
    (_, model), *baselines = comparison.evaluations.items()
    content = {
        "version": 6,
        "model": model.to_dict(),
        "baselines": {
            name: baseline.to_dict() for name, baseline in baselines
        },
        "differences": {
            name: model.minus(baseline) for name, baseline in baselines
        },
        "groups": records(comparison.groups),
        "decision_curve": records(comparison.curve),
        "net_benefit": records(comparison.benefit),
        "alerts": records(comparison.burden),
        "periods": records(comparison.periods),
        "remaining_risk": records(comparison.remaining),
        "drift": records(comparison.inputs),
        "facts": dict(facts),
        "verdicts": comparison.verdicts(),
        "caveats": comparison.caveats,
    }
    write_json(content, folder / "metrics.json")


def write_monitoring(watched: Monitoring, folder: str | Path) -> Path:
    """Write `drift.csv`, `monitor.json` and, with outcomes, `months.csv`.

    Returns the path of the JSON file.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tables = {"drift": watched.inputs, "months": watched.periods}
    for name, table in tables.items():
        if len(table):
            write_table(table, folder / f"{name}.csv")
    evaluation = watched.evaluation
    content = {
        "stays": watched.n_stays,
        "unscored": watched.n_unscored,
        "alerts_per_100": watched.alerts_per_100,
        "findings": watched.findings,
        "evaluation": evaluation and evaluation.to_dict(),
        **{name: records(table) for name, table in tables.items()},
    }
    write_json(content, folder / "monitor.json")
    return folder / "monitor.json"


def records(frame: pd.DataFrame) -> list[dict[str, object]]:
    """The rows of a table as Python objects, None where a value is missing."""
    objects = frame.astype(object)
    return objects.where(objects.notna(), None).to_dict("records")
