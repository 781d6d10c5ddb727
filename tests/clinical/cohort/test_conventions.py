"""How a source writes a thing is found out for a whole column, not for a cell."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pandas as pd
import pytest

from clinical import build_cohort
from clinical.cohort.conventions import ColumnConvention
from domainbert.errors import UserError
from tests.clinical.cohort.conftest import list_issues
from tests.clinical.cohort.sources import FORMS, HOME, Cases

MAPPING = """
died_locations = "EXPIRED"
{top}
[admissions]
table = "visits"
patient_id = "p"
stay_id = "s"
admit_time = "a"
discharge_time = "d"
{admissions}
[notes]
table = "notes"
note_id = "n"
stay_id = "s"
text = "t"
{notes}
"""
N = 30


def build(folder, visits, *, top="", admissions="", notes=None, **options):
    """A cohort of visits, each with a note; `notes` are further rows, or their columns."""
    folder.mkdir(exist_ok=True)
    frame = pd.DataFrame(visits)
    frame.to_csv(folder / "visits.csv", index=False)
    rows = [
        {"n": f"n{stay}", "s": stay, "t": f"Summary of {stay}."}
        for stay in dict.fromkeys(frame["s"])
    ]
    rows = pd.DataFrame(rows if notes is None else notes)
    rows.to_csv(folder / "notes.csv", index=False)
    columns = {"line": "line", "chart_time": "at", "state": "state"}
    mapped = [
        f'{ours} = "{theirs}"'
        for ours, theirs in columns.items()
        if theirs in rows and ours != "line"
    ]
    mapping = folder / "columns.toml"
    mapping.write_text(
        MAPPING.format(top=top, admissions=admissions, notes="\n".join(mapped))
    )
    options = {"data_end": "none", **options}
    return build_cohort(folder, mapping=mapping, **options)


def visits(n=N, *, gap=30, form="%Y-%m-%d %H:%M:%S", hour=9):
    """Two stays of each of n patients; the second begins so many days after the first ends."""
    rows = []
    for number in range(n):
        start = datetime(2021, 1, 1 + number % 20, hour, number % 60)
        end = start + timedelta(days=4)
        back = end + timedelta(days=gap)
        for stay, (a, d) in enumerate(
            [(start, end), (back, back + timedelta(days=2))]
        ):
            rows.append(
                {"p": f"p{number}", "s": f"s{number}-{stay}",
                 "a": a.strftime(form), "d": d.strftime(form)}
            )  # fmt: skip
    return rows


def exclusions(cohort):
    """The exclusion of each stay, "" where it is kept."""
    return cohort.to_frame().set_index("stay_id")["exclusion"].fillna("")


def problems(cohort):
    return list_issues(cohort)["problem"].tolist()


def said(cohort, words):
    return [text for text in cohort.caveats if words in text]


@pytest.mark.parametrize(
    ("midnights", "holds_dates", "is_said"),
    [
        (100, True, True),
        (95, True, True),
        (94, False, True),
        (4, False, False),
    ],
)
def test_a_column_holds_dates_where_almost_every_time_is_midnight(
    midnights, holds_dates, is_said
):
    column = ColumnConvention("t", "c", 100, 0, midnights, 0)
    assert column.holds_dates is holds_dates
    assert bool(column.sentence()) is is_said
    few = ColumnConvention("t", "c", 19, 0, 19, 0)
    assert not few.holds_dates


@pytest.mark.parametrize("form", ["%Y-%m-%d 00:00:00", "%Y-%m-%dT00:00:00Z"])
def test_true_times_at_midnight_are_times(tmp_path, form):
    dates = build(tmp_path / "dates", visits(form=form))
    assert dates.n_readmitted == N  # the 30th day counts
    assert len(said(dates, "visits.a holds dates")) == 1
    assert {
        "column": "visits.d", "holds": "dates", "clock": "",
    } in dates.summary["conventions"]  # fmt: skip
    rows = visits()
    for row in rows[:2]:
        row["a"] = row["a"][:10] + " 00:00:00"
    times = build(tmp_path / "times", rows)
    assert times.n_readmitted == 1  # whose return began at midnight
    assert not said(times, "holds dates")


def test_starts_may_be_dates_and_ends_times(tmp_path):
    rows = visits()
    for row in rows:
        row["a"] = row["a"][:10] + " 00:00:00"
    cohort = build(tmp_path, rows)
    assert cohort.n_readmitted == N
    assert said(cohort, "visits.a holds dates")
    assert not said(cohort, "visits.d")


def test_columns_of_two_clocks_are_not_compared(tmp_path):
    rows = visits(gap=10)
    for row in rows:
        row["d"] += "+01:00"
    with pytest.raises(
        UserError,
        match=r"times of visits\.a have no offset .* visits\.d have one",
    ):
        build(tmp_path / "two", rows)
    assert build(tmp_path / "zone", rows, zone="europe/berlin").n_stays == 60
    mapped = build(tmp_path / "mapped", rows, top='zone = "Europe/Berlin"')
    assert mapped.n_stays == 60
    with pytest.raises(UserError, match="zone 'Mars' is unknown"):
        build(tmp_path / "mars", rows, zone="Mars")
    for row in rows[::2]:
        row["a"] += "+01:00"
    with pytest.raises(UserError, match=r"30 times with an offset .* and 30"):
        build(tmp_path / "mixed", rows)


def test_days_are_those_of_the_zone(tmp_path):
    """A death on the evening of the discharge is the next day in UTC."""
    rows = visits(gap=40)
    for row in rows:
        row |= {"d": row["d"][:10] + "T23:30:00Z", "a": row["a"] + "Z"}
        row |= {"place": "HOME", "died": ""}
    rows[1]["died"] = rows[1]["d"][:10]
    columns = 'discharge_location = "place"\ndeath_date = "died"'
    utc = build(tmp_path / "utc", rows, admissions=columns)
    zone = build(
        tmp_path / "zone", rows, admissions=columns, zone="Asia/Tokyo"
    )
    # In Tokyo the discharge is the day after the death: it happened in hospital.
    assert exclusions(utc)["s0-1"] == ""
    assert exclusions(zone)["s0-1"] == "died_in_hospital"


STILL = [
    "Still patient", "STILL IN HOSPITAL", "still an inpatient", "Not yet discharged",
    "Currently admitted", "noch stationär",
]  # fmt: skip


@pytest.mark.parametrize("place", STILL)
def test_a_stay_that_had_not_ended_is_no_index_stay(tmp_path, place):
    rows = visits(3, gap=1)
    for row in rows:
        row["place"] = "Home"
    rows[0]["place"] = rows[3]["place"] = place
    cohort = build(tmp_path, rows, admissions='discharge_location = "place"')
    reasons = exclusions(cohort)
    assert reasons["s0-0"] == "transfer"  # it goes on in the next
    assert reasons["s0-1"] == ""
    assert reasons["s1-1"] == "still_patient"
    assert said(cohort, "1 stays had not ended")


@pytest.mark.parametrize(("other", "is_still"), [("01", True), ("77X", False)])
def test_code_30_is_read_where_all_places_are_codes_of_ub04(
    tmp_path, other, is_still
):
    rows = visits(10, gap=50)
    for row in rows:
        row["place"] = other
    rows[1]["place"] = "30"
    cohort = build(tmp_path, rows, admissions='discharge_location = "place"')
    reasons = exclusions(cohort)
    assert (reasons["s0-1"] == "still_patient") is is_still


def test_a_birth_on_the_day_of_admission_is_no_index_stay(tmp_path):
    rows = visits(4, gap=9)
    for row in rows:
        row["born"] = "1950-01-01"
    rows[0]["born"] = rows[1]["born"] = rows[0]["a"][:10]
    cohort = build(tmp_path, rows, admissions='birth_date = "born"')
    reasons = exclusions(cohort).to_dict()
    assert reasons.pop("s0-0") == "newborn"
    assert set(reasons.values()) == {""}


def test_births_after_the_admission_and_in_the_year_23_give_no_age(tmp_path):
    rows = visits(4)
    for row in rows:
        row["born"] = "01.02.50"
    rows[0]["born"] = rows[1]["born"] = "01.02.75"
    formats = (
        'birth_date = "born"\ntime_format = ["%Y-%m-%d %H:%M:%S", "%d.%m.{}"]'
    )
    two = build(tmp_path / "y", rows, admissions=formats.format("%y"))
    ages = two.to_frame().set_index("stay_id")["age"]
    assert ages["s0-0"] == 45
    assert ages.drop(["s0-0", "s0-1"]).isna().all()
    problem = (
        "birth after the admission, or age over 120: age counted as unknown"
    )
    assert problems(two).count(problem) == 6
    four = build(tmp_path / "Y", rows, admissions=formats.format("%Y"))
    assert four.to_frame()["age"].isna().all()
    unread = [text for text in problems(four) if "unreadable" in text]
    assert len(unread) == 8


def test_rows_of_one_stay_that_contradict_each_other_are_not_joined(tmp_path):
    rows = visits(2, gap=9)
    other = {**rows[0], "d": rows[0]["d"].replace(":00", ":30")}
    apart = {**rows[2], "a": "2021-06-01 08:00:00", "d": "2021-06-03 08:00:00"}
    cohort = build(tmp_path, [*rows, other, apart])
    reasons = cohort.to_frame().groupby("stay_id")["exclusion"].first()
    assert reasons["s0-0"] == reasons["s1-0"] == "duplicate_stay"
    assert not said(cohort, "follow each other")


def test_what_is_left_out_and_looks_like_an_admission_is_said(tmp_path):
    rows = visits(10)
    for number, row in enumerate(rows):
        row["class"] = "E" if number % 5 == 0 else "I"
    where = 'where = { class = ["I"] }'
    cohort = build(tmp_path, rows, admissions=where)
    assert said(cohort, "4 rows of visits that are not read last a night")


def test_pieces_are_put_together_and_versions_are_not_read_twice(tmp_path):
    rows = visits(2, gap=9)
    text = "A discharge summary that is long enough to be cut. " * 4
    pieces = [text[at : at + 40] for at in range(0, len(text), 40)]
    lines = [
        {"n": "1", "s": "s0-0", "line": number, "t": piece}
        for number, piece in enumerate(pieces)
    ]
    whole = build(tmp_path / "cut", rows, notes=lines[::-1]).to_frame()
    assert list(whole.set_index("stay_id").loc["s0-0", "text"]) == [text]
    real = ["Summary.", "The patient was well and went home.", "Diet: none."]
    lines = [
        {"n": "1", "s": "s0-0", "line": number, "t": line}
        for number, line in enumerate(real)
    ]
    whole = build(tmp_path / "lines", rows, notes=lines).to_frame()
    notes = list(whole.set_index("stay_id").loc["s0-0", "text"])
    assert notes == ["\n".join(real)]
    draft = "Summary of a stay, with a plan that is still a draft. "
    versions = [
        {"n": "1", "s": "s0-0", "at": "2021-01-05 10:00:00", "t": draft},
        {"n": "1", "s": "s0-0", "at": "2021-01-05 09:00:00", "t": draft + "?"},
        {
            "n": "2",
            "s": "s0-1",
            "at": "2021-01-09 10:00:00",
            "t": "One thing.",
        },
        {"n": "2", "s": "s0-1", "at": "2021-01-09 10:00:00", "t": "Another."},
    ]
    cohort = build(tmp_path / "versions", rows, notes=versions)
    texts = cohort.to_frame().set_index("stay_id")["text"]
    assert list(texts["s0-0"]) == [draft]
    assert len(texts["s0-1"]) == 2
    assert said(cohort, "1 note ids stand for several texts")
    listed = problems(cohort)
    assert sum("note id with different texts" in text for text in listed) == 2
    assert "older version of a document, not read" in listed


def test_dates_at_noon_are_dates(tmp_path):
    cohort = build(tmp_path, visits(form="%Y-%m-%dT12:00:00Z"))
    assert cohort.n_readmitted == N
    assert len(said(cohort, "times are noon")) == 2


def in_utc(time, zone):
    """Midnight of a day in a zone, as the instant."""
    day = datetime.fromisoformat(time[:10]).replace(tzinfo=ZoneInfo(zone))
    return day.astimezone(ZoneInfo("UTC"))


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "Asia/Tokyo"]
)
def test_midnights_of_a_zone_in_utc_need_the_zone(tmp_path, zone):
    rows = visits(form="%Y-%m-%d", gap=90) + visits(form="%Y-%m-%d")
    for number, row in enumerate(rows):
        row |= {"s": f"s{number}", "p": f"{row['p']} {number // (2 * N)}"}
        row |= {
            name: in_utc(row[name], zone).strftime("%Y-%m-%dT%H:%M:%SZ")
            for name in "ad"
        }
    if (
        zone == "Asia/Tokyo"
    ):  # which has no summer time: one hour proves nothing
        cohort = build(tmp_path / "z", rows)
        assert said(
            cohort, "all times of visits.a are 15:00. If they are dates"
        )
    else:
        with pytest.raises(
            UserError,
            match=r"visits\.a are \d\d:00 or \d\d:00, as dates of another zone",
        ):
            build(tmp_path / "z", rows)
    assert build(tmp_path / "zone", rows, zone=zone).n_readmitted == N
    for row in rows:
        row |= {
            name: row[name].replace("T", " ").removesuffix("Z")
            for name in "ad"
        }
    if zone != "Asia/Tokyo":
        with pytest.raises(
            UserError, match="write them with one, or as dates"
        ):
            build(tmp_path / "naive", rows)


def test_admissions_at_seven_and_eight_are_times(tmp_path):
    rows = visits(gap=40)
    for number, row in enumerate(rows):
        row |= {
            name: f"{row[name][:10]} {7 + number % 3 % 2:02}:00:00"
            for name in "ad"
        }
    assert build(tmp_path, rows).n_stays == 2 * N


@pytest.mark.parametrize("own", ["+01:00", ""])
def test_one_cell_of_another_clock_is_not_compared(tmp_path, own):
    rows = visits(gap=10)
    for row in rows:
        row |= {name: row[name] + own for name in "ad"}
    rows[5]["a"] = rows[5]["a"].removesuffix(own) + ("" if own else "+00:00")
    with pytest.raises(
        UserError, match=r"visits\.a has .* cannot be compared: name the zone"
    ):
        build(tmp_path / "one", rows)
    assert (
        build(tmp_path / "zone", rows, zone="Europe/Berlin").n_readmitted == N
    )


@pytest.mark.parametrize(
    ("write", "meaning"),
    [
        (lambda t: f"{t.timestamp():.0f}", "since 1970"),
        (lambda t: f"{t.timestamp() * 1000:.0f}", "since 1970"),
        (lambda t: f"{(t - datetime(1899, 12, 30)) / timedelta(days=1):.5f}", "spreadsheet"),
        (lambda t: str((t - datetime(1899, 12, 30)).days), "spreadsheet"),
    ],
)  # fmt: skip
def test_numbers_instead_of_times_are_named(tmp_path, write, meaning):
    rows = visits()
    for row in rows:
        row |= {
            name: write(datetime.fromisoformat(row[name])) for name in "ad"
        }
    with pytest.raises(
        UserError, match=rf"visits\.a holds numbers .*{meaning}.*ISO 8601"
    ):
        build(tmp_path, rows)


def test_a_year_of_two_digits_may_be_of_two_centuries(tmp_path):
    rows = visits(4)
    for row, born in zip(
        rows, ["01.02.19", "01.02.20", "01.02.99", "05.01.21"] * 2, strict=True
    ):
        row["born"] = born
    formats = 'time_format = ["%Y-%m-%d %H:%M:%S", "%d.%m.%y"]'
    cohort = build(
        tmp_path, rows, admissions='birth_date = "born"\n' + formats
    )
    ages = cohort.to_frame().set_index("stay_id")["age"].fillna(-1).astype(int)
    assert ages.to_dict() == {
        "s0-0": -1, "s0-1": -1, "s1-0": 21, "s1-1": -1,
        "s2-0": -1, "s2-1": -1, "s3-0": 21, "s3-1": -1,
    }  # fmt: skip
    unclear = "two-digit year of birth that may be of two centuries"
    assert sum(unclear in problem for problem in problems(cohort)) == 6
    newborn = [
        {**row, "born": row["a"][8:10] + ".01.21"}
        for row in visits(2, gap=60)[::2]
    ]
    four = build(
        tmp_path / "n", newborn, admissions='birth_date = "born"\n' + formats
    )
    assert set(exclusions(four)) == {"newborn"}


@pytest.mark.parametrize(
    ("place", "wanted"),
    [("HOME", ""), ("Q7", "same_day_death"), ("", "same_day_death")],
)
def test_a_death_without_a_date_may_have_ended_the_last_stay(
    tmp_path, place, wanted
):
    rows = visits(3, gap=10)
    for row in rows:
        row |= {"place": place or "HOME", "died": ""}
    for row in rows[:2]:
        row |= {"died": "unknown day", "place": place}
    columns = 'discharge_location = "place"\ndeath_date = "died"'
    cohort = build(tmp_path, rows, admissions=columns)
    reasons = exclusions(cohort)
    assert reasons["s0-0"] == ""  # the patient came back
    assert reasons["s0-1"] == wanted
    assert reasons["s1-1"] == ""


def test_a_patient_who_died_on_an_unknown_day_gets_no_risk_where_the_outcome_is_unknown(
    tmp_path,
):
    rows = visits(2, gap=10)
    for row in rows:
        row |= {"place": "HOME", "died": ""}
    rows[1]["died"] = "unknown day"
    columns = 'discharge_location = "place"\ndeath_date = "died"'
    table = build(
        tmp_path, rows, admissions=columns, data_end="2021-01-20"
    ).to_frame()
    table = table.set_index("stay_id")
    assert (
        table.loc[["s0-1", "s1-1"], "exclusion"].tolist() == ["censored"] * 2
    )
    assert table.loc[["s0-1", "s1-1"], "scorable"].tolist() == [False, True]


def test_hours_beyond_a_century_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"at most 876,600 \(a century\)"):
        build(tmp_path, visits(2), hours=1e18)


def test_a_discharge_long_after_all_admissions_stands_for_none(tmp_path):
    rows = visits(4, gap=10)
    rows[1]["d"] = rows[4]["d"] = "2099-12-31 00:00:00"
    cohort = build(tmp_path, rows)
    reasons = exclusions(cohort)
    assert reasons["s0-1"] == reasons["s2-0"] == "missing_time"
    assert set(reasons.drop(["s0-1", "s2-0"])) == {""}
    assert (
        cohort.n_readmitted == 3
    )  # of patients 0, 1 and 3; nobody knows of patient 2
    assert said(
        cohort, "visits.d has 2 times such as 2099-12-31, which stand for none"
    )


STILL_THERE = dict(
    zip(
        FORMS,
        ("STILL IN HOSPITAL", "STILL PATIENT", "Still a patient", "30", "30", "STILL PATIENT"),
        strict=True,
    )
)  # fmt: skip
MIDNIGHT = " 00:00:00"
FIRST = ("2020-03-01" + MIDNIGHT, "2020-03-05" + MIDNIGHT)


@pytest.mark.parametrize("form", FORMS)
def test_kinds_of_times_and_places_are_the_same_in_every_form(tmp_path, form):
    home = (*FIRST, HOME[form])

    def back_on(day):
        return [home, (day + MIDNIGHT, "2020-04-09" + MIDNIGHT, HOME[form])]

    alive = (None, 0)
    cases = {
        "back on day 30": (back_on("2020-04-04"), "", [(None, 1), alive]),
        "back on day 31": (back_on("2020-04-05"), "", [alive, alive]),
        "died that day, home": ([home], "2020-03-05", [alive]),
        "died that day": ([FIRST], "2020-03-05", [("same_day_death", None)]),
        "still there": ([(*FIRST, STILL_THERE[form])], "", [("still_patient", None)]),
        "end in 2099": ([(FIRST[0], "2099-12-31" + MIDNIGHT)], "", [("missing_time", None)]),
        **{f"other {n}": ([home], "", [alive]) for n in range(20)},
    }  # fmt: skip
    written = Cases(
        {case: stays for case, (stays, *_) in cases.items()},
        {case: death for case, (_, death, _) in cases.items()},
    )
    fates = written.fates(written.build(tmp_path, form))
    assert fates == {case: fate for case, (*_, fate) in cases.items()}
