"""Faithfulness of several ways to find the passages behind a risk, over several shares of tokens.

    python benchmarks/faithfulness.py COHORT.parquet [--model readmission-demo] [--split test]

Occlusion (`clinical.explain`) beside integrated gradients and attention, with two controls:
comprehensiveness and sufficiency at fixed shares of the tokens, as in ERASER (DeYoung et al. 2020,
arXiv 1911.03429), their mean over the shares (AOPC), and the AOPC between the limits that the model
allows for each stay (normalised AOPC, Edin et al., arXiv 2408.08137). Needs captum.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from clinical import ReadmissionModel
from clinical.evidence.case import Case, Piece, sentence_pieces, word_starts
from clinical.evidence.explain import occlusion, riskiest_windows
from clinical.evidence.faithfulness import (
    RANDOM_ORDERS,
    chosen_tokens,
    measure_stays,
)
from clinical.stays.cohorts import read_cohort, usable_stays
from clinical.stays.patients import patient_codes
from domainbert.errors import UserError
from domainbert.files import write_json
from domainbert.models.card import table
from domainbert.statistics.bootstrap import Interval, Resampled, resample
from domainbert.text.runner import pad, plan_batches

STEPS = 8
"""Points of the integral of the gradients."""
SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
LIMITS = ("best", "worst")
"""Orders from a greedy search, which say what comprehensiveness the model allows for a stay."""
CONTROLS = ("windows", "random")
"""Sentences in the order of their windows' risk, and in a random order."""
DEFAULT = "occlusion"
SHUFFLED = "words shuffled"
AREAS = ("AOPC", "normalised AOPC")
TINY = 1e-12

Numbers = dict[tuple[str, str], float]


def main() -> None:
    """Print the table and the verdicts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cohort", type=Path)
    parser.add_argument("--model", default="readmission-demo")
    parser.add_argument("--split", default="test")
    parser.add_argument("--stays", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, help="write all that was measured here, as JSON"
    )
    asked = parser.parse_args()
    rows = usable_stays(read_cohort(asked.cohort))
    side = rows[rows["split"] == asked.split]
    chosen = side.sample(min(asked.stays, len(side)), random_state=asked.seed)
    model = ReadmissionModel.from_pretrained(asked.model)
    measured = evaluate_methods(model, chosen, seed=asked.seed)
    head, *body = measured.to_rows()
    print(table(head, body), *measured.verdicts(), sep="\n")
    if asked.out:
        write_json(measured.to_frame().to_dict("records"), asked.out)


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
            [*key, i.value, i.low, i.high] for key, i in self.intervals.items()
        ]
        return pd.DataFrame(
            rows, columns=["method", "measure", "value", "low", "high"]
        )

    def to_rows(self) -> list[list[str]]:
        """Table of measures by methods as text, a head row first; without the shuffled words."""
        kept = [key for key in self.intervals if key[0] != SHUFFLED]
        methods, measures = (
            list(dict.fromkeys(names)) for names in zip(*kept, strict=True)
        )
        cells = [
            [
                measure,
                *(
                    str(self.intervals.get((m, measure), Interval(None)))
                    for m in methods
                ),
            ]
            for measure in measures
        ]
        return [["", *methods], *cells]

    def verdicts(self) -> list[str]:
        """What the numbers say of the default method, and of the order of words."""
        sentences = []
        for name in (*(m for m in METHODS if m != DEFAULT), *CONTROLS):
            leads = [self.intervals[name, lead(area)] for area in AREAS]
            shown = all(
                interval.low is not None and interval.low > 0
                for interval in leads
            )
            ahead = "beats" if shown else "is not shown to beat"
            sentences.append(
                f"{DEFAULT} {ahead} {name}: AOPC higher by {leads[0]}, normalised by {leads[1]}."
            )
        before, after, change = (
            self.intervals[SHUFFLED, m]
            for m in (
                "probability before",
                "probability after",
                "absolute change",
            )
        )
        sentences.append(
            f"With the words of each window shuffled, the mean probability changes from {before} "
            f"to {after}, and that of a stay by {change} on average."
        )
        return sentences


def evaluate_methods(
    model: ReadmissionModel,
    stays: pd.DataFrame,
    *,
    bootstrap: int = 1000,
    seed: int = 0,
) -> Faithfulness:
    """Measure the methods on stays with `patient_id` and `text` (a note or a list of notes).

    Args:
        model: whose explanations are measured.
        stays: neither trained on nor, to report a number, chosen on.
        bootstrap: resamples of patients; 0 gives no intervals.
        seed: of random orders, of shuffling and of resampling.

    Raises:
        UserError: no stay can be scored.
    """
    generator = np.random.default_rng(seed)
    rows, patients = measure_stays(
        model, stays, lambda case: _measure(case, generator)
    )
    intervals = _intervals(
        resampled(rows, patients, bootstrap=bootstrap, seed=seed)
    )
    return Faithfulness(len(rows), len(set(patients)), intervals)


def _measure(case: Case, generator: np.random.Generator) -> Numbers:
    """All measures of one stay, by method and name."""
    pieces = sentence_pieces(case.stay)
    windows = riskiest_windows(case, pieces)
    values = {
        name: method(case, pieces, windows) for name, method in METHODS.items()
    }
    orders = {
        name: [np.argsort(-weights, kind="stable")]
        for name, weights in values.items()
    }
    risks = np.array([case.probabilities[piece.window] for piece in pieces])
    orders["windows"] = [np.argsort(-risks, kind="stable")]
    orders["random"] = [
        generator.permutation(len(pieces)) for _ in range(RANDOM_ORDERS)
    ]
    best = greedy_order(case, pieces, windows)
    orders |= {"best": [best], "worst": [best[::-1]]}
    numbers = _numbers(_curves(case, pieces, orders))
    return numbers | _shuffled(case, generator)


def _curves(
    case: Case,
    pieces: Sequence[Piece],
    orders: Mapping[str, Sequence[np.ndarray]],
) -> dict[str, np.ndarray]:
    """Comprehensiveness and sufficiency at every share, shape (2, shares), means over orders."""
    chosen = [
        chosen_tokens(case.stay, [pieces[i] for i in order], share=share)
        for orders_of_method in orders.values()
        for order in orders_of_method
        for share in SHARES
    ]
    choices = [
        kept for masks in chosen for kept in ([~mask for mask in masks], masks)
    ]
    drops = (case.risk.probability - case.risks(choices)[1]).reshape(
        -1, len(SHARES), 2
    )
    ends = np.cumsum(
        [len(orders_of_method) for orders_of_method in orders.values()]
    )[:-1]
    return {
        name: part.mean(axis=0).T
        for name, part in zip(orders, np.split(drops, ends), strict=True)
    }


def _numbers(curves: Mapping[str, np.ndarray]) -> Numbers:
    """The measures of the curves; AOPC is also placed between the worst and the best order."""
    areas = {
        name: float(comprehensive.mean())
        for name, (comprehensive, _) in curves.items()
    }
    low = min(areas.values())
    high = max(areas.values())
    numbers: Numbers = {}
    for name, (comprehensive, sufficient) in curves.items():
        if name in LIMITS:
            continue
        for share, removed, alone in zip(
            SHARES, comprehensive, sufficient, strict=True
        ):
            numbers[name, f"comprehensiveness {share:.0%}"] = float(removed)
            numbers[name, f"sufficiency {share:.0%}"] = float(alone)
        numbers[name, "AOPC"] = areas[name]
        numbers[name, "normalised AOPC"] = (areas[name] - low) / max(
            high - low, TINY
        )
    return numbers


def _shuffled(case: Case, generator: np.random.Generator) -> Numbers:
    """The risk of the same words with their order shuffled inside each window."""
    windows = []
    for _, window in case.stay.windows:
        words = np.split(window.input_ids[1:-1], word_starts(window)[1:])
        mixed = [words[i] for i in generator.permutation(len(words))]
        windows.append(
            np.concatenate(
                (window.input_ids[:1], *mixed, window.input_ids[-1:])
            )
        )
    before = case.risk.probability
    after = case.model.risk_of(case.stay, case.score(windows)).probability
    return {
        (SHUFFLED, "probability before"): before,
        (SHUFFLED, "probability after"): after,
        (SHUFFLED, "absolute change"): abs(after - before),
    }


def _intervals(
    columns: dict[tuple[str, str], Resampled],
) -> dict[tuple[str, str], Interval]:
    """With the ratios of the AOPCs to that of random, and the default's leads."""
    by_chance = columns["random", "AOPC"]
    for name in (*METHODS, *CONTROLS):
        areas = columns[name, "AOPC"]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = Resampled(
                areas.value / by_chance.value,
                areas.replicates / by_chance.replicates,
            )
        columns[name, "AOPC over random"] = ratio
        for area in AREAS if name != DEFAULT else ():
            columns[name, lead(area)] = (
                columns[DEFAULT, area] - columns[name, area]
            )
    return {name: column.interval() for name, column in columns.items()}


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


def greedy_order(
    case: Case, pieces: Sequence[Piece], windows: Sequence[int]
) -> np.ndarray:
    """An order of removal that lowers the risk fast, shape (pieces,): an estimate of the best one.

    In each of the windows given, the piece whose removal leaves the lowest probability goes next;
    among windows, the one that is then riskiest. The pieces of other windows follow, from the
    riskiest window to the least risky. Reversed, it is an estimate of the worst order.
    """
    left = {
        w: [i for i, piece in enumerate(pieces) if piece.window == w]
        for w in windows
    }
    paths: dict[int, list[int]] = {w: [] for w in windows}
    risks = {w: [float(case.probabilities[w])] for w in windows}
    while any(left.values()):
        tried = [(w, i) for w in windows for i in left[w]]
        shorter = [
            case.shortened(w, [pieces[j] for j in (*paths[w], i)])
            for w, i in tried
        ]
        drops = case.score(shorter)
        for w in windows:
            options = [
                (float(p), i)
                for p, (v, i) in zip(drops, tried, strict=True)
                if v == w
            ]
            if options:
                lowest, i = min(options)
                paths[w].append(i)
                left[w].remove(i)
                risks[w].append(lowest)
    order: list[int] = []
    done = dict.fromkeys(windows, 0)
    while unfinished := [w for w in windows if done[w] < len(paths[w])]:
        riskiest = max(unfinished, key=lambda w: risks[w][done[w]])
        order.append(paths[riskiest][done[riskiest]])
        done[riskiest] += 1
    unread = [i for i, piece in enumerate(pieces) if piece.window not in paths]
    return np.array(
        [
            *order,
            *sorted(
                unread, key=lambda i: -case.probabilities[pieces[i].window]
            ),
        ]
    )


def integrated_gradients(
    case: Case, windows: Sequence[int], *, steps: int = STEPS
) -> list[np.ndarray]:
    """Integrated gradients of windows' logits with respect to their token embeddings.

    The baseline has [PAD] in place of every token between [CLS] and [SEP]. The values of a window
    sum to its logit minus the baseline's, up to the error of the integral. Sundararajan, Taly and
    Yan 2017 (arXiv 1703.01365), computed by captum.

    Args:
        case: the stay.
        windows: numbers of its windows.
        steps: points of the integral, at least 1.

    Returns:
        One array a window, shape (tokens between [CLS] and [SEP],).
    """
    from captum.attr import LayerIntegratedGradients

    model = case.model
    network = model.network.eval()
    device = model.runner.device
    nothing = model.tokenizer.pad_token_id

    def forward(ids: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        return network(input_ids=ids, attention_mask=mask).logits[:, 0]

    method = LayerIntegratedGradients(forward, network.get_input_embeddings())
    rows = [case.windows[number].input_ids for number in windows]
    result: list[Any] = [None] * len(rows)
    for batch in plan_batches(
        [len(row) for row in rows], batch_tokens=model.runner.batch_tokens
    ):
        ids, mask = pad([rows[i] for i in batch], pad_token_id=nothing)
        baseline = ids.clone()
        for row, index in enumerate(batch):
            baseline[row, 1 : len(rows[index]) - 1] = nothing
        values = method.attribute(
            ids.to(device),
            baselines=baseline.to(device),
            additional_forward_args=(
                None if mask is None else mask.to(device),
            ),
            n_steps=steps,
            internal_batch_size=len(batch),
        )
        summed = values.sum(-1).float().cpu().numpy()
        for row, index in enumerate(batch):
            result[index] = summed[row, 1 : len(rows[index]) - 1]
    return result


def attention_weights(
    model: ReadmissionModel, window: np.ndarray, *, layer: int = -1
) -> np.ndarray:
    """How much each token attends to each other one, shape (heads, tokens, tokens).

    Each row sums to 1. Computed from the layer's queries and keys, because the fast kernels that
    the model runs on do not return their weights.

    Args:
        model: with a BERT encoder.
        window: token ids with [CLS] and [SEP], shape (tokens,).
        layer: from 0, or from the end if negative.

    Raises:
        UserError: no such layer.
    """
    bert = model.network.base_model
    layers = list(bert.encoder.layer)
    if not -len(layers) <= layer < len(layers):
        raise UserError(
            f"layer is {layer}; expected {-len(layers)} to {len(layers) - 1}"
        )
    ids = torch.as_tensor(window, device=model.runner.device)[None]
    with torch.inference_mode():
        hidden = bert.eval().embeddings(input_ids=ids)
        for before in layers[: layer % len(layers)]:
            hidden = before(hidden, None)
        attention = layers[layer].attention.self
        heads = (attention.num_attention_heads, attention.attention_head_size)
        query, key = (
            part(hidden)[0].unflatten(-1, heads).transpose(0, 1)
            for part in (attention.query, attention.key)
        )
        scores = (
            query @ key.transpose(1, 2) / attention.attention_head_size**0.5
        )
        return scores.softmax(-1).float().cpu().numpy()


def gradients(
    case: Case, pieces: Sequence[Piece], windows: Sequence[int]
) -> np.ndarray:
    """Integrated gradients of the logit, summed over a piece, times the window's probability."""
    tokens = dict(
        zip(windows, integrated_gradients(case, windows), strict=True)
    )
    return _summed(case, pieces, tokens)


def attention(
    case: Case, pieces: Sequence[Piece], windows: Sequence[int]
) -> np.ndarray:
    """The last layer's attention from [CLS], mean over heads, times the window's probability.

    It has no sign: attention does not say whether a passage raises or lowers the risk.
    """
    tokens = {
        number: attention_weights(
            case.model, case.windows[number].input_ids
        ).mean(0)[0, 1:-1]
        for number in windows
    }
    return _summed(case, pieces, tokens)


def _summed(
    case: Case, pieces: Sequence[Piece], tokens: Mapping[int, np.ndarray]
) -> np.ndarray:
    """Sums of token values over pieces, times the window's probability; 0 in other windows."""
    return np.array(
        [
            case.probabilities[p.window]
            * tokens[p.window][p.first : p.last].sum()
            if p.window in tokens
            else 0.0
            for p in pieces
        ]
    )


def occlusion_values(
    case: Case, pieces: Sequence[Piece], windows: Sequence[int]
) -> np.ndarray:
    """The values by which `clinical.explain` ranks the pieces."""
    return occlusion(case, pieces, windows)[0]


Method = Callable[[Case, Sequence[Piece], Sequence[int]], np.ndarray]
METHODS: dict[str, Method] = {
    "occlusion": occlusion_values,
    "gradients": gradients,
    "attention": attention,
}


if __name__ == "__main__":
    main()
