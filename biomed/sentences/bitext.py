"""Sentences and their translations: reading them, and how often one finds the other."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.sentences.data import read_examples
from domainbert.intervals import bootstrap_interval
from domainbert.pooling import unit
from domainbert.ranking import top_k
from domainbert.tables import TableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from domainbert.intervals import Interval


def read_sentences(source: str | Path) -> list[str]:
    """Sentences: the lines of a `.txt` or `.txt.gz`, else both texts of the rows of a table.

    Empty lines are kept, as "", so that translations stay aligned. For tables see `read_examples`;
    their first texts come first.

    Raises:
        TableError: no such file, or one that is not UTF-8.
    """
    path = Path(source)
    if not path.name.lower().endswith((".txt", ".txt.gz")):
        examples = read_examples(path)
        return [*examples.first, *examples.second]
    try:
        content = path.read_bytes()
        if path.suffix.lower() == ".gz":
            content = gzip.decompress(content)
        lines = content.decode("utf-8").split("\n")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        msg = f"{path.name} cannot be read as lines of UTF-8 text ({reason})"
        raise TableError(msg) from None
    return [line.strip() for line in (lines if lines[-1] else lines[:-1])]


def read_translations(source: str | Path, translation: str | Path) -> tuple[list[str], list[str]]:
    """Sentences and their translations, line by line; pairs that repeat are read once.

    Raises:
        TableError: files of unequal length, or a line that is empty in one of them only.
    """
    first, second = read_sentences(source), read_sentences(translation)
    if len(first) != len(second):
        msg = (
            f"{Path(source).name} has {len(first)} sentences and {Path(translation).name} has "
            f"{len(second)}; a translation has one line for each line of its source"
        )
        raise TableError(msg)
    for number, (a, b) in enumerate(zip(first, second, strict=True), start=1):
        if bool(a) != bool(b):
            name = Path(translation if a else source).name
            msg = f"{name}: sentence number {number} is empty, and in the other file it is not"
            raise TableError(msg)
    pairs = list(dict.fromkeys(pair for pair in zip(first, second, strict=True) if pair[0]))
    if not pairs:
        msg = f"{Path(source).name} has no sentence"
        raise TableError(msg)
    return [a for a, _ in pairs], [b for _, b in pairs]


def unseen_translations(
    source: str | Path, translation: str | Path, *, seen: Sequence[str], pairs: int, seed: int = 0
) -> tuple[list[str], list[str]]:
    """Different sentences with different translations, none of which is in `seen`.

    Args:
        source: see `read_translations`.
        translation: of each sentence.
        seen: sentences of training, in either language.
        pairs: to choose at random, at most.
        seed: of the choice.

    Raises:
        TableError: see `read_translations`; or no pair is left.
    """
    known, first, second = set(seen), list[str](), list[str]()
    for pair in zip(*read_translations(source, translation), strict=True):
        if known.isdisjoint(pair):
            known.update(pair)
            first.append(pair[0])
            second.append(pair[1])
    if not first:
        raise TableError("every pair has a sentence that was seen in training")
    rows = np.random.default_rng(seed).permutation(len(first))[:pairs]
    return [first[row] for row in rows], [second[row] for row in rows]


def evaluate_bitext(
    encoder: Any, sentences: Sequence[str], translations: Sequence[str]
) -> Interval:
    """How often the nearest of all translations is a sentence's own, and the other way round.

    Args:
        encoder: a `SentenceEncoder`, or anything with `encode`.
        sentences: different ones.
        translations: of each.

    Returns:
        The accuracy, mean of both directions, with its interval by resampling pairs.
    """
    first, second = (unit(encoder.encode(list(texts))) for texts in (sentences, translations))
    own = np.arange(len(first))
    there, back = (top_k(a, [b], k=1).rows[:, 0] for a, b in ((first, second), (second, first)))
    right = ((there == own) + (back == own).astype(float)) / 2
    return bootstrap_interval(lambda rows: float(right[rows].mean()), n=len(right))
