"""Faithfulness of several ways to find the passages behind a risk, over several shares of tokens.

    python benchmarks/faithfulness.py COHORT.parquet --keep runs/stays.jsonl
    python benchmarks/faithfulness.py COHORT.parquet --stays 2       # does it run?

Takes hours on two cores. Needs captum. Occlusion (`clinical.explain`) is compared with integrated
gradients and attention, and with two controls: sentences in the order of their windows' risk, and
in a random order. With --keep, each finished stay is written to a file, and the same command
resumes after the last one.

How to read the table: a column is a method. Comprehensiveness is how far the probability falls
without a share of the tokens (high is good), sufficiency how far with these alone (low is good), as
in ERASER (DeYoung et al. 2020, arXiv 1911.03429). AOPC is the mean comprehensiveness over the
shares; normalised, it is placed between the limits that the model allows for each stay, 0 for the
worst order and 1 for the best (Edin et al., arXiv 2408.08137). Brackets are 95% intervals from
resampling patients. Sentences below the table say whether occlusion is shown to beat each other
method, and how much the order of words matters.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from explanations import METHODS, greedy_order
from passages import RANDOM_ORDERS, chosen_tokens, measure_stays
from reporting import add_out_option, command_line

from clinical import ReadmissionModel
from clinical.evidence.case import Case, Piece, sentence_pieces, word_starts
from clinical.evidence.explain import riskiest_windows
from clinical.stays.cohorts import read_cohort, usable_stays
from clinical.stays.patients import patient_codes
from domainbert.errors import UserError
from domainbert.files import write_json
from domainbert.models.card import table
from domainbert.statistics.bootstrap import Interval, Resampled, resample

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
LIMITS = ("best", "worst")
"""Orders from a greedy search, which say what comprehensiveness the model allows for a stay."""
CONTROLS = ("windows", "random")
"""Sentences in the order of their windows' risk, and in a random order."""
DEFAULT = "occlusion"
SHUFFLED = "words shuffled"
BEFORE = "probability before"
AFTER = "probability after"
CHANGE = "absolute change"
AREA = "AOPC"
NORMALISED = "normalised AOPC"
AREAS = (AREA, NORMALISED)
TINY = 1e-12

Numbers = dict[tuple[str, str], float]


def lead(area: str) -> str:
    """The name of the default method's lead over another one, in the same stays."""
    return f"{area} of {DEFAULT} minus this"


@dataclass(frozen=True)
class Faithfulness:
    """The measured faithfulness of the methods, by (method, measure), with 95% intervals.

    Measures are "comprehensiveness 5%" and so on, "sufficiency 5%", "AOPC", "normalised AOPC",
    "AOPC over random", and the default's lead in both AOPCs (see `lead`); for "words shuffled",
    the probability before and after, and the absolute change.
    """

    stays: int
    patients: int
    intervals: Mapping[tuple[str, str], Interval] = field(repr=False)

    def to_frame(self) -> pd.DataFrame:
        """One row a method and measure: method, measure, value, low, high."""
        rows = [
            {"method": method, "measure": measure, **vars(interval)}
            for (method, measure), interval in self.intervals.items()
        ]
        return pd.DataFrame(rows)

    def to_rows(self) -> list[list[str]]:
        """Table of measures by methods as text, a head row first; without the shuffled words."""
        names = [name for name in self.intervals if name[0] != SHUFFLED]
        methods = list(dict.fromkeys(method for method, _ in names))
        measures = dict.fromkeys(measure for _, measure in names)
        missing = Interval(None)
        rows = [["", *methods]]
        for measure in measures:
            cells = [
                str(self.intervals.get((method, measure), missing))
                for method in methods
            ]
            rows.append([measure, *cells])
        return rows

    def verdicts(self) -> list[str]:
        """What the numbers say of the default method, and of the order of words."""
        competitors = [name for name in METHODS if name != DEFAULT]
        sentences = [
            self._lead_sentence(name) for name in (*competitors, *CONTROLS)
        ]
        before = self.intervals[SHUFFLED, BEFORE]
        after = self.intervals[SHUFFLED, AFTER]
        change = self.intervals[SHUFFLED, CHANGE]
        sentences.append(
            f"With the words of each window shuffled, the mean probability changes from {before} "
            f"to {after}, and that of a stay by {change} on average."
        )
        return sentences

    def _lead_sentence(self, name: str) -> str:
        """Whether the default method is shown to beat another one, in both AOPCs."""
        leads = [self.intervals[name, lead(area)] for area in AREAS]
        lows = [interval.low for interval in leads]
        is_shown = all(low is not None and low > 0 for low in lows)
        ahead = "beats" if is_shown else "is not shown to beat"
        raw, normalised = leads
        return f"{DEFAULT} {ahead} {name}: AOPC higher by {raw}, normalised by {normalised}."


def evaluate_methods(
    model: ReadmissionModel,
    stays: pd.DataFrame,
    *,
    bootstrap: int = 1000,
    seed: int = 0,
    keep: Path | None = None,
) -> Faithfulness:
    """Measure the methods on stays with `patient_id` and `text` (a note or a list of notes).

    Args:
        model: whose explanations are measured.
        stays: neither trained on nor, to report a number, chosen on.
        bootstrap: resamples of patients; 0 gives no intervals.
        seed: of random orders, of shuffling and of resampling.
        keep: a file to which each finished stay is written, and from which a run that was stopped
            resumes with the same numbers.

    Raises:
        UserError: no stay can be scored, or `keep` is the file of another run.
    """
    generator = np.random.default_rng(seed)
    measure = _measure
    if keep is not None:
        texts = json.dumps([*map(list, stays["text"])]).encode()
        stays_hash = hashlib.sha256(texts).hexdigest()
        setting = [model.fingerprint(), stays_hash, seed]
        measure = _Resumable(keep, json.dumps(setting))
    rows, patients = measure_stays(
        model,
        stays,
        lambda case: measure(case, generator),
    )
    columns = resampled(rows, patients, bootstrap=bootstrap, seed=seed)
    return Faithfulness(len(rows), len(set(patients)), _intervals(columns))


class _Resumable:
    """`_measure` with a file of finished stays, and the random state after each of them."""

    def __init__(self, path: Path, setting: str) -> None:
        self.path = path
        if not path.exists():
            path.write_text(f"{setting}\n", "utf-8")
        # A run that was killed may have left a part of a line.
        complete, _, _ = path.read_text("utf-8").rpartition("\n")
        head, *lines = complete.split("\n")
        if head != setting:
            raise UserError(
                f"{path.name} is of another model, seed or other stays; expected a file of the "
                "same command; delete it or name another one with --keep"
            )
        path.write_text(f"{complete}\n", "utf-8")
        self.finished = iter(lines)

    def __call__(self, case: Case, generator: np.random.Generator) -> Numbers:
        """The numbers of one stay, read or measured."""
        line = next(self.finished, None)
        if line is not None:
            rows, generator.bit_generator.state = json.loads(line)
            return {(method, name): value for method, name, value in rows}
        numbers = _measure(case, generator)
        rows = [[*name, value] for name, value in numbers.items()]
        line = json.dumps([rows, generator.bit_generator.state])
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
        return numbers


def _measure(case: Case, generator: np.random.Generator) -> Numbers:
    """All measures of one stay, by method and name."""
    pieces = sentence_pieces(case.stay)
    windows = riskiest_windows(case, pieces)
    orders: dict[str, list[np.ndarray]] = {}
    for name, method in METHODS.items():
        orders[name] = [_descending(method(case, pieces, windows))]
    risks = np.array([case.probabilities[piece.window] for piece in pieces])
    orders["windows"] = [_descending(risks)]
    orders["random"] = [
        generator.permutation(len(pieces)) for _ in range(RANDOM_ORDERS)
    ]
    best = greedy_order(case, pieces, windows)
    orders["best"] = [best]
    orders["worst"] = [best[::-1]]
    numbers = _numbers(_curves(case, pieces, orders))
    return numbers | _shuffled(case, generator)


def _descending(values: np.ndarray) -> np.ndarray:
    """The order from the highest value to the lowest; equal ones as they come."""
    return np.argsort(-values, kind="stable")


def _curves(
    case: Case,
    pieces: Sequence[Piece],
    orders: Mapping[str, Sequence[np.ndarray]],
) -> dict[str, np.ndarray]:
    """Comprehensiveness and sufficiency at every share, shape (2, shares), means over orders."""
    choices = []
    for orders_of_method in orders.values():
        for order in orders_of_method:
            choices += _choices(case, [pieces[number] for number in order])
    _, probabilities = case.risks(choices)
    falls = case.risk.probability - probabilities
    falls = falls.reshape(-1, len(SHARES), 2)
    counts = [len(orders_of_method) for orders_of_method in orders.values()]
    parts = np.split(falls, np.cumsum(counts)[:-1])
    return {
        name: part.mean(axis=0).T
        for name, part in zip(orders, parts, strict=True)
    }


def _choices(case: Case, ordered: Sequence[Piece]) -> list[list[np.ndarray]]:
    """The tokens that are left without the first pieces, and those of the first pieces alone."""
    choices = []
    for share in SHARES:
        first = chosen_tokens(case.stay, ordered, share=share)
        choices.append([~mask for mask in first])
        choices.append(first)
    return choices


def _numbers(curves: Mapping[str, np.ndarray]) -> Numbers:
    """The measures of the curves; AOPC is also placed between the worst and the best order."""
    areas = {}
    for name, (comprehensive, _) in curves.items():
        areas[name] = float(comprehensive.mean())
    low = min(areas.values())
    high = max(areas.values())
    width = max(high - low, TINY)
    numbers: Numbers = {}
    for name, (comprehensive, sufficient) in curves.items():
        if name in LIMITS:
            continue
        for number, share in enumerate(SHARES):
            removed = float(comprehensive[number])
            numbers[name, f"comprehensiveness {share:.0%}"] = removed
            alone = float(sufficient[number])
            numbers[name, f"sufficiency {share:.0%}"] = alone
        numbers[name, AREA] = areas[name]
        numbers[name, NORMALISED] = (areas[name] - low) / width
    return numbers


def _shuffled(case: Case, generator: np.random.Generator) -> Numbers:
    """The risk of the same words with their order shuffled inside each window."""
    windows = []
    for _, window in case.stay.windows:
        first, *content, last = np.split(
            window.input_ids,
            [1, *(word_starts(window)[1:] + 1), -1],
        )
        order = generator.permutation(len(content))
        mixed = [content[number] for number in order]
        windows.append(np.concatenate((first, *mixed, last)))
    before = case.risk.probability
    after = case.model.risk_of(
        case.stay, case.predict_windows(windows)
    ).probability
    return {
        (SHUFFLED, BEFORE): before,
        (SHUFFLED, AFTER): after,
        (SHUFFLED, CHANGE): abs(after - before),
    }


def _intervals(
    columns: dict[tuple[str, str], Resampled],
) -> dict[tuple[str, str], Interval]:
    """With the ratios of the AOPCs to that of random, and the default's leads."""
    by_chance = columns["random", AREA]
    for name in (*METHODS, *CONTROLS):
        columns[name, "AOPC over random"] = _ratio(
            columns[name, AREA],
            by_chance,
        )
        if name == DEFAULT:
            continue
        for area in AREAS:
            difference = columns[DEFAULT, area] - columns[name, area]
            columns[name, lead(area)] = difference
    return {name: column.interval() for name, column in columns.items()}


def _ratio(over: Resampled, under: Resampled) -> Resampled:
    """One number over another, resample by resample."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return Resampled(
            over.value / under.value,
            over.replicates / under.replicates,
        )


def resampled(
    rows: Sequence[Numbers],
    patients: Sequence[str],
    *,
    bootstrap: int,
    seed: int,
) -> dict[tuple[str, str], Resampled]:
    """The mean of each measure over all stays, and in resamples of patients."""
    names = list(rows[0])
    values = np.array([[row[name] for name in names] for row in rows])
    means = resample(
        lambda weights: weights @ values / weights.sum(),
        patient_codes(patients, n=len(rows)),
        bootstrap=bootstrap,
        seed=seed,
    )
    return {name: means[number] for number, name in enumerate(names)}


def main() -> None:
    """Print the table and the verdicts."""
    parser = command_line(__doc__)
    parser.add_argument("cohort", type=Path)
    parser.add_argument("--model", default="readmission-demo")
    parser.add_argument("--split", default="test", help="side (test)")
    parser.add_argument("--stays", type=int, default=100, help="(100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--keep",
        type=Path,
        help="file of finished stays, to resume from",
    )
    add_out_option(parser)
    asked = parser.parse_args()
    rows = usable_stays(read_cohort(asked.cohort))
    side = rows[rows["split"] == asked.split]
    n_stays = min(asked.stays, len(side))
    sample = side.sample(n_stays, random_state=asked.seed)
    model = ReadmissionModel.from_pretrained(asked.model)
    measured = evaluate_methods(
        model,
        sample,
        seed=asked.seed,
        keep=asked.keep,
    )
    head, *body = measured.to_rows()
    print(table(head, body), *measured.verdicts(), sep="\n")
    if asked.out:
        write_json(measured.to_frame().to_dict("records"), asked.out)


if __name__ == "__main__":
    main()
