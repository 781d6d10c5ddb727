"""Learning curve of a type that the shipped tagger does not know: genes, from 20 to 500 sentences.

    python benchmarks/small_corpora.py
    python benchmarks/small_corpora.py --sizes 20 --recipes       # names looked up, alone

Takes hours on two cores. The sentences are BioRED's (train), the scores those on its devel
abstracts, which choose nothing: the weights are chosen on 40 other sentences of the train side.
Three ways: the recipe `small`, the recipe `entities`, and looking up the names of the training
sentences.

How to read the table: a row is a way and a number of sentences; F1 of whole entities with its 95%
interval. Training is worth its time where its interval lies above that of the names.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from measuring import say
from reporting import add_data_option, command_line

from biomed.corpora import Corpus, Gold, TaggedText, read_gold
from biomed.ner.evaluation import evaluate_words, look_up_names
from biomed.ner.training import EntityRecipe, fit
from domainbert.models.card import table
from domainbert.training.recipes import read_recipe

if TYPE_CHECKING:
    from biomed.ner.evaluation import Scores

SIZES = (20, 50, 100, 500)
DEVEL = 40  # sentences that choose the weights
OTHER_TYPES = (
    "DiseaseOrPhenotypicFeature",
    "ChemicalEntity",
    "OrganismTaxon",
    "SequenceVariant",
    "CellLine",
)
LABELS = {"GeneOrGeneProduct": "Gene", **dict.fromkeys(OTHER_TYPES, "")}
COLUMNS = ("sentences", "way", "precision", "recall", "F1")


def gold(path: Path) -> Gold:
    """The abstracts' sentences, with the genes tagged."""
    parts: list[TaggedText] = []
    for text in read_gold(path, labels=LABELS).texts:
        parts += sentences(text)
    return Gold(path.stem, tuple(parts))


def sentences(text: TaggedText) -> list[TaggedText]:
    """A text cut after full stops, outside entities."""
    cuts = [0]
    for position in range(1, len(text.words)):
        is_after_stop = text.words[position - 1] == "."
        is_inside_entity = text.tags[position].startswith("I")
        if is_after_stop and not is_inside_entity:
            cuts.append(position)
    cuts.append(len(text.words))
    return [
        TaggedText(text.words[first:last], text.tags[first:last])
        for first, last in pairwise(cuts)
        if last > first
    ]


def score_ways(
    train: Gold,
    devel: Gold,
    test: Gold,
    recipes: list[str],
) -> Iterator[tuple[str, Scores]]:
    """The scores of looking up names and of each recipe."""
    yield "names looked up", look_up_names(train.texts, test)
    for name in recipes:
        say(f"{len(train.texts)} sentences: training {name}")
        recipe = read_recipe(EntityRecipe, name)
        model = fit([Corpus("genes", train, devel, None)], recipe)
        yield name, evaluate_words(model, test)


def main() -> None:
    """Print a row for each size and way."""
    parser = command_line(__doc__)
    add_data_option(parser)
    parser.add_argument(
        "--sizes",
        type=int,
        nargs="+",
        default=list(SIZES),
    )
    parser.add_argument(
        "--recipes",
        nargs="*",
        default=["small", "entities"],
    )
    asked = parser.parse_args()
    folder = asked.data / "ner" / "biored"
    pool = list(gold(folder / "train.pubtator").texts)
    test = gold(folder / "devel.pubtator")
    random.Random(0).shuffle(pool)
    devel = Gold("devel", tuple(pool[:DEVEL]))
    rows = []
    for size in asked.sizes:
        train = Gold("train", tuple(pool[DEVEL : DEVEL + size]))
        for name, score in score_ways(train, devel, test, asked.recipes):
            precision = f"{score.overall.precision:.3f}"
            recall = f"{score.overall.recall:.3f}"
            row = (size, name, precision, recall, score.interval)
            say(", ".join(map(str, row)))
            rows.append(row)
    print(table(COLUMNS, rows))


if __name__ == "__main__":
    main()
