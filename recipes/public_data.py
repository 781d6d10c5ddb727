"""Readers of public data that several recipes use, and a hash that divides names into sides."""

from __future__ import annotations

import csv
import gzip
import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from domainbert.tables import TableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def side_number(name: str, count: int) -> int:
    """A number from 0 to `count` - 1 from a hash of the name."""
    digest = sha256(name.encode()).hexdigest()
    return int(digest, 16) % count


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a packed CSV file."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(lines)


def medquad_documents(path: Path) -> Iterator[dict[str, Any]]:
    """The documents of MedQuAD's JSON lines (.gz).

    Raises:
        TableError: no such file.
    """
    _check_exists(path, "MedQuAD as JSON lines")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def pubmed_sentences(path: Path) -> Iterator[str]:
    """The sentences of PubMed abstracts (.gz), one a line.

    Raises:
        TableError: no such file.
    """
    _check_exists(path, "the sentences of PubMed")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield line.strip()


def icd9_titles(path: Path) -> Iterator[tuple[str, str]]:
    """Code and long title of each ICD-9 diagnosis, without E and V codes.

    Those codes are circumstances, not conditions.

    Raises:
        TableError: no such file.
    """
    _check_exists(path, "the long titles of ICD-9")
    for line in path.read_text(encoding="latin-1").splitlines():
        code, _, title = line.partition(" ")
        if code[:1].isdigit():
            yield code, title.strip()


def _check_exists(path: Path, content: str) -> None:
    if not path.is_file():
        raise TableError(f"{path}: no such file; training needs {content}")
