"""Text that looks like an identifier: its kind and where it is, never the text itself."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from domainbert.files import read_toml
from domainbert.tables import TEXT, iter_rows, match_columns, table_columns
from domainbert.tables.columns import KEYWORD

if TYPE_CHECKING:
    import pandas as pd

PLACEHOLDER = "placeholder"
COLUMNS = ["row", "place", "note", "kind", "start", "end"]
IDENTIFIERS = read_toml(__file__, "identifiers.toml")
"""The pattern of each kind of identifier."""
_PATTERNS = [f"(?P<{name}>{pattern})" for name, pattern in IDENTIFIERS.items()]
_ANY_IDENTIFIER = re.compile("|".join(_PATTERNS), re.VERBOSE)
_PLACEHOLDER = re.compile(IDENTIFIERS[PLACEHOLDER], re.VERBOSE)


def count_placeholders(text: str) -> int:
    """How often de-identification left a mark in a text: [**2151-7-16**], ___ or <DATE>."""
    return len(_PLACEHOLDER.findall(text))


def find_identifiers(
    source: str, *, text: str | None = None
) -> tuple[pd.DataFrame, Counter[str]]:
    """Where text in a table looks like an identifier, and how often.

    Args:
        source: a file, a folder or a pattern; see `domainbert.tables.iter_rows`.
        text: the column with the text, if it has another name. A row may have a list of notes.

    Returns:
        The places, placeholders of de-identification left out, with `COLUMNS`: the number of the
        row (from 0), its place ("notes.csv line 17"), the number of the note in the row (from 0),
        the kind, and the first character and the one after the last, counted in the note. And the
        counts of each of `IDENTIFIERS`, of rows with it ("date rows"), of "rows", and of those that
        are "unreadable" or "without text".

    Raises:
        TableError: no such source, or no such column.
    """
    matches = match_columns(
        table_columns(source),
        (TEXT,),
        named={TEXT.name: text or ""},
        argument=KEYWORD,
        source=source,
    )
    column = matches[TEXT.name]
    counts: Counter[str] = Counter()
    places = []
    for row in iter_rows(source, columns=[column]):
        cell = row.cells.get(column)
        notes = cell if isinstance(cell, list) else [cell]
        places += [
            (row.number, row.place, number, match.lastgroup, *match.span())
            for number, note in enumerate(notes)
            if isinstance(note, str)
            for match in _ANY_IDENTIFIER.finditer(note)
        ]
        counts["rows"] += 1
        counts["unreadable"] += bool(row.fault)
        counts["without text"] += not (row.fault or cell)
    import pandas as pd

    frame = pd.DataFrame(places, columns=COLUMNS)
    counts.update(frame["kind"])
    counts.update(frame.drop_duplicates(["row", "kind"])["kind"] + " rows")
    return frame[frame["kind"] != PLACEHOLDER], counts
