"""Augmented SBERT whose cross-encoder first learns what the bi-encoder knows.

As `benchmarks/augmented.py` (1,000 rated pairs of STS-B train, 300 others choose the weights, STS-B
dev only measures), but before the cross-encoder trains on the rated pairs, it trains on new pairs
of their sentences with the cosines of a bi-encoder that trained on the rated pairs.

    python -m experiments.augmented_warm --pooling cls --seeds 0 1 2
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import typer

from biomed.sentences.augment import AugmentRecipe, candidates, rate
from biomed.sentences.data import Examples, read_examples
from biomed.sentences.evaluation import evaluate_sts
from biomed.sentences.training import train_from_recipe
from domainbert.training.recipes import read_recipe
from experiments.cross_encoder import SCALE, silver_pairs

GOLD, VALIDATION = 1000, 300


def scores_of(train: Examples, dev: Examples, *, seed: int, pooling: str) -> dict[str, float]:
    """Spearman's correlation on dev of each model, for one choice of the rated pairs."""
    changes = {"training.seed": seed, "cross.seed": seed, "model.pooling": pooling}
    recipe = read_recipe(AugmentRecipe, "augmented", changes)
    order = np.random.default_rng(seed).permutation(len(train)).tolist()
    gold, validation = train.take(order[:GOLD]), train.take(order[GOLD : GOLD + VALIDATION])
    long = recipe.training.replaced(epochs=4.0)  # as many steps as gold and silver take
    bi = train_from_recipe(recipe.replaced(training=long), gold, validation)
    model = recipe.model.replaced(kind="cross-encoder")
    first = recipe.replaced(model=model, training=recipe.cross.replaced(epochs=1.0))
    with tempfile.TemporaryDirectory() as folder:
        warm = train_from_recipe(first, silver_pairs(bi, gold, validation), validation)
        warm.save_pretrained(folder, merged=True)
        second = first.replaced(model=model.replaced(encoder=folder), training=recipe.cross)
        cross = train_from_recipe(second, gold, validation)
        new = candidates([*gold.first, *gold.second], recipe, without=(gold, validation))
        silver = rate(cross, new, gold, recipe)
    both = train_from_recipe(recipe, gold.joined(silver), validation)
    models = {"gold only": bi, "cross-encoder": cross, "gold and silver": both}
    return {
        name: float(evaluate_sts(found, dev, scale=SCALE)["Spearman"].value)
        for name, found in models.items()
    }


def main() -> None:
    """Print the scores of each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--pooling", default="cls")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    asked = parser.parse_args()
    folder = asked.data / "sentences"
    train, dev = (read_examples(folder / f"stsb_en_{side}.tsv") for side in ("train", "dev"))
    train = train.without(dev)
    for seed in asked.seeds:
        found = scores_of(train, dev, seed=seed, pooling=asked.pooling)
        typer.echo(f"seed {seed}: {', '.join(f'{k} {v:.4f}' for k, v in found.items())}")


if __name__ == "__main__":
    main()
