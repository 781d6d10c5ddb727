"""Which facts of the made-up hospital a readmission model reads wrongly, and what that costs.

    python benchmarks/facts.py
    python benchmarks/facts.py --stays 60 --brief      # does it run?

Takes 5 minutes on two cores, by the speed of scoring. The true risk of a stay is the logistic
function of the weights of its facts. The log-odds of the model's probability are regressed on the
same facts, and on facts that the summary denies or states of another time or person.

How to read the tables: in the first, the column "true" should be near "weight in the hospital" and
the others near 0; brackets are 95% intervals from resampling patients. The second shows how far the
expected AUROC is below the best possible, and how far it would be without each kind of error.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from reporting import command_line

from clinical import ReadmissionModel, build_cohort, synthesize
from clinical.datasets import notes
from clinical.datasets.patients import Stay, draw_patients
from clinical.datasets.sentences import FACTS, Statement
from clinical.demo import expected_ranking
from clinical.stays.cohorts import usable_stays
from domainbert.models.card import table
from domainbert.progress import counted
from domainbert.statistics.bootstrap import resample
from domainbert.statistics.calibration import logit
from domainbert.tables import read_table

TRUE = "true"
DENIED = "denied"
ELSEWHERE = "told of another time or person"
ERRORS = (TRUE, DENIED, ELSEWHERE)


def main() -> None:
    """Print both tables."""
    parser = command_line(__doc__)
    parser.add_argument("--model", default="readmission-demo")
    parser.add_argument(
        "--stays",
        type=int,
        default=1000,
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=2027,
    )
    parser.add_argument(
        "--brief",
        action="store_true",
        help="short summaries",
    )
    asked = parser.parse_args()
    model = ReadmissionModel.from_pretrained(asked.model)
    with tempfile.TemporaryDirectory() as folder:
        stays, facts, truth = made_up(
            Path(folder),
            stays=asked.stays,
            seed=asked.seed,
            brief=asked.brief,
        )
    risks = model.predict_many(stays["text"])
    counted_risks = counted(risks, what="scoring", total=len(stays))
    stays["probability"] = [risk.probability for risk in counted_risks]
    for rows in (weight_rows(stays, facts), gap_rows(stays, facts, truth)):
        head, *body = rows
        print(table(head, body), end="\n\n")


def made_up(
    folder: Path,
    *,
    stays: int,
    seed: int,
    brief: bool,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """A new hospital: its stays, what their summaries say, and their true risks.

    The second frame has a row for each stay and a column of 0 and 1 for each kind and fact.
    """
    with recorded_statements() as statements:
        synthesize(
            folder,
            stays=stays,
            seed=seed,
            brief=brief,
        )
    rows = usable_stays(build_cohort(folder).to_frame()).reset_index(drop=True)
    truth = read_table(folder / "TRUE_RISK.csv", schema={"TRUE_RISK": "float"})
    # The table has the stays in the order in which they were drawn.
    drawn = [
        stay
        for patient in draw_patients(stays, random.Random(seed))
        for stay in patient.stays
        if stay.risk is not None
    ]
    by_id = dict(zip(truth["HADM_ID"].astype(str), drawn, strict=True))
    stay_ids = rows["stay_id"].astype(str)
    values = [indicators(by_id[stay_id], statements) for stay_id in stay_ids]
    return rows, pd.DataFrame(values), truth


@contextmanager
def recorded_statements() -> Iterator[dict[Stay, list[Statement]]]:
    """The statements of each stay's last discharge summary, while a hospital is written."""
    by_stay: dict[Stay, list[Statement]] = {}
    current: list[Statement] = []
    summary = notes.Chart.discharge_summary
    draw = notes.statements

    def recorded_summary(chart: notes.Chart, **options: Any) -> str:
        nonlocal current
        current = by_stay[chart.stay] = []
        return summary(chart, **options)

    def recorded_draw(*args: Any, **options: Any) -> list[Statement]:
        drawn = draw(*args, **options)
        current.extend(drawn)
        return drawn

    with (
        patch.object(notes.Chart, "discharge_summary", recorded_summary),
        patch.object(notes, "statements", recorded_draw),
    ):
        yield by_stay


def indicators(
    stay: Stay,
    statements: Mapping[Stay, list[Statement]],
) -> dict[tuple[str, str], float]:
    """Whether each fact is true of the stay, is denied, and is told of another time or person."""
    elsewhere = set()
    denied = set()
    for statement in statements[stay]:
        name = statement.fact.name
        if statement.elsewhere:
            elsewhere.add(name)
        elif not statement.truth:
            denied.add(name)
    values = {}
    for fact in FACTS:
        values[TRUE, fact.name] = float(fact.name in stay.facts)
        values[DENIED, fact.name] = float(fact.name in denied)
        values[ELSEWHERE, fact.name] = float(fact.name in elsewhere)
    return values


def coefficients(
    log_odds: np.ndarray,
    facts: pd.DataFrame,
    weights: np.ndarray,
) -> np.ndarray:
    """Least squares of the log-odds on the facts, the intercept last; `weights` are of rows."""
    design = np.column_stack([facts.to_numpy(), np.ones(len(facts))])
    root = np.sqrt(weights)
    weighted_design = design * root[:, None]
    weighted_odds = log_odds * root
    solution, *_ = np.linalg.lstsq(weighted_design, weighted_odds, rcond=None)
    return solution


def weight_rows(stays: pd.DataFrame, facts: pd.DataFrame) -> list[list[str]]:
    """What each fact adds to the log-odds, in the hospital and in the model, with intervals."""
    log_odds = logit(stays["probability"].to_numpy())
    codes = pd.factorize(stays["patient_id"])[0]
    weights = resample(
        lambda counts: coefficients(log_odds, facts, counts),
        codes,
    )
    column_of = {column: number for number, column in enumerate(facts)}
    rows = [["fact", "weight in the hospital", *ERRORS]]
    for fact in FACTS:
        columns = [column_of[error_type, fact.name] for error_type in ERRORS]
        cells = [str(weights[column].interval()) for column in columns]
        rows.append([fact.name, f"{fact.weight:.2f}", *cells])
    return rows


def gap_rows(
    stays: pd.DataFrame,
    facts: pd.DataFrame,
    truth: pd.DataFrame,
) -> list[list[str]]:
    """The expected AUROC below the best possible, with and without each kind of error."""
    log_odds = logit(stays["probability"].to_numpy())
    fitted = coefficients(log_odds, facts, np.ones(len(facts)))[:-1]
    is_true = np.array([error_type == TRUE for error_type, _ in facts])
    hospital = np.array([fact.weight for fact in FACTS])
    values = facts.to_numpy()
    # The weights that are right up to a common factor rank the stays rightly.
    read = fitted[is_true]
    scale = read @ hospital / (hospital @ hospital)
    refuted = values[:, ~is_true] @ fitted[~is_true]
    misweighed = values[:, is_true] @ (read - scale * hospital)
    residual = log_odds - values @ fitted
    stay_error = residual - residual.mean()
    corrected = {
        "the model": log_odds,
        "without what denied facts and facts of others add": log_odds
        - refuted,
        "with the hospital's weights for true facts": log_odds - misweighed,
        "with both: only the error that differs from stay to stay": log_odds
        - refuted
        - misweighed,
        "without the error that differs from stay to stay": log_odds
        - stay_error,
    }
    rows = [["log-odds", "expected AUROC below the best possible"]]
    for name, values_of_stays in corrected.items():
        best, expected = expected_ranking(
            stays.assign(probability=values_of_stays),
            truth,
        )
        rows.append([name, f"{best - expected:.4f}"])
    spread = f"{residual.std():.2f}"
    rows.append(["standard deviation of that error, in log-odds", spread])
    return rows


if __name__ == "__main__":
    main()
