"""The demo of all steps: a made-up hospital, its cohort, its risks, and a report."""

import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from clinical.cohort.build import build_cohort
from clinical.datasets.hospital import synthesize
from clinical.evaluation.comparison import Comparison, compare
from clinical.report.facts import gather
from clinical.report.figures import plot_windows
from clinical.report.page import write_report
from clinical.risk.model import ReadmissionModel
from domainbert.cli.console import say
from domainbert.statistics.figures import save_figure
from domainbert.tables import read_table, write_table

MODEL_NAME = "readmission-demo"
BOOTSTRAP = 500  # resamples; the demo should be quick


def run_demo(
    out: str | Path,
    *,
    stays: int = 1500,
    seed: int = 2026,
) -> tuple[Comparison, float, float]:
    """Make up a hospital, build its cohort, score its test side, and write everything to `out`.

    The hospital is new to the shipped model, which was trained on hospitals with other seeds. A
    tenth of the `stays` is the test side. Returns the measures, and the AUROC to expect on the test
    side: the best possible one, and the model's.
    """
    started = time.perf_counter()
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    folder = out / "hospital"
    hospital = synthesize(folder, stays=stays, seed=seed, dates="real")
    say(
        f"1/4  made up a hospital of {hospital.admissions} admissions with {hospital.notes} notes"
    )
    cohort = build_cohort(folder, schema="mimic3", out=out / "cohort.parquet")
    table = cohort.to_frame()
    n_excluded = table["exclusion"].count()
    say(
        f"2/4  a cohort of {len(table) - n_excluded} stays; the other {n_excluded} are "
        "listed with the reason"
    )
    model = ReadmissionModel.from_pretrained(MODEL_NAME)
    comparison = compare(model, table, bootstrap=BOOTSTRAP)
    scored = comparison.stays
    say(
        f"3/4  {len(scored)} stays of the test side scored, every token of their notes"
    )
    truth = read_table(folder / "TRUE_RISK.csv", schema={"TRUE_RISK": "float"})
    best, expected = expected_ranking(scored, truth)
    report = write_report(
        comparison,
        out,
        title="30-day readmission at a made-up hospital",
        facts={
            "model": MODEL_NAME,
            "hospital": f"made up, seed {seed}; the model was trained on other seeds",
            "expected AUROC on these stays": f"{expected:.3f}; the best possible is {best:.3f}",
        },
        flow=cohort.flow,
        about=gather(
            model, comparison, name=MODEL_NAME, summary=cohort.summary
        ),
    )
    columns = ["patient_id", "stay_id", "probability", "score", "readmitted"]
    write_table(scored[columns], out / "risks.csv")
    riskiest = scored.loc[scored["score"].idxmax()]
    risk = model.predict(list(riskiest["text"]))
    save_figure(plot_windows(risk), out / "riskiest_stay.png")
    say(f"4/4  report in {report} ({time.perf_counter() - started:.0f} s)")
    say(
        f"try it on a page: domainbert serve --model {MODEL_NAME} (extra: service)"
    )
    return comparison, best, expected


def expected_ranking(
    stays: pd.DataFrame,
    true_risk: pd.DataFrame,
) -> tuple[float, float]:
    """The AUROC expected over the hospital's TRUE_RISK: the best possible, and the model's.

    It is the probability that a readmitted stay has a higher risk than one that was not readmitted,
    when each outcome is drawn from its true risk. Unlike the AUROC of one sample, it does not
    depend on how the outcomes were drawn.
    """
    truth = true_risk.set_index("HADM_ID")["TRUE_RISK"]
    risks = truth.rename(str).loc[stays["stay_id"].astype(str)].to_numpy()
    outcomes = np.repeat([1, 0], len(risks))
    weights = np.r_[risks, 1 - risks]
    n_pairs = risks.sum() * (1 - risks).sum()
    n_self_pairs = risks @ (1 - risks)

    def expected(risks: np.ndarray) -> float:
        """The share of pairs of a readmitted and another stay in which the first has more risk."""
        area = roc_auc_score(
            outcomes, np.r_[risks, risks], sample_weight=weights
        )
        # A stay compared with itself counts as half a win; leave these pairs out.
        wins = area * n_pairs - n_self_pairs / 2
        return float(wins / (n_pairs - n_self_pairs))

    return expected(risks), expected(stays["probability"].to_numpy())
