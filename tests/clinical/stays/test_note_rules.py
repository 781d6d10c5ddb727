"""Which notes count, their order and their copies, as rules over Arrow columns."""

from datetime import datetime

import pyarrow as pa
import pytest

from clinical.stays.note_rules import ARROW_FACTS, copy_text, judge, positions

SUMMARY = "DISCHARGE SUMMARY"


def verdicts(*notes, early=False):
    facts = pa.RecordBatch.from_pylist(list(notes), schema=ARROW_FACTS)
    return judge(facts, early=early, summaries=[SUMMARY])


def statuses(*notes, early=False):
    return verdicts(*notes, early=early).field("status").to_pylist()


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({}, "used"),
        ({"category": None}, "missing_category"),
        ({"category": "NURSING"}, "other_category"),
        ({"is_error": True}, "marked_error"),
        ({"place": "unknown_stay", "is_error": True}, "unknown_stay"),
        ({"content": "empty"}, "empty"),
        ({"content": "empty", "is_error": True}, "marked_error"),
    ],
)
def test_at_discharge_summaries_count(facts, status):
    assert statuses({"category": SUMMARY, **facts}) == [status]


@pytest.mark.parametrize(
    ("charted_at", "is_date", "status"),
    [
        (datetime(2020, 1, 9, 11), False, "used"),
        (datetime(2020, 1, 9, 12), False, "after_return"),
        (datetime(2020, 1, 9), True, "after_return"),
        # Midnight is how some sources write a date.
        (datetime(2020, 1, 9), False, "after_return"),
        (datetime(2020, 1, 8), True, "used"),
        (None, None, "used"),
    ],
)
def test_nothing_counts_that_was_charted_after_the_return(
    charted_at, is_date, status
):
    note = {
        "category": SUMMARY,
        "charted_at": charted_at,
        "is_date": is_date,
        "next_start": datetime(2020, 1, 9, 12),
        "next_day": datetime(2020, 1, 9),
        "discharge_day": datetime(2020, 1, 8),
    }
    assert statuses(note) == [status]


def test_on_the_day_of_discharge_a_date_does_not_tell_before_from_after():
    note = {
        "category": SUMMARY,
        "charted_at": datetime(2020, 1, 8),
        "is_date": True,
        "next_start": datetime(2020, 1, 8, 12),
        "next_day": datetime(2020, 1, 8),
        "discharge_day": datetime(2020, 1, 8),
    }
    assert statuses(note) == ["used"]


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({"charted_at": datetime(2020, 1, 3)}, "used"),
        ({"charted_at": datetime(2020, 1, 3, 0, 1)}, "charted_later"),
        ({"charted_at": datetime(2020, 1, 2), "is_date": True}, "used"),
        (
            {"charted_at": datetime(2020, 1, 3), "is_date": True},
            "charted_later",
        ),
        # The end of that day is earlier where the clock is ahead.
        (
            {
                "charted_at": datetime(2020, 1, 3),
                "is_date": True,
                "clock_offset_us": 24 * 3600 * 10**6,
            },
            "used",
        ),
        ({"charted_on": datetime(2020, 1, 2)}, "used"),
        ({}, "missing_time"),
        ({"is_unreadable": True}, "unreadable_time"),
        ({"category": SUMMARY}, "other_category"),
        (
            {"charted_at": datetime(2020, 1, 1), "cutoff": None},
            "no_admission",
        ),
    ],
)
def test_early_notes_count_until_the_limit(facts, status):
    note = {
        "category": "NURSING",
        "cutoff": datetime(2020, 1, 3),
        **facts,
    }
    assert statuses(note, early=True) == [status]


def test_notes_are_read_by_time_then_addenda_then_numbers_then_ids():
    noon = datetime(2020, 1, 1, 12)
    in_order = [
        {"charted_at": datetime(1850, 1, 1, 12), "note_id": "99"},
        {"charted_at": noon, "note_id": "9"},
        {"charted_at": noon, "note_id": "a10"},
        {"charted_at": noon, "note_id": "7" * 40},
        {"charted_at": noon, "note_id": "A"},
        {"charted_at": noon, "note_id": "\u00fc"},
        {"charted_at": noon},
        {"charted_at": noon, "note_id": "1", "kind": "ADDENDUM"},
        {"charted_at": datetime(2020, 1, 1, 13), "note_id": "0"},
        {"note_id": "0"},
    ]
    summaries = [{"category": SUMMARY, **note} for note in in_order]
    charted_by = verdicts(*summaries).field("charted_by")
    kinds = pa.array([note.get("kind") for note in in_order], pa.string())
    note_ids = pa.array([note.get("note_id") for note in in_order])
    order = positions(charted_by, kinds, note_ids, addenda=["ADDENDUM"])
    assert order.to_pylist() == sorted(order.to_pylist())
    assert len(order.unique()) == len(order)


def test_copies_differ_in_line_ends_and_white_space_at_their_ends():
    same = ["a\nb", "a\r\nb\r\n", "a\nb \t", "a\nb\n\n"]
    assert len(set(copy_text(pa.array(same)).to_pylist())) == 1
    assert copy_text(pa.array([" a", "a b"])).to_pylist() == [" a", "a b"]
