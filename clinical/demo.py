"""The whole job on a made-up hospital: notes, cohort, risks, report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from domainbert.console import say, stdout

if TYPE_CHECKING:
    import pandas as pd

    from clinical.evaluation.assessment import Assessment
    from clinical.risk.model import ReadmissionModel

MODEL_NAME = "readmission-demo"


def run_demo(out: str | Path, *, stays: int = 1500, seed: int = 2026) -> Path:
    """Make a hospital, build its cohort, score its test side, and write a report.

    The hospital is fresh: the shipped model was trained on one with another seed. The baselines
    are fitted on this hospital's own training side.

    Args:
        out: folder for the hospital's tables, the cohort, the risks, the figures and the report.
        stays: of the hospital; a tenth of them is the test side.
        seed: another seed is another hospital.

    Returns:
        The path of the report.
    """
    from clinical.cli import evaluation_table
    from clinical.cohort import build_cohort
    from clinical.datasets.synthetic import synthesize
    from clinical.evaluation.assessment import assess, write_assessment
    from clinical.risk.model import ReadmissionModel
    from domainbert.tables import read_table

    started, out = time.perf_counter(), Path(out)
    out.mkdir(parents=True, exist_ok=True)
    hospital = synthesize(out / "hospital", stays=stays, seed=seed)
    say(f"1/4  a hospital of {hospital.stays} stays with {hospital.notes} notes, made up")
    cohort = build_cohort(out / "hospital", schema="mimic3", out=out / "cohort.parquet")
    table = cohort.to_frame()
    kept = int(table["exclusion"].isna().sum())
    say(f"2/4  a cohort of {kept} stays; the other {len(table) - kept} are listed with the reason")
    model = ReadmissionModel.from_pretrained(MODEL_NAME)
    assessment = assess(model, table)
    say(f"3/4  {len(assessment.stays)} stays of the test side scored, every token of their notes")
    best = best_possible(assessment.stays, read_table(out / "hospital" / "TRUE_RISK.csv"))
    report = write_assessment(
        assessment,
        out,
        title="30-day readmission at a made-up hospital",
        facts={
            "model": MODEL_NAME,
            "hospital": f"made up, seed {seed}; the model was trained on another one",
            "best possible AUROC on these stays": f"{best:.3f}",
        },
        flow=cohort.flow,
    )
    _write_risks(model, assessment, out)
    say(f"4/4  report in {report} ({time.perf_counter() - started:.0f} s)")
    stdout.print(evaluation_table(assessment.evaluations))
    stdout.print(f"best possible AUROC on these stays: {best:.3f}")
    return report


def best_possible(stays: pd.DataFrame, true_risk: pd.DataFrame) -> float:
    """The AUROC of the risks that the labels were drawn from: no model can expect more.

    Args:
        stays: a side of the cohort: `stay_id`, `readmitted`.
        true_risk: the hospital's TRUE_RISK table: HADM_ID, TRUE_RISK.
    """
    from sklearn.metrics import roc_auc_score

    risk = dict(zip(true_risk["HADM_ID"].astype(str), true_risk["TRUE_RISK"], strict=True))
    true = [risk[stay] for stay in stays["stay_id"].astype(str)]
    return float(roc_auc_score(stays["readmitted"], true))


def _write_risks(model: ReadmissionModel, assessment: Assessment, out: Path) -> None:
    """The table of risks, and a figure of the riskiest stay's windows."""
    from clinical.evaluation.figures import plot_windows
    from domainbert.figures import save_figure
    from domainbert.tables import write_table

    stays = assessment.stays
    write_table(stays[["patient_id", "stay_id", "risk", "readmitted"]], out / "risks.csv")
    risk = model.predict(list(stays.loc[stays["risk"].idxmax(), "text"]))
    figure = plot_windows(
        [w.start for w in risk.windows],
        [w.end for w in risk.windows],
        [w.probability for w in risk.windows],
        notes=[w.note for w in risk.windows],
        probability=risk.probability,
    )
    save_figure(figure, out / "riskiest_stay.png")
