"""A corpus: a folder with train, devel and test sides in any of the formats."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from biomed.corpora.documents import OUTSIDE, CorpusError, Document, TaggedText, tagged
from biomed.corpora.formats import (
    is_brat,
    is_pubtator,
    read_brat,
    read_iob2,
    read_pubtator,
)
from domainbert.training.objective import fingerprint

# The names that the files of each side may have.
SIDES = {
    "train": ("train",),
    "devel": ("devel", "dev", "validation", "val"),
    "test": ("test",),
}


@dataclass(frozen=True)
class Gold:
    """The gold standard of one file or folder.

    Attributes:
        texts: words with tags: the sentences of an IOB2 file, otherwise whole documents.
        documents: texts with character spans; empty for IOB2.
        remarks: which spans were changed to fit IOB2, and how.
    """

    name: str
    texts: tuple[TaggedText, ...]
    documents: tuple[Document, ...] = field(default=(), repr=False)
    remarks: tuple[str, ...] = field(default=(), repr=False)

    @property
    def types(self) -> tuple[str, ...]:
        """The entity types, sorted."""
        return tuple(
            sorted({tag[2:] for text in self.texts for tag in text.tags} - {""})
        )

    @property
    def sha256(self) -> str:
        """A hash of all words and tags."""
        return fingerprint([(text.words, text.tags) for text in self.texts])


@dataclass(frozen=True)
class Corpus:
    """The sides of a corpus; None where a side is missing."""

    name: str
    train: Gold | None
    devel: Gold | None
    test: Gold | None

    @property
    def sides(self) -> dict[str, Gold]:
        """The sides that are there, by name."""
        return {
            side: gold for side in SIDES if (gold := getattr(self, side)) is not None
        }


def read_gold(path: str | Path, *, labels: dict[str, str] | None = None) -> Gold:
    """Read an IOB2 or PubTator file or a BRAT folder; the format is detected.

    `labels` are new names for entity types; a type mapped to "" is dropped.

    Raises:
        CorpusError: no such file, no sentences, or a format error (see `biomed.corpora.formats`).
    """
    path = Path(path)
    if is_brat(path):
        return gold_of(read_brat(path), name=path.name, labels=labels)
    if not path.is_file():
        raise CorpusError(f"{path}: no such file, and no folder with BRAT .ann files")
    if is_pubtator(path):
        return gold_of(read_pubtator(path), name=path.name, labels=labels)
    texts = read_iob2(path)
    if not texts:
        raise CorpusError(f"{path.name} has no sentences")
    return Gold(path.name, tuple(_renamed(text, labels or {}) for text in texts))


def gold_of(
    documents: Iterable[Document],
    *,
    name: str = "documents",
    labels: dict[str, str] | None = None,
) -> Gold:
    """Documents with character spans, also as words with tags; see `tagged` and `read_gold`."""
    new = labels or {}
    named = []
    for document in documents:
        spans = (replace(s, label=new.get(s.label, s.label)) for s in document.spans)
        named.append(
            replace(document, spans=tuple(span for span in spans if span.label))
        )
    pairs = [tagged(document) for document in named]
    remarks = tuple(itertools.chain.from_iterable(remarks for _, remarks in pairs))
    return Gold(
        name, tuple(text for text, _ in pairs if text.words), tuple(named), remarks
    )


def _renamed(text: TaggedText, labels: dict[str, str]) -> TaggedText:
    kinds = ((tag[:2], labels.get(tag[2:], tag[2:])) for tag in text.tags)
    return TaggedText(
        text.words, tuple(mark + kind if kind else OUTSIDE for mark, kind in kinds)
    )


def read_corpus(folder: str | Path, *, labels: dict[str, str] | None = None) -> Corpus:
    """Read a folder with files (or BRAT folders) named train, devel (or dev) and test.

    Raises:
        CorpusError: no such folder, no side in it, or two files for one side.
    """
    folder = Path(folder)
    if not folder.is_dir():
        msg = f"{folder}: no such folder; expected a folder with train, devel and test in it"
        raise CorpusError(msg)
    golds: dict[str, Gold | None] = dict.fromkeys(SIDES)
    for side, names in SIDES.items():
        found = [
            f for f in sorted(folder.iterdir()) if f.name.split(".")[0].lower() in names
        ]
        if len(found) > 1:
            listed = ", ".join(path.name for path in found)
            raise CorpusError(
                f"{folder} has several files for its {side} side: {listed}; keep one"
            )
        if found:
            golds[side] = read_gold(found[0], labels=labels)
    if not any(golds.values()):
        raise CorpusError(
            f"{folder} has no train, devel or test file, such as train.tsv"
        )
    return Corpus(folder.name, **golds)
