"""How a table is stored: its endings, how to read it, and the error that names the fault."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from pathlib import Path

from domainbert.errors import UserError

FORMATS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".jsonl", ".jsonl.gz")
TEXT_FORMATS = (".txt", ".txt.gz")
DATABASES = ("postgresql://", "postgres://", "sqlite://")
_ADVICE = {
    ".xlsx": "save the sheet as CSV (UTF-8)",
    ".xls": "save the sheet as CSV (UTF-8)",
    ".json": "write one JSON object a line (.jsonl)",
    ".zip": "unpack it",
}


class TableError(UserError):
    """A table that cannot be read as asked; the message names the file, the fault and the fix."""


def table_format(path: str | Path, endings: tuple[str, ...] = FORMATS) -> str:
    """The ending of a table's file name, one of `endings`, else TableError."""
    name = Path(path).name.lower()
    for ending in endings:
        if name.endswith(ending):
            return ending
    advice = _ADVICE.get(Path(name).suffix)
    fix = f"; {advice}" if advice else ""
    msg = f"{Path(path).name}: expected a table that ends in {', '.join(endings)}{fix}"
    raise TableError(msg)


@dataclass(frozen=True)
class ReadOptions:
    """How to read a source, where its name does not say.

    Attributes:
        delimiter: of CSV files, one ASCII character or "tab"; by default a tab for .tsv, else a
            comma.
        encoding: of text files; UTF-8 by default, undecodable bytes become U+FFFD and a remark.
        lines: read each line of a .txt file as a text, instead of the file as one text.
        query: of a database source.
    """

    delimiter: str | None = None
    encoding: str | None = None
    lines: bool = False
    query: str | None = None

    def __post_init__(self) -> None:
        delimiter = "\t" if self.delimiter in ("tab", "\\t") else self.delimiter
        is_one = delimiter is None or (len(delimiter) == 1 and delimiter.isascii())
        if not is_one or delimiter in ('"', "\r", "\n", "\0"):
            msg = f"delimiter: expected one character such as ';', or tab, got {delimiter!r}"
            raise TableError(msg)
        try:
            encoding = codecs.lookup(self.encoding).name if self.encoding else None
            b"a".decode(encoding or "utf-8", "replace")  # base64 is a codec but no encoding
        except (LookupError, UnicodeError):
            msg = f"encoding: expected one such as cp1252 or utf-16, got {self.encoding!r}"
            raise TableError(msg) from None
        object.__setattr__(self, "delimiter", delimiter)
        # The default leaves out the mark that some programs put in front of UTF-8.
        object.__setattr__(self, "encoding", None if encoding == "utf-8" else encoding)


DEFAULTS = ReadOptions()
