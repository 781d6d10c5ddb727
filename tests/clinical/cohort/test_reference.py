"""The SQL against the same definition written as slow loops, on random and on real admissions."""

import csv
import random
from datetime import date, datetime, timedelta

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clinical.cohort.build import build_cohort

from .conftest import START, by_stay

PLANNED = {"ELECTIVE", "SURGICAL SAME DAY ADMISSION"}
DAY = timedelta(days=1)


def read(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def fault(row: dict, rows: list[dict], place: int) -> str | None:
    """Why a row cannot be used at all; rows before `place` came earlier."""
    if not row["SUBJECT_ID"] or not row["HADM_ID"]:
        return "missing_id"
    twins = [other for other in rows if other["HADM_ID"] == row["HADM_ID"]]
    if any(other != row for other in twins) or row in rows[:place]:
        return "duplicate_stay"
    times = [row["ADMITTIME"], row["DISCHTIME"], row["DEATHTIME"]]
    if any(text and read(text) is None for text in times):
        return "unreadable_time"
    if not times[0] or not times[1]:
        return "missing_time"
    if read(times[1]) < read(times[0]):
        return "negative_stay"
    return None


def timeline(patient, rows, faults) -> list[tuple]:
    """The stays that are known to have begun, as (admit, end, id, place, has no known end)."""
    stays = []
    for place, row in enumerate(rows):
        admit, leave = read(row["ADMITTIME"]), read(row["DISCHTIME"])
        if row["SUBJECT_ID"] != patient or not patient or not admit:
            continue
        is_repeat = faults[place] == "duplicate_stay"
        if is_repeat and not began_once(row, rows, place):
            continue
        is_open = not leave or leave < admit or is_repeat
        stays.append(
            (
                admit,
                admit if is_open else leave,
                row["HADM_ID"],
                place,
                is_open,
            )
        )
    return stays


def slow_cohort(
    rows, *, gap=timedelta(0), data_end=None, exclude_deaths=False, deaths=None
):
    """Per row of the table: (exclusion, readmitted, days, stay that follows)."""
    faults = [fault(row, rows, place) for place, row in enumerate(rows)]
    answers = [(reason, None, None, None) for reason in faults]
    for patient in {row["SUBJECT_ID"] for row in rows}:
        line = timeline(patient, rows, faults)
        death = first_death(patient, rows, (deaths or {}).get(patient))
        episodes: list[list[tuple]] = []
        reached = None
        for stay in sorted(line):
            if reached is None or stay[0] > reached + gap:
                episodes.append([])
                reached = stay[1]
            episodes[-1].append(stay)
            reached = max(reached, stay[1])
        for number, episode in enumerate(episodes):
            last = max(
                episode, key=lambda stay: (stay[4], stay[1], stay[0], stay[2])
            )
            for stay in episode:
                if stay != last and faults[stay[3]] is None:
                    answers[stay[3]] = ("transfer", None, None, None)
            if faults[last[3]] is None:
                answers[last[3]] = judge(
                    rows, episode, last, episodes[number + 1 :],
                    data_end=data_end, exclude_deaths=exclude_deaths, death=death,
                )  # fmt: skip
    return answers


def began_once(row, rows, place) -> bool:
    """Whether this is the first of contradicting rows that agree on patient and admission."""
    twins = [other for other in rows if other["HADM_ID"] == row["HADM_ID"]]
    starts = {(twin["SUBJECT_ID"], read(twin["ADMITTIME"])) for twin in twins}
    is_first = not any(
        other["HADM_ID"] == row["HADM_ID"] for other in rows[:place]
    )
    return is_first and len(starts) == 1 and any(twin != row for twin in twins)


def has_time(moment: datetime) -> bool:
    return moment != moment.replace(hour=0, minute=0, second=0)


def first_death(
    patient, rows, recorded
) -> tuple[date, datetime | None] | None:
    """The first day of death that anything tells of the patient, with the time if it has one."""
    moments = [recorded]
    for row in rows:
        twins = [other for other in rows if other["HADM_ID"] == row["HADM_ID"]]
        if row["SUBJECT_ID"] == patient and all(
            other == row for other in twins
        ):
            moments.append(read(row["DEATHTIME"]))
            moments += [read(row["DISCHTIME"])] * (
                row["HOSPITAL_EXPIRE_FLAG"] == "1"
            )
    moments = [moment for moment in moments if moment]
    if not moments:
        return None
    day = min(moments).date()
    times = [
        moment
        for moment in moments
        if moment.date() == day and has_time(moment)
    ]
    return day, min(times, default=None)


def is_after(moment: datetime, death) -> bool:
    if death is None:
        return False
    day, time = death
    return moment > time if time and has_time(moment) else moment.date() > day


def judge(rows, episode, last, later, *, data_end, exclude_deaths, death):
    """The fate of the stay that ends an episode."""
    members = [rows[stay[3]] for stay in episode]
    end = last[1]
    midnight = end.replace(hour=0, minute=0, second=0)
    if all(is_after(stay[0], death) for stay in episode):
        return ("after_death", None, None, None)
    if any(row["ADMISSION_TYPE"] == "NEWBORN" for row in members):
        return ("newborn", None, None, None)
    day, time = death or (None, None)
    if any(row["HOSPITAL_EXPIRE_FLAG"] == "1" for row in members):
        return ("died_in_hospital", None, None, None)
    if day and (time <= end if time and has_time(end) else day < end.date()):
        return ("died_in_hospital", None, None, None)
    # The table has no places of discharge.
    if day == end.date() and not (time and has_time(end)):
        return ("same_day_death", None, None, None)
    if data_end and end + 30 * DAY > data_end:
        return ("censored", None, None, None)
    days, back = None, None
    for other in later:
        first = min(other)
        is_dead = all(is_after(stay[0], death) for stay in other)
        if rows[first[3]]["ADMISSION_TYPE"] not in PLANNED and not is_dead:
            days, back = (first[0] - end) / DAY, first[2]
            break
    readmitted = int(days is not None and 0 < days < 30)
    died_at = day and (time or datetime.combine(day, datetime.min.time()))
    if (
        exclude_deaths
        and not readmitted
        and died_at
        and midnight <= died_at < end + 30 * DAY
    ):
        return ("died_after_discharge", None, None, None)
    return (None, readmitted, days, back)


def row_of(draw_from, *, patient, id, admit, length, kind, died, fate) -> dict:
    """One row of ADMISSIONS; `fate` spoils some of them."""
    leave = admit + length
    return {
        "SUBJECT_ID": "" if fate == 1 else patient,
        "HADM_ID": id,
        "ADMITTIME": "?"
        if fate == 2
        else str(START + admit * timedelta(hours=6)),
        "DISCHTIME": {3: "31/12/2100", 4: ""}.get(
            fate, str(START + leave * timedelta(hours=6))
        ),
        "DEATHTIME": str(START + leave * timedelta(hours=6))
        if died == 2
        else "",
        "ADMISSION_TYPE": kind,
        "HOSPITAL_EXPIRE_FLAG": "1" if died == 1 else "0",
    }


def random_rows(rng: random.Random, count: int) -> list[dict]:
    """Admissions on a coarse clock, so that stays touch, overlap and repeat."""
    rows = [
        row_of(
            rng,
            patient=str(rng.randrange(count // 4 + 1)),
            id=str(
                1000
                + (rng.randrange(count) if rng.random() < 0.05 else number)
            ),
            admit=rng.randrange(400),
            length=rng.choice([0, 0, 1, 2, 4, 4, 8, 40, -1]),
            kind=rng.choice(
                ["EMERGENCY"] * 4 + ["ELECTIVE", "NEWBORN", "URGENT"]
            ),
            died=rng.choice([0] * 12 + [1, 2]),
            fate=rng.choice([0] * 20 + [1, 2, 3, 4]),
        )
        for number in range(count)
    ]
    return rows + [dict(row) for row in rows if rng.random() < 0.03]


def fast_cohort(folder, rows, *, deaths=None, **options):
    folder.mkdir(exist_ok=True)
    pd.DataFrame(rows).to_csv(folder / "ADMISSIONS.csv", index=False)
    if deaths is not None:
        patients = sorted({row["SUBJECT_ID"] for row in rows} - {""})
        known = [
            {"SUBJECT_ID": p, "DOD": str(deaths.get(p) or "")}
            for p in patients
        ]
        pd.DataFrame(known).to_csv(folder / "PATIENTS.csv", index=False)
    return build_cohort(folder, **options)


def assert_same(cohort, rows, answers):
    """The cohort has exactly the rows that the slow loops give, in any order."""

    def key(patient, stay, admit, answer):
        days = None if answer[2] is None else round(answer[2], 9)
        return tuple(
            str(v)
            for v in (
                patient,
                stay,
                admit,
                answer[0],
                answer[1],
                days,
                answer[3],
            )
        )

    expected = sorted(
        key(
            row["SUBJECT_ID"] or None,
            row["HADM_ID"] or None,
            read(row["ADMITTIME"]),
            answer,
        )
        for row, answer in zip(rows, answers, strict=True)
    )
    frame = cohort.to_frame().astype(object)
    frame = frame.where(frame.notna(), None)
    got = sorted(
        key(r.patient_id, r.stay_id, r.admit_time,
            (r.exclusion, r.readmitted, r.days_to_readmission, r.readmission_stay_id))
        for r in frame.itertuples()
    )  # fmt: skip
    assert got == expected


def assert_flow_adds_up(cohort, count):
    flow = cohort.flow
    assert flow["left"].iloc[0] == count == cohort.n_admissions
    assert (
        flow["left"].shift(fill_value=count) - flow["removed"] == flow["left"]
    ).all()
    assert flow["left"].iloc[-1] == cohort.n_stays
    removed = cohort.to_frame()["exclusion"].value_counts().to_dict()
    assert removed == {
        r.step: r.removed for r in flow.itertuples() if r.removed
    }


HOURS = st.integers(min_value=0, max_value=240)
# Building a cohort takes longer than reading it: few sources, each of several patients.
ROWS = st.lists(
    st.builds(
        lambda **columns: row_of(None, **columns),
        patient=st.sampled_from(["1", "2", "3", "4", "5", "6"]),
        id=st.integers(min_value=1, max_value=90).map(str),
        admit=HOURS,
        length=st.sampled_from([-1, 0, 1, 4, 20, 100]),
        kind=st.sampled_from(["EMERGENCY", "ELECTIVE", "NEWBORN"]),
        died=st.sampled_from([0, 0, 0, 1]),
        fate=st.sampled_from([0, 0, 0, 0, 0, 1, 2, 3, 4]),
    ),
    min_size=1,
    max_size=30,
)


@pytest.mark.slow
@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rows=ROWS, order=st.randoms(use_true_random=False))
def test_counts_add_up_and_the_order_of_rows_does_not_matter(
    tmp_path, rows, order
):
    cohort = fast_cohort(tmp_path / "as_is", rows)
    assert_flow_adds_up(cohort, len(rows))
    assert_same(cohort, rows, slow_cohort(rows))
    shuffled = order.sample(rows, len(rows))
    again = fast_cohort(tmp_path / "shuffled", shuffled)
    pd.testing.assert_frame_equal(cohort.to_frame(), again.to_frame())
    assert cohort.summary == again.summary


NOTES = st.lists(
    st.fixed_dictionaries({
        "HADM_ID": st.sampled_from(["", *map(str, range(1, 13)), "99"]),
        "SUBJECT_ID": st.sampled_from(["", "", "", "", "1", "2"]),
        "CATEGORY": st.sampled_from(["Discharge summary", "Discharge summary", "Nursing", ""]),
        "DESCRIPTION": st.sampled_from(["Report", "Addendum"]),
        "CHARTDATE": st.integers(0, 60).map(lambda day: str(START + day * DAY)[:10]),
        "CHARTTIME": st.sampled_from(["", "?", "2100-01-05 10:00:00", "2100-01-20"]),
        "ISERROR": st.sampled_from(["", "", "", "1"]),
        "TEXT": st.sampled_from(["one", "two", "two, again", " "]),
    }),
    max_size=40,
)  # fmt: skip


@pytest.mark.slow
@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    rows=ROWS,
    notes=NOTES,
    when=st.sampled_from(["discharge", "early"]),
    order=st.randoms(use_true_random=False),
)
def test_the_order_of_notes_does_not_matter(
    tmp_path, rows, notes, when, order
):
    rows = [
        row | {"HADM_ID": str(number)}
        for number, row in enumerate(rows, start=1)
    ]
    notes = [
        {"ROW_ID": str(number)} | note
        for number, note in enumerate(notes, start=1)
    ]
    built = []
    for name in ("as_is", "shuffled"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        columns = ["ROW_ID", "HADM_ID", "SUBJECT_ID", "CATEGORY", "DESCRIPTION", "CHARTDATE",
                   "CHARTTIME", "ISERROR", "TEXT"]  # fmt: skip
        pd.DataFrame(notes, columns=columns).to_csv(
            folder / "NOTEEVENTS.csv", index=False
        )
        built.append(fast_cohort(folder, rows, notes=when))
        rows, notes = (
            order.sample(rows, len(rows)),
            order.sample(notes, len(notes)),
        )
    one, other = built
    pd.testing.assert_frame_equal(one.to_frame(), other.to_frame())
    assert one.summary == other.summary
    assert_flow_adds_up(one, len(rows))
    # No note is lost on the way: each has a fate.
    assert sum(one.summary["notes_read"].values()) == len(notes)


@pytest.mark.parametrize("seed", range(3))
def test_many_random_admissions(tmp_path, define, seed):
    rows = random_rows(random.Random(seed), 400)
    deaths = {
        row["SUBJECT_ID"]: START
        + timedelta(days=random.Random(n).randrange(130))
        for n, row in enumerate(rows)
        if n % 3 == 0
    }
    hours, data_end = [
        (0, None),
        (7, None),
        (24, START + timedelta(days=110)),
    ][seed]
    path = define(
        transfer_gap_hours=hours,
        death_after_discharge='"exclude"' if seed == 1 else '"keep"',
    )
    cohort = fast_cohort(
        tmp_path / "hospital",
        rows,
        deaths=deaths,
        definition=path,
        data_end=data_end,
    )
    answers = slow_cohort(
        rows,
        gap=timedelta(hours=hours),
        data_end=data_end,
        exclude_deaths=seed == 1,
        deaths=deaths,
    )
    assert_same(cohort, rows, answers)
    assert_flow_adds_up(cohort, len(rows))
    # The table exercises what it is meant to: every one of these came about.
    reasons = {answer[0] for answer in answers}
    assert reasons >= {
        None, "missing_id", "duplicate_stay", "unreadable_time", "missing_time", "negative_stay",
        "transfer", "newborn", "died_in_hospital", "same_day_death", "after_death",
    }  # fmt: skip
    assert {answer[1] for answer in answers} == {None, 0, 1}


@pytest.mark.data
def test_the_open_mimic_demo(data_folder):
    folder = data_folder / "mimic"
    if not folder.is_dir():
        pytest.skip(
            "needs the public data: ../shared/data or $DOMAINBERT_DATA"
        )
    with (folder / "ADMISSIONS.csv").open() as file:
        rows = [
            {name.upper(): text for name, text in row.items()}
            for row in csv.DictReader(file)
        ]
    cohort = build_cohort(folder)
    assert_same(cohort, rows, slow_cohort(rows))
    assert_flow_adds_up(cohort, 129)
    assert (cohort.n_stays, cohort.n_patients, cohort.n_readmitted) == (
        89,
        67,
        11,
    )

    # Read off the table by hand, stay by stay.
    found = by_stay(cohort)
    for stay, readmitted, days in [
        (
            "142582",
            1,
            9.25,
        ),  # 10059: home on August 13 at 11:33, back on August 22 at 17:33
        ("122098", None, None),  # and died there
        (
            "169938",
            1,
            17.51,
        ),  # 10088: January 11 at 15:45 to January 29 at 04:00
        ("168233", 0, 91.25),  # February 10 to May 12
        ("149044", 0, None),  # the last one
        (
            "157466",
            1,
            1.613,
        ),  # 10119: August 19 at 16:15 to August 21 at 06:58
        ("165436", 0, None),
        (
            "172454",
            1,
            23.727,
        ),  # 43881: September 30 at 16:17 to October 24 at 09:44
        ("167021", 0, None),
        ("125157", 1, 11.057),  # 44083: May 11 at 14:15 to May 22 at 15:37
        ("131048", 1, 3.094),  # May 25 at 13:30 to May 28 at 15:45
        ("198330", 0, None),
        (
            "186361",
            0,
            42.07,
        ),  # 40310: November 12 at 14:40 to December 24 at 16:16
        ("157609", None, None),  # and died there
    ]:
        assert found[stay]["readmitted"] == readmitted
        assert found[stay]["days_to_readmission"] == (
            pytest.approx(days, abs=1e-2) if days is not None else None
        )
