"""Augmented SBERT with 1,000 rated pairs: gold only, augmented, and all pairs rated.

    python benchmarks/augmented.py --out augmented.json
    python benchmarks/augmented.py --general          # a domain without rated pairs
    python benchmarks/augmented.py --seeds 0          # one seed

Takes 30 minutes on two cores. For each seed, 1,000 pairs of STS-B train are the rated ones and 300
others choose the weights; the upper baseline trains on all the rest. STS-B dev measures and chooses
nothing. With --general, the paper's second case: the cross-encoder trains on pairs of other genres
than captions, the silver pairs are captions, and the captions of dev measure.

How to read the table: Spearman's correlation, the mean over the seeds and each of them. Silver
pairs help where "gold and silver" is above "gold only" for every seed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
from biomed.sentences.augment import AugmentRecipe, augment
from biomed.sentences.data import read_pairs, without
from biomed.sentences.evaluation import evaluate_pairs
from biomed.sentences.training import fit
from domainbert.encoders.loading import DEFAULT_ENCODER
from domainbert.training.recipes import read_recipe

if TYPE_CHECKING:
    import argparse

    import pandas as pd

GOLD = 1000
VALIDATION = 300
CAPTIONS = "main-captions"


def few_rated(
    train: pd.DataFrame,
    test: pd.DataFrame,
    *,
    seed: int,
    upper: bool,
    pooling: str,
) -> dict[str, float]:
    """Spearman on test of each way of training."""
    recipe = _recipe(seed, pooling)
    unread_pairs = without(train, test)
    order = np.random.default_rng(seed).permutation(len(unread_pairs))
    gold = unread_pairs.iloc[order[:GOLD]]
    validation = unread_pairs.iloc[order[GOLD : GOLD + VALIDATION]]
    augmented = augment(recipe, gold, validation)
    # As many steps on gold alone as on gold and silver, so that only the pairs differ.
    n_pairs = len(gold) + len(augmented.silver)
    epochs = round(recipe.training.epochs * n_pairs / len(gold))
    longer = recipe.replaced(training=recipe.training.replaced(epochs=epochs))
    models: dict[str, Any] = {
        "gold only": fit(gold, longer, validation=validation),
        "gold and silver": augmented.encoder,
        "cross-encoder on gold": augmented.cross,
    }
    if upper:
        models["all pairs rated"] = fit(
            unread_pairs,
            recipe,
            validation=validation,
        )
    return {name: _spearman(model, test) for name, model in models.items()}


def none_rated(
    train: pd.DataFrame,
    test: pd.DataFrame,
    genres: list[Any],
    *,
    seed: int,
    pooling: str,
) -> dict[str, float]:
    """The same for a domain without rated pairs: captions."""
    is_caption, is_test_caption = (
        np.array(part) == CAPTIONS for part in genres
    )
    captions = test[is_test_caption]
    domain = train[is_caption]
    general = without(train[~is_caption], test)
    recipe = _recipe(seed, pooling)
    order = np.random.default_rng(seed).permutation(len(general))
    gold = general.iloc[order[VALIDATION:]]
    validation = general.iloc[order[:VALIDATION]]
    texts = [*domain["first"], *domain["second"]]
    augmented = augment(
        recipe,
        gold,
        validation,
        texts=texts,
        silver_only=True,
    )
    models: dict[str, Any] = {
        "general pairs only": fit(gold, recipe, validation=validation),
        "silver pairs of the domain": augmented.encoder,
        "cross-encoder on general pairs": augmented.cross,
    }
    return {name: _spearman(model, captions) for name, model in models.items()}


def _recipe(seed: int, pooling: str) -> AugmentRecipe:
    changes = {
        "training.seed": seed,
        "cross.seed": seed,
        "model.pooling": pooling,
    }
    return read_recipe(AugmentRecipe, "augmented", changes)


def _genres(path: Path) -> list[str]:
    """The genre of each pair."""
    lines = path.read_text("utf-8").splitlines()
    return [line.split("\t")[0] for line in lines if line]


def _spearman(model: Any, pairs: pd.DataFrame) -> float:
    scores = evaluate_pairs(model, pairs).scores
    return float(scores["Spearman"].value or 0)


def run_seed(
    sides: Sides,
    asked: argparse.Namespace,
    *,
    seed: int,
    upper: bool,
) -> dict[str, float]:
    """Spearman of each way of training with one seed."""
    if asked.general:
        scores = none_rated(
            sides.train,
            sides.test,
            sides.genres,
            seed=seed,
            pooling=asked.pooling,
        )
    else:
        scores = few_rated(
            sides.train,
            sides.test,
            seed=seed,
            upper=upper,
            pooling=asked.pooling,
        )
    say(f"seed {seed}: {scores}")
    return scores


class Sides(NamedTuple):
    """Pairs to train on and to test on, and the genres of both."""

    train: pd.DataFrame
    test: pd.DataFrame
    genres: list[list[str]]


def read_sides(data: Path) -> Sides:
    """The pairs of STS-B."""
    folder = data / "sentences"
    train = folder / "stsb_en_train.tsv"
    test = folder / "stsb_en_dev.tsv"
    genres = [_genres(train), _genres(test)]
    return Sides(read_pairs(train), read_pairs(test), genres)


def table_rows(
    plain: float,
    runs: list[dict[str, float]],
) -> list[dict[str, str]]:
    """The mean over seeds of each way of training, and its numbers by seed."""
    columns = ("trained on", "Spearman", "by seed")
    lines = [("nothing (plain)", f"{plain:.4f}", "")]
    for name in runs[0]:
        values = [run[name] for run in runs if name in run]
        by_seed = ", ".join(f"{value:.4f}" for value in values)
        lines.append((name, f"{np.mean(values):.4f}", by_seed))
    return [dict(zip(columns, line, strict=True)) for line in lines]


def main() -> None:
    """Run all seeds and report means."""
    parser = command_line(__doc__)
    add_data_option(parser)
    parser.add_argument(
        "--seeds",
        type=int,
        nargs="+",
        default=[0, 1, 2],
    )
    parser.add_argument(
        "--upper",
        type=int,
        default=1,
        help="that many seeds have all pairs too",
    )
    parser.add_argument(
        "--general",
        action="store_true",
        help="the case without rated pairs",
    )
    parser.add_argument("--pooling", default="mean")
    add_out_option(parser)
    asked = parser.parse_args()
    sides = read_sides(asked.data)
    runs = [
        run_seed(
            sides,
            asked,
            seed=seed,
            upper=number < asked.upper,
        )
        for number, seed in enumerate(asked.seeds)
    ]
    encoder = SentenceEncoder.from_pretrained(
        DEFAULT_ENCODER,
        pooling=asked.pooling,
    )
    plain = _spearman(encoder, sides.test)
    setting = {
        "gold": GOLD,
        "seeds": asked.seeds,
        **versions_of("torch", "transformers"),
        "recipe": "augmented",
        "pooling": asked.pooling,
    }
    report(
        table_rows(plain, runs),
        setting=setting,
        measured={"runs": runs, "plain": plain},
        out=asked.out,
    )


if __name__ == "__main__":
    main()
