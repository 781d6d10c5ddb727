"""A corpus: documents from text files and tables, without the excluded and the repeated ones."""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.encoders import file_sha256
from domainbert.errors import UserError
from domainbert.pretraining.settings import CorpusSettings
from domainbert.pretraining.tokens import split_sentences
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
    table_columns,
)
from domainbert.tables.rows import source_files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

PLAIN = (".txt", ".txt.gz")
TRAIN, HELD_OUT = "train", "held-out"
SIDES = (TRAIN, HELD_OUT)
# The broadest first: a patient has stays, and a stay has notes.
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
    """A text, and what is known of whose it is: kind of id -> id. `fault`: a line without one."""

    text: str = field(repr=False)
    ids: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    fault: str = ""


@dataclass(frozen=True)
class CorpusFile:
    """A file of a corpus, and the folder it was found in; None if it was named itself."""

    path: Path
    folder: Path | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is plain text, not a table."""
        return self.path.name.lower().endswith(PLAIN)

    @property
    def stem(self) -> str:
        """The name of a plain text file without its ending: the id of a note."""
        return re.sub(r"\.txt(\.gz)?$", "", self.path.name, flags=re.IGNORECASE)

    def is_whole(self, settings: CorpusSettings) -> bool:
        """Whether this plain text file is one document."""
        in_folder = settings.documents == "auto" and self.folder is not None
        return settings.documents == "file" or in_folder

    def columns(self, settings: CorpusSettings) -> dict[str, str]:
        """The columns that are read: "text" and the kinds of id -> name in the table.

        Raises:
            TableError: a table without the column of text, or with an id column of another name.
        """
        if self.is_plain:
            return {NOTE.name: "(file name)"} if self.is_whole(settings) else {}
        available = table_columns(self.path)
        named = {name: getattr(settings, name) for name in (*IDS, TEXT.name)}
        given = {ours: theirs for ours, theirs in named.items() if theirs != ours}
        for theirs in given.values():
            if theirs not in available:
                log.warning("%s has no column %r", self.path.name, theirs)
        given = {ours: theirs for ours, theirs in given.items() if theirs in available}
        text = Column(TEXT.name, "text", TEXT.also if named[TEXT.name] == TEXT.name else ())
        wanted = (text, PATIENT, STAY, NOTE)
        found = match_columns(available, wanted, named=given, source=self.path.name)
        # The names that are there stay unsaid: without a header they are the first row.
        if TEXT.name not in found or named[TEXT.name] not in (TEXT.name, found[TEXT.name]):
            msg = (
                f"{self.path.name} has no column {named[TEXT.name]!r} among its {len(available)}; "
                "the first line must hold column names, and --text names the column of text"
            )
            raise TableError(msg)
        return found


def corpus_files(sources: Iterable[str | Path]) -> list[CorpusFile]:
    """The text files and tables of a corpus; see `domainbert.tables.rows.source_files`.

    Raises:
        TableError: nothing there, a file of another kind, or a folder without text.
    """
    files: list[CorpusFile] = []
    for source in map(Path, sources):
        folder, found = source if source.is_dir() else None, source_files(source)
        files += [CorpusFile(path, folder) for path in found]
        if folder and (others := sum(p.is_file() for p in folder.rglob("*")) - len(found)):
            log.warning("%s: %d files of other kinds are not read", folder, others)
    return files


def read_documents(file: CorpusFile, *, settings: CorpusSettings) -> Iterator[Document]:
    """The documents of a file, in order; a row without text gives an empty one.

    Bytes that are not UTF-8 are read as U+FFFD. A line of a table that is no row gives a document
    with a fault.

    Raises:
        TableError: a file that cannot be read.
    """
    columns = file.columns(settings)
    if file.is_plain:
        whole = file.is_whole(settings)
        name = {NOTE.name: file.stem} if whole else {}
        for text in _plain(file.path, whole=whole, lines=settings.lines):
            yield Document(text, name)
        return
    ids = {kind: column for kind, column in columns.items() if kind in IDS}
    for row in iter_rows(file.path):
        if row.fault:
            yield Document("", fault=f"{row.place}: {row.fault}")
            continue
        named = {kind: id_text(row.cells.get(column)) for kind, column in ids.items()}
        for text in texts_of(row.cells.get(columns[TEXT.name])) or [""]:
            yield Document(text, named)


def _plain(path: Path, *, whole: bool, lines: int) -> Iterator[str]:
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


def texts_of(cell: Any) -> list[str]:
    """The texts in a cell of a table: one, a list of them, or none."""
    if isinstance(cell, str):
        return [cell]
    return [text for text in cell if isinstance(text, str)] if isinstance(cell, list) else []


def document_sha256(text: str) -> str:
    """The hash that names a document: SHA-256 of its words joined by single spaces."""
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()


# --- exclusion


class Exclusions:
    """Patients, stays, notes and documents that must not be read.

    Args:
        names: kind of id, or `HASH` -> the excluded ones, as they are spelled. Ids are compared by
            `domainbert.tables.id_key`.
    """

    def __init__(self, names: Mapping[str, Iterable[str]] | None = None) -> None:
        spelled = {k: {id_key(name): name for name in each} for k, each in (names or {}).items()}
        self._spelled = {kind: spelled[kind] for kind in (*IDS, HASH) if spelled.get(kind)}
        self._found: dict[str, set[str]] = {kind: set() for kind in self._spelled}

    def __bool__(self) -> bool:
        """Whether anything is excluded."""
        return bool(self._spelled)

    @property
    def broadest(self) -> str | None:
        """The broadest kind of id in the lists; every document must have one."""
        return next((kind for kind in IDS if kind in self._spelled), None)

    def check(self, kinds: Collection[str], *, source: str) -> None:
        """Check that the documents of a source can be told from the excluded ones.

        Raises:
            CorpusError: they lack the broadest kind of id.
        """
        if self.broadest not in (None, *kinds):
            option = str(self.broadest).removesuffix("_id")
            msg = (
                f"{source} has no {self.broadest}, and the exclusion list names documents by it: "
                f"add that column, name it with --{option}, or exclude by {HASH} alone"
            )
            raise CorpusError(msg)

    def reason(self, document: Document, sha256: str) -> str | None:
        """Why a document must not be read, or None; remembers which names were found."""
        names = {**{kind: id_key(document.ids.get(kind)) for kind in IDS}, HASH: sha256}
        hits = [kind for kind, listed in self._spelled.items() if names[kind] in listed]
        for kind in hits:
            self._found[kind].add(str(names[kind]))
        if hits:
            return f"excluded by {'text' if hits[0] == HASH else hits[0]}"
        if self.broadest and names[self.broadest] is None:
            return f"without the {self.broadest} that exclusion needs"
        return None

    def not_found(self) -> Iterator[tuple[str, str]]:
        """The kind and the spelling of each name that no document had so far."""
        for kind, listed in self._spelled.items():
            yield from ((kind, n) for key, n in listed.items() if key not in self._found[kind])

    def forget_found(self) -> None:
        """Start a new reading."""
        self._found = {kind: set() for kind in self._spelled}

    def counts(self) -> dict[str, dict[str, int]]:
        """How many names of each kind are listed, and how many were not found."""
        listed = {kind: len(names) for kind, names in self._spelled.items()}
        return {
            kind: {"listed": count, "not found": count - len(self._found[kind])}
            for kind, count in listed.items()
        }

    def sha256(self) -> str:
        """A hash of all names, for private files alone: ids can be guessed from it."""
        names = sorted(f"{kind}={key}" for kind, each in self._spelled.items() for key in each)
        return hashlib.sha256("\n".join(names).encode("utf-8", "replace")).hexdigest()


def read_exclusions(paths: Iterable[str | Path]) -> Exclusions:
    """Read exclusion lists.

    A list is a table with one or several of the columns `patient_id`, `stay_id`, `note_id`,
    `sha256` (see `document_sha256`) and `text` (a document, or a list of them). If it has a column
    `split`, as a cohort has, only rows on other sides than "train" are excluded.

    Raises:
        CorpusError: a list that excludes nothing.
        TableError: a list that cannot be read, or a line in it that is no row.
    """
    names: dict[str, set[str]] = {}
    for path in map(Path, paths):
        before = sum(map(len, names.values()))
        _collect(path, names)
        if sum(map(len, names.values())) == before:
            msg = f"{path.name} excludes nothing: it has no ids outside the train side"
            raise CorpusError(msg)
    return Exclusions(names)


def _collect(path: Path, names: dict[str, set[str]]) -> None:
    available = table_columns(path)
    wanted = (PATIENT, STAY, NOTE, Column(HASH, "value"), Column(TEXT.name, "text"))
    columns = match_columns(available, wanted, source=path.name)
    if not columns:
        named = ", ".join((*IDS, HASH))
        msg = f"{path.name} names nothing to exclude: it needs a column {named} or text"
        raise CorpusError(msg)
    for row in iter_rows(path):
        if row.fault:
            msg = f"{row.place}: {row.fault}; mend the list, or nobody knows whom it excludes"
            raise TableError(msg)
        if "split" in available and row.cells.get("split") in (None, TRAIN):
            continue
        for kind, column in columns.items():
            cell = row.cells.get(column)
            if kind == TEXT.name:
                names.setdefault(HASH, set()).update(map(document_sha256, texts_of(cell)))
            elif (name := id_text(cell)) is not None:
                names.setdefault(kind, set()).add(name)


# --- corpus


class Corpus:
    """The sentences of a corpus, document by document; can be read several times.

    Left out and counted in `counts`: excluded documents, those without text, those that are not
    UTF-8, copies of earlier documents, and sentences of five words or more that an earlier
    document has. So copied text is learned once, and held-out documents share no sentence with
    the others. This takes about 100 bytes of memory per sentence.

    Args:
        sources: files and folders, see `corpus_files`.
        settings: see `CorpusSettings`.
        exclusions: what must not be read.

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

    def __iter__(self) -> Iterator[tuple[str, list[str], str]]:
        """Each document that may be read.

        Yields:
            Its side (`TRAIN` or `HELD_OUT`), its sentences, and a name of its patient; a document
            without a patient has a name of its own.

        Raises:
            CorpusError: at the end, a side without documents.
        """
        self.counts = Counter()
        self.exclusions.forget_found()
        seen: set[bytes] = set()
        for file in self.files:
            for document in read_documents(file, settings=self.settings):
                if document.fault:
                    self._note_fault(document)
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
                yield side, sentences, id_key(document.ids.get(PATIENT.name)) or f" {sha256}"
        self._check()

    def _note_fault(self, document: Document) -> None:
        self.counts["lines that are no rows"] += 1
        if self.counts["lines that are no rows"] <= LISTED_PLACES:
            log.warning("%s; this line is left out", document.fault)

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
        if not self.counts[f"{TRAIN} documents"] + self.counts[f"{HELD_OUT} documents"]:
            msg = f"the corpus has no document to read: {listed or 'its files are empty'}"
            raise CorpusError(msg)
        for side in SIDES:
            if not self.counts[f"{side} documents"]:
                msg = (
                    f"no document is on the {side} side: {listed}; change held_out (now "
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

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What the tokens depend on, with hashes of all files; for private folders alone."""
        return {
            "files": [file_sha256(file.path) for file in self.files],
            # A file name in a folder is the id of a note.
            "names": [file.path.name for file in self.files],
            "columns": [file.columns(self.settings) for file in self.files],
            "exclusions": self.exclusions.sha256() if self.exclusions else None,
            "settings": self.settings.model_dump(),
        }
