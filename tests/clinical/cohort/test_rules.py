"""Every rule of the definition, with a case on each side of its edge.

`hospital.stay(0, 3)` is a stay from 1 to 4 January 2100: its admission and discharge in days since
that first day. `hospital.cases` gives the rows of each case to a patient of its own, and `define`
writes the shipped definition with some lines changed. Both are in conftest.py.
"""

import pytest

SECOND = 1 / 86400  # in days


# The returns (days after the discharge, type of admission), the label, and the days to the return
# that gives it.
LABELS = {
    "last stay is a negative": ([], 0, None),
    "29.99 days": ([(29.99, "EMERGENCY")], 1, 29.99),
    "a second before 30 days": (
        [(30 - SECOND, "EMERGENCY")],
        1,
        30 - SECOND,
    ),
    "30 days": ([(30, "EMERGENCY")], 0, 30),
    "30.01 days": ([(30.01, "URGENT")], 0, 30.01),
    "a second": ([(SECOND, "EMERGENCY")], 1, SECOND),
    "same-day return": ([(0.2, "EMERGENCY")], 1, 0.2),
    "planned": ([(5, "ELECTIVE")], 0, None),
    "planned, in other letters": ([(5, "elective ")], 0, None),
    "planned surgery": ([(5, "SURGICAL SAME DAY ADMISSION")], 0, None),
    "planned, then emergency": (
        [(5, "ELECTIVE"), (20, "EMERGENCY")],
        1,
        20,
    ),
    "planned, then too late": ([(5, "ELECTIVE"), (30, "EMERGENCY")], 0, 30),
    "the first return counts": (
        [(5, "EMERGENCY"), (20, "EMERGENCY")],
        1,
        5,
    ),
    "no admission type is unplanned": ([(5, "")], 1, 5),
}


def test_label(hospital):
    stays = {}
    for case, (returns, *_) in hospital.cases(LABELS):
        stays[case] = hospital.stay(0, 3)
        for day, kind in returns:
            hospital.stay(3 + day, 3 + day + 1, kind=kind)
    rows = hospital.rows()
    for case, (_, readmitted, days) in LABELS.items():
        row = rows[stays[case]]
        assert row["exclusion"] is None, case
        assert row["readmitted"] == readmitted, case
        assert row["days_to_readmission"] == (
            pytest.approx(days, abs=1e-9) if days else None
        ), case
        assert not row["transfer"], case


def test_stays_that_touch_are_one_episode(hospital):
    # Days between the first stay and the second.
    gaps = {"overlap of a day": -1, "touching": 0, "a second apart": SECOND}
    stays = {
        case: (hospital.stay(0, 3), hospital.stay(3 + gap, 6))
        for case, gap in hospital.cases(gaps)
    }
    rows = hospital.rows()
    for case, (first, second) in stays.items():
        is_one = gaps[case] <= 0
        expected = "transfer" if is_one else None
        assert rows[first]["exclusion"] == expected, case
        assert rows[second]["transfer"] == is_one, case
        assert rows[first]["readmitted"] == (None if is_one else 1), case
        last = second if is_one else first
        assert rows[first]["episode_stay_id"] == last, case


@pytest.mark.parametrize(
    ("hours", "expected"), [(24, "transfer"), (23.9, None), (0, None)]
)
def test_transfer_gap(hospital, define, hours, expected):
    first = hospital.stay(0, 3)
    hospital.stay(4, 6)  # 24 hours later
    rows = hospital.rows(definition=define(transfer_gap_hours=hours))
    assert rows[first]["exclusion"] == expected


def test_transfer_chain_is_followed_up_from_its_end(hospital):
    a, b, c = hospital.stay(0, 2), hospital.stay(2, 5), hospital.stay(4, 9)
    back = hospital.stay(9 + 29.5, 40)
    rows = hospital.rows()
    assert [rows[stay]["exclusion"] for stay in (a, b, c)] == [
        "transfer",
        "transfer",
        None,
    ]
    assert rows[c]["readmitted"] == 1
    assert rows[c]["days_to_readmission"] == pytest.approx(29.5)
    assert rows[c]["readmission_stay_id"] == back
    assert rows[c]["transfer"]
    assert str(rows[c]["episode_start"]) == "2100-01-01 00:00:00"
    assert not rows[back]["transfer"]


def test_stay_within_another_does_not_end_the_episode(hospital):
    long, short = hospital.stay(0, 10), hospital.stay(2, 4)
    back = hospital.stay(12, 13)
    rows = hospital.rows()
    assert rows[short]["exclusion"] == "transfer"
    assert rows[long]["exclusion"] is None
    assert rows[long]["readmission_stay_id"] == back
    assert rows[long]["days_to_readmission"] == pytest.approx(2)


def test_planned_episode_is_told_by_its_first_stay(hospital):
    index = hospital.stay(0, 1)
    hospital.stay(5, 6, kind="ELECTIVE")
    hospital.stay(6, 8, kind="EMERGENCY")
    assert hospital.rows()[index]["readmitted"] == 0


def test_death_in_hospital(hospital):
    columns = {
        "flag": {"HOSPITAL_EXPIRE_FLAG": "1"},
        "time of death": {"DEATHTIME": "2100-01-03 05:00:00"},
        "location": {"DISCHARGE_LOCATION": "DEAD/EXPIRED"},
        "location of MIMIC-IV": {"DISCHARGE_LOCATION": "died"},
    }
    stays = {
        case: hospital.stay(0, 2.5, **columns_of_case)
        for case, columns_of_case in hospital.cases(columns)
    }
    rows = hospital.rows()
    for case, stay in stays.items():
        row = rows[stay]
        fate = (row["exclusion"], row["readmitted"], row["split"])
        assert fate == ("died_in_hospital", None, None), case


def test_death_before_the_day_of_discharge_is_no_index(hospital):
    donor, alive = hospital.stay(0, 3.5), hospital.stay(0, 3.5, patient="8")
    hospital.patient("7", died=2)  # an organ donor, discharged after death
    hospital.patient("8", died=3)  # at home, in the evening of the discharge
    rows = hospital.rows()
    assert rows[donor]["exclusion"] == "died_in_hospital"
    assert rows[alive]["exclusion"] is None
    assert rows[alive]["died_within_horizon"]


def test_dying_during_the_return_is_a_readmission(hospital):
    index = hospital.stay(0, 3)
    hospital.stay(10, 12, HOSPITAL_EXPIRE_FLAG="1")
    hospital.patient(died=12)
    row = hospital.rows()[index]
    assert (row["exclusion"], row["readmitted"]) == (None, 1)


@pytest.mark.parametrize(
    ("choice", "at_ten_days"),
    [("keep", None), ("exclude", "died_after_discharge")],
)
def test_death_after_discharge(hospital, define, choice, at_ten_days):
    # Days from the discharge to the death, the exclusion, and whether the death counts.
    deaths = {
        "at home at 10 days": (10, at_ten_days, True),
        "at 30 days": (30, None, False),
        "alive": ("", None, False),
    }
    stays = {}
    for case, (death, *_) in hospital.cases(deaths):
        stays[case] = hospital.stay(0, 3)
        hospital.patient(died=3 + death if death else "")
    rows = hospital.rows(
        definition=define(death_after_discharge=f'"{choice}"')
    )
    for case, (death, exclusion, flag) in deaths.items():
        row = rows[stays[case]]
        assert row["exclusion"] == exclusion, case
        assert row["died_within_horizon"] is flag, case
        assert row["readmitted"] == (None if exclusion else 0), case
        days = death if flag and not exclusion else None
        assert row["days_to_death"] == days, case


def test_death_after_a_readmission_is_no_reason_to_leave_it_out(
    hospital, define
):
    stay = hospital.stay(0, 3)
    hospital.stay(8, 9)
    hospital.patient(died=12)
    row = hospital.rows(definition=define(death_after_discharge='"exclude"'))[
        stay
    ]
    assert (row["exclusion"], row["readmitted"]) == (None, 1)


def test_death_is_unknown_without_its_source(hospital):
    stay = hospital.stay(0, 3)
    cohort = hospital.build()
    assert cohort.to_frame()["died_within_horizon"].isna().all()
    assert any(
        "deaths after discharge are unknown" in said for said in cohort.caveats
    )
    hospital.patient("8")
    assert hospital.rows()[stay]["died_within_horizon"] is None


def test_newborn_is_no_index_but_its_later_stays_are(hospital):
    birth, later = hospital.stay(0, 3, kind="newborn"), hospital.stay(40, 44)
    rows = hospital.rows()
    assert rows[birth]["exclusion"] == "newborn"
    assert rows[later]["exclusion"] is None


def test_newborn_moved_to_intensive_care_is_still_a_newborn(hospital):
    birth, care = hospital.stay(0, 1, kind="NEWBORN"), hospital.stay(1, 9)
    rows = hospital.rows()
    assert (rows[birth]["exclusion"], rows[care]["exclusion"]) == (
        "transfer",
        "newborn",
    )


def test_discharge_before_admission(hospital):
    # The length of the stay in days, and the exclusion.
    lengths = {-SECOND: "negative_stay", -1: "negative_stay", 0: None}
    stays = {
        length: hospital.stay(3, 3 + length)
        for length, _ in hospital.cases(lengths)
    }
    rows = hospital.rows()
    exclusions = {
        length: rows[stay]["exclusion"] for length, stay in stays.items()
    }
    assert exclusions == lengths


def test_stay_with_contradicting_times_is_a_readmission_but_no_index(hospital):
    index, reversed_stay = hospital.stay(0, 3), hospital.stay(10, 9)
    rows = hospital.rows()
    assert (rows[index]["exclusion"], rows[index]["readmitted"]) == (None, 1)
    assert rows[reversed_stay]["exclusion"] == "negative_stay"


def test_stay_without_an_end_is_a_readmission_but_no_index(hospital):
    index, still_here = hospital.stay(0, 3), hospital.stay(10, "")
    rows = hospital.rows()
    assert rows[index]["readmitted"] == 1
    assert rows[still_here]["exclusion"] == "missing_time"


def test_episode_that_may_go_on_is_no_index(hospital):
    first, still_here = hospital.stay(0, 3), hospital.stay(3, "")
    rows = hospital.rows()
    assert rows[first]["exclusion"] == "transfer"
    assert rows[still_here]["exclusion"] == "missing_time"


@pytest.mark.parametrize(
    ("data_end", "exclusion"),
    [
        pytest.param("2100-02-03", None, id="follow-up of exactly 30 days"),
        pytest.param("2100-02-02 23:59:59", "censored", id="a second short"),
        pytest.param(None, None, id="no end given"),
    ],
)
def test_censoring(hospital, data_end, exclusion):
    stay = hospital.stay(0, 3)  # discharged on 4 January
    row = hospital.rows(data_end=data_end)[stay]
    assert row["exclusion"] == exclusion
    assert row["censored"] == (exclusion == "censored")


def test_censoring_takes_positives_and_negatives_alike(hospital):
    stay = hospital.stay(0, 3)
    hospital.stay(5, 6)
    assert (
        hospital.rows(data_end="2100-01-20")[stay]["exclusion"] == "censored"
    )


@pytest.mark.parametrize(
    ("limits", "births"),
    [
        # Birth, age at admission on 1 January 2100, and the exclusion.
        (
            {"minimum_age": 18},
            {
                "18th birthday": ("2082-01-01", 18, None),
                "the day before": ("2082-01-02", 17, "age"),
                "unknown": ("", None, "age"),
                # MIMIC moves the births of patients over 89 by centuries.
                "shifted: 90 or older": ("1800-01-01", 90, None),
            },
        ),
        (
            {"maximum_age": 65},
            {
                "65 and a day": ("2034-12-31", 65, None),
                "66": ("2034-01-01", 66, "age"),
            },
        ),
        (
            {},
            {
                "unknown, and no limit": ("", None, None),
                "born after admission": ("2101-01-01", None, None),
            },
        ),
    ],
    ids=["at least 18", "at most 65", "no limit"],
)
def test_age(hospital, define, limits, births):
    stays = {}
    for case, (born, *_) in hospital.cases(births):
        stays[case] = hospital.stay(0, 3)
        hospital.patient(born=born)
    rows = hospital.rows(definition=define(**limits))
    for case, (_, age, exclusion) in births.items():
        row = rows[stays[case]]
        assert (row["age"], row["exclusion"]) == (age, exclusion), case


def test_horizon_and_planned_types_are_the_definitions(hospital, define):
    index = hospital.stay(0, 3)
    hospital.stay(10, 11, kind="URGENT")
    hospital.stay(60, 61, kind="ELECTIVE")
    path = define(horizon_days=90, planned_types='["urgent"]')
    row = hospital.rows(definition=path)[index]
    assert (row["readmitted"], row["days_to_readmission"]) == (1, 57)


def test_patients_do_not_mix(hospital):
    index = hospital.stay(0, 3, patient="7")
    hospital.stay(5, 6, patient="8")
    assert hospital.rows()[index]["readmitted"] == 0


def test_subgroups_come_along(hospital):
    stay = hospital.stay(0, 3, INSURANCE="Private", ETHNICITY="ASIAN")
    hospital.patient(sex="M", born="2050-06-15 00:00:00")
    row = hospital.rows()[stay]
    assert (row["age"], row["sex"]) == (49, "M")
    assert (row["insurance"], row["ethnicity"]) == ("Private", "ASIAN")


@pytest.mark.parametrize(
    ("columns", "options", "exclusion", "scorable"),
    [
        ({}, {}, None, True),
        ({}, {"data_end": "2100-01-20"}, "censored", True),
        ({"HOSPITAL_EXPIRE_FLAG": "1"}, {}, "died_in_hospital", False),
        ({"ADMISSION_TYPE": "NEWBORN"}, {}, "newborn", False),
        # Early notes are of stays that last longer than these hours; this one has 72.
        ({}, {"notes": "early", "hours": 48, "data_end": "2100-01-20"}, "censored", True),
        ({}, {"notes": "early", "hours": 96, "data_end": "2100-01-20"}, "censored", False),
    ],
)  # fmt: skip
def test_a_stay_may_be_scored_whose_outcome_is_not_known_yet(
    hospital, columns, options, exclusion, scorable
):
    """What may be learned from and what may be scored are two questions; both need the notes."""
    stay = hospital.stay(0, 3, **columns)
    hospital.note(stay, "summary", day=3)
    hospital.note(stay, "at admission", category="Nursing", at=0.1)
    row = hospital.rows(**options)[stay]
    note = "at admission" if "notes" in options else "summary"
    assert (row["exclusion"], row["scorable"]) == (exclusion, scorable)
    assert row["text"] == ([note] if scorable else [])
