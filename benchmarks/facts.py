"""Which facts of the made-up hospital a readmission model reads wrongly.

    python benchmarks/facts.py [--model readmission-demo] [--stays 1000] [--seed 2027] [--brief]

The true risk of a stay is the logistic function of the weights of its facts. The log-odds of the
model's probability are regressed on the same facts, and on facts that the summary denies or tells
of another time or person, which should weigh nothing. A second table shows how far the expected
AUROC is below the best possible, and how far it would be without each kind of error.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from clinical import ReadmissionModel, build_cohort, synthesize
from clinical.datasets import notes
from clinical.datasets.patients import Stay, draw_patients
from clinical.datasets.sentences import FACTS, Statement
from clinical.demo import expected_ranking
from clinical.stays.cohorts import usable_stays
from domainbert.models.card import table
from domainbert.statistics.bootstrap import resample
from domainbert.statistics.calibration import logit
from domainbert.tables import read_table

KINDS = ("true", "denied", "told of another time or person")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="readmission-demo")
    parser.add_argument("--stays", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=2027)
    parser.add_argument("--brief", action="store_true")
    options = parser.parse_args()
    model = ReadmissionModel.from_pretrained(options.model)
    with tempfile.TemporaryDirectory() as folder:
        stays, facts, truth = made_up(
            Path(folder),
            stays=options.stays,
            seed=options.seed,
            brief=options.brief,
        )
    risks = model.predict_many(stays["text"])
    stays["probability"] = [risk.probability for risk in risks]
    for rows in (weight_rows(stays, facts), gap_rows(stays, facts, truth)):
        head, *body = rows
        print(table(head, body), end="\n\n")


def made_up(
    folder: Path, *, stays: int, seed: int, brief: bool
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """A new hospital: its stays, what their summaries say, and their true risks.

    The second frame has a row for each stay and a column of 0 and 1 for each kind and fact.
    """
    with recorded_statements() as statements:
        synthesize(folder, stays=stays, seed=seed, brief=brief)
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
    facts = pd.DataFrame(
        [
            indicators(by_id[stay_id], statements)
            for stay_id in rows["stay_id"].astype(str)
        ]
    )
    return rows, facts, truth


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
    stay: Stay, statements: Mapping[Stay, list[Statement]]
) -> dict[tuple[str, str], float]:
    """Whether each fact is true of the stay, is denied, and is told of another time or person."""
    told = statements[stay]
    elsewhere = {part.fact.name for part in told if part.elsewhere}
    denied = {
        part.fact.name
        for part in told
        if not part.truth and not part.elsewhere
    }
    values = {}
    for fact in FACTS:
        values["true", fact.name] = float(fact.name in stay.facts)
        values["denied", fact.name] = float(fact.name in denied)
        values[KINDS[2], fact.name] = float(fact.name in elsewhere)
    return values


def coefficients(
    log_odds: np.ndarray, facts: pd.DataFrame, weights: np.ndarray
) -> np.ndarray:
    """Least squares of the log-odds on the facts, the intercept last; `weights` are of rows."""
    design = np.column_stack([facts.to_numpy(), np.ones(len(facts))])
    root = np.sqrt(weights)
    solution, *_ = np.linalg.lstsq(
        design * root[:, None], log_odds * root, rcond=None
    )
    return solution


def weight_rows(stays: pd.DataFrame, facts: pd.DataFrame) -> list[list[str]]:
    """What each fact adds to the log-odds, in the hospital and in the model, with intervals."""
    log_odds = logit(stays["probability"].to_numpy())
    codes = pd.factorize(stays["patient_id"])[0]
    weights = resample(
        lambda counts: coefficients(log_odds, facts, counts), codes
    )
    column_of = {column: number for number, column in enumerate(facts)}
    rows = [["fact", "weight in the hospital", *KINDS]]
    for fact in FACTS:
        cells = [
            str(weights[column_of[kind, fact.name]].interval())
            for kind in KINDS
        ]
        rows.append([fact.name, f"{fact.weight:.2f}", *cells])
    return rows


def gap_rows(
    stays: pd.DataFrame, facts: pd.DataFrame, truth: pd.DataFrame
) -> list[list[str]]:
    """The expected AUROC below the best possible, with and without each kind of error."""
    log_odds = logit(stays["probability"].to_numpy())
    fitted = coefficients(log_odds, facts, np.ones(len(facts)))[:-1]
    is_true = np.array([kind == "true" for kind, _ in facts])
    hospital = np.array([fact.weight for fact in FACTS])
    values = facts.to_numpy()
    # The weights that are right up to a common factor rank the stays rightly.
    read = fitted[is_true]
    scale = read @ hospital / (hospital @ hospital)
    refuted = values[:, ~is_true] @ fitted[~is_true]
    misweighed = values[:, is_true] @ (read - scale * hospital)
    residual = log_odds - values @ fitted
    corrected = {
        "the model": log_odds,
        "without what denied facts and facts of others add": log_odds
        - refuted,
        "with the hospital's weights for true facts": log_odds - misweighed,
        "with both: only the error that differs from stay to stay": log_odds
        - refuted
        - misweighed,
        "without the error that differs from stay to stay": log_odds
        - (residual - residual.mean()),
    }
    rows = [["log-odds", "expected AUROC below the best possible"]]
    for name, values_of_stays in corrected.items():
        best, expected = expected_ranking(
            stays.assign(probability=values_of_stays), truth
        )
        rows.append([name, f"{best - expected:.4f}"])
    spread = f"{residual.std():.2f}"
    rows.append(["standard deviation of that error, in log-odds", spread])
    return rows


if __name__ == "__main__":
    main()
