"""Which notes a prediction may read, and in what order."""

import pytest

from .conftest import list_issues

SECOND = 1 / 86400


def test_summary_comes_with_its_addenda_in_time_order(hospital):
    stay = hospital.stay(0, 3)
    hospital.note(stay, "second addendum", day=6, DESCRIPTION="Addendum")
    hospital.note(stay, "addendum of the day", day=3, DESCRIPTION="Addendum")
    hospital.note(stay, "summary", day=3)
    hospital.note(stay, "nursing", category="Nursing/other", at=1)
    hospital.note(stay, "third addendum", day=6, DESCRIPTION="Addendum")
    row = hospital.rows()[stay]
    assert row["text"] == [
        "summary",
        "addendum of the day",
        "second addendum",
        "third addendum",
    ]


def test_notes_of_the_same_time_keep_the_order_of_their_numbers(hospital):
    stay = hospital.stay(0, 3)
    for number in (10, 9, 100):
        hospital.note(stay, f"note {number}", day=3, ROW_ID=str(number))
    assert hospital.rows()[stay]["text"] == ["note 9", "note 10", "note 100"]


def test_an_episode_has_the_notes_of_all_its_stays(hospital):
    first, last = hospital.stay(0, 3), hospital.stay(3, 6)
    hospital.note(last, "second summary", day=6)
    hospital.note(first, "first summary", day=3)
    rows = hospital.rows()
    assert rows[last]["text"] == ["first summary", "second summary"]
    assert rows[first]["text"] == []


@pytest.mark.parametrize(
    ("when", "used"),
    [
        pytest.param({"day": 8}, False, id="on the day of the return"),
        pytest.param({"day": 7}, True, id="the day before"),
        pytest.param({"at": 8.5}, False, id="at the hour of the return"),
        pytest.param({"at": 8.5 - SECOND}, True, id="a second before"),
        pytest.param(
            {"at": "2100-01-09 00:00:00"}, False, id="midnight is a date alone"
        ),
        pytest.param(
            {"at": "2100-01-08 00:00:00"},
            True,
            id="midnight of the day before",
        ),
        pytest.param({}, True, id="nobody knows when"),
    ],
)
def test_nothing_is_read_that_was_written_after_the_return(
    hospital, when, used
):
    stay = hospital.stay(0, 3)
    hospital.stay(8.5, 9, kind="ELECTIVE")
    hospital.note(stay, "summary", day=3)
    hospital.note(stay, "addendum", DESCRIPTION="Addendum", **when)
    cohort = hospital.build()
    row = cohort.to_frame().set_index("stay_id").loc[stay]
    assert row["text"] == ["summary", "addendum"][: 1 + used]
    problems = dict(
        zip(cohort.issues["problem"], cohort.issues["count"], strict=True)
    )
    late = problems.get("discharge note charted when the patient was back", 0)
    assert late == (0 if used else 1)


def test_same_day_return_does_not_cost_the_summary(hospital):
    stay = hospital.stay(0, 3.2)
    hospital.stay(3.6, 5)
    hospital.note(stay, "summary", day=3)
    assert hospital.rows()[stay]["text"] == ["summary"]


@pytest.mark.parametrize(
    ("when", "used"),
    [
        pytest.param({"at": 0.25 + 2}, True, id="at exactly the hour"),
        pytest.param(
            {"at": "2100-01-03 00:00:00"}, True, id="at midnight, with a clock"
        ),
        pytest.param({"at": 0.25 + 2 + SECOND}, False, id="a second later"),
        pytest.param({"at": -0.1}, True, id="in the emergency room"),
        pytest.param({"day": 1}, True, id="a date that is over by then"),
        pytest.param({"day": 2}, False, id="a date that is not"),
        pytest.param(
            {"day": 0, "at": 2.5},
            False,
            id="the time is more exact than the date",
        ),
        pytest.param(
            {"at": "2100-01-03"}, False, id="a time that is only a date"
        ),
        pytest.param(
            {"at": "2100-01-02"},
            True,
            id="a time that is only a date, over by then",
        ),
        pytest.param({}, False, id="nobody knows when"),
        pytest.param({"at": "yesterday"}, False, id="unreadable"),
        pytest.param(
            {"at": "yesterday", "day": 1},
            True,
            id="unreadable, but the date is not",
        ),
    ],
)
def test_early_notes(hospital, when, used):
    stay = hospital.stay(0.25, 6)
    hospital.note(stay, "on arrival", category="Nursing", at=0.3)
    hospital.note(stay, "this one", category="Physician ", **when)
    row = hospital.rows(notes="early", hours=48)[stay]
    assert sorted(row["text"]) == sorted(
        ["on arrival", "this one"][: 1 + used]
    )


def test_early_prediction_never_sees_a_discharge_summary(hospital):
    stay = hospital.stay(0, 6)
    hospital.note(stay, "summary", day=0, at=0.5)
    hospital.note(stay, "SUMMARY", category="DISCHARGE SUMMARY ", at=0.5)
    hospital.note(stay, "nursing", category="Nursing", at=0.5)
    assert hospital.rows(notes="early")[stay]["text"] == ["nursing"]


@pytest.mark.parametrize(
    ("notes", "used"), [("discharge", ["summary"]), ("early", ["nursing"])]
)
def test_a_note_that_does_not_say_what_it_is_is_never_used(
    hospital, notes, used
):
    stay = hospital.stay(0, 6)
    hospital.note(stay, "summary", day=6)
    hospital.note(stay, "nursing", category="Nursing", at=0.5)
    hospital.note(stay, "secret", category=" ", at=0.5)
    cohort = hospital.build(notes=notes)
    assert cohort.to_frame()["text"].tolist() == [used]
    (issue,) = list_issues(cohort).itertuples()
    assert (issue.id, issue.problem) == (
        "3",
        "note without a category, not used",
    )


@pytest.mark.parametrize(("hours", "texts"), [(24, 1), (48, 2), (72, 3)])
def test_hours_of_early_prediction(hospital, hours, texts):
    stay = hospital.stay(0, 6)
    for day in (0.5, 2, 3, 4):
        hospital.note(stay, f"day {day}", category="Nursing", at=day)
    assert (
        len(hospital.rows(notes="early", hours=hours)[stay]["text"]) == texts
    )


@pytest.mark.parametrize(
    ("days", "exclusion"),
    [(2 + SECOND, None), (2, "left_early"), (1, "left_early")],
)
def test_early_prediction_is_for_those_still_in_hospital(
    hospital, days, exclusion
):
    stay = hospital.stay(0, days)
    hospital.note(stay, "nursing", category="Nursing", at=0.5)
    assert (
        hospital.rows(notes="early", hours=48)[stay]["exclusion"] == exclusion
    )


def test_early_hours_of_an_episode_count_from_its_beginning(hospital):
    first, last = hospital.stay(0, 1), hospital.stay(1, 9)
    hospital.note(first, "first day", category="Nursing", at=0.5)
    hospital.note(last, "second day", category="Nursing", at=1.5)
    hospital.note(last, "third day", category="Nursing", at=2.5)
    assert hospital.rows(notes="early", hours=48)[last]["text"] == [
        "first day",
        "second day",
    ]
    assert (
        hospital.rows(notes="early", hours=72)[last]["text"][-1] == "third day"
    )


def test_stay_without_a_note_is_listed(hospital):
    with_note, without = hospital.stay(0, 3), hospital.stay(0, 3, patient="8")
    hospital.note(with_note, "summary", day=3)
    rows = hospital.rows()
    assert (rows[with_note]["exclusion"], rows[without]["exclusion"]) == (
        None,
        "no_text",
    )


def test_without_a_table_of_notes_there_are_labels_and_no_text(hospital):
    stay = hospital.stay(0, 3)
    cohort = hospital.build()
    assert any("labels but no text" in said for said in cohort.caveats)
    row = cohort.to_frame().set_index("stay_id").loc[stay]
    assert (row["text"], row["readmitted"]) == ([], 0)


def test_notes_that_cannot_be_used_are_listed_one_by_one(hospital):
    stay = hospital.stay(0, 3)
    hospital.note(stay, "summary", day=3)
    hospital.note("", "secret-1", day=3)
    hospital.note("999", "secret-2", day=3)
    hospital.note(stay, "secret-3", day=3, SUBJECT_ID="8")
    hospital.note(stay, "secret-4", day=3, ISERROR="1")
    hospital.note(stay, " \n\t", day=3)
    hospital.note(stay, "summary", day=3, ROW_ID="1")
    hospital.note(stay, "undated", day="someday")
    cohort = hospital.build()
    assert {
        row.id: row.problem for row in list_issues(cohort).itertuples()
    } == {
        "1": "copy of another note of the stay, not read again",
        "2": "note without a stay id",
        "3": "note of a stay that is not in the admissions",
        "4": "note whose patient is not the stay's",
        "5": "note marked as an error",
        "6": "note without text",
        "8": "chart time unreadable",
    }
    assert cohort.to_frame()["text"].tolist() == [["summary", "undated"]]
    assert sum(cohort.summary["notes_read"].values()) == 8


def test_stay_ids_written_as_decimals_are_whole_numbers(hospital):
    stay = hospital.stay(0, 3)
    hospital.note(f"{stay}.0", "summary", day=3)
    cohort = hospital.build()
    assert cohort.to_frame()["text"].tolist() == [["summary"]]
    (line,) = (
        line for line in cohort.caveats if line.startswith("Whole numbers")
    )
    assert line.endswith("NOTEEVENTS.HADM_ID (1).")


def test_text_arrives_as_it_is(hospital):
    stay = hospital.stay(0, 3)
    text = 'Name: [**Name**]\r\n\n "quoted", comma; ünïcødé \t 漢字\n  '
    hospital.note(stay, text, day=3)
    assert hospital.rows()[stay]["text"] == [text]
