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


# A note, and what is told of it; `category` is of its own where another is not given.
MARKUP = "note in RTF or HTML, read with its markup as words"
REMARKS = {
    "copy with other line ends": (
        {"text": "one\r\ntwo"}, "copy of another note of the stay, not read again"),
    "RTF": ({"text": r"{\rtf1\ansi Heart failure.\par}"}, MARKUP),
    "HTML": ({"text": "\n<HTML><p>Heart failure."}, MARKUP),
    "of an earlier year": ({"text": "x", "day": -300}, "summary charted before the admission"),
    "of the morning before": ({"text": "x", "day": 0}, ""),
}  # fmt: skip


def test_what_is_odd_about_a_summary_is_listed(hospital):
    expected = {}
    for case, (columns, problem) in hospital.cases(REMARKS):
        stay = hospital.stay(0.5, 3)
        hospital.note(stay, "one\ntwo", day=3)
        hospital.note(stay, **{"day": 3, **columns})
        expected[case] = {problem} - {""}
    cohort = hospital.build()
    issues = list_issues(cohort).set_index("id")["problem"]
    told = {
        case: set(issues[issues.index == str(2 * number)])
        for number, case in enumerate(REMARKS, start=1)
    }
    assert told == expected


def test_types_like_a_summary_are_named_if_they_are_not_read(hospital):
    stay = hospital.stay(0, 3)
    hospital.note(stay, "read")
    hospital.note(stay, "other", category="Discharge Summary (final)")
    hospital.note(stay, "other", category="Nursing")
    (told,) = (
        line for line in hospital.build().caveats if "Notes whose type" in line
    )
    assert "not read: Discharge Summary (final) (1)." in told


# When an addendum was written whose patient was back 8.5 days after the first day.
ADDENDA = {
    "on the day of the return": ({"day": 8}, False),
    "the day before": ({"day": 7}, True),
    "at the hour of the return": ({"at": 8.5}, False),
    "a second before": ({"at": 8.5 - SECOND}, True),
    "midnight is a date alone": ({"at": "2100-01-09 00:00:00"}, False),
    "midnight of the day before": ({"at": "2100-01-08 00:00:00"}, True),
    "nobody knows when": ({}, True),
}


def test_nothing_is_read_that_was_written_after_the_return(hospital):
    stays = {}
    late_notes = set()
    for case, (when, used) in hospital.cases(ADDENDA):
        stay = hospital.stay(0, 3)
        hospital.stay(8.5, 9, kind="ELECTIVE")
        hospital.note(stay, "summary", day=3)
        hospital.note(stay, "addendum", DESCRIPTION="Addendum", **when)
        stays[case] = stay
        late_notes |= set() if used else {str(len(hospital.notes))}
    cohort = hospital.build()
    texts = cohort.to_frame().set_index("stay_id")["text"]
    for case, (_, used) in ADDENDA.items():
        expected = ["summary", "addendum"][: 1 + used]
        assert texts[stays[case]] == expected, case
    issues = list_issues(cohort)
    problem = "discharge note charted when the patient was back"
    assert set(issues["id"][issues["problem"] == problem]) == late_notes


def test_same_day_return_does_not_cost_the_summary(hospital):
    stay = hospital.stay(0, 3.2)
    hospital.stay(3.6, 5)
    hospital.note(stay, "summary", day=3)
    assert hospital.rows()[stay]["text"] == ["summary"]


# When a note was written that is read, or not, for a prediction two days after the admission.
EARLY_NOTES = {
    "at exactly the hour": ({"at": 0.25 + 2}, True),
    "at midnight, with a clock": ({"at": "2100-01-03 00:00:00"}, True),
    "a second later": ({"at": 0.25 + 2 + SECOND}, False),
    "in the emergency room": ({"at": -0.1}, True),
    "a date that is over by then": ({"day": 1}, True),
    "a date that is not": ({"day": 2}, False),
    "the time is more exact than the date": ({"day": 0, "at": 2.5}, False),
    "a time that is only a date": ({"at": "2100-01-03"}, False),
    "a time that is only a date, over by then": ({"at": "2100-01-02"}, True),
    "nobody knows when": ({}, False),
    "unreadable": ({"at": "yesterday"}, False),
    "unreadable, but the date is not": ({"at": "yesterday", "day": 1}, True),
}


def test_early_notes(hospital):
    stays = {}
    for case, (when, _) in hospital.cases(EARLY_NOTES):
        stay = hospital.stay(0.25, 6)
        hospital.note(stay, "on arrival", category="Nursing", at=0.3)
        hospital.note(stay, "this one", category="Physician ", **when)
        stays[case] = stay
    rows = hospital.rows(notes="early", hours=48)
    for case, (_, used) in EARLY_NOTES.items():
        texts = rows[stays[case]]["text"]
        assert set(texts) == set(["on arrival", "this one"][: 1 + used]), case
        assert len(texts) == 1 + used, case


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


def test_early_prediction_is_for_those_still_in_hospital(hospital):
    days = {2 + SECOND: None, 2: "left_early", 1: "left_early"}
    stays = {}
    for case, _ in hospital.cases(days):
        stays[case] = hospital.stay(0, case)
        hospital.note(stays[case], "nursing", category="Nursing", at=0.5)
    rows = hospital.rows(notes="early", hours=48)
    exclusions = {
        case: rows[stay]["exclusion"] for case, stay in stays.items()
    }
    assert exclusions == days


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
