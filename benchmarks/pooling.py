"""Pooling and objective of a bi-encoder, as in the ablation of the Sentence-BERT paper.

Every cell trains the plain encoder on the same pairs of the STS benchmark for one epoch, with a
fresh pooling (mean, CLS, max) and an objective: classification over (u, v), classification over
(u, v, |u - v|), or regression. Classes are thirds of the scores, because the shared data has no
labelled pairs in English: a stand-in for the paper's NLI. The measure is Spearman's correlation on
STS-B dev, which chooses nothing here.

    python benchmarks/pooling.py --data ../shared/data --out pooling.json --figure docs/pooling.png
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from reporting import options, report, say, versions_of

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
OBJECTIVES = {
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
        **change,
    }
    changes["training.evaluations"] = 1
    recipe = read_recipe(SentenceRecipe, "sts", changes)
    if recipe.model.objective == "classification":
        train = thirds(train)
        validation = thirds(validation)
    return fit(train, recipe, validation=validation)


def thirds(pairs: pd.DataFrame) -> pd.DataFrame:
    """The pairs with a class instead of a score."""
    names = ("unlike", "near", "alike")
    classes = [names[min(2, int(3 * score))] for score in scores(pairs, SCALE)]
    return pairs.assign(label=classes)


@drawing()
def draw(scores: dict[str, dict[str, Any]], path: Path) -> None:
    """Spearman's correlation of each cell with its interval; trained and plain."""
    figure, (axes,) = new_axes((7.0, 3.4))
    for number, (name, cells) in enumerate(scores.items()):
        positions = (
            np.arange(len(POOLINGS)) + (number - (len(scores) - 1) / 2) * 0.2
        )
        value = np.array([cells[pooling].value for pooling in POOLINGS])
        low, high = (
            np.array([getattr(cells[p], side) for p in POOLINGS])
            for side in ("low", "high")
        )
        axes.errorbar(
            *(positions, value),
            yerr=[value - low, high - value],
            fmt="os^D"[number],
            color=COLOURS[number],
            label=name,
            elinewidth=1.2,
        )
    axes.set_xticks(
        range(len(POOLINGS)), [f"{pooling} pooling" for pooling in POOLINGS]
    )
    axes.set_ylabel("Spearman, STS-B dev")
    axes.grid(axis="y", color="#E5E5E5", linewidth=0.8)
    axes.set_axisbelow(True)
    figure.legend(
        loc="outside upper center", ncols=2, frameon=False, fontsize=9
    )
    save_figure(figure, path)


def main() -> int:
    """Train all cells and report them."""
    parser = options(__doc__ or "")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--figure", type=Path, help="write the figure here")
    asked = parser.parse_args()
    folder = asked.data / "sentences"
    test = read_pairs(folder / "stsb_en_dev.tsv")
    unread_pairs = without(read_pairs(folder / "stsb_en_train.tsv"), test)
    order = np.random.default_rng(0).permutation(len(unread_pairs))
    number = 64 if asked.quick else PAIRS
    validation = unread_pairs.iloc[order[:VALIDATION]]
    train = without(unread_pairs.iloc[order[VALIDATION:]], validation).head(
        number
    )
    scores: dict[str, dict[str, Any]] = {"plain": {}}
    for pooling in POOLINGS:
        plain = SentenceEncoder.from_pretrained(
            DEFAULT_ENCODER, pooling=pooling
        )
        scores["plain"][pooling] = evaluate_pairs(plain, test).scores[
            "Spearman"
        ]
        for name, change in OBJECTIVES.items():
            encoder = cell(pooling, change, train, validation)
            figures = evaluate_pairs(encoder, test).scores["Spearman"]
            scores.setdefault(name, {})[pooling] = figures
            say(f"{pooling}, {name}: {figures}")
    rows = [
        {
            "objective": name,
            **{pooling: str(cells[pooling]) for pooling in POOLINGS},
        }
        for name, cells in scores.items()
    ]
    setting = {
        "pairs": number,
        "test pairs": len(test),
        **versions_of("torch", "transformers"),
    }
    measured = {
        n: {p: vars(i) for p, i in cells.items()}
        for n, cells in scores.items()
    }
    report(rows, setting=setting, measured=measured, out=asked.out)
    if asked.figure:
        draw(scores, asked.figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
