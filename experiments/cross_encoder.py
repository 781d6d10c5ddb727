"""A cross-encoder that first learns what a bi-encoder knows, then the rated pairs of STS-B.

New pairs of the training sentences are scored by a bi-encoder trained on the rated pairs (recipe
`sts`), the cross-encoder trains on them, and then on the rated pairs. STS-B dev chooses.

    python experiments/cross_encoder.py --bi runs/sts --out runs/cross
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import typer

from biomed import SentenceEncoder
from biomed.sentences.augment import AugmentRecipe, alike, candidates
from biomed.sentences.data import Examples, read_examples
from biomed.sentences.training import SentenceRecipe, train_from_recipe
from domainbert.pooling import unit
from domainbert.training.recipes import read_recipe

SCALE, PAIRS, BINS = 5.0, 12_000, 10


def silver_pairs(bi: SentenceEncoder, rated: Examples, without: Examples) -> Examples:
    """New pairs of the sentences, with cosines for scores, distributed as the rated scores."""
    recipe = read_recipe(AugmentRecipe, "augmented")
    new = candidates([*rated.first, *rated.second], recipe, without=(rated, without))
    texts = list(dict.fromkeys(text for pair in new for text in pair))
    place = {text: row for row, text in enumerate(texts)}
    vectors = unit(bi.encode(texts))
    cosines = [float(vectors[place[a]] @ vectors[place[b]]) for a, b in new]
    scores = np.clip(cosines, 0, 1)
    rows = alike(scores, np.array(rated.scores(SCALE)), count=PAIRS, bins=BINS)
    labels = [str(SCALE * scores[row]) for row in rows]
    return Examples([new[row][0] for row in rows], [new[row][1] for row in rows], [], labels)


def main() -> None:
    """Train both stages; say what dev says after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--bi", required=True, help="a bi-encoder of the recipe `sts`")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    folder = asked.data / "sentences"
    train, dev = (read_examples(folder / f"stsb_en_{side}.tsv") for side in ("train", "dev"))
    train = train.without(dev)
    silver = silver_pairs(SentenceEncoder.from_pretrained(asked.bi), train, dev)
    stages = (
        ("silver", silver, {"training.epochs": 1.0}),
        ("gold", train, {"training.epochs": 3.0, "training.learning_rate": 4e-4}),
    )
    start = None
    for name, pairs, changes in stages:
        recipe = read_recipe(SentenceRecipe, "sts-cross", {**changes, "model.encoder": start})
        model = train_from_recipe(recipe, pairs, dev)
        start = str(asked.out / name)
        model.save_pretrained(start, merged=name == "silver")
        typer.echo(f"{name}: {len(pairs)} pairs, {model.manifest['validation']}")


if __name__ == "__main__":
    main()
