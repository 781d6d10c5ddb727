import hypothesis.strategies as st
import pandas as pd
import pytest
from hypothesis import given

import clinical
from clinical.similar.copied import copied_passages
from domainbert.errors import UserError

HISTORY = (
    "The patient is a 67 year old man with heart failure and chronic kidney disease, stage three."
)


def test_a_copied_passage_has_its_place_in_both_notes():
    first = f"Admitted today. {HISTORY} Started furosemide."
    second = f"Day two, feels better.\n\n{HISTORY.replace(' and ', chr(10) + 'and ')} Walked."
    (passage,) = copied_passages([first, "Nothing of it.", second])
    assert (passage.note, passage.earlier_note, passage.words) == (2, 0, 17)
    later = second[passage.start : passage.end]
    earlier = first[passage.earlier_start : passage.earlier_end]
    assert earlier == HISTORY
    assert later.split() == earlier.split()
    assert later != earlier  # a line was broken elsewhere


def test_the_latest_earlier_note_is_the_source_and_short_runs_are_not_found():
    notes = [HISTORY, f"Again: {HISTORY}", f"And again: {HISTORY}", " ".join(HISTORY.split()[:11])]
    found = copied_passages(notes)
    assert [(p.note, p.earlier_note) for p in found] == [(1, 0), (2, 1)]
    assert len(copied_passages(notes, words=11)) == 3


def test_a_shorter_copy_between_does_not_shorten_a_passage():
    words = HISTORY.split()
    found = copied_passages([HISTORY, " ".join(words[:12]), HISTORY])
    assert [(p.note, p.earlier_note, p.words) for p in found] == [(1, 0, 12), (2, 0, 17)]


@given(
    notes=st.lists(st.text(alphabet="ab \n", max_size=40), max_size=5),
    words=st.integers(min_value=1, max_value=4),
)
def test_every_copied_run_is_covered_and_every_passage_is_a_copy(notes, words):
    found = copied_passages(notes, words=words)
    for p in found:
        later = notes[p.note][p.start : p.end].split()
        assert later == notes[p.earlier_note][p.earlier_start : p.earlier_end].split()
        assert p.earlier_note < p.note
        assert len(later) == p.words >= words
    runs = set()
    for number, note in enumerate(notes):
        own = note.split()
        places = [tuple(own[i : i + words]) for i in range(len(own) - words + 1)]
        has_copy = any(run in runs for run in places)
        assert has_copy == any(p.note == number for p in found)
        spans = [(p.start, p.end) for p in found if p.note == number]
        assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))
        runs |= set(places)


def test_a_table_gives_a_row_per_passage_and_every_stay_a_status():
    notes = pd.DataFrame(
        {
            "subject_id": [1, 1, 2, 3, 4, 4],
            "hadm_id": [10, 10, 20, 30, 40, 40],
            "row_id": ["b", "a", "c", "d", "e", "e"],
            "charttime": ["2020-01-02", "2020-01-01", None, None, None, None],
            "text": [f"Later. {HISTORY}", f"{HISTORY} Early.", HISTORY, None, HISTORY, HISTORY],
        }
    )
    found = clinical.copied_text(notes)
    assert list(found.columns[:5]) == ["subject_id", "hadm_id", "note", "start", "end"]
    assert list(found["hadm_id"]) == ["10", "20", "30", "40"]
    assert list(found["status"]) == ["ok", "ok", "empty", "ok"]
    first = found.iloc[0]
    assert (first["note"], first["earlier_note"]) == ("b", "a")  # in time order
    assert notes["text"][0][first["start"] : first["end"]] == HISTORY
    assert found["reason"][1] == "no passage of 12 words is in two of 1 notes"
    # A note that came twice in the table is not a copy of itself.
    assert "1 rows with a repeated note_id left out" in found["reason"][3]
    assert found["start"].isna().tolist() == [False, True, True, True]


def test_a_list_of_notes_in_one_row():
    found = clinical.copied_text(
        pd.DataFrame({"stay_id": ["1"], "text": [[HISTORY, None, HISTORY]]})
    )
    assert found[["note", "earlier_note"]].to_numpy().tolist() == [["3", "1"]]


def test_bad_input_is_one_line():
    with pytest.raises(UserError, match="words must be at least 1, got 0"):
        clinical.copied_text(pd.DataFrame({"text": ["a"]}), words=0)
    with pytest.raises(UserError, match="no column 'text'"):
        clinical.copied_text(pd.DataFrame({"stay_id": ["1"]}))
    bad = clinical.copied_text(pd.DataFrame({"stay_id": ["1"], "text": [[HISTORY, 3]]}))
    assert bad["status"][0] == "error"
    assert bad["reason"][0] == "note 1 is int, not text"


def test_time_grows_linearly_with_text_that_repeats_itself():
    """Every run of a note of one word is in the index, at every place."""
    assert len(copied_passages(["a " * 30_000] * 3)) == 2
