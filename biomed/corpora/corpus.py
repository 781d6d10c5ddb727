"""A corpus: a folder with train, devel and test sides in any of the formats."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from biomed.corpora.bioc import is_bioc, read_bioc
from biomed.corpora.brat import is_brat, read_brat
from biomed.corpora.conll import read_conll
from biomed.corpora.documents import (
    OUTSIDE,
    CorpusError,
    Document,
    Relation,
    Span,
    TaggedText,
    concepts_of,
    tagged,
)
from biomed.corpora.pubtator import is_pubtator, read_pubtator
from domainbert.training.objective import fingerprint

# Formats of documents with spans: whether a path has it, and its reader. Other files are CoNLL.
_FORMATS = (
    (is_brat, read_brat),
    (is_pubtator, read_pubtator),
    (is_bioc, read_bioc),
)
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
        texts: words with tags: the sentences of a CoNLL file, otherwise whole documents.
        documents: texts with character spans; empty for CoNLL.
        remarks: which lines were left out, which tags were converted to IOB2, and which
            spans were changed to fit it.
    """

    name: str
    texts: tuple[TaggedText, ...]
    documents: tuple[Document, ...] = field(default=(), repr=False)
    remarks: tuple[str, ...] = field(default=(), repr=False)

    @property
    def types(self) -> tuple[str, ...]:
        """The entity types, sorted."""
        tags = {tag for text in self.texts for tag in text.tags}
        return tuple(sorted({tag[2:] for tag in tags - {OUTSIDE}}))

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
        golds = {side: getattr(self, side) for side in SIDES}
        return {side: gold for side, gold in golds.items() if gold is not None}


def read_gold(
    path: str | Path, *, labels: dict[str, str] | None = None
) -> Gold:
    """Read a CoNLL, PubTator or BioC file or a BRAT folder; the format is detected.

    `labels` are new names for entity types; a type mapped to "" is dropped.

    Raises:
        CorpusError: no such file, no sentences, or a format error; see
            `biomed.corpora.conll`, `pubtator`, `bioc` and `brat` there.
    """
    path = Path(path)
    for has_format, read_documents in _FORMATS:
        if has_format(path):
            documents = read_documents(path)
            return gold_of(documents, name=path.name, labels=labels)
    if not path.is_file():
        raise CorpusError(
            f"{path}: no such file, and no folder with BRAT .ann files"
        )
    sentences, remarks = read_conll(path)
    if not sentences:
        raise CorpusError(f"{path.name} has no sentences")
    texts = tuple(_renamed(text, labels or {}) for text in sentences)
    return Gold(path.name, texts, remarks=tuple(remarks))


def gold_of(
    documents: Iterable[Document],
    *,
    name: str = "documents",
    labels: dict[str, str] | None = None,
) -> Gold:
    """Documents with character spans, also as words with tags.

    For `labels` see `read_gold`; for how spans become tags see `tagged`.
    """
    new_labels = labels or {}
    renamed_documents = []
    texts = []
    remarks = []
    for document in documents:
        spans = [
            replace(span, label=new_labels.get(span.label, span.label))
            for span in document.spans
        ]
        labelled = tuple(span for span in spans if span.label)
        renamed = replace(
            document,
            spans=labelled,
            relations=tuple(_between(document, labelled)),
        )
        text, span_remarks = tagged(renamed)
        renamed_documents.append(renamed)
        if text.words:
            texts.append(text)
        remarks += [f"{fault}; left out" for fault in document.faults]
        remarks += span_remarks
    return Gold(name, tuple(texts), tuple(renamed_documents), tuple(remarks))


def _between(document: Document, spans: Iterable[Span]) -> Iterator[Relation]:
    """The relations of a document without those that only left-out spans had."""
    ids = {concept for span in spans for concept in concepts_of(span.id)}
    left_out_ids = {
        concept for span in document.spans for concept in concepts_of(span.id)
    } - ids
    extents = {(span.start, span.end) for span in spans}
    for relation in document.relations:
        concepts = {relation.first, relation.second}
        is_kept = not concepts & left_out_ids
        if relation.mentions:
            is_kept = set(relation.mentions) <= extents
        if is_kept:
            yield relation


def _renamed(text: TaggedText, labels: dict[str, str]) -> TaggedText:
    """A text with other type names; entities of a type renamed to "" are left out."""
    tags = []
    for tag in text.tags:
        label = labels.get(tag[2:], tag[2:])
        if label:
            tags.append(tag[:2] + label)
        else:
            tags.append(OUTSIDE)
    return TaggedText(text.words, tuple(tags))


def read_corpus(
    folder: str | Path, *, labels: dict[str, str] | None = None
) -> Corpus:
    """Read a folder with files (or BRAT folders) named train, devel (or dev) and test.

    Raises:
        CorpusError: no such folder, no side in it, or two files for one side.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise CorpusError(
            f"{folder}: no such folder; expected a folder with train, devel and test in it"
        )
    golds = dict.fromkeys(SIDES)
    files = sorted(folder.iterdir())
    for side, names in SIDES.items():
        paths = [
            path for path in files if path.name.split(".")[0].lower() in names
        ]
        if len(paths) > 1:
            listed = ", ".join(path.name for path in paths)
            raise CorpusError(
                f"{folder} has several files for its {side} side: {listed}; keep one"
            )
        if paths:
            golds[side] = read_gold(paths[0], labels=labels)
    if not any(golds.values()):
        raise CorpusError(
            f"{folder} has no train, devel or test file, such as train.tsv"
        )
    return Corpus(folder.name, **golds)
