"""How a source is read: formats, options, errors, and the types that readers share."""

import codecs
import csv
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from domainbert.errors import UserError
from domainbert.tables.csv_dialects import ESCAPES

FORMATS = (
    ".csv",
    ".csv.gz",
    ".tsv",
    ".tsv.gz",
    ".parquet",
    ".jsonl",
    ".jsonl.gz",
)
DATABASES = ("postgresql://", "postgres://", "sqlite://")
_ADVICE = {
    ".xlsx": "; save the sheet as CSV (UTF-8)",
    ".xls": "; save the sheet as CSV (UTF-8)",
    ".json": "; write one JSON object per line (.jsonl)",
    ".zip": "; unpack it",
}

READ_ERRORS = (OSError, EOFError, zlib.error, csv.Error)  # of a damaged file
# A cell: a text, a list or a structure, or None if it is empty.
Cell = Any
# The cells of a row by column, its position, its fault and a remark on it.
Cells = tuple[Mapping[str, Cell], str, str, str]
FileFaults = list[tuple[str, int, str]]  # file, line from 1, problem
Wanted = Sequence[str] | None  # columns to read; None for all


class TableError(UserError):
    """A table that cannot be read; the message names the file, the fault and the fix."""


@contextmanager
def read_errors(
    path: Path,
    how: str = "to its end",
    exceptions: type[Exception] = OSError,
) -> Iterator[None]:
    """Turn an error of a damaged file, or one of these exceptions, into a `TableError`.

    The library's own message is left out, because it may quote a note.
    """
    try:
        yield
    except (exceptions, *READ_ERRORS) as error:
        raise TableError(
            f"{path.name} cannot be read {how} ({type(error).__name__})"
        ) from None


def is_text_file(path: str | Path) -> bool:
    """Whether a file is plain text, by the ending of its name."""
    return str(path).lower().endswith((".txt", ".txt.gz"))


def table_format(path: str | Path, endings: tuple[str, ...] = FORMATS) -> str:
    """The ending of a table's file name.

    Raises:
        TableError: it is none of `endings`.
    """
    path = Path(path)
    ending = next(filter(path.name.lower().endswith, endings), None)
    if ending is not None:
        return ending
    advice = _ADVICE.get(path.suffix.lower(), "")
    raise TableError(
        f"{path.name}: expected a table that ends in {', '.join(endings)}{advice}"
    )


def check_parts(folder: Path) -> None:
    """Check that the files in a folder are a whole table.

    Raises:
        TableError: a job that wrote it was stopped, or a part may hold deleted rows.
    """
    if any((folder / name).exists() for name in ("_delta_log", ".hoodie")):
        raise TableError(
            f"{folder.name} is a table of Delta Lake or Hudi, whose folder keeps deleted rows: "
            "export it as Parquet or CSV"
        )
    unfinished = (folder / "_temporary").exists()
    if unfinished and not (folder / "_SUCCESS").exists():
        raise TableError(
            f"{folder.name} was not written to its end (it holds _temporary and no _SUCCESS): "
            "write it again"
        )


def is_hidden(path: Path) -> bool:
    """Whether a part of a relative path starts with a dot, or a folder in it with a "_".

    Spark keeps unfinished parts in a folder `_temporary`.
    """
    return any(part.startswith(".") for part in path.parts) or any(
        part.startswith("_") for part in path.parts[:-1]
    )


@dataclass(frozen=True)
class ReadOptions:
    """How to read a source, beyond what its name tells.

    Attributes:
        delimiter: between the cells of CSV files, one ASCII character or "tab"; by default a tab
            for .tsv, else a comma.
        encoding: the encoding of text files; by default UTF-8. Undecodable bytes become U+FFFD,
            with a remark.
        lines: read each line of a .txt file as a text, instead of the file as one text.
        query: the SELECT statement for a database.
        escape: "backslash" if a backslash in CSV files escapes the character after it, as Spark
            and MySQL write it, or "none"; by default found out for each file.
    """

    delimiter: str | None = None
    encoding: str | None = None
    lines: bool = False
    query: str | None = None
    escape: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "delimiter", _checked_delimiter(self.delimiter)
        )
        object.__setattr__(self, "encoding", _checked_encoding(self.encoding))
        if self.escape not in (None, *ESCAPES):
            raise TableError(
                f"escape: expected {' or '.join(ESCAPES)}, got {self.escape!r}"
            )


def _checked_delimiter(delimiter: str | None) -> str | None:
    """The delimiter as one character; a tab may be spelled."""
    if delimiter is None:
        return None
    if delimiter in ("tab", "\\t"):
        return "\t"
    if (
        len(delimiter) != 1
        or not delimiter.isascii()
        or delimiter in '"\r\n\0'
    ):
        raise TableError(
            f"delimiter: expected one character such as ';', or tab, got {delimiter!r}"
        )
    return delimiter


def _checked_encoding(encoding: str | None) -> str | None:
    """The codec's name; None for UTF-8, whose reader also leaves out a byte-order mark."""
    try:
        name = codecs.lookup(encoding or "utf-8").name
        b"a".decode(name, "replace")  # base64 is a codec and not an encoding
    except (LookupError, UnicodeError):
        raise TableError(
            f"encoding: expected one such as cp1252 or utf-16, got {encoding!r}"
        ) from None
    # Programs that say Latin-1 mean windows-1252, as browsers know.
    return {"utf-8": None, "iso8859-1": "cp1252"}.get(name, name)


DEFAULTS = ReadOptions()


def repeated(names: Sequence[str]) -> list[str]:
    """The names that occur more than once, sorted."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def shortened(texts: Sequence[str], limit: int, separator: str = ", ") -> str:
    """The first texts of a list, and how many more there are."""
    text = separator.join(texts[:limit])
    n_more = len(texts) - limit
    if n_more > 0:
        text += f"{separator}and {n_more} more"
    return text
