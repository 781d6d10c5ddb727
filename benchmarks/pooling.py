"""Pooling and objective of a bi-encoder, as in the ablation of the Sentence-BERT paper.

    python benchmarks/pooling.py --out pooling.json --figure docs/pooling.png
    python benchmarks/pooling.py --quick          # does it run?

Takes 15 minutes on two cores. Every cell trains the plain encoder on the same 1,920 pairs of the
STS benchmark for one epoch, with a fresh pooling (mean, CLS, max) and an objective: classification
over (u, v), classification over (u, v, |u - v|), or regression. Classes are thirds of the scores,
because the shared data has no labelled pairs in English: a stand-in for the paper's NLI.

How to read the table: Spearman's correlation on STS-B dev, which chooses nothing here, with its 95%
interval, by objective and pooling; "plain" is the encoder before training. --figure draws it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from measuring import say
from reporting import (
    add_data_option,
    add_out_option,
    command_line,
    report,
    versions_of,
)

from biomed import SentenceEncoder
from biomed.sentences.data import read_pairs, scores, without
from biomed.sentences.evaluation import evaluate_pairs
from biomed.sentences.training import SentenceRecipe, fit
from domainbert.encoders.loading import DEFAULT_ENCODER
from domainbert.statistics.figures import (
    COLOURS,
    drawing,
    new_axes,
    save_figure,
)
from domainbert.training.recipes import read_recipe

if TYPE_CHECKING:
    import pandas as pd

POOLINGS = ("mean", "cls", "max")
OBJECTIVES: dict[str, dict[str, Any]] = {
    "classification (u, v)": {
        "model.objective": "classification",
        "model.difference": False,
    },
    "classification (u, v, |u − v|)": {"model.objective": "classification"},
    "regression (cosine)": {"model.objective": "regression"},
}
PAIRS = 1920
VALIDATION = 200
SCALE = 5.0
CLASSES = ("unlike", "near", "alike")


def cell(
    pooling: str,
    change: dict[str, Any],
    train: pd.DataFrame,
    validation: pd.DataFrame,
) -> Any:
    """The encoder of one cell."""
    changes: dict[str, Any] = {
        "model.pooling": pooling,
        "training.epochs": 1.0,
        "training.evaluations": 1,
        **change,
    }
    recipe = read_recipe(SentenceRecipe, "sts", changes)
    if recipe.model.objective == "classification":
        train = thirds(train)
        validation = thirds(validation)
    return fit(train, recipe, validation=validation)


def thirds(pairs: pd.DataFrame) -> pd.DataFrame:
    """The pairs with a class instead of a score."""
    thirds_of_scale = np.floor(3 * np.array(scores(pairs, SCALE))).astype(int)
    classes = np.take(CLASSES, np.minimum(thirds_of_scale, 2))
    return pairs.assign(label=classes)


@drawing()
def draw(scores: dict[str, dict[str, Any]], path: Path) -> None:
    """Spearman's correlation of each cell with its interval; trained and plain."""
    figure, (axes,) = new_axes((7.0, 3.4))
    middle = (len(scores) - 1) / 2
    for number, (name, cells) in enumerate(scores.items()):
        positions = np.arange(len(POOLINGS)) + (number - middle) * 0.2
        intervals = [cells[pooling] for pooling in POOLINGS]
        value = np.array([interval.value for interval in intervals])
        low = np.array([interval.low for interval in intervals])
        high = np.array([interval.high for interval in intervals])
        axes.errorbar(
            positions,
            value,
            yerr=[value - low, high - value],
            fmt="os^D"[number],
            color=COLOURS[number],
            label=name,
            elinewidth=1.2,
        )
    axes.set_xticks(
        range(len(POOLINGS)),
        [f"{pooling} pooling" for pooling in POOLINGS],
    )
    axes.set_ylabel("Spearman, STS-B dev")
    axes.grid(
        axis="y",
        color="#E5E5E5",
        linewidth=0.8,
    )
    axes.set_axisbelow(True)
    figure.legend(
        loc="outside upper center",
        ncols=2,
        frameon=False,
        fontsize=9,
    )
    save_figure(figure, path)


def train_and_score(
    sides: tuple[pd.DataFrame, pd.DataFrame],
    test: pd.DataFrame,
) -> dict[str, dict[str, Any]]:
    """Spearman's correlation of the plain encoder and of each objective, by pooling."""
    train, validation = sides
    scores: dict[str, dict[str, Any]] = {
        name: {} for name in ("plain", *OBJECTIVES)
    }
    for pooling in POOLINGS:
        plain = SentenceEncoder.from_pretrained(
            DEFAULT_ENCODER,
            pooling=pooling,
        )
        scores["plain"][pooling] = _spearman(plain, test)
        for name, change in OBJECTIVES.items():
            encoder = cell(pooling, change, train, validation)
            scores[name][pooling] = _spearman(encoder, test)
            say(f"{pooling}, {name}: {scores[name][pooling]}")
    return scores


def _spearman(encoder: SentenceEncoder, test: pd.DataFrame) -> Any:
    """With its interval."""
    return evaluate_pairs(encoder, test).scores["Spearman"]


def main() -> None:
    """Train all cells and report them."""
    parser = command_line(__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="only see that it runs: 64 pairs",
    )
    add_data_option(parser)
    parser.add_argument(
        "--figure",
        type=Path,
        help="write the figure here",
    )
    add_out_option(parser)
    asked = parser.parse_args()
    n_pairs = 64 if asked.quick else PAIRS
    folder = asked.data / "sentences"
    test = read_pairs(folder / "stsb_en_dev.tsv")
    unread_pairs = without(read_pairs(folder / "stsb_en_train.tsv"), test)
    order = np.random.default_rng(0).permutation(len(unread_pairs))
    validation = unread_pairs.iloc[order[:VALIDATION]]
    remaining = without(unread_pairs.iloc[order[VALIDATION:]], validation)
    scores = train_and_score((remaining.head(n_pairs), validation), test)
    rows = []
    measured = {}
    for name, cells in scores.items():
        texts = {pooling: str(cells[pooling]) for pooling in POOLINGS}
        rows.append({"objective": name, **texts})
        measured[name] = {pooling: vars(cells[pooling]) for pooling in cells}
    setting = {
        "pairs": n_pairs,
        "test pairs": len(test),
        **versions_of("torch", "transformers"),
    }
    report(
        rows,
        setting=setting,
        measured=measured,
        out=asked.out,
    )
    if asked.figure:
        draw(scores, asked.figure)


if __name__ == "__main__":
    main()
