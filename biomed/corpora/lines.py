"""The lines of corpus files, and what happens to those that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from biomed.corpora.documents import CorpusError


def decoded(path: Path, encoding: str = "utf-8-sig") -> str:
    """The text of a UTF-8 file; by default without the byte order mark."""
    try:
        return path.read_bytes().decode(encoding)
    except UnicodeDecodeError as error:
        msg = f"{path.name} is not UTF-8 (byte {error.start}); convert it first"
        raise CorpusError(msg) from None


def lines_of(path: Path) -> list[str]:
    """The lines, split at line ends only (`splitlines` splits at other characters too)."""
    return re.split("\r\n|\r|\n", decoded(path))


def refuse_if_most(faults: Sequence[str], *, read: int, what: str) -> None:
    """Raise a `CorpusError` if more items cannot be read than can.

    A few faults are slips, which are listed and left out; many mean another format.
    """
    if len(faults) <= read:
        return
    count = f"{len(faults)} of {len(faults) + read} {what} cannot be read"
    raise CorpusError(f"{faults[0]}; {count}")
