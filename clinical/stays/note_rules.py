"""Which notes of a stay count, in which order they are read, and which of them are copies.

This is the only place that decides it. The functions take Arrow columns: the SQL steps of a cohort
call them for thousands of notes at a time (`clinical/cohort/sql/notes.sql`), and scoring calls them
for the notes of one stay (`NoteChoice.choose`).

Prediction at discharge: discharge summaries and their addenda, whenever charted, but nothing
charted once the patient was back: it may describe the return. Early prediction: every other note
charted at or before admission + hours. A note with a date and no time counts as charted at the end
of that day. A note without a category may be a summary, and is never used.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

FACTS = {
    "place": "VARCHAR",  # why it is no note of a stay: no_stay_id, unknown_stay, other_patient
    "is_error": "BOOLEAN",
    "content": "VARCHAR",  # why it cannot be used: unreadable_text, empty, stay_excluded
    "category": "VARCHAR",  # upper case
    "kind": "VARCHAR",  # upper case
    "note_id": "VARCHAR",
    "charted_at": "TIMESTAMP",  # in UTC, as all times
    "is_date": "BOOLEAN",  # charted_at is a date without a time
    "charted_on": "TIMESTAMP",  # a date in a column of its own
    "is_unreadable": "BOOLEAN",  # a time that cannot be read
    "cutoff": "TIMESTAMP",  # until when early notes count
    "clock_offset_us": "BIGINT",  # how far the clock of the stay is ahead of UTC
    "next_start": "TIMESTAMP",  # when the patient was back, and on which day
    "next_day": "TIMESTAMP",
    "discharge_day": "TIMESTAMP",
}
"""What is known of each note, with types of DuckDB; what a table does not know is missing."""
FACTS_TYPE = f"STRUCT({', '.join(map(' '.join, FACTS.items()))})"
"""The type of the facts of a note in DuckDB."""
VERDICT_TYPE = "STRUCT(status VARCHAR, charted_by TIMESTAMP)"
"""The type of `judge` in DuckDB."""
_ARROW_TYPES = {
    "VARCHAR": pa.string(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP": pa.timestamp("us"),
    "BIGINT": pa.int64(),
}
ARROW_FACTS = pa.schema(
    {name: _ARROW_TYPES[sql_type] for name, sql_type in FACTS.items()}
)
_DAY = pa.scalar(timedelta(days=1), pa.duration("us"))
# Makes microseconds since 1970 positive, from the year 1 on.
_ALL_POSITIVE = 10**17
_LAST = "\U0010ffff"  # sorts after every id


def judge(
    notes: pa.RecordBatch | pa.StructArray | pa.ChunkedArray,
    *,
    early: bool,
    summaries: Sequence[str],
) -> pa.StructArray:
    """Whether each note counts.

    Args:
        notes: the columns `FACTS`, a row for each note.
        early: whether to predict from early notes, or at discharge.
        summaries: categories of discharge summaries, upper case.

    Returns:
        `status`, "used" or why not; `charted_by`, the time at which a note counts as charted, of
        the notes that no other rule leaves out.
    """
    if not isinstance(notes, pa.RecordBatch):
        notes = pa.RecordBatch.from_struct_array(_whole(notes))
    is_summary = pc.is_in(
        notes["category"], value_set=pa.array(summaries, pa.string())
    )
    status = _first_reason(
        notes["place"],
        _where(notes["is_error"], "marked_error"),
        notes["content"],
        _where(pc.is_null(notes["category"]), "missing_category"),
        _where(pc.equal(is_summary, early), "other_category"),
    )
    # Of most tables few notes are left, and rules of times are slow.
    is_left = pc.is_null(status)
    time_status, charted_by = _judge_times(notes.filter(is_left), early=early)
    no_times = pa.nulls(len(notes), charted_by.type)
    return pa.StructArray.from_arrays(
        [
            pc.replace_with_mask(status, is_left, time_status),
            pc.replace_with_mask(no_times, is_left, charted_by),
        ],
        names=["status", "charted_by"],
    )


def _judge_times(
    notes: pa.RecordBatch, *, early: bool
) -> tuple[pa.Array, pa.Array]:
    """Whether each note counts by its time, and the time at which it counts as charted."""
    is_day = notes["is_date"]
    midnight = pc.floor_temporal(notes["charted_at"], unit="day")
    if not early:
        # MIMIC-IV writes the day of a summary as a time: midnight.
        is_day = pc.or_kleene(is_day, pc.equal(notes["charted_at"], midnight))
    no_time = pa.scalar(None, pa.timestamp("us"))
    chart_time = pc.if_else(
        pc.fill_null(is_day, fill_value=False), no_time, notes["charted_at"]
    )
    chart_day = pc.coalesce(
        midnight, pc.floor_temporal(notes["charted_on"], unit="day")
    )
    offset = pc.cast(
        pc.fill_null(notes["clock_offset_us"], 0), pa.duration("us")
    )
    end_of_day = pc.subtract(pc.add(chart_day, _DAY), offset)
    charted_by = pc.coalesce(chart_time, end_of_day)
    if early:
        reason = _first_reason(*_early_reasons(notes, charted_by))
        return pc.fill_null(reason, "used"), charted_by
    # On the day of discharge the date cannot separate before from after.
    is_later_day = pc.and_kleene(
        pc.greater_equal(chart_day, notes["next_day"]),
        pc.greater(chart_day, notes["discharge_day"]),
    )
    is_after_return = pc.if_else(
        pc.is_valid(chart_time),
        pc.greater_equal(chart_time, notes["next_start"]),
        is_later_day,
    )
    reason = _where(is_after_return, "after_return")
    return pc.fill_null(reason, "used"), charted_by


def _early_reasons(
    notes: pa.RecordBatch, charted_by: pa.Array
) -> list[pa.Array]:
    """Why a note was not there yet when the risk is predicted, null where it was."""
    is_untimed = pc.is_null(charted_by)
    is_unreadable = pc.and_kleene(is_untimed, notes["is_unreadable"])
    return [
        _where(is_unreadable, "unreadable_time"),
        _where(is_untimed, "missing_time"),
        # Without an admission it may have been written later.
        _where(pc.is_null(notes["cutoff"]), "no_admission"),
        _where(pc.greater(charted_by, notes["cutoff"]), "charted_later"),
    ]


def _where(condition: pa.Array, reason: str) -> pa.Array:
    """The reason where the condition holds, else null."""
    no_reason = pa.nulls(len(condition), pa.string())
    if not condition.true_count:
        return no_reason
    is_so = pc.fill_null(condition, fill_value=False)
    return pc.if_else(is_so, reason, no_reason)


def _first_reason(*reasons: pa.Array) -> pa.Array:
    """The first reason of each note, null where there is none."""
    no_reason, *_ = reasons
    # Most reasons apply to no note of a batch.
    held = [reason for reason in reasons if reason.null_count < len(reason)]
    if not held:
        return no_reason
    return pc.coalesce(*held)


def positions(
    charted_by: pa.Array | pa.ChunkedArray,
    categories: pa.Array | pa.ChunkedArray,
    note_ids: pa.Array | pa.ChunkedArray,
    *,
    addenda: Sequence[str],
) -> pa.Array:
    """Texts that sort notes by time, a summary before its addenda, then by number and id.

    The number at the end of an id orders notes of the same time: 7, "10000032-DS-7". It may have
    more digits than an integer takes.

    Args:
        charted_by: the time at which each note counts as charted, see `judge`.
        categories: of each note, upper case.
        note_ids: of each note.
        addenda: kinds of notes that are addenda, upper case.
    """
    is_addendum = pc.is_in(
        categories, value_set=pa.array(addenda, pa.string())
    )
    microseconds = pc.add(pc.cast(charted_by, pa.int64()), _ALL_POSITIVE)
    time = pc.utf8_lpad(pc.cast(microseconds, pa.string()), 19, "0")
    ending = pc.extract_regex(note_ids, r"(?P<digits>[0-9]+)$")
    digits = pc.utf8_ltrim(pc.struct_field(ending, "digits"), "0")
    length = pc.cast(pc.utf8_length(digits), pa.string())
    number = pc.binary_join_element_wise(
        pc.utf8_lpad(length, 9, "0"), digits, ""
    )
    return pc.binary_join_element_wise(
        pc.fill_null(time, _LAST),
        pc.if_else(is_addendum, "1", "0"),
        pc.fill_null(number, _LAST),
        pc.fill_null(note_ids, _LAST),
        "",
    )


def copy_text(texts: pa.Array) -> pa.Array:
    """Texts as they are compared: copies of a note have the same.

    Copies may differ in line ends, and in white space at their ends. A copy adds no information,
    but windows that the rule would count. The first in order is read.
    """
    unix_texts = pc.replace_substring(_whole(texts), "\r", "")
    return pc.utf8_rtrim(unix_texts, " \t\n\f")


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks()
    return column
