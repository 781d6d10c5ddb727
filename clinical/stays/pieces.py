"""Notes whose text is in several rows: the lines of one note id, and one id with other texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from domainbert.tables import Column, Row, id_key

LINE_NAMES = ("line", "note_line", "line_num", "line_number", "line_no")
LINE = Column("line", also=LINE_NAMES[1:])
"""The number of a piece within its note, as Epic writes it."""
CUT_FROM = 0.8
"""From this share of inner pieces as long as the longest on, texts were cut at that length."""


def separator(lengths: Sequence[Sequence[int]]) -> str:
    """What stood between pieces of notes: nothing if they were cut at a length, or a line break.

    Args:
        lengths: of the pieces of each note, in order.
    """
    longest = max((max(pieces) for pieces in lengths if pieces), default=0)
    inner = [length for pieces in lengths for length in pieces[:-1]]
    # A space at a cut may have been lost.
    n_cut = sum(length >= longest - 1 for length in inner)
    if n_cut >= CUT_FROM * len(inner):
        return ""
    return "\n"


def join_pieces(rows: Sequence[Row]) -> list[Row] | str:
    """Rows of a stay with a `line` as notes, each at the position of its first row.

    Returns:
        The notes, or why they cannot be put together.
    """
    by_note: dict[str, list[tuple[float, Row]]] = {}
    for row in rows:
        note = id_key(row.cells.get("note_id"))
        if note is None:
            return "rows with a line and no note_id cannot be put together"
        try:
            number = float(str(row.cells.get("line")))
        except ValueError:
            return "a line is not a number"
        by_note.setdefault(note, []).append((number, row))
    pieces = []
    for numbered in by_note.values():
        numbered.sort(key=lambda piece: piece[0])
        if len({number for number, _ in numbered}) < len(numbered):
            return "a note has the same line twice"
        pieces.append(
            [str(row.cells.get("text") or "") for _, row in numbered]
        )
    between = separator([list(map(len, texts)) for texts in pieces])
    return [
        replace(
            numbered[0][1],
            cells={**numbered[0][1].cells, "text": between.join(texts)},
        )
        for numbered, texts in zip(by_note.values(), pieces, strict=True)
    ]


def contradicting_ids(rows: Sequence[Row]) -> int:
    """How many rows share their note id with a row of another text."""
    texts: dict[str, set[str]] = {}
    for row in rows:
        note = id_key(row.cells.get("note_id"))
        if note is not None:
            texts.setdefault(note, set()).add(str(row.cells.get("text")))
    contradicting = {note for note, words in texts.items() if len(words) > 1}
    return sum(
        id_key(row.cells.get("note_id")) in contradicting for row in rows
    )
