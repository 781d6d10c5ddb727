"""A corpus: documents from text files and tables, without excluded and repeated ones."""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.encoders.loading import file_sha256
from domainbert.errors import UserError
from domainbert.pretraining.settings import CorpusSettings
from domainbert.tables import (
    NOTE,
    PATIENT,
    STAY,
    TEXT,
    Column,
    ReadOptions,
    TableError,
    id_key,
    id_text,
    iter_rows,
    match_columns,
    source_files,
    table_columns,
)
from domainbert.text.sentences import split_sentences

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

TRAIN, HELD_OUT = "train", "held-out"
SIDES = (TRAIN, HELD_OUT)
# From broad to narrow: a patient has stays, and a stay has notes.
IDS = (PATIENT.name, STAY.name, NOTE.name)
HASH = "sha256"
# A shorter sentence may occur in many documents: headings, "no known allergies".
REPEATED_WORDS = 5
# A text with a larger share of undecodable bytes is left out.
UNREADABLE = 0.05
LISTED_PLACES = 3
log = logging.getLogger(__name__)


class CorpusError(UserError):
    """A corpus that cannot be read as asked; the message says the fix."""


# --- documents


@dataclass(frozen=True)
class Document:
    """A text and its ids by kind, or the `fault` of a line that cannot be read."""

    text: str = field(repr=False)
    ids: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    fault: str = ""


@dataclass(frozen=True)
class CorpusFile:
    """A file of a corpus, and the folder it was found in; None if it was named itself."""

    path: Path
    folder: Path | None = None

    def kind(self, settings: CorpusSettings) -> str:
        """Of a table "table"; of plain text what one document is, "file" or "block"."""
        if not self.path.name.lower().endswith((".txt", ".txt.gz")):
            return "table"
        usual = "block" if self.folder is None else "file"
        return usual if settings.documents == "auto" else settings.documents

    def columns(self, settings: CorpusSettings) -> dict[str, str]:
        """The names in the file of the text and the ids that it has.

        Raises:
            TableError: a table without the column of text.
        """
        if (kind := self.kind(settings)) != "table":
            return {NOTE.name: "(file name)"} if kind == "file" else {}
        available = table_columns(self.path)
        named = {name: getattr(settings, name) for name in (*IDS, TEXT.name)}
        for ours, theirs in named.items():
            if theirs not in (ours, *available):
                log.warning("%s has no column %r", self.path.name, theirs)
        given = {k: theirs for k, theirs in named.items() if theirs != k and theirs in available}
        text = Column(TEXT.name, "text", TEXT.also if named[TEXT.name] == TEXT.name else ())
        wanted = (text, PATIENT, STAY, NOTE)
        columns = match_columns(available, wanted, named=given, source=self.path.name)
        if TEXT.name not in columns or named[TEXT.name] not in (TEXT.name, columns[TEXT.name]):
            # Without a header the names are the first row, so they are not shown.
            msg = (
                f"{self.path.name} has no column {named[TEXT.name]!r} among its {len(available)}; "
                "the first line must hold column names, and --text names the column of text"
            )
            raise TableError(msg)
        return columns


def corpus_files(sources: Iterable[str | Path]) -> list[CorpusFile]:
    """The text files and tables of a corpus; see `domainbert.tables.source_files`."""
    files: list[CorpusFile] = []
    for source in map(Path, sources):
        folder, paths = source if source.is_dir() else None, source_files(source)
        files += [CorpusFile(path, folder) for path in paths]
        if folder and (others := sum(p.is_file() for p in folder.rglob("*")) - len(paths)):
            log.warning("%s: %d files of other kinds are not read", folder, others)
    return files


def read_documents(file: CorpusFile, *, settings: CorpusSettings) -> Iterator[Document]:
    """The documents of a file, in order; a row without text gives an empty one."""
    if (kind := file.kind(settings)) != "table":
        note = re.sub(r"\.txt(\.gz)?$", "", file.path.name, flags=re.IGNORECASE)
        for text in _plain(file.path, whole=kind == "file", lines=settings.lines):
            yield Document(text, {NOTE.name: note} if kind == "file" else {})
        return
    columns = file.columns(settings)
    ids = {kind: column for kind, column in columns.items() if kind in IDS}
    for row in iter_rows(file.path):
        if row.fault:
            yield Document("", fault=f"{row.place}: {row.fault}")
            continue
        named = {kind: id_text(row.cells.get(column)) for kind, column in ids.items()}
        for text in _texts(row.cells.get(columns[TEXT.name])) or [""]:
            yield Document(text, named)


def _plain(path: Path, *, whole: bool, lines: int) -> Iterator[str]:
    """The documents of a plain text file."""
    document: list[str] = []
    for row in iter_rows(path, ReadOptions(lines=True)):
        line = row.cells["text"] or ""
        is_blank = not line.strip()
        if document and ((is_blank and not whole) or len(document) == lines):
            yield "\n".join(document)
            document = []
        if whole or not is_blank:
            document.append(line)
    if document:
        yield "\n".join(document)


def _texts(cell: Any) -> list[str]:
    """The texts in a cell of a table: one, a list of them, or none."""
    texts = cell if isinstance(cell, list) else [cell]
    return [text for text in texts if isinstance(text, str)]


def document_sha256(text: str) -> str:
    """The hash that names a document: SHA-256 of its words joined by single spaces."""
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()


# --- exclusion


class Exclusions:
    """Patients, stays, notes and documents that must not be read.

    Args:
        names: the kind of id, or `HASH`, and the name of each; ids are compared by `id_key`.
    """

    def __init__(self, names: Iterable[tuple[str, str]] = ()) -> None:
        self._spelled = {(kind, id_key(name)): name for kind, name in names}
        kinds = {kind for kind, _ in self._spelled}
        # Every document must have the broadest kind of id in the lists.
        self._broadest = next((kind for kind in IDS if kind in kinds), None)
        self._met: set[tuple[str, str | None]] = set()

    def check(self, kinds: Collection[str], *, source: str) -> None:
        """Refuse a source whose documents lack the kind of id that exclusion needs."""
        if self._broadest not in (None, *kinds):
            option = str(self._broadest).removesuffix("_id")
            msg = (
                f"{source} has no {self._broadest}, and the exclusion list names documents by it: "
                f"add that column, name it with --{option}, or exclude by {HASH} alone"
            )
            raise CorpusError(msg)

    def reason(self, document: Document, sha256: str) -> str | None:
        """Why a document must not be read, or None; remembers which names were found."""
        names = {**{kind: id_key(document.ids.get(kind)) for kind in IDS}, HASH: sha256}
        hits = [name for name in names.items() if name in self._spelled]
        self._met.update(hits)
        if hits:
            return f"excluded by {'text' if hits[0][0] == HASH else hits[0][0]}"
        if self._broadest and names[self._broadest] is None:
            return f"without the {self._broadest} that exclusion needs"
        return None

    def not_found(self) -> Iterator[tuple[str, str]]:
        """The kind and the spelling of each name that no document has had."""
        yield from ((key[0], name) for key, name in self._spelled.items() if key not in self._met)

    def counts(self) -> dict[str, dict[str, int]]:
        """How many names of each kind are listed, and how many were not found."""
        listed = Counter(kind for kind, _ in self._spelled)
        missing = Counter(kind for kind, _ in self.not_found())
        return {k: {"listed": count, "not found": missing[k]} for k, count in listed.items()}

    def sha256(self) -> str | None:
        """A hash of all names, None without any; private, because ids can be guessed from it."""
        text = "\n".join(sorted(f"{kind}={key}" for kind, key in self._spelled))
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest() if text else None


def read_exclusions(paths: Iterable[str | Path]) -> Exclusions:
    """Read tables of what must not be read.

    Columns: `patient_id`, `stay_id`, `note_id`, `sha256` (see `document_sha256`), `text` (a
    document or a list of them). With a column `split`, rows of the train side are not excluded.

    Raises:
        CorpusError: a list that excludes nothing.
        TableError: a list with a line that cannot be read.
    """
    names: list[tuple[str, str]] = []
    for path in map(Path, paths):
        listed = list(_excluded(path))
        if not listed:
            msg = f"{path.name} excludes nothing: it has no ids outside the train side"
            raise CorpusError(msg)
        names += listed
    return Exclusions(names)


def _excluded(path: Path) -> Iterator[tuple[str, str]]:
    """The kind and the name of all that a list excludes."""
    available = table_columns(path)
    wanted = (PATIENT, STAY, NOTE, Column(HASH, "value"), Column(TEXT.name, "text"))
    columns = match_columns(available, wanted, source=path.name)
    if not columns:
        named = ", ".join((*IDS, HASH))
        msg = f"{path.name} names nothing to exclude: it needs a column {named} or text"
        raise CorpusError(msg)
    for row in iter_rows(path):
        if row.fault:
            msg = f"{row.place}: {row.fault}; correct the list, which otherwise excludes too little"
            raise TableError(msg)
        if "split" in available and row.cells.get("split") in (None, TRAIN):
            continue
        for kind, column in columns.items():
            cell = row.cells.get(column)
            if kind == TEXT.name:
                yield from ((HASH, document_sha256(text)) for text in _texts(cell))
            elif (name := id_text(cell)) is not None:
                yield kind, name


# --- corpus


class Corpus:
    """The sentences of a corpus, document by document.

    Left out and counted in `counts`: excluded documents, documents without text or not in UTF-8,
    copies of earlier documents, and sentences of five words or more that an earlier document has.
    So held-out documents share no sentence with the others. Takes about 100 bytes per sentence.

    Raises:
        CorpusError: documents that cannot be told from the excluded ones.
        TableError: no text there, or a table without its column of text.
    """

    def __init__(
        self,
        sources: Iterable[str | Path],
        *,
        settings: CorpusSettings | None = None,
        exclusions: Exclusions | None = None,
    ) -> None:
        self.files = corpus_files(sources)
        self.settings = settings or CorpusSettings()
        self.exclusions = exclusions or Exclusions()
        self.counts: Counter[str] = Counter()
        try:
            self._erase = re.compile(self.settings.erase) if self.settings.erase else None
        except re.error as error:
            msg = f"erase must be a regular expression: {error}"
            raise UserError(msg) from None
        for file in self.files:
            self.exclusions.check(file.columns(self.settings), source=file.path.name)

    def __iter__(self) -> Iterator[tuple[str, list[str]]]:
        """The side (`TRAIN` or `HELD_OUT`) and the sentences of each document.

        Raises:
            CorpusError: at the end, if a side has no documents.
        """
        self.counts = Counter()
        seen: set[bytes] = set()
        for file in self.files:
            for document in read_documents(file, settings=self.settings):
                if document.fault:
                    self.counts["unreadable lines"] += 1
                    if self.counts["unreadable lines"] <= LISTED_PLACES:
                        log.warning("%s; this line is left out", document.fault)
                    continue
                self.counts["documents"] += 1
                sha256 = document_sha256(document.text)
                if reason := self._reason(document, sha256, seen):
                    self.counts[f"documents {reason}"] += 1
                    continue
                sentences = self._sentences(document.text, seen)
                if not sentences:
                    self.counts["documents of repeated sentences alone"] += 1
                    continue
                side = self._side(document, sha256)
                self.counts[f"{side} documents"] += 1
                yield side, sentences
        self._check()

    def _reason(self, document: Document, sha256: str, seen: set[bytes]) -> str | None:
        """Why a document is left out, or None; remembers it if it is not."""
        excluded = self.exclusions.reason(document, sha256)
        if not document.text.strip():
            return "without text"
        if excluded:
            return excluded
        strange = document.text.count("\ufffd") + document.text.count("\0")
        if strange > UNREADABLE * len(document.text):
            return "that are not UTF-8"
        name = bytes.fromhex(sha256)
        if name in seen:
            return "that repeat an earlier one"
        seen.add(name)
        return None

    def _side(self, document: Document, sha256: str) -> str:
        known = (key for kind in IDS if (key := id_key(document.ids.get(kind))) is not None)
        digest = hashlib.blake2b(next(known, sha256).encode("utf-8", "replace"), digest_size=8)
        place = int.from_bytes(digest.digest()) / 2**64
        return HELD_OUT if place < self.settings.held_out else TRAIN

    def _sentences(self, text: str, seen: set[bytes]) -> list[str]:
        """The sentences that no earlier document has."""
        kept, here = [], set()
        for sentence in split_sentences(text):
            if self._erase:
                sentence = " ".join(self._erase.sub(" ", sentence).split())
            if not sentence:
                continue
            if sentence.count(" ") + 1 >= REPEATED_WORDS:
                words = sentence.casefold().encode("utf-8", "replace")
                digest = hashlib.blake2b(words, digest_size=8).digest()
                if digest in seen:
                    self.counts["sentences that repeat an earlier one"] += 1
                    continue
                here.add(digest)
            kept.append(sentence)
        seen |= here
        self.counts["sentences"] += len(kept)
        return kept

    def _check(self) -> None:
        listed = ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))
        empty = [side for side in SIDES if not self.counts[f"{side} documents"]]
        if len(empty) == len(SIDES):
            msg = f"the corpus has no document to read: {listed or 'its files are empty'}"
            raise CorpusError(msg)
        if empty:
            msg = (
                f"no document is on the {empty[0]} side: {listed}; change held_out (now "
                f"{self.settings.held_out:g}), or, if each file is one document, set "
                'documents = "block" or lines = 20 under [corpus]'
            )
            raise CorpusError(msg)

    def describe(self) -> dict[str, Any]:
        """Counts of the last reading; names and hashes could identify patients."""
        return {
            "files": len(self.files),
            "counts": dict(self.counts),
            "exclusions": self.exclusions.counts(),
        }

    def facts(self) -> dict[str, Any]:
        """What the tokens depend on, with hashes of all files; for private folders alone."""
        return {
            "files": [file_sha256(file.path) for file in self.files],
            "names": [file.path.name for file in self.files],  # in a folder, the ids of notes
            "columns": [file.columns(self.settings) for file in self.files],
            "exclusions": self.exclusions.sha256(),
            "settings": self.settings.model_dump(),
        }
