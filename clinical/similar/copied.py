"""Copied-forward text: long passages that two notes of one stay share."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from clinical.risk.stays import note_texts
from clinical.risk.task import read_notes
from domainbert.errors import UserError
from domainbert.scoring import Fault, Task, score_frame
from domainbert.tables import NOTE, PATIENT, STAY, TEXT, TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pandas as pd
    import pyarrow as pa

    from domainbert.tables import Row

WORDS = 12
Place = tuple[int, int]  # number of a note, and of a word in it
_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class CopiedPassage:
    """Characters `start` to `end` of a note, which an earlier note has from `earlier_start` on.

    Attributes:
        note: number of the note, from 0.
        earlier_note: number of the earlier one.
        words: of the passage.
    """

    note: int
    start: int
    end: int
    earlier_note: int
    earlier_start: int
    earlier_end: int
    words: int


def copied_passages(notes: Sequence[str], *, words: int = WORDS) -> list[CopiedPassage]:
    """The passages of each note that an earlier note has word for word.

    Line breaks and spaces may differ. Each run of `words` words is looked up by its hash in the
    first and the latest note that have it, and the longer match is taken: time and memory grow
    linearly with the text. No two passages of a note overlap. Templates and repeated headings
    count as copies too.

    Args:
        notes: of one stay, in time order.
        words: of a passage at least.

    Returns:
        In the order of the notes and of the text.

    Raises:
        UserError: words < 1.
    """
    if words < 1:
        msg = f"words must be at least 1, got {words}"
        raise UserError(msg)
    numbers: dict[str, int] = {}
    places = [[match.span() for match in _WORD.finditer(note)] for note in notes]
    read = [
        [numbers.setdefault(note[start:end], len(numbers)) for start, end in spans]
        for note, spans in zip(notes, places, strict=True)
    ]
    # Hash of a run -> the note and word where it starts, in the first and the latest note.
    seen: dict[int, tuple[Place, Place]] = {}
    found = []
    for note, own in enumerate(read):
        keys = [hash(tuple(own[word : word + words])) for word in range(len(own) - words + 1)]
        for first, last, earlier, other in _matches(keys, read, note, seen, words):
            found.append(
                CopiedPassage(
                    note,
                    places[note][first][0],
                    places[note][last - 1][1],
                    earlier,
                    places[earlier][other][0],
                    places[earlier][other + last - first - 1][1],
                    last - first,
                )
            )
        # Backwards, so that of equal runs in a note the first is kept.
        for word in range(len(keys) - 1, -1, -1):
            place = (note, word)
            oldest, _ = seen.get(keys[word], (place, place))
            seen[keys[word]] = (place if oldest[0] == note else oldest, place)
    return found


def _matches(
    keys: Sequence[int],
    read: Sequence[list[int]],
    note: int,
    seen: Mapping[int, tuple[Place, Place]],
    words: int,
) -> Iterator[tuple[int, int, int, int]]:
    """First and last word of each match in a note, the earlier note, and its first word there."""
    own, first = read[note], 0
    while first < len(keys):
        lengths = {
            (earlier, other): _shared(own, first, read[earlier], other)
            for earlier, other in reversed(seen.get(keys[first], ()))
        }
        length = max(lengths.values(), default=0)
        if length >= words:  # else two runs with one hash
            yield first, first + length, *max(lengths, key=lengths.__getitem__)
            first += length
        else:
            first += 1


def _shared(own: Sequence[int], first: int, theirs: Sequence[int], other: int) -> int:
    """How many words from `first` and `other` on are the same."""
    most, length = min(len(own) - first, len(theirs) - other), 0
    while length < most and own[first + length] == theirs[other + length]:
        length += 1
    return length


def copied_text(
    notes: pd.DataFrame, *, words: int = WORDS, named: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Text that was copied forward between the notes of each stay.

    Args:
        notes: a row per note, with `stay_id, text` and where known `patient_id, note_id,
            chart_time`; or a row per stay whose `text` is a list of notes in time order.
        words: of a passage at least.
        named: our column -> the table's, where its name is not recognised.

    Returns:
        A row per passage: the stay's ids, `note, start, end` (the later note's id, or its number
        in time order from 1, and the characters), `earlier_note, earlier_start, earlier_end`,
        `words, status, reason`. A stay without such a passage has one row that says so.

    Raises:
        UserError: words < 1, or a column that is needed is not there.
    """
    return score_frame(CopiedTextTask(words=words), notes, named=named)


@dataclass(frozen=True)
class _Notes:
    texts: list[str] = field(repr=False)
    names: list[str]
    remarks: list[str]


class CopiedTextTask(Task):
    """Finds copied-forward text: the rows with one `stay_id` are one stay."""

    name: ClassVar[str] = "copied text"
    columns = (PATIENT, STAY, NOTE, TIME, TEXT)
    group = STAY.name

    def __init__(self, *, words: int = WORDS) -> None:
        copied_passages([], words=words)  # refuses a wrong number now, not once per stay
        self._words = words

    @property
    def output(self) -> pa.Schema:
        """The output columns."""
        import pyarrow as pa

        text, number = pa.string(), pa.int64()
        own = [("note", text), ("start", number), ("end", number)]
        earlier = [(f"earlier_{name}", kind) for name, kind in own]
        return pa.schema([*own, *earlier, ("words", number)])

    def read(self, rows: Sequence[Row]) -> _Notes | Fault:
        """The notes of one stay that have text."""
        found = read_notes(rows)
        if isinstance(found, Fault):
            return found
        notes, _missing, fault = note_texts(found.notes)
        if fault:
            return Fault(fault)
        if not any(text.strip() for _, text in notes):
            return Fault("no note of this stay has any text", "empty")
        labels = [note_id for note_id, _ in found.labels]
        ids = dict(enumerate(labels)) if len(notes) <= len(labels) else {}
        names = [ids.get(number) or str(number + 1) for number, _ in notes]
        return _Notes([text for _, text in notes], names, found.remarks)

    def run(self, items: Iterable[_Notes]) -> Iterator[list[CopiedPassage]]:
        """The passages of each stay."""
        return (copied_passages(stay.texts, words=self._words) for stay in items)

    def rows(self, item: _Notes, result: list[CopiedPassage]) -> list[dict[str, Any]]:
        """A row per passage, or one row without."""
        remarks = item.remarks
        if not result:
            nothing = f"no passage of {self._words} words is in two of {len(item.texts)} notes"
            return [{"reason": "; ".join([nothing, *remarks])}]
        return [
            {
                "note": item.names[p.note],
                "start": p.start,
                "end": p.end,
                "earlier_note": item.names[p.earlier_note],
                "earlier_start": p.earlier_start,
                "earlier_end": p.earlier_end,
                "words": p.words,
                "reason": "; ".join(remarks),
            }
            for p in result
        ]

    def facts(self) -> dict[str, Any]:
        """The shortest passage."""
        return {"words": self._words}
