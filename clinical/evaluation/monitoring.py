"""Watching a model in use: drift of notes and risks since training, and quality by month."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from clinical.cohort.splits import patient_keys
from clinical.evaluation.committee_figures import plot_drift, plot_periods
from clinical.evaluation.drift import describe_notes, drift, drift_findings, sample
from clinical.evaluation.intervals import Evaluation, evaluate
from clinical.evaluation.over_time import by_period, shifted_dates
from domainbert.console import counted
from domainbert.errors import UserError
from domainbert.figures import save_figure
from domainbert.files import write_json
from domainbert.tables import (
    atomic_path,
    is_missing,
    read_table,
    require_columns,
    table_columns,
)

if TYPE_CHECKING:
    from clinical.risk.model import ReadmissionModel

SINCE = {"train": "training", "val": "validation"}


@dataclass(frozen=True)
class Monitoring:
    """New stays against what the model's manifest says of its training.

    `inputs` is `clinical.evaluation.drift.drift` with a column `side` in front ("train" or "val"),
    `periods` is `clinical.evaluation.over_time.by_period` and `evaluation` the quality on all
    labelled stays; both are None without outcomes (or, for `periods`, dates). `n_unscored` stays
    could not be scored. `findings` say what changed.
    """

    n_stays: int
    n_unscored: int
    alerts_per_100: float | None
    inputs: pd.DataFrame = field(repr=False)
    periods: pd.DataFrame | None = field(repr=False)
    evaluation: Evaluation | None
    findings: list[str]


def monitor(
    model: ReadmissionModel, stays: pd.DataFrame, *, bootstrap: int = 1000, seed: int = 0
) -> Monitoring:
    """Compare new stays with those the model was trained and validated on.

    Args:
        model: with a profile in its manifest, as every newly trained model has.
        stays: one row a stay: `text` (a note or a list of notes); where known `stay_id`,
            `patient_id`, `readmitted` (0/1, missing where follow-up is not over),
            `discharge_time`, and `exclusion` (rows with one are left out), as in a cohort.
        bootstrap: resamples of patients for intervals.
        seed: of the resampling.

    Raises:
        TableError: there is no column `text`.
        UserError: the model has no profile, a stay has several rows, or no stay can be scored.
    """
    if not model.manifest.get("profile"):
        raise UserError(
            "this model's folder has no profile of its training data, so there is nothing to "
            "compare with; train it again with this version"
        )
    rows, n_unscored = _score(model, _rows(stays))
    inputs, findings = compare_inputs(model, rows, seed=seed)
    threshold = model.settings.alert_threshold
    alerts = None if threshold is None else 100 * float((rows["probability"] >= threshold).mean())
    evaluation, periods = _quality(rows, threshold, bootstrap=bootstrap, seed=seed)
    if evaluation is None:
        findings.append("No outcomes were given: ranking and calibration were not measured.")
    else:
        findings += _worse(evaluation, model.manifest)
    return Monitoring(
        n_stays=len(rows),
        n_unscored=n_unscored,
        alerts_per_100=alerts,
        inputs=inputs,
        periods=periods,
        evaluation=evaluation,
        findings=findings or ["Nothing changed more than by chance."],
    )


def compare_inputs(
    model: ReadmissionModel, rows: pd.DataFrame, *, seed: int = 0
) -> tuple[pd.DataFrame, list[str]]:
    """The table `Monitoring.inputs` and its findings, for stays with `text` and `probability`.

    Empty for a model without a profile.
    """
    kept = model.manifest.get("profile") or {}
    found = dict(describe_notes(model, sample(rows["text"].tolist(), seed=seed)).items())
    found["probability"] = rows["probability"]
    parts, findings = [pd.DataFrame()], []
    for side, since in SINCE.items():
        table = drift(kept.get(side, {}), found)
        findings += drift_findings(table, since=since)
        if len(table):
            table.insert(0, "side", side)
            parts.append(table)
    return pd.concat(parts, ignore_index=True), findings


def _score(model: ReadmissionModel, rows: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The stays that can be scored, with their `probability`, and how many cannot."""
    risks = list(counted(model.predict_many(rows["text"]), what="scoring", total=len(rows)))
    scored = np.array([risk.status == "ok" for risk in risks])
    if not scored.any():
        raise UserError(f"none of the {len(rows)} stays can be scored: {risks[0].reason}")
    rows = rows.assign(probability=[risk.probability for risk in risks])[scored]
    return rows.reset_index(drop=True), int((~scored).sum())


def read_stays(path: Path) -> pd.DataFrame:
    """Read new stays from a table file; a cohort's outcomes are read as numbers.

    Raises:
        TableError: the file cannot be read, or has no column `text`.
    """
    columns = table_columns(path)
    require_columns(columns, ("text",), source=path.name)
    return read_table(path, schema={"readmitted": "int"} if "readmitted" in columns else {})


def _rows(stays: pd.DataFrame) -> pd.DataFrame:
    require_columns(stays.columns, ("text",), source="the new stays")
    rows = stays
    if "exclusion" in rows.columns:
        rows = rows[rows["exclusion"].map(is_missing)]
    if "stay_id" in rows.columns and rows["stay_id"].duplicated().any():
        repeated = int(rows["stay_id"].duplicated().sum())
        raise UserError(
            f"{repeated} rows repeat a stay_id: expected one row a stay, with its notes as a list; "
            "build such a table with: clinical cohort"
        )
    if rows.empty:
        raise UserError("the new stays are empty: every row is excluded, or there is none")
    if "patient_id" not in rows.columns:
        rows = rows.assign(patient_id=[f"row {n}" for n in range(len(rows))])
    rows = rows.assign(patient_id=patient_keys(rows["patient_id"]))
    return rows.reset_index(drop=True)


def _quality(
    rows: pd.DataFrame, threshold: float | None, *, bootstrap: int, seed: int
) -> tuple[Evaluation | None, pd.DataFrame | None]:
    """The measures of all stays with an outcome, and by period where there are dates."""
    if "readmitted" not in rows.columns or not (known := rows["readmitted"].notna()).any():
        return None, None
    rows = rows[known].astype({"readmitted": float}).reset_index(drop=True)
    asked: dict[str, Any] = {"threshold": threshold, "bootstrap": bootstrap, "seed": seed}
    evaluation = evaluate(
        rows["readmitted"], rows["probability"], patients=rows["patient_id"], **asked
    )
    dated = "discharge_time" in rows.columns and not shifted_dates(rows)
    return evaluation, by_period(rows, **asked) if dated else None


def _worse(now: Evaluation, manifest: dict[str, Any]) -> list[str]:
    """Where the quality is clearly below that on the model's own test side, or off in level."""
    said = []
    then = next(iter(manifest.get("scores", {}).values()), None)
    area = now.auroc
    if then and area.high is not None and area.high < (then["auroc"]["value"] or 0):
        said.append(f"AUROC is {area}, below the {then['auroc']['value']:.3f} of the test side.")
    slope = now.calibration_slope
    if slope.low is not None and slope.high is not None and not slope.low <= 1 <= slope.high:
        said.append(f"The calibration slope is {slope}: calibrate again on recent stays.")
    return said


def write_monitoring(found: Monitoring, folder: str | Path) -> Path:
    """Write `drift.csv`, `drift.png`, `monitor.json` and, with outcomes, `months.csv` and `.png`.

    Returns the path of the JSON file.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tables = {"drift": found.inputs, "months": found.periods}
    for name, table in tables.items():
        if table is not None and len(table):
            with atomic_path(folder / f"{name}.csv") as temporary:
                table.to_csv(temporary, index=False)
            draw = plot_drift if name == "drift" else plot_periods
            save_figure(draw(table), folder / f"{name}.png")
    content = {
        "stays": found.n_stays,
        "unscored": found.n_unscored,
        "alerts_per_100": found.alerts_per_100,
        "findings": found.findings,
        "evaluation": asdict(found.evaluation) if found.evaluation else None,
        **{name: records(table) for name, table in tables.items()},
    }
    write_json(content, folder / "monitor.json")
    return folder / "monitor.json"


def records(table: pd.DataFrame | None) -> list[dict[str, Any]]:
    """The rows of a table as plain values, None where one is missing."""
    if table is None or table.empty:
        return []
    objects = table.astype(object)
    rows = objects.where(objects.notna(), None).to_dict("records")
    return [{k: v.item() if hasattr(v, "item") else v for k, v in row.items()} for row in rows]
