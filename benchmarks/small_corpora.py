"""Learning curve of a type that the shipped tagger does not know: genes, from 20 to 500 sentences.

The sentences are BioRED's (train), the scores those on its devel abstracts, which choose nothing:
the weights are chosen on 40 other sentences of the train side. Three ways, in one run: the recipe
`small`, the recipe `entities`, and looking up the names of the training sentences.

    python benchmarks/small_corpora.py --data ../shared/data
"""

from __future__ import annotations

import argparse
import random
from itertools import pairwise
from pathlib import Path

from reporting import say

from biomed.corpora import Corpus, Gold, TaggedText, read_gold
from biomed.ner.evaluation import evaluate_words, look_up_names
from biomed.ner.training import EntityRecipe, fit
from domainbert.training.recipes import read_recipe

SIZES = (20, 50, 100, 500)
DEVEL = 40  # sentences that choose the weights
LABELS = {
    "GeneOrGeneProduct": "Gene",
    **dict.fromkeys(
        (
            "DiseaseOrPhenotypicFeature",
            "ChemicalEntity",
            "OrganismTaxon",
            "SequenceVariant",
            "CellLine",
        ),
        "",
    ),
}


def gold(path: Path) -> Gold:
    """The abstracts' sentences, with the genes tagged."""
    texts = read_gold(path, labels=LABELS).texts
    return Gold(
        path.stem, tuple(part for text in texts for part in sentences(text))
    )


def sentences(text: TaggedText) -> list[TaggedText]:
    """A text cut after full stops, outside entities."""
    ends = [
        position + 1
        for position, word in enumerate(text.words[:-1])
        if word == "." and text.tags[position + 1][0] != "I"
    ]
    cuts = [0, *ends, len(text.words)]
    return [
        TaggedText(text.words[first:last], text.tags[first:last])
        for first, last in pairwise(cuts)
        if last > first
    ]


def main() -> None:
    """Print a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--recipes", nargs="+", default=["small", "entities"])
    args = parser.parse_args()
    folder = args.data / "ner" / "biored"
    pool = list(gold(folder / "train.pubtator").texts)
    measured = gold(folder / "devel.pubtator")
    random.Random(0).shuffle(pool)
    devel = Gold("devel", tuple(pool[:DEVEL]))
    for size in args.sizes:
        train = Gold("train", tuple(pool[DEVEL : DEVEL + size]))
        scores = {"names looked up": look_up_names(train.texts, measured)}
        for name in args.recipes:
            recipe = read_recipe(EntityRecipe, name)
            model = fit([Corpus("genes", train, devel, None)], recipe)
            scores[name] = evaluate_words(model, measured)
        for name, score in scores.items():
            overall = score.overall
            shares = f"precision {overall.precision:.3f}, recall {overall.recall:.3f}"
            say(f"{size} sentences, {name}: {shares}, F1 {score.interval}")


if __name__ == "__main__":
    main()
