"""The demo: a made-up hospital, its cohort, its risks, and a report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from domainbert.cli.console import say

if TYPE_CHECKING:
    import pandas as pd

    from clinical.evaluation.comparison import Comparison

MODEL_NAME = "readmission-demo"
BOOTSTRAP = 500  # resamples; the demo should be quick


def run_demo(
    out: str | Path, *, stays: int = 1500, seed: int = 2026
) -> tuple[Comparison, float, float]:
    """Make up a hospital, build its cohort, score its test side, and write everything to `out`.

    The hospital is new to the shipped model, which was trained on hospitals with other seeds. A
    tenth of the `stays` is the test side. Returns the measures, and the AUROC on the test side that
    can be expected at best, and of the model.
    """
    from clinical.cohort.build import build_cohort
    from clinical.datasets.hospital import synthesize
    from clinical.evaluation.comparison import compare
    from clinical.model import ReadmissionModel
    from clinical.report.facts import gather
    from clinical.report.figures import plot_windows
    from clinical.report.page import write_report
    from domainbert.statistics.figures import save_figure
    from domainbert.tables import read_table, write_table

    started, out = time.perf_counter(), Path(out)
    out.mkdir(parents=True, exist_ok=True)
    hospital = synthesize(out / "hospital", stays=stays, seed=seed, dates="real")
    say(
        f"1/4  made up a hospital of {hospital.stays} stays with {hospital.notes} notes"
    )
    cohort = build_cohort(out / "hospital", schema="mimic3", out=out / "cohort.parquet")
    table = cohort.to_frame()
    kept = int(table["exclusion"].isna().sum())
    say(
        f"2/4  a cohort of {kept} stays; the other {len(table) - kept} are listed with the reason"
    )
    model = ReadmissionModel.from_pretrained(MODEL_NAME)
    comparison = compare(model, table, bootstrap=BOOTSTRAP)
    say(
        f"3/4  {len(comparison.stays)} stays of the test side scored, every token of their notes"
    )
    truth = read_table(
        out / "hospital" / "TRUE_RISK.csv", schema={"TRUE_RISK": "float"}
    )
    best, own = expected_ranking(comparison.stays, truth)
    report = write_report(
        comparison,
        out,
        title="30-day readmission at a made-up hospital",
        facts={
            "model": MODEL_NAME,
            "hospital": f"made up, seed {seed}; the model was trained on other seeds",
            "expected AUROC on these stays": f"{own:.3f}; the best possible is {best:.3f}",
        },
        flow=cohort.flow,
        about=gather(model, comparison, name=MODEL_NAME, summary=cohort.summary),
    )
    scored = comparison.stays
    columns = ["patient_id", "stay_id", "probability", "score", "readmitted"]
    write_table(scored[columns], out / "risks.csv")
    risk = model.predict(list(scored.loc[scored["score"].idxmax(), "text"]))
    save_figure(plot_windows(risk), out / "riskiest_stay.png")
    say(f"4/4  report in {report} ({time.perf_counter() - started:.0f} s)")
    say(f"try it on a page: domainbert serve --model {MODEL_NAME} (extra: service)")
    return comparison, best, own


def expected_ranking(
    stays: pd.DataFrame, true_risk: pd.DataFrame
) -> tuple[float, float]:
    """The AUROC expected over the hospital's TRUE_RISK: the best possible, and the model's.

    The chance that of two stays, one readmitted and one not, the readmitted one has the higher
    risk, when each outcome is drawn from its true risk. The AUROC of one sample depends on how its
    outcomes were drawn; this does not.
    """
    import numpy as np
    from sklearn.metrics import roc_auc_score

    risk = dict(
        zip(true_risk["HADM_ID"].astype(str), true_risk["TRUE_RISK"], strict=True)
    )
    true = np.array([risk[stay] for stay in stays["stay_id"].astype(str)])
    outcome, weights = np.repeat([1, 0], len(true)), np.r_[true, 1 - true]
    pairs, own = true.sum() * (1 - true).sum(), true @ (1 - true)

    def expected(scores: np.ndarray) -> float:
        area = roc_auc_score(outcome, np.r_[scores, scores], sample_weight=weights)
        # A stay against itself counts as half a win: leave it out.
        return float((area * pairs - own / 2) / (pairs - own))

    return expected(true), expected(stays["probability"].to_numpy())
