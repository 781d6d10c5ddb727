"""A corpus: documents from text files and tables, without excluded documents and copies."""

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from domainbert.errors import UserError
from domainbert.files import file_sha256
from domainbert.pretraining.settings import CorpusSettings
from domainbert.tables import (
    NOTE,
    PATIENT,
    STAY,
    TEXT,
    ReadOptions,
    TableError,
    id_key,
    id_text,
    is_text_file,
    iter_rows,
    match_columns,
    source_files,
    table_columns,
)
from domainbert.tables.columns import KEYWORD
from domainbert.tables.rows import TEXT_ENDING
from domainbert.text.sentences import split_sentences

TRAIN = "train"
HELD_OUT = "held-out"
SIDES = (TRAIN, HELD_OUT)
# From broad to narrow: a patient has stays, and a stay has notes.
IDS = (PATIENT.name, STAY.name, NOTE.name)
# A text with a larger share of undecodable bytes is left out.
UNREADABLE = 0.05
LISTED_FAULTS = 3  # of the lines that cannot be read
log = logging.getLogger(__name__)


class TextCorpusError(UserError):
    """A corpus that cannot be read as the settings say."""


# --- documents


@dataclass(frozen=True, repr=False)
class TextDocument:
    """A text and its ids by kind, or the fault of a line that cannot be read."""

    text: str
    ids: Mapping[str, str | None]
    fault: str = ""


@dataclass(frozen=True)
class CorpusFile:
    """A table, or a text file: one document if it is in a folder, else a document a paragraph."""

    path: Path
    in_folder: bool = False

    def columns(self, settings: CorpusSettings) -> dict[str, str]:
        """The table's columns with the text and the ids, by our names.

        Raises:
            TableError: a table without its column of text, or without a column of the settings.
        """
        if is_text_file(self.path):
            return {NOTE.name: "(file name)"} if self.in_folder else {}
        chosen = {name: getattr(settings, name) for name in (*IDS, TEXT.name)}
        renamed = {
            name: column for name, column in chosen.items() if column != name
        }
        return match_columns(
            table_columns(self.path),
            (TEXT, PATIENT, STAY, NOTE),
            named=renamed,
            argument=KEYWORD,
            source=self.path.name,
        )

    def documents(self, settings: CorpusSettings) -> Iterator[TextDocument]:
        """The documents, in order; a row without text gives an empty one."""
        if is_text_file(self.path):
            ids: dict[str, str | None] = {}
            if self.in_folder:
                ids = {NOTE.name: TEXT_ENDING.sub("", self.path.name)}
            for text in self._blocks(settings.lines):
                yield TextDocument(text, ids)
            return
        columns = self.columns(settings)
        text_column = columns.pop(TEXT.name)
        for row in iter_rows(self.path):
            if row.fault:
                yield TextDocument("", {}, f"{row.place}: {row.fault}")
                continue
            ids = {
                id_name: id_text(row.cells.get(column))
                for id_name, column in columns.items()
            }
            cell = row.cells.get(text_column)
            cells = cell if isinstance(cell, list) else [cell]
            for text in list(filter(None, cells)) or [""]:
                yield TextDocument(text, ids)

    def _blocks(self, lines: int) -> Iterator[str]:
        """The paragraphs of the file, or all of a file in a folder; each at most `lines` long."""
        block: list[str] = []
        for row in iter_rows(self.path, ReadOptions(lines=True)):
            line = str(row.cells["text"] or "")
            is_end = not (line.strip() or self.in_folder)
            if block and (is_end or len(block) == lines):
                yield "\n".join(block)
                block = []
            if not is_end:
                block.append(line)
        if block:
            yield "\n".join(block)


# --- exclusion


class Exclusions:
    """Patients, stays and notes that must not be read.

    Args:
        names: pairs of the kind of id and the id; ids are compared by `id_key`.
    """

    def __init__(self, names: Iterable[tuple[str, str]] = ()) -> None:
        self._listed = {(id_name, id_key(name)) for id_name, name in names}
        listed_names = {id_name for id_name, _ in self._listed}
        self._id_names = [
            id_name for id_name in IDS if id_name in listed_names
        ]
        self._seen: set[tuple[str, str | None]] = set()

    def check(self, id_names: Collection[str], *, source: str) -> None:
        """Refuse a source whose documents lack the broadest kind of id in the list."""
        if not self._id_names or self._id_names[0] in id_names:
            return
        id_name = self._id_names[0]
        raise TextCorpusError(
            f"{source} has no {id_name}, and the exclusion list names documents by it: "
            f"add that column, or name it with `{id_name}='NAME'`"
        )

    def reason(self, document: TextDocument) -> str | None:
        """Why a document must not be read, or None; remembers which listed ids occur."""
        ids = [
            (id_name, id_key(document.ids.get(id_name)))
            for id_name in self._id_names
        ]
        if matches := [name for name in ids if name in self._listed]:
            self._seen.update(matches)
            return f"excluded by {matches[0][0]}"
        if ids and ids[0][1] is None:
            return f"without the {ids[0][0]} that exclusion needs"
        return None

    def counts(self) -> dict[str, dict[str, int]]:
        """How many ids of each kind are listed, and how many were not found."""
        listed = Counter(id_name for id_name, _ in self._listed)
        missing = Counter(id_name for id_name, _ in self._listed - self._seen)
        return {
            id_name: {"listed": count, "not found": missing[id_name]}
            for id_name, count in listed.items()
        }

    def facts(self) -> list[str]:
        """All ids, sorted; private."""
        return sorted(f"{id_name}={key}" for id_name, key in self._listed)


def read_exclusions(paths: Iterable[str | Path]) -> Exclusions:
    """Read exclusion lists: tables with a column `patient_id`, `stay_id` or `note_id`.

    In a table with a column `split`, such as a cohort, rows of the train side are not excluded.

    Raises:
        TextCorpusError: a table that excludes nothing.
        TableError: a line that cannot be read.
    """
    names = []
    for path in map(Path, paths):
        excluded = list(_excluded_ids(path))
        if not excluded:
            raise TextCorpusError(
                f"{path.name} excludes nothing: expected a column {', '.join(IDS)} with ids "
                "outside the train side"
            )
        names += excluded
    return Exclusions(names)


def _excluded_ids(path: Path) -> Iterator[tuple[str, str]]:
    """The kind of id and the id, for every id in an exclusion list."""
    available = table_columns(path)
    columns = match_columns(available, (PATIENT, STAY, NOTE), source=path.name)
    for row in iter_rows(path):
        if row.fault:
            raise TableError(
                f"{row.place}: {row.fault}; correct the list, which otherwise excludes too "
                "little"
            )
        if "split" in available and row.cells.get("split") in (None, TRAIN):
            continue
        for id_name, column in columns.items():
            name = id_text(row.cells.get(column))
            if name is not None:
                yield id_name, name


# --- corpus


class TextCorpus:
    """The sentences of a corpus, document by document.

    Left out and counted in `counts`: excluded documents, documents without text or not in UTF-8,
    and copies of earlier documents.

    Raises:
        TextCorpusError: documents without the ids that the exclusions name.
        TableError: no text in a source, or a table without its column of text.
    """

    def __init__(
        self,
        sources: Iterable[str | Path],
        *,
        settings: CorpusSettings | None = None,
        exclusions: Exclusions | None = None,
    ) -> None:
        self.files = []
        for source in map(Path, sources):
            paths = source_files(source)
            self.files += [CorpusFile(path, source.is_dir()) for path in paths]
            if source.is_dir():
                _warn_of_unread(source, len(paths))
        self.settings = settings or CorpusSettings()
        self.exclusions = exclusions or Exclusions()
        self.counts: Counter[str] = Counter()
        try:
            self._erased = re.compile(self.settings.erase)
        except re.error as error:
            raise UserError(
                f"erase must be a regular expression: {error}"
            ) from None
        for file in self.files:
            self.exclusions.check(
                file.columns(self.settings), source=file.path.name
            )

    def __iter__(self) -> Iterator[tuple[str, list[str]]]:
        """The side (`TRAIN` or `HELD_OUT`) and the sentences of each document.

        Raises:
            TextCorpusError: at the end, if a side has no documents.
        """
        self.counts = Counter()
        seen: set[bytes] = set()
        for document in self._documents():
            self.counts["documents"] += 1
            if reason := self._reason(document, seen):
                self.counts[f"documents {reason}"] += 1
                continue
            sentences = self._sentences(document.text)
            if not sentences:
                self.counts["documents without text"] += 1
                continue
            side = self._side(document)
            self.counts[f"{side} documents"] += 1
            self.counts["sentences"] += len(sentences)
            yield side, sentences
        self._check()

    def _documents(self) -> Iterator[TextDocument]:
        """The documents of all files; lines that cannot be read are counted and logged."""
        for file in self.files:
            for document in file.documents(self.settings):
                if not document.fault:
                    yield document
                    continue
                self.counts["unreadable lines"] += 1
                if self.counts["unreadable lines"] <= LISTED_FAULTS:
                    log.warning("%s; this line is left out", document.fault)

    def _sentences(self, text: str) -> list[str]:
        """The sentences of a text, without what the settings erase."""
        sentences = split_sentences(text)
        if not self.settings.erase:
            return sentences
        remaining = [
            self._erased.sub(" ", sentence).split() for sentence in sentences
        ]
        return [" ".join(words) for words in remaining if words]

    def _reason(self, document: TextDocument, seen: set[bytes]) -> str | None:
        """Why a document is left out, or None; remembers it if it is not."""
        excluded = self.exclusions.reason(document)
        if not document.text.strip():
            return "without text"
        if excluded:
            return excluded
        strange = document.text.count("\ufffd") + document.text.count("\0")
        if strange > UNREADABLE * len(document.text):
            return "that are not UTF-8"
        digest = _digest(" ".join(document.text.split()))
        if digest in seen:
            return "that repeat an earlier one"
        seen.add(digest)
        return None

    def _side(self, document: TextDocument) -> str:
        """The side of a document, decided by the broadest id it has, or by its text."""
        keys = [id_key(document.ids.get(id_name)) for id_name in IDS]
        words = " ".join(document.text.split())
        name = next((key for key in keys if key is not None), words)
        # The digest of the broadest id, as a number from 0 to 1: a patient is on one side.
        position = int.from_bytes(_digest(name, size=8)) / 2**64
        return HELD_OUT if position < self.settings.held_out else TRAIN

    def _check(self) -> None:
        """Raise a `TextCorpusError` if no document is on a side."""
        counts = [
            f"{count} {name}" for name, count in sorted(self.counts.items())
        ]
        listed = ", ".join(counts) or "its files are empty"
        empty = [
            side for side in SIDES if not self.counts[f"{side} documents"]
        ]
        if len(empty) == len(SIDES):
            raise TextCorpusError(
                f"the corpus has no document to read: {listed}"
            )
        if empty:
            raise TextCorpusError(
                f"no document is on the {empty[0]} side: {listed}; change held_out (now "
                f"{self.settings.held_out:g}), or split long text files with lines = 20 under "
                "[corpus]"
            )

    def describe(self) -> dict[str, object]:
        """Counts of the last reading, without names and hashes, which could identify patients."""
        return {
            "files": len(self.files),
            "counts": dict(self.counts),
            "exclusions": self.exclusions.counts(),
        }

    def facts(self) -> dict[str, object]:
        """What the tokens depend on, with hashes of all files; for private folders only."""
        return {
            "files": [file_sha256(file.path) for file in self.files],
            # In a folder, these are the ids of notes.
            "names": [file.path.name for file in self.files],
            "columns": [file.columns(self.settings) for file in self.files],
            "exclusions": self.exclusions.facts(),
            "settings": self.settings.model_dump(),
        }


def _warn_of_unread(folder: Path, read: int) -> None:
    """Warn of the files of a folder that are not among the `read` ones."""
    files = sum(path.is_file() for path in folder.rglob("*"))
    if files > read:
        log.warning(
            "%s: %d files of other kinds are not read", folder, files - read
        )


def _digest(text: str, *, size: int = 16) -> bytes:
    return hashlib.blake2b(
        text.encode("utf-8", "replace"), digest_size=size
    ).digest()
