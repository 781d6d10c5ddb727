"""Files -> documents, streamed: plain text, and tables with a column of text."""

from __future__ import annotations

import gzip
import logging
import re
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.errors import UserError
from domainbert.tables import FORMATS, iter_table, require_columns, table_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from domainbert.pretraining.settings import CorpusSettings

PLAIN = (".txt", ".txt.gz")
# The broadest first: a patient has stays, and a stay has notes.
IDS = ("patient_id", "stay_id", "note_id")
_WHOLE = re.compile(r"(\d+)\.0+\Z")
log = logging.getLogger(__name__)


class CorpusError(UserError):
    """A corpus that cannot be read as asked; the message says the fix."""


@dataclass(frozen=True)
class Document:
    """A text, and what is known of whose it is: kind of id -> id."""

    text: str = field(repr=False)
    ids: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class CorpusFile:
    """A file of a corpus, and the folder it was found in; None if it was named itself."""

    path: Path
    folder: Path | None = None

    def is_whole(self, settings: CorpusSettings) -> bool:
        """Whether this plain text file is one document."""
        return settings.documents == "file" or (
            settings.documents == "auto" and self.folder is not None
        )

    def kinds(self, settings: CorpusSettings) -> dict[str, str]:
        """The kinds of id that its documents have, each with its column in a table.

        Raises:
            TableError: a table without the column of text.
        """
        if self.path.name.lower().endswith(PLAIN):
            return {"note_id": "(file name)"} if self.is_whole(settings) else {}
        columns = table_columns(self.path)
        require_columns(columns, [settings.text], source=self.path.name)
        named = {kind: getattr(settings, kind) for kind in IDS}
        return {kind: column for kind, column in named.items() if column in columns}


def corpus_files(sources: Iterable[str | Path]) -> list[CorpusFile]:
    """The files of a corpus: those named, and those in named folders, at any depth, by name.

    Raises:
        CorpusError: nothing there, a file of another kind, or a folder without text.
    """
    files: list[CorpusFile] = []
    for source in map(Path, sources):
        if source.is_dir():
            files += _files_in(source)
        elif not source.is_file():
            msg = f"{source}: no such file or folder"
            raise CorpusError(msg)
        elif not _is_known(source):
            msg = f"{source.name} is no text that we know; {_endings()}"
            raise CorpusError(msg)
        else:
            files.append(CorpusFile(source))
    return files


def _files_in(folder: Path) -> list[CorpusFile]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    known = [CorpusFile(path, folder) for path in found if _is_known(path)]
    if not known:
        msg = f"{folder} has no text in it; {_endings()}"
        raise CorpusError(msg)
    if others := len(found) - len(known):
        log.warning("%s: %d files of other kinds are not read", folder, others)
    return known


def _is_known(path: Path) -> bool:
    return path.name.lower().endswith((*PLAIN, *FORMATS)) and not path.name.startswith(".")


def _endings() -> str:
    return f"legal endings are {', '.join((*PLAIN, *FORMATS))}"


def read_documents(file: CorpusFile, *, settings: CorpusSettings) -> Iterator[Document]:
    """The documents of a file, in order; a row without text gives an empty one.

    Bytes that are not UTF-8 are read as U+FFFD, one of which does not cost a document.

    Raises:
        CorpusError: a compressed file that is broken.
        TableError: a table that cannot be read.
    """
    if file.path.name.lower().endswith(PLAIN):
        whole = file.is_whole(settings)
        named = {"note_id": file.path.name.split(".")[0]} if whole else {}
        for text in _plain(file.path, whole=whole, lines=settings.lines):
            yield Document(text, named)
        return
    kinds = file.kinds(settings)
    columns = list(dict.fromkeys((settings.text, *kinds.values())))
    for frame in iter_table(file.path, columns=columns):
        by_kind = {kind: [id_text(value) for value in frame[c]] for kind, c in kinds.items()}
        for row, cell in enumerate(frame[settings.text]):
            ids = {kind: values[row] for kind, values in by_kind.items()}
            yield from (Document(text, ids) for text in texts_of(cell) or [""])


def _plain(path: Path, *, whole: bool, lines: int) -> Iterator[str]:
    document: list[str] = []
    try:
        with _open(path) as handle:
            for line in handle:
                is_blank = not line.strip()
                if document and ((is_blank and not whole) or len(document) == lines):
                    yield "".join(document)
                    document = []
                if whole or not is_blank:
                    document.append(line)
    except (OSError, EOFError, zlib.error) as error:
        msg = f"{path.name} cannot be read ({type(error).__name__}); copy or compress it again"
        raise CorpusError(msg) from None
    if document:
        yield "".join(document)


def _open(path: Path) -> Any:
    # utf-8-sig: the mark that some editors put in front is no word.
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="replace")
    return path.open(encoding="utf-8-sig", errors="replace")


def texts_of(cell: Any) -> list[str]:
    """The texts in a cell of a table: one, a list of them, or none."""
    if isinstance(cell, str):
        return [cell]
    return [text for text in cell if isinstance(text, str)] if hasattr(cell, "__len__") else []


def id_text(value: Any) -> str | None:
    """An id as a string; None where it is missing. A column with gaps holds 12 as 12.0."""
    text = "" if value is None else str(value)
    return None if text in ("", "nan", "<NA>") else _WHOLE.sub(r"\1", text)
