"""The made-up hospital's patients and stays: facts, risks, outcomes and dates."""

import math
import random
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Literal

from clinical.datasets.sentences import FACTS, FILLER, INTERCEPT

# First day and years of admissions; charts tell local time.
CALENDARS = {
    "shifted": (datetime(2100, 1, 1), 90),  # noqa: DTZ001
    "real": (datetime(2018, 1, 1), 2),  # noqa: DTZ001
}
# Shares of stays without a readmission that a much later stay follows, or a planned return within
# 30 days.
_RETURNS_LATER = 0.35
_PLANNED = 0.05
# Share of stays that begin with a transfer between two services.
_TRANSFERRED = 0.02
_DIES = 0.03  # share of later stays that end in death
_NEWBORN = 0.03  # newborns per patient


@dataclass(frozen=True)
class Stay:
    """One admission; index and elective stays have a risk and an outcome drawn with it.

    `risk` is the probability, 0 to 1, of an unplanned readmission within 30 days. `facts` are
    names; `diagnosis` does not depend on them. `course` says how the stay comes about or ends.
    """

    course: Literal["index", "elective", "transfer", "death", "newborn"]
    admitted: datetime
    discharged: datetime
    diagnosis: str
    facts: frozenset[str] = frozenset()
    risk: float | None = None
    readmitted: bool | None = None


@dataclass(frozen=True)
class Patient:
    """One patient with all stays in time order; `birth` is a date at midnight."""

    sex: str
    birth: datetime
    stays: tuple[Stay, ...] = field(repr=False)


def true_risk(facts: Collection[str]) -> float:
    """Probability of an unplanned readmission within 30 days given the facts of a stay."""
    logit = INTERCEPT + sum(
        fact.weight for fact in FACTS if fact.name in facts
    )
    # Rounded as it is written, so that equal facts have equal risks.
    return round(1.0 / (1.0 + math.exp(-logit)), 6)


def draw_facts(rng: random.Random) -> frozenset[str]:
    """The names of the facts that are true of a stay."""
    return frozenset(fact.name for fact in FACTS if rng.random() < fact.rate)


def draw_patients(
    stays: int,
    rng: random.Random,
    *,
    dates: str = "shifted",
) -> list[Patient]:
    """Patients with exactly `stays` index stays in total, and a few other stays.

    `dates` is one of `CALENDARS`.
    """
    patients = []
    while stays > 0:
        chain = _draw_chain(stays, rng, dates)
        stays -= sum(stay.risk is not None for stay in chain)
        first_day = chain[0].admitted
        years = min(max(rng.gauss(66, 15), 18.5), 97)
        birth = _midnight(first_day - timedelta(days=365.25 * years))
        if years >= 90:  # MIMIC-III hides the age of the very old in this way
            birth = birth.replace(year=first_day.year - 300, day=1)
        patients.append(Patient(rng.choice("MF"), birth, tuple(chain)))
        if rng.random() < _NEWBORN:
            born = _random_start(rng, dates)
            leaves = born + timedelta(days=rng.uniform(1.5, 4))
            baby = Stay("newborn", born, leaves, "NEWBORN")
            patients.append(
                Patient(rng.choice("MF"), _midnight(born), (baby,))
            )
    return patients


def _midnight(moment: datetime) -> datetime:
    return datetime.combine(moment, time())


def _draw_chain(n_left: int, rng: random.Random, dates: str) -> list[Stay]:
    """One patient's stays: each outcome is drawn first, and the next stay follows from it.

    The chain ends after a stay without a readmission, or with a death, which is not an index stay.
    So no outcome is cut off, and a stay may still follow the last of `n_left` index stays.
    """
    chain: list[Stay] = []
    admitted = _random_start(rng, dates)
    no_return_before = admitted
    planned = False
    while True:
        may_die = len(chain) > 0 and not planned
        dies = n_left == 0 or (may_die and rng.random() < _DIES)
        if not planned and rng.random() < _TRANSFERRED and not dies:
            moved = admitted + timedelta(days=rng.uniform(1, 3))
            diagnosis = rng.choice(FILLER["diagnoses"])
            chain.append(Stay("transfer", admitted, moved, diagnosis))
            admitted = moved - timedelta(hours=rng.choice((0, 0, 1, 4)))
        stay = _draw_stay(admitted, rng, planned=planned, dies=dies)
        chain.append(stay)
        n_left -= 1
        if dies:
            return chain
        if stay.readmitted:
            first = max(stay.discharged + timedelta(days=1), no_return_before)
            last = stay.discharged + timedelta(days=29)
            admitted = first + (last - first) * rng.random()
            planned = False
            continue
        no_return_before = stay.discharged + timedelta(days=31)
        planned = rng.random() < _PLANNED
        if n_left == 0 or not (planned or rng.random() < _RETURNS_LATER):
            return chain
        days = (
            rng.uniform(20, 28) if planned else 46 + rng.expovariate(1 / 200)
        )
        admitted = stay.discharged + timedelta(days=days)


def _draw_stay(
    admitted: datetime,
    rng: random.Random,
    *,
    planned: bool,
    dies: bool,
) -> Stay:
    """A stay with a length, facts and, unless the patient dies, a readmission by its risk."""
    days = min(max(rng.lognormvariate(1.5, 0.55), 2.1), 40)
    discharged = admitted + timedelta(days=days)
    facts = draw_facts(rng)
    diagnosis = rng.choice(FILLER["diagnoses"])
    if dies:
        return Stay("death", admitted, discharged, diagnosis, facts)
    risk = true_risk(facts)
    readmitted = rng.random() < risk
    course: Literal["elective", "index"] = "elective" if planned else "index"
    return Stay(
        course, admitted, discharged, diagnosis, facts, risk, readmitted
    )


def _random_start(rng: random.Random, dates: str) -> datetime:
    first, years = CALENDARS[dates]
    return first + timedelta(minutes=rng.randrange(years * 365 * 24 * 60))
