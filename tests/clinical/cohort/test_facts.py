"""Who died, who was followed and who came back: each kind of case in every form."""

import json
from pathlib import Path

import pandas as pd
import pytest

from domainbert.errors import UserError

from .conftest import by_stay, list_issues
from .sources import (
    DIED,
    FORMS,
    HOME,
    HOSPICE,
    UNKNOWN,
    Cases,
    Stay,
    build,
    fates,
    rebuild,
    write_omop,
)

DEAD = ("died_in_hospital", None)
SAME_DAY = ("same_day_death", None)
AFTER_DEATH = ("after_death", None)
ALIVE = (None, 0)
BACK = (None, 1)
IN, OUT = "2020-03-01 08:00:00", "2020-03-05 11:00:00"

# Stays as (admitted, discharged, place), the death, and what becomes of each stay.
KINDS = {
    "timed before the discharge": ([(IN, OUT, HOME)], "2020-03-05 09:12:00", [DEAD]),
    "timed after the discharge": ([(IN, OUT, UNKNOWN)], "2020-03-05 23:00:00", [ALIVE]),
    "timed at the discharge": ([(IN, OUT, UNKNOWN)], OUT, [DEAD]),
    "timed a minute later": ([(IN, OUT, HOME)], "2020-03-05 11:01:00", [ALIVE]),
    "date, place unknown": ([(IN, OUT, UNKNOWN)], "2020-03-05", [SAME_DAY]),
    "date, home": ([(IN, OUT, HOME)], "2020-03-05", [ALIVE]),
    "date, hospice": ([(IN, OUT, HOSPICE)], "2020-03-05", [ALIVE]),
    "date, died": ([(IN, OUT, DIED)], "2020-03-05", [DEAD]),
    "date, the day before": ([(IN, OUT, HOME)], "2020-03-04", [DEAD]),
    "date, the day after": ([(IN, OUT, UNKNOWN)], "2020-03-06", [ALIVE]),
    "place alone": ([(IN, OUT, DIED)], "", [DEAD]),
    "place, and a time hours later": ([(IN, OUT, DIED)], "2020-03-05 16:00:00", [DEAD]),
    "discharge without a time": ([(IN, "2020-03-05", UNKNOWN)], "2020-03-05 09:12:00", [SAME_DAY]),
    "discharge home without a time": ([(IN, "2020-03-05", HOME)], "2020-03-05 09:12:00", [ALIVE]),
    "organ donor, the same day": (
        [(IN, OUT, DIED), ("2020-03-05 11:01:00", "2020-03-05 21:40:00", UNKNOWN)],
        "2020-03-05", [DEAD, AFTER_DEATH],
    ),
    "organ donor, to the next day": (
        [(IN, OUT, DIED), ("2020-03-05 11:01:00", "2020-03-06 03:40:00", UNKNOWN)],
        "", [DEAD, AFTER_DEATH],
    ),
    "return after a timed death": (
        [(IN, OUT, HOME), ("2020-03-08 10:00:00", "2020-03-09 10:00:00", UNKNOWN)],
        "2020-03-08 09:00:00", [ALIVE, AFTER_DEATH],
    ),
    "return after the day of death": (
        [(IN, OUT, HOME), ("2020-03-10 08:00:00", "2020-03-12 08:00:00", HOME)],
        "2020-03-08", [ALIVE, AFTER_DEATH],
    ),
    "return on the day of death": (
        [(IN, OUT, HOME), ("2020-03-08 08:00:00", "2020-03-08 19:00:00", UNKNOWN)],
        "2020-03-08", [BACK, SAME_DAY],
    ),
    "return on the day of discharge that ends in death": (
        [(IN, OUT, UNKNOWN), ("2020-03-05 19:00:00", "2020-03-05 23:00:00", DIED)],
        "", [BACK, DEAD],
    ),
    "return with contradicting times": (
        [(IN, OUT, HOME), ("2020-03-18 15:08:00", "2020-03-18 03:11:00", HOME)],
        "", [BACK, ("negative_stay", None)],
    ),
    "return without a discharge": (
        [(IN, OUT, HOME), ("2020-03-18 15:08:00", "", UNKNOWN)],
        "", [BACK, ("missing_time", None)],
    ),
    "an evening with a date as its end": (
        [("2020-02-20 08:00:00", "2020-02-25 08:00:00", HOME),
         ("2020-03-01 22:10:00", "2020-03-01", HOME)],
        "", [BACK, ALIVE],
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_what_becomes_of_each_stay(tmp_path, form):
    spans = {
        kind: [(start, end, place[form]) for start, end, place in stays]
        for kind, (stays, *_) in KINDS.items()
    }
    deaths = {kind: death for kind, (_, death, _) in KINDS.items()}
    expected = {kind: outcomes for kind, (*_, outcomes) in KINDS.items()}
    if form.startswith("mimic"):
        # MIMIC has times: midnight is one.
        evening = "an evening with a date as its end"
        expected[evening] = [BACK, ("negative_stay", None)]
    cases = Cases(spans, deaths)
    cohort = cases.build(tmp_path, form)
    assert cases.fates(cohort) == expected
    kept = [
        exclusion is None
        for outcomes in expected.values()
        for exclusion, _ in outcomes
    ]
    assert cohort.flow["left"].iloc[-1] == sum(kept)


def test_a_death_in_hospital_does_not_leak_into_the_outcome_death(tmp_path):
    deaths = {"time": "2020-03-05 09:12:00", "date": "2020-03-05"}
    cases = Cases({when: [(IN, OUT)] for when in deaths}, deaths)
    cohort = cases.build(tmp_path, "omop", definition="death-30d")
    labels = [label for _, label in fates(cohort).values()]
    assert labels == [None, None]


# -- the definition may say otherwise -----------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "place", "death", "expected"),
    [
        ({"death_tolerance_minutes": 60}, HOME, "2020-03-05 12:00:00", DEAD),
        ({"death_tolerance_minutes": 59}, HOME, "2020-03-05 12:00:00", ALIVE),
        ({"same_day_death": '"in_hospital"'}, HOME, "2020-03-05", SAME_DAY),
        (
            {"same_day_death": '"after_discharge"'},
            UNKNOWN,
            "2020-03-05",
            ALIVE,
        ),
        ({"alive_locations": '["ELSEWHERE"]'}, HOME, "2020-03-05", SAME_DAY),
    ],
)
@pytest.mark.parametrize("form", ["mimic4", "meds"])
def test_the_definition_decides(
    tmp_path, define, form, changes, place, death, expected
):
    stays = [Stay("1", IN, OUT, place[form])]
    options = {"death": death, "definition": define(**changes)}
    (tmp_path / "source").mkdir()
    assert (
        fates(build(tmp_path / "source", form, stays, **options))["1"]
        == expected
    )


def test_an_older_definition_has_the_shipped_rules(define):
    from clinical.cohort.definition import load_definition

    path = define()
    start, end = "# A recorded time of death", "# Age in whole years"
    text = path.read_text()
    path.write_text(text[: text.index(start)] + text[text.index(end) :])
    assert load_definition(path).index == load_definition().index


def test_both_fates_of_same_day_deaths_are_counted(tmp_path):
    stays = [
        Stay("1", IN, OUT, "Home"),
        Stay("2", "2020-03-05 12:00:00", "2020-03-05 13:00:00"),
    ]
    cohort = build(tmp_path, "generic", stays, death="2020-03-05")
    removed = cohort.flow.set_index("step")["removed"]
    assert removed["same_day_death"] == 1
    counted = "1 excluded as deaths in hospital, 1 kept as discharged alive"
    assert any(counted in caveat for caveat in cohort.caveats)


# -- places of discharge ------------------------------------------------------------------------

OLDER_OMOP = {
    "discharged_to_concept_id": "discharge_to_concept_id",
    "discharged_to_source_value": "discharge_to_source_value",
}


def test_omop_5_3_has_other_names_for_the_place_of_discharge(tmp_path):
    cases = Cases({place: [(IN, OUT, place)] for place in ("20", "01")})
    cases.write(tmp_path, "omop")
    path = tmp_path / "VISIT_OCCURRENCE.csv"
    pd.read_csv(path, dtype=str).rename(columns=OLDER_OMOP).to_csv(
        path, index=False
    )
    assert cases.fates(rebuild(tmp_path, "omop")) == {
        "20": [DEAD],
        "01": [ALIVE],
    }


def test_an_omop_note_of_a_ward_is_of_its_visit(tmp_path):
    cases = Cases({"home": [(IN, OUT, "01")]})
    cases.write(tmp_path, "omop")
    path = tmp_path / "NOTE.csv"
    notes = pd.read_csv(path, dtype=str)
    visits = notes["visit_occurrence_id"]
    details = visits.to_frame().assign(visit_detail_id="77")
    details.to_csv(tmp_path / "VISIT_DETAIL.csv", index=False)
    notes = notes.assign(visit_occurrence_id="", visit_detail_id="77")
    notes.to_csv(path, index=False)
    assert cases.fates(rebuild(tmp_path, "omop")) == {"home": [ALIVE]}


def test_of_two_omop_deaths_on_a_day_the_time_counts(tmp_path):
    """Registries add a date to what the ward wrote."""
    cases = Cases({"home": [(IN, OUT, "01")]}, {"home": "2020-03-05 09:00:00"})
    cases.write(tmp_path, "omop")
    path = tmp_path / "DEATH.csv"
    death = pd.read_csv(path, dtype=str)
    date = death.assign(death_datetime="")
    pd.concat([date, death]).to_csv(path, index=False)
    assert cases.fates(rebuild(tmp_path, "omop")) == {"home": [DEAD]}


def test_a_flag_may_be_a_word(tmp_path):
    """eICU writes "Expired" and "Alive"."""
    flags = {"Expired": DEAD, "deceased": DEAD, "Alive": ALIVE, "no": ALIVE}
    cases = Cases({flag: [(IN, OUT, flag)] for flag in flags})
    cases.write(tmp_path, "generic")
    path = tmp_path / "columns.toml"
    path.write_text(path.read_text().replace("discharge_location", "died"))
    cohort = rebuild(tmp_path, "generic")
    assert cases.fates(cohort) == {
        flag: [fate] for flag, fate in flags.items()
    }
    assert not len(cohort.issues)


WARD = "Ward 7"


@pytest.mark.parametrize("form", FORMS)
def test_a_place_that_no_rule_knows_is_counted(tmp_path, form):
    stays = [
        Stay("1", IN, OUT, WARD),
        Stay("2", "2020-05-01", "2020-05-03", HOME[form]),
    ]
    cohort = build(tmp_path, form, stays)
    assert cohort.summary["unmatched"]["discharge_location"] == {"WARD 7": 1}
    assert any(
        "that no rule knows: WARD 7 (1)" in caveat for caveat in cohort.caveats
    )


DEATH_LIKE = [  # ten are named
    "Expired",
    "décédée",
    "Passed away",
    "Patient died",
    "MORGUE",
    "20",
    "40.0",
    "41",
    "42",
    "Overleden",
]


def test_places_that_may_be_a_death_stop_the_build(tmp_path):
    cases = Cases({place: [(IN, OUT, place)] for place in DEATH_LIKE})
    names = sorted(place.upper().removesuffix(".0") for place in DEATH_LIKE)
    counts = ", ".join(rf"{name} \(1\)" for name in names)
    message = f"stays has stays whose place of discharge may mean death: {counts}.*`died_loc"
    with pytest.raises(UserError, match=message):
        cases.build(tmp_path, "generic")
    folded = [name.lower() for name in names]
    cohort = rebuild(tmp_path, "generic", died_locations=folded)
    all_dead = {place: [DEAD] for place in DEATH_LIKE}
    assert cases.fates(cohort) == all_dead
    mapping = tmp_path / "columns.toml"
    listed = mapping.read_text()
    mapping.write_text(f"died_locations = {names}\n{listed}")
    assert cases.fates(rebuild(tmp_path, "generic")) == all_dead
    mapping.write_text(f"alive_locations = {names}\n{listed}")
    all_alive = {place: [ALIVE] for place in DEATH_LIKE}
    assert cases.fates(rebuild(tmp_path, "generic")) == all_alive


@pytest.mark.parametrize(
    "form", [form for form in FORMS if form not in ("omop", "fhir")]
)
def test_every_form_stops_at_a_place_that_may_be_a_death(tmp_path, form):
    with pytest.raises(UserError, match=r"may mean death: EXPIRED \(1\)"):
        build(tmp_path, form, [Stay("1", IN, OUT, "Expired")])


@pytest.mark.parametrize("form", ["omop", "fhir"])
def test_the_codes_of_the_us_claim_form_are_known_where_they_are_usual(
    tmp_path, form
):
    places = ["20", "40", "41", "42", "Expired", "Deceased"]
    cases = Cases({place: [(IN, OUT, place)] for place in places})
    cohort = cases.build(tmp_path, form)
    assert cases.fates(cohort) == {place: [DEAD] for place in places}


STILL = ("still_patient", None)


def test_a_column_of_codes_of_the_us_claim_form_is_known_in_own_tables(
    tmp_path,
):
    fates = {
        **dict.fromkeys(["01", "02", "06", "07", "63"], ALIVE),
        **dict.fromkeys(["20", "41"], DEAD),
        "30": STILL,
    }
    cases = Cases({place: [(IN, OUT, place)] for place in fates})
    cohort = cases.build(tmp_path, "generic")
    expected = {place: [fate] for place, fate in fates.items()}
    assert cases.fates(cohort) == expected
    assert any("codes of the US claim form" in line for line in cohort.caveats)


@pytest.mark.parametrize(
    "others",
    [["01", "02", "07"], ["01", "63", "99", "A1"]],  # 07 is a death in Germany
)
def test_codes_that_other_systems_have_too_are_asked_about(tmp_path, others):
    cases = Cases({place: [(IN, OUT, place)] for place in ["20", *others]})
    with pytest.raises(UserError, match=r"may mean death: 20 \(1\)"):
        cases.build(tmp_path, "generic")


def test_a_place_is_no_question_where_the_source_marks_the_deaths(hospital):
    stay = hospital.stay(
        0, 3, DISCHARGE_LOCATION="EXPIRED", HOSPITAL_EXPIRE_FLAG="1"
    )
    assert hospital.rows()[stay]["exclusion"] == "died_in_hospital"


DISPOSITIONS = {
    "a code of the claim form": (
        {"coding": [{"system": "urn:nubc", "code": "20", "display": "Expired"}]},
        DEAD,
    ),
    "a code of their own": (
        {"coding": [{"system": "urn:local", "code": "20", "display": "Home"}]},
        ALIVE,
    ),
    "a text": ({"text": "Deceased"}, DEAD),
}  # fmt: skip


def test_a_number_of_another_system_is_no_death(tmp_path):
    cases = Cases({case: [(IN, OUT)] for case in DISPOSITIONS})
    cases.write(tmp_path, "fhir")
    path = tmp_path / "Encounter.ndjson"
    encounters = map(json.loads, path.read_text().splitlines())
    lines = [
        json.dumps(
            encounter
            | {"hospitalization": {"dischargeDisposition": disposition}}
        )
        for encounter, (disposition, _) in zip(
            encounters, DISPOSITIONS.values(), strict=True
        )
    ]
    path.write_text("\n".join(lines) + "\n")
    expected = {case: [fate] for case, (_, fate) in DISPOSITIONS.items()}
    assert cases.fates(rebuild(tmp_path, "fhir")) == expected


# -- the clock of the source --------------------------------------------------------------------


# Admission, discharge and death, and the fate of the stay.
CLOCKS = [
    # 22:30 in New York is the next day in UTC.
    ("2020-03-01T08:00:00-05:00", "2020-03-05T22:30:00-05:00", "2020-03-05", SAME_DAY),
    ("2020-03-01T08:00:00-05:00", "2020-03-05T22:30:00-05:00", "2020-03-06", ALIVE),
    ("2020-03-01T08:00:00-05:00", "2020-03-05T22:30:00-05:00", "2020-03-06T03:00:00Z", DEAD),
    ("2020-03-01T08:00:00-05:00", "2020-03-05T22:30:00-05:00", "2020-03-06T04:00:00Z", ALIVE),
    # 06:30 in Tokyo is the day before in UTC.
    ("2020-03-01T08:00:00+09:00", "2020-03-05T06:30:00+09:00", "2020-03-04", DEAD),
    ("2020-03-01T08:00:00+09:00", "2020-03-05T06:30:00+09:00", "2020-03-05", SAME_DAY),
    # A date has the clock of the other end of the stay.
    ("2020-03-01T22:10:00-05:00", "2020-03-01", "", ALIVE),
    ("2020-03-05", "2020-03-05T08:00:00+10:00", "", ALIVE),
    ("2020-03-05", "2020-03-05", "", ALIVE),
    # The clocks went back, and forward.
    ("2023-11-05T01:30:00-04:00", "2023-11-05T01:10:00-05:00", "", ALIVE),
    ("2023-03-12T01:30:00-05:00", "2023-03-12T03:10:00-04:00", "2023-03-12", SAME_DAY),
    ("2020-03-05T01:30:00-05:00", "2020-03-05T01:10:00-05:00", "", ("negative_stay", None)),
]  # fmt: skip


@pytest.mark.parametrize("form", ["fhir", "generic"])
def test_days_are_those_of_the_local_clock(tmp_path, form):
    names = [" to ".join(row[:3]) for row in CLOCKS]
    rows = dict(zip(names, CLOCKS, strict=True))
    spans = {name: [(start, end)] for name, (start, end, *_) in rows.items()}
    deaths = {name: death for name, (_, _, death, _) in rows.items()}
    cases = Cases(spans, deaths)
    expected = {name: [fate] for name, (*_, fate) in rows.items()}
    assert cases.fates(cases.build(tmp_path, form)) == expected


RETURNS = {
    "2020-03-06": BACK,  # the day after the day of discharge
    "2020-03-05": ("transfer", None),  # the same day: one episode
    "2020-04-04": BACK,  # thirty days later, by the date, as CMS counts
    "2020-04-05": ALIVE,
}


def test_returns_in_a_source_of_dates(tmp_path):
    first = ("2020-03-01", "2020-03-05")
    cases = Cases({day: [first, (day, "2020-05-01")] for day in RETURNS})
    outcomes = cases.fates(cases.build(tmp_path, "generic"))
    assert {day: stays[0] for day, stays in outcomes.items()} == RETURNS


def test_a_long_stay_in_a_source_of_dates_is_counted_in_nights(tmp_path):
    labels = {"2020-03-08": 0, "2020-03-09": 1}
    cases = Cases({day: [("2020-03-01", day)] for day in labels})
    cases.write(tmp_path, "generic")
    path = tmp_path / "columns.toml"
    mapping = 'category = "kind"\nchart_time = "at"\n'
    path.write_text(
        'discharge_categories = "DS"\n' + path.read_text() + mapping
    )
    notes = [
        f"{stay.id},note,Nursing,2020-03-01"
        for day in labels
        for stay in cases.stays(day)
    ]
    letters = "\n".join(["stay,text,kind,at", *notes])
    (tmp_path / "letters.csv").write_text(letters + "\n")
    cohort = rebuild(tmp_path, "generic", definition="long-stay-7d")
    expected = {day: [(None, label)] for day, label in labels.items()}
    assert cases.fates(cohort) == expected


def test_a_year_that_stands_for_unknown_ends_no_stay(tmp_path):
    """A stay that was never closed does not swallow the later ones."""
    ends = ["9999-12-31", "2999-12-31 00:00:00", "0001-01-01 00:00:00"]
    later = ("2020-05-05 11:00:00", "2020-05-08 11:00:00")
    cases = Cases({end: [(IN, end), later] for end in ends})
    expected = {end: [("missing_time", None), ALIVE] for end in ends}
    assert cases.fates(cases.build(tmp_path, "generic")) == expected


def test_returns_like_transfers_are_counted(tmp_path):
    """Departments may write a transfer as a discharge and an admission minutes later."""
    later = {"2020-03-05 11:05:00": 1, "2020-03-05 15:00:00": 0}
    for start, n_gaps in later.items():
        folder = tmp_path / str(n_gaps)
        folder.mkdir()
        stays = [Stay("1", IN, OUT), Stay("2", start, "2020-03-07 08:00:00")]
        cohort = build(folder, "generic", stays)
        assert fates(cohort)["1"] == BACK
        is_told = any("transfer_gap_hours" in line for line in cohort.caveats)
        assert is_told == bool(n_gaps)


def test_dates_of_death_that_differ_are_listed(hospital):
    hospital.patient(died=20)
    stay = hospital.stay(0, 3)
    last = hospital.stay(10, 12, DEATHTIME="2100-01-15 10:00:00")
    problem = "dates of the patient's death differ: the earliest counts"
    issues = list_issues(hospital.build())
    assert set(issues["id"][issues["problem"] == problem]) == {stay, last}


DIFFER = "dates of the patient's death differ: the earliest counts"
CONTRADICTED = "discharged alive by the flag or the place, dead by another cell: counts as dead"


def change_table(path, change):
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    change(table).to_csv(path, index=False)


def add_row(**cells):
    """Add a row like the first one, with other cells."""
    return lambda rows: pd.concat([rows, rows.head(1).assign(**cells)])


def add_death(folder, form, day):
    """Tell of another death of the first patient, in the way of the form."""
    if form == "mimic3":
        change_table(
            folder / "PATIENTS.csv",
            lambda rows: rows.assign(
                DOD_HOSP=rows["DOD"], DOD_SSN=[day] + [""] * (len(rows) - 1)
            ),
        )
    elif form == "mimic4":
        change_table(
            folder / "admissions.csv",
            lambda rows: rows.assign(
                deathtime=["", f"{day} 10:00:00"] + [""] * (len(rows) - 2)
            ),
        )
    elif form == "generic":
        change_table(
            folder / "stays.csv",
            lambda rows: rows.assign(
                died=[*rows["died"][:1], day, *rows["died"][2:]]
            ),
        )
    elif form == "omop":
        change = add_row(death_date=day, death_datetime="")
        change_table(folder / "DEATH.csv", change)
    elif form == "fhir":
        path = folder / "Patient.ndjson"
        first = json.loads(path.read_text().splitlines()[0])
        other = json.dumps(first | {"deceasedDateTime": day})
        path.write_text(f"{path.read_text()}{other}\n")
    else:
        path = folder / "data" / "0.parquet"
        event = {"code": "MEDS_DEATH", "time": pd.Timestamp(day)}
        add_row(**event)(pd.read_parquet(path)).to_parquet(path, index=False)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("day", "days"), [("2020-03-18", 12), ("2020-03-25", 14)]
)
def test_of_deaths_that_differ_the_earliest_counts_and_all_are_listed(
    tmp_path, form, day, days
):
    place = {
        name: words[form] for name, words in (("home", HOME), ("died", DIED))
    }
    spans = {
        "two dates": [
            (IN, OUT, place["home"]),
            ("2020-03-10 08:00:00", "2020-03-11 08:00:00", place["home"]),
        ],
        "died, and a later date": [(IN, OUT, place["died"])],
        "home, and an earlier date": [(IN, OUT, place["home"])],
        "one date": [(IN, OUT, place["home"])],
    }  # fmt: skip
    dates = ("2020-03-20", "2020-03-09", "2020-03-04", "2020-03-20")
    cases = Cases(spans, dict(zip(spans, dates, strict=True)))
    cases.write(tmp_path, form)
    add_death(tmp_path, form, day)
    cohort = rebuild(tmp_path, form)
    rows = by_stay(cohort)
    assert int(rows["1001"]["days_to_death"]) == days
    assert int(rows["1031"]["days_to_death"]) == 14
    assert cases.fates(cohort) == {
        "two dates": [BACK, ALIVE],
        "died, and a later date": [DEAD],
        "home, and an earlier date": [DEAD],
        "one date": [ALIVE],
    }
    issues = cohort.issues.set_index("problem")
    assert issues.loc[DIFFER, "count"] == 3
    assert list(issues.loc[DIFFER, "examples"]) == ["1001", "1002", "1011"]
    # Here the flag of MIMIC says that nobody died.
    contradicted = {"mimic3": ["1011", "1021"], "mimic4": ["1011", "1021"]}
    examples = list(issues.loc[CONTRADICTED, "examples"])
    assert examples == contradicted.get(form, ["1021"])


def test_a_death_that_cannot_be_dated_is_listed_by_its_row(tmp_path):
    """It is unknown whether such a patient lived through the horizon."""
    cases = Cases({name: [(IN, OUT, "01")] for name in ("undated", "dated")})
    cases.write(tmp_path, "omop")
    deaths = [
        ("100", ""),
        ("101", "unknown"),
        ("101", "2020-03-20"),
        ("", "2020-03-20"),
    ]
    table = pd.DataFrame(deaths, columns=["person_id", "death_date"])
    table.to_csv(tmp_path / "DEATH.csv", index=False)
    cohort = rebuild(tmp_path, "omop", definition="death-30d")
    assert cases.fates(cohort) == {
        "undated": [("unknown_outcome", None)],
        "dated": [(None, 1)],
    }
    issues = list_issues(cohort)
    of_deaths = issues[issues["source"] == "DEATH"]
    assert dict(zip(of_deaths["row"], of_deaths["problem"], strict=True)) == {
        1: "death without a date that can be read",
        2: "death without a date that can be read",
        4: "death without a patient",
    }


def test_times_of_a_death_that_were_rounded_agree(hospital):
    """The day of the register, and the minute of the ward."""
    died = {"HOSPITAL_EXPIRE_FLAG": "1", "DISCHARGE_LOCATION": "DEAD/EXPIRED"}
    hospital.stay(0, 3.5, DEATHTIME="2100-01-04 10:30:31", **died)
    hospital.patient(died=3)
    hospital.stay(0, 3.5, DEATHTIME="2100-01-04 10:30:31", patient="8", **died)
    hospital.patient("8", died="2100-01-04 10:30:00")
    assert not len(hospital.build().issues)


def test_a_patient_with_a_death_in_one_of_two_rows_has_died(hospital):
    stay = hospital.stay(0, 3)
    hospital.patient(died=20)
    hospital.patient(died="")
    cohort = hospital.build()
    row = by_stay(cohort)[stay]
    assert (row["sex"], row["days_to_death"]) == ("F", 17)
    problem = (
        "no date of death, but another row of the patient has one: it counts"
    )
    issues = list_issues(cohort)
    assert list(issues["row"][issues["problem"] == problem]) == [2]


def test_rows_that_agree_on_the_admission_are_a_return(hospital):
    """Two rows of one stay with other times of discharge: it took place."""
    index = hospital.stay(0, 3)
    hospital.stay(10, 12, id="twice")
    hospital.stay(10, 14, id="twice")
    cohort = hospital.build()
    assert by_stay(cohort)[index]["readmitted"] == 1
    assert cohort.flow.set_index("step")["removed"]["duplicate_stay"] == 2


# -- follow-up ----------------------------------------------------------------------------------

CENSORED = ("censored", None)
OUTSIDE = ("not_followed", None)


CUT = ("2019-01-01", "2020-03-10")
PERIODS = {
    "one": ([("2019-01-01", "2021-12-31")], ALIVE),
    "cut": ([CUT], CENSORED),
    "ends on the day": ([("2019-01-01", "2020-03-05")], CENSORED),
    "begins on the day": ([("2020-03-05", "2020-12-31")], ALIVE),
    "thirty days, the last included": ([("2019-01-01", "2020-04-04")], ALIVE),
    "a day less": ([("2019-01-01", "2020-04-03")], CENSORED),
    "ended the day before": ([("2019-01-01", "2020-03-04")], OUTSIDE),
    "begins the day after": ([("2020-03-06", "2021-12-31")], OUTSIDE),
    "a gap": ([CUT, ("2021-06-01", "2021-12-31")], CENSORED),
    "in a gap": (
        [("2019-01-01", "2020-01-31"), ("2021-06-01", "2021-12-31")],
        OUTSIDE,
    ),
    "adjacent": ([("2020-03-11", "2020-12-31"), CUT], ALIVE),
    "one in another": (
        [("2019-01-01", "2020-12-31"), ("2020-02-01", "2020-03-10")],
        ALIVE,
    ),
    "unreadable": ([CUT, ("?", "2021-12-31")], CENSORED),
    "backwards": ([CUT, ("2021-12-31", "2020-01-01")], CENSORED),
    "of another patient": ([], OUTSIDE),
}


@pytest.mark.parametrize("form", ["omop", "generic"])
def test_the_period_that_contains_the_discharge_counts(tmp_path, form):
    cases = Cases({case: [(IN, OUT)] for case in PERIODS})
    cases.write(tmp_path, form)
    patients = cases.patients()
    rows = [
        (patients[case], *period)
        for case, (periods, _) in PERIODS.items()
        for period in periods
    ]
    write_periods(tmp_path, form, [*rows, ("8", "2019-01-01", "2019-01-01")])
    cohort = rebuild(tmp_path, form)
    expected = {case: [fate] for case, (_, fate) in PERIODS.items()}
    assert cases.fates(cohort) == expected
    assert cohort.to_frame()["scorable"].all()
    issues = list_issues(cohort)
    problem = "period of observation without a patient"
    is_period = issues["problem"].str.startswith(problem)
    bad_rows = {patients["unreadable"], patients["backwards"]}
    assert set(issues["id"][is_period]) == bad_rows


def write_periods(
    folder: Path, form: str, rows: list[tuple[str, str, str]]
) -> None:
    names = (
        "person_id",
        "observation_period_start_date",
        "observation_period_end_date",
    )
    lines = [",".join(row) for row in (names, *rows)]
    (folder / "OBSERVATION_PERIOD.csv").write_text("\n".join(lines) + "\n")
    if form == "generic":
        named = zip(
            ("patient_id", "start_date", "end_date"), names, strict=True
        )
        table = "\n".join(f'{ours} = "{theirs}"' for ours, theirs in named)
        path = folder / "columns.toml"
        path.write_text(
            f'{path.read_text()}\n[follow_up]\ntable = "OBSERVATION_PERIOD"\n{table}\n'
        )


def test_an_empty_table_of_periods_says_nothing(tmp_path):
    stays = [Stay("1", IN, OUT), Stay("2", "2020-06-01", "2020-06-02")]
    write_omop(tmp_path, stays, {"7": ""})
    write_periods(tmp_path, "omop", [])
    cohort = rebuild(tmp_path, "omop", data_end=None)
    assert fates(cohort)["1"] == ALIVE
    assert any(
        "No end of data was given" in caveat for caveat in cohort.caveats
    )


def test_a_death_ends_the_follow_up_that_it_ends(tmp_path):
    """Periods often end with the death: nothing that could still come is missed."""
    build(tmp_path, "omop", [Stay("1", IN, OUT)], death="2020-03-05 23:00:00")
    write_periods(tmp_path, "omop", [("7", "2019-01-01", "2020-03-05")])
    assert fates(rebuild(tmp_path, "omop"))["1"] == ALIVE


def test_a_note_with_a_date_has_the_clock_of_its_stay(tmp_path):
    """Discharged at 22:30 and back at 21:00 of the next day, of which a letter has the date."""
    start, end = "2020-03-01T08:00:00-05:00", "2020-03-05T22:30:00-05:00"
    back = Stay("2", "2020-03-06T21:00:00-05:00", "2020-03-08T08:00:00-05:00")
    build(tmp_path, "generic", [Stay("1", start, end), back])
    letters = (
        "stay,text,day\n1,before,2020-03-05\n1,of the return,2020-03-06\n"
    )
    (tmp_path / "letters.csv").write_text(letters)
    path = tmp_path / "columns.toml"
    path.write_text(path.read_text() + 'chart_date = "day"\n')
    assert by_stay(rebuild(tmp_path, "generic"))["1"]["text"] == ["before"]
