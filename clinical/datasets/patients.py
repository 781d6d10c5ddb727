"""The made-up hospital's patients and stays: facts, risks, outcomes and dates."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING, Literal

from clinical.datasets.sentences import FACTS, FILLER, INTERCEPT

if TYPE_CHECKING:
    import random

# First day and years of admissions; charts tell local time.
CALENDARS = {"shifted": (datetime(2100, 1, 1), 90), "real": (datetime(2018, 1, 1), 2)}  # noqa: DTZ001
_RETURNS_LATER = (
    0.35  # share of stays without a readmission that a much later stay follows
)
_PLANNED = 0.05  # share of stays without a readmission that a planned return in 30 days follows
_TRANSFERRED = 0.02  # share of stays that begin with a transfer between two services
_DIES = 0.03  # share of later stays that end in death
_NEWBORN = 0.03  # newborns per patient


@dataclass(frozen=True)
class Stay:
    """One admission; index and elective stays have a risk and an outcome drawn with it.

    `risk` is the probability, 0 to 1, of an unplanned readmission within 30 days. `facts` are
    names; `diagnosis` does not depend on them.
    """

    kind: Literal["index", "elective", "transfer", "death", "newborn"]
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
    logit = INTERCEPT + sum(fact.weight for fact in FACTS if fact.name in facts)
    return round(
        1.0 / (1.0 + math.exp(-logit)), 6
    )  # as written: equal facts, equal risk


def draw_facts(rng: random.Random) -> frozenset[str]:
    """The names of the facts that are true of a stay."""
    return frozenset(fact.name for fact in FACTS if rng.random() < fact.rate)


def draw_patients(
    stays: int, rng: random.Random, *, dates: str = "shifted"
) -> list[Patient]:
    """Patients with exactly `stays` index stays in total, and a few other stays.

    `dates` is one of `CALENDARS`.
    """
    patients: list[Patient] = []
    while stays > 0:
        chain = _draw_chain(stays, rng, dates)
        stays -= sum(stay.risk is not None for stay in chain)
        years = min(max(rng.gauss(66, 15), 18.5), 97)
        birth = datetime.combine(
            chain[0].admitted - timedelta(days=365.25 * years), time()
        )
        if years >= 90:  # MIMIC-III hides the age of the very old in this way
            birth = birth.replace(year=chain[0].admitted.year - 300, day=1)
        patients.append(Patient(rng.choice("MF"), birth, tuple(chain)))
        if rng.random() < _NEWBORN:
            born = _random_start(rng, dates)
            baby = Stay(
                "newborn", born, born + timedelta(days=rng.uniform(1.5, 4)), "NEWBORN"
            )
            patients.append(
                Patient(rng.choice("MF"), datetime.combine(born, time()), (baby,))
            )
    return patients


def _draw_chain(most: int, rng: random.Random, dates: str) -> list[Stay]:
    """One patient's stays: each outcome is drawn first, and the next stay follows from it.

    The chain ends after a stay without a readmission, or with a death, which is not an index stay.
    So no outcome is cut off, and a stay may still follow the last of `most` index stays.
    """
    chain: list[Stay] = []
    admitted, planned = _random_start(rng, dates), False
    no_return_before = admitted
    while True:
        dies = most == 0 or (len(chain) > 0 and not planned and rng.random() < _DIES)
        if not planned and rng.random() < _TRANSFERRED and not dies:
            left = admitted + timedelta(days=rng.uniform(1, 3))
            chain.append(
                Stay("transfer", admitted, left, rng.choice(FILLER["diagnoses"]))
            )
            admitted = left - timedelta(hours=rng.choice((0, 0, 1, 4)))
        stay = _draw_stay(admitted, rng, planned=planned, dies=dies)
        chain.append(stay)
        most -= 1
        if dies:
            return chain
        if stay.readmitted:
            first = max(stay.discharged + timedelta(days=1), no_return_before)
            last = stay.discharged + timedelta(days=29)
            admitted, planned = first + (last - first) * rng.random(), False
            continue
        no_return_before = stay.discharged + timedelta(days=31)
        planned = rng.random() < _PLANNED
        if most == 0 or not (planned or rng.random() < _RETURNS_LATER):
            return chain
        days = rng.uniform(20, 28) if planned else 46 + rng.expovariate(1 / 200)
        admitted = stay.discharged + timedelta(days=days)


def _draw_stay(
    admitted: datetime, rng: random.Random, *, planned: bool, dies: bool
) -> Stay:
    discharged = admitted + timedelta(
        days=min(max(rng.lognormvariate(1.5, 0.55), 2.1), 40)
    )
    facts = draw_facts(rng)
    diagnosis = rng.choice(FILLER["diagnoses"])
    if dies:
        return Stay("death", admitted, discharged, diagnosis, facts)
    risk = true_risk(facts)
    kind: Literal["elective", "index"] = "elective" if planned else "index"
    return Stay(kind, admitted, discharged, diagnosis, facts, risk, rng.random() < risk)


def _random_start(rng: random.Random, dates: str) -> datetime:
    first, years = CALENDARS[dates]
    return first + timedelta(minutes=rng.randrange(years * 365 * 24 * 60))
