"""A corpus: documents from text files and tables, without excluded and repeated ones."""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
from domainbert.text.sentences import split_sentences

TRAIN, HELD_OUT = "train", "held-out"
SIDES = (TRAIN, HELD_OUT)
# From broad to narrow: a patient has stays, and a stay has notes.
IDS = (PATIENT.name, STAY.name, NOTE.name)
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
    """A table, or a text file: one document if it was found in a folder, else blocks of lines."""

    path: Path
    in_folder: bool = False

    def columns(self, settings: CorpusSettings) -> dict[str, str]:
        """The names in the file of the text and the ids that it has.

        Raises:
            TableError: a table without the column of text, or a column that was named.
        """
        if is_text_file(self.path):
            return {NOTE.name: "(file name)"} if self.in_folder else {}
        named = {name: getattr(settings, name) for name in (*IDS, TEXT.name)}
        named = {ours: theirs for ours, theirs in named.items() if theirs != ours}
        known = (TEXT, PATIENT, STAY, NOTE)
        return match_columns(
            table_columns(self.path), known, named=named, source=self.path.name
        )

    def documents(self, settings: CorpusSettings) -> Iterator[Document]:
        """The documents, in order; a row without text gives an empty one."""
        if is_text_file(self.path):
            note = re.sub(r"\.txt(\.gz)?$", "", self.path.name, flags=re.IGNORECASE)
            for text in self._blocks(settings.lines):
                yield Document(text, {NOTE.name: note} if self.in_folder else {})
            return
        columns = self.columns(settings)
        ids = {kind: column for kind, column in columns.items() if kind in IDS}
        for row in iter_rows(self.path):
            if row.fault:
                yield Document("", fault=f"{row.place}: {row.fault}")
                continue
            cell: Any = row.cells.get(columns[TEXT.name])
            texts = [
                text for text in (cell if isinstance(cell, list) else [cell]) if text
            ]
            named = {
                kind: id_text(row.cells.get(column)) for kind, column in ids.items()
            }
            yield from (Document(text, named) for text in texts or [""])

    def _blocks(self, lines: int) -> Iterator[str]:
        """The text up to each blank line, or of a file in a folder all of it; at most `lines`."""
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
        names: the kind of id, and the id; ids are compared by `id_key`.
    """

    def __init__(self, names: Iterable[tuple[str, str]] = ()) -> None:
        self._names = {(kind, id_key(name)) for kind, name in names}
        self._kinds = [
            kind for kind in IDS if any(kind == listed for listed, _ in self._names)
        ]
        self._found: set[tuple[str, str | None]] = set()

    def check(self, kinds: Collection[str], *, source: str) -> None:
        """Refuse a source whose documents lack the broadest kind of id in the list."""
        if self._kinds and self._kinds[0] not in kinds:
            raise CorpusError(
                f"{source} has no {self._kinds[0]}, and the exclusion list names documents by it: "
                f"add that column, or name it with --{self._kinds[0].removesuffix('_id')}"
            )

    def reason(self, document: Document) -> str | None:
        """Why a document must not be read, or None; remembers which ids were found."""
        ids = [(kind, id_key(document.ids.get(kind))) for kind in self._kinds]
        if hits := [name for name in ids if name in self._names]:
            self._found.update(hits)
            return f"excluded by {hits[0][0]}"
        if ids and ids[0][1] is None:
            return f"without the {ids[0][0]} that exclusion needs"
        return None

    def counts(self) -> dict[str, dict[str, int]]:
        """How many ids of each kind are listed, and how many were not found."""
        listed = Counter(kind for kind, _ in self._names)
        found = Counter(kind for kind, _ in self._found)
        return {k: {"listed": n, "not found": n - found[k]} for k, n in listed.items()}

    def facts(self) -> list[str]:
        """All ids, sorted; private."""
        return sorted(f"{kind}={key}" for kind, key in self._names)


def read_exclusions(paths: Iterable[str | Path]) -> Exclusions:
    """Read tables of what must not be read, by `patient_id`, `stay_id` or `note_id`.

    With a column `split`, as a cohort has, rows of the train side are not excluded.

    Raises:
        CorpusError: a table that excludes nothing.
        TableError: a table with a line that cannot be read.
    """
    names: list[tuple[str, str]] = []
    for path in map(Path, paths):
        available, before = table_columns(path), len(names)
        columns = match_columns(available, (PATIENT, STAY, NOTE), source=path.name)
        for row in iter_rows(path):
            if row.fault:
                raise TableError(
                    f"{row.place}: {row.fault}; correct the list, which otherwise excludes too "
                    "little"
                )
            if "split" in available and row.cells.get("split") in (None, TRAIN):
                continue
            for kind, column in columns.items():
                if (name := id_text(row.cells.get(column))) is not None:
                    names.append((kind, name))
        if len(names) == before:
            raise CorpusError(
                f"{path.name} excludes nothing: expected a column {', '.join(IDS)} with ids "
                "outside the train side"
            )
    return Exclusions(names)


# --- corpus


class Corpus:
    """The sentences of a corpus, document by document.

    Left out and counted in `counts`: excluded documents, documents without text or not in UTF-8,
    and copies of earlier documents.

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
        self.files: list[CorpusFile] = []
        for source in map(Path, sources):
            paths, in_folder = source_files(source), source.is_dir()
            self.files += [CorpusFile(path, in_folder) for path in paths]
            others = (
                sum(p.is_file() for p in source.rglob("*")) - len(paths)
                if in_folder
                else 0
            )
            if others:
                log.warning("%s: %d files of other kinds are not read", source, others)
        self.settings = settings or CorpusSettings()
        self.exclusions = exclusions or Exclusions()
        self.counts: Counter[str] = Counter()
        try:
            self._erase = (
                re.compile(self.settings.erase) if self.settings.erase else None
            )
        except re.error as error:
            raise UserError(f"erase must be a regular expression: {error}") from None
        for file in self.files:
            self.exclusions.check(file.columns(self.settings), source=file.path.name)

    def __iter__(self) -> Iterator[tuple[str, list[str]]]:
        """The side (`TRAIN` or `HELD_OUT`) and the sentences of each document.

        Raises:
            CorpusError: at the end, if a side has no documents.
        """
        self.counts = Counter()
        seen: set[bytes] = set()
        for document in (
            d for file in self.files for d in file.documents(self.settings)
        ):
            if document.fault:
                self.counts["unreadable lines"] += 1
                if self.counts["unreadable lines"] <= LISTED_PLACES:
                    log.warning("%s; this line is left out", document.fault)
                continue
            self.counts["documents"] += 1
            if reason := self._reason(document, seen):
                self.counts[f"documents {reason}"] += 1
                continue
            sentences = split_sentences(document.text)
            if self._erase:
                erased = (
                    self._erase.sub(" ", sentence).split() for sentence in sentences
                )
                sentences = [" ".join(words) for words in erased if words]
            if not sentences:
                self.counts["documents without text"] += 1
                continue
            side = self._side(document)
            self.counts[f"{side} documents"] += 1
            self.counts["sentences"] += len(sentences)
            yield side, sentences
        self._check()

    def _reason(self, document: Document, seen: set[bytes]) -> str | None:
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

    def _side(self, document: Document) -> str:
        known = (
            key for kind in IDS if (key := id_key(document.ids.get(kind))) is not None
        )
        digest = _digest(next(known, " ".join(document.text.split())), size=8)
        place = int.from_bytes(digest) / 2**64
        return HELD_OUT if place < self.settings.held_out else TRAIN

    def _check(self) -> None:
        listed = ", ".join(
            f"{count} {what}" for what, count in sorted(self.counts.items())
        )
        empty = [side for side in SIDES if not self.counts[f"{side} documents"]]
        if len(empty) == len(SIDES):
            msg = (
                f"the corpus has no document to read: {listed or 'its files are empty'}"
            )
            raise CorpusError(msg)
        if empty:
            raise CorpusError(
                f"no document is on the {empty[0]} side: {listed}; change held_out (now "
                f"{self.settings.held_out:g}), or split long text files with lines = 20 under "
                "[corpus]"
            )

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
            "names": [
                file.path.name for file in self.files
            ],  # in a folder, the ids of notes
            "columns": [file.columns(self.settings) for file in self.files],
            "exclusions": self.exclusions.facts(),
            "settings": self.settings.model_dump(),
        }


def _digest(text: str, *, size: int = 16) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=size).digest()
