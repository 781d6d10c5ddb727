"""Corpora with marks in their texts, to learn what a model gains from knowing more than the words.

`corpus` puts the name of its corpus before each text, so that one model can follow the annotation
rules of each. `dictionary` puts a mark before each name that a dictionary knows; half of the
training texts stay without marks, so that the model does not rely on them.

    python -m experiments.marked corpus CORPUS... --out marked
    python -m experiments.marked dictionary CORPUS... --names names.csv --out marked
    biomed ner train marked/CORPUS... --recipe disease --out MODEL

The devel and test sides get the same marks, and the same spans are right, so that the F1 scores
are comparable with those of the plain corpora.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from biomed.corpora import TaggedText, read_corpus, without
from biomed.corpora.formats import write_iob2
from biomed.corpora.words import split_words
from domainbert.console import one_line_errors, say
from domainbert.errors import UserError
from domainbert.tables import read_table

MARK = "¤"  # a piece of its own in the vocabulary of BERT, and in none of the corpora
LONGEST = 8  # words of a name

Words = tuple[str, ...]


def with_corpus(text: TaggedText, name: str) -> TaggedText:
    """The text after the name of its corpus, which is outside all entities."""
    return TaggedText((name, *text.words), ("O", *text.tags))


def with_names(text: TaggedText, names: frozenset[Words]) -> TaggedText:
    """The text with `MARK` before each of the names, longest first, none within another.

    A mark within an entity is part of it.
    """
    words, tags, at = [], [], 0
    lower = tuple(word.lower() for word in text.words)
    while at < len(lower):
        ends = range(min(at + LONGEST, len(lower)), at, -1)
        end = next((end for end in ends if lower[at:end] in names), at)
        if end > at:
            words.append(MARK)
            tags.append(text.tags[at] if text.tags[at].startswith("I-") else "O")
        end = max(end, at + 1)
        words += text.words[at:end]
        tags += text.tags[at:end]
        at = end
    return TaggedText(tuple(words), tuple(tags))


def read_names(path: Path) -> frozenset[Words]:
    """The column `name` of a table, as words in small letters.

    Names of at most three letters are left out: most are common words when case is ignored.
    """
    names = read_table(path)["name"].dropna()
    split = (tuple(name[a:b].lower() for a, b in split_words(name)) for name in names)
    return frozenset(words for words in split if sum(map(len, words)) > 3)


@one_line_errors
def main(
    what: Annotated[str, typer.Argument(help="corpus or dictionary.")],
    corpora: Annotated[list[Path], typer.Argument(help="Corpora of `biomed ner train`.")],
    out: Annotated[Path, typer.Option(help="A new folder, with a folder for each corpus.")],
    names: Annotated[Path | None, typer.Option(help="A table with the column name.")] = None,
) -> None:
    """Write marked copies of corpora."""
    if what not in ("corpus", "dictionary") or (what == "dictionary") != bool(names):
        raise UserError("expected corpus, or dictionary with --names")
    known = read_names(names) if names else frozenset()
    read = [read_corpus(folder) for folder in corpora]
    # Here, because a marked text and its plain copy differ.
    kept_apart = [
        text for corpus in read for side in ("devel", "test") if side in corpus.sides
        for text in corpus.sides[side].texts
    ]  # fmt: skip
    for corpus in read:
        (out / corpus.name).mkdir(parents=True)
        for side, gold in corpus.sides.items():
            texts = list(gold.texts)
            if side == "train":
                texts = without(texts, kept_apart)
            if what == "corpus":
                texts = [with_corpus(text, corpus.name.partition("-")[0]) for text in texts]
            else:
                step = 2 if side == "train" else 1
                texts[::step] = [with_names(text, known) for text in texts[::step]]
            write_iob2(texts, out / corpus.name / f"{side}.tsv")
            say(f"{corpus.name} {side}: {len(texts)} texts")


if __name__ == "__main__":
    typer.run(main)
