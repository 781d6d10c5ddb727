"""The demo: a made-up hospital, its cohort, its risks, and a report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from domainbert.console import say

if TYPE_CHECKING:
    import pandas as pd

    from clinical.evaluation.comparison import Comparison
    from clinical.risk.model import ReadmissionModel

MODEL_NAME = "readmission-demo"
BOOTSTRAP = 500  # resamples; the demo should be quick


def run_demo(out: str | Path, *, stays: int = 1500, seed: int = 2026) -> tuple[Comparison, float]:
    """Make up a hospital, build its cohort, score its test side, and write everything to `out`.

    The hospital is new to the shipped model, which was trained on hospitals with other seeds. The
    baselines are fitted on this hospital's own training side.

    A tenth of the `stays` is the test side; another `seed` is another hospital. Returns the
    measures, and the best possible AUROC on the test side.
    """
    from clinical.cohort.build import build_cohort
    from clinical.datasets.synthetic import synthesize
    from clinical.evaluation.comparison import compare, write_comparison
    from clinical.evaluation.report import describe
    from clinical.risk.model import ReadmissionModel
    from domainbert.tables import read_table

    started, out = time.perf_counter(), Path(out)
    out.mkdir(parents=True, exist_ok=True)
    hospital = synthesize(out / "hospital", stays=stays, seed=seed, dates="real")
    say(f"1/4  made up a hospital of {hospital.stays} stays with {hospital.notes} notes")
    cohort = build_cohort(out / "hospital", schema="mimic3", out=out / "cohort.parquet")
    table = cohort.to_frame()
    kept = int(table["exclusion"].isna().sum())
    say(f"2/4  a cohort of {kept} stays; the other {len(table) - kept} are listed with the reason")
    model = ReadmissionModel.from_pretrained(MODEL_NAME)
    comparison = compare(model, table, bootstrap=BOOTSTRAP)
    say(f"3/4  {len(comparison.stays)} stays of the test side scored, every token of their notes")
    truth = read_table(out / "hospital" / "TRUE_RISK.csv", schema={"TRUE_RISK": "float"})
    best = best_possible(comparison.stays, truth)
    report = write_comparison(
        comparison,
        out,
        title="30-day readmission at a made-up hospital",
        facts={
            "model": MODEL_NAME,
            "hospital": f"made up, seed {seed}; the model was trained on other seeds",
            "best possible AUROC on these stays": f"{best:.3f}",
        },
        flow=cohort.flow,
        about=describe(
            model, comparison, name=MODEL_NAME, summary=cohort.summary, include_notes=True
        ),
    )
    _write_risks(model, comparison, out)
    say(f"4/4  report in {report} ({time.perf_counter() - started:.0f} s)")
    return comparison, best


def best_possible(stays: pd.DataFrame, true_risk: pd.DataFrame) -> float:
    """The AUROC of the hospital's TRUE_RISK table, from which the labels were drawn."""
    from sklearn.metrics import roc_auc_score

    risk = dict(zip(true_risk["HADM_ID"].astype(str), true_risk["TRUE_RISK"], strict=True))
    true = [risk[stay] for stay in stays["stay_id"].astype(str)]
    return float(roc_auc_score(stays["readmitted"], true))


def _write_risks(model: ReadmissionModel, comparison: Comparison, out: Path) -> None:
    """The table of risks, and a figure of the windows of the stay with the highest risk."""
    from clinical.evaluation.figures import plot_windows
    from domainbert.figures import save_figure
    from domainbert.tables import write_table

    stays = comparison.stays
    columns = ["patient_id", "stay_id", "probability", "score", "readmitted"]
    write_table(stays[columns], out / "risks.csv")
    risk = model.predict(list(stays.loc[stays["score"].idxmax(), "text"]))
    save_figure(plot_windows(risk), out / "riskiest_stay.png")
