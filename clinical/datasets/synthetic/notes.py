"""Write the made-up notes: discharge summaries, addenda, nursing and physician notes."""

from __future__ import annotations

import functools
import math
import re
import textwrap
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from clinical.datasets.synthetic.phrases import FILLER, FILLINGS, KIN, NEUTRAL
from clinical.datasets.synthetic.telling import Names, Told, fill, statements, tell

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from clinical.datasets.synthetic.stays import Patient, Stay
    from clinical.datasets.synthetic.telling import Statement

    _Section = Callable[[Names, random.Random], str]

_WIDTH = 75
_TYPICAL_PIECES = 1330
_LEAST_PIECES, _MOST_PIECES = 1120, 3400
_SHORT_PIECES = (65, 125)  # of a nursing or physician note


@dataclass(frozen=True)
class Chart:
    """What the notes of a stay share: which facts and conditions are true, and details of them.

    `told` collects the sentences that its notes tell facts in.
    """

    patient: Patient
    stay: Stay
    true_names: frozenset[str]
    complaint: str
    details: Mapping[str, str]
    told: list[Told] = field(default_factory=list)


def draw_chart(patient: Patient, stay: Stay, facts: frozenset[str], rng: random.Random) -> Chart:
    """Draw what a stay's notes share beyond the facts; it does not change the risk."""
    neutral = {condition.name for condition in NEUTRAL if rng.random() < condition.rate}
    details = {slot: rng.choice(options) for slot, options in FILLINGS.items()}
    return Chart(patient, stay, facts | neutral, rng.choice(FILLER["complaints"]), details)


def discharge_summary(chart: Chart, rng: random.Random) -> str:
    """A discharge summary of about 1,000 to 4,000 word-pieces, usually nearer to 1,000.

    The hospital course tells all true facts, and the issues that follow it tell them again. Each
    has about 300 word-pieces, so a cut between two windows leaves at least one of them whole.
    """
    names = _names(chart, rng)
    target = min(max(_TYPICAL_PIECES * math.exp(rng.gauss(0.0, 0.42)), _LEAST_PIECES), _MOST_PIECES)
    head = [_header(chart, names, rng), _history(chart, names, rng)]
    core = _hospital_course(chart, names, rng)
    tail = [_discharge_medications(names, rng), _instructions(chart, names, rng)]
    middle = [_background(names, rng), _exam(names, rng)]
    pieces = sum(count_pieces(text) for text in (*head, core, *tail, *middle))
    extras = []
    reports = [functools.partial(_report, report) for report in FILLER["reports"]]
    writers: list[Callable[[Names, random.Random], str]] = [
        *reports,
        *[_laboratory, _progress] * 12,
    ]
    for write in rng.sample(writers, len(writers)):
        if pieces >= target:
            break
        extras.append(write(names, rng))
        pieces += count_pieces(extras[-1])
    body = middle + extras
    body.insert(rng.randint(0, len(body)), core)
    return "\n\n".join([*head, *body, *tail]) + "\n"


def brief_summary(chart: Chart, rng: random.Random) -> str:
    """The hospital course and the issues only: about 200 word-pieces with all true facts."""
    return _hospital_course(chart, _names(chart, rng), rng) + "\n"


def addendum(chart: Chart, rng: random.Random) -> str:
    """A short addendum to a discharge summary, without any fact."""
    names = _names(chart, rng)
    lines = _draw(FILLER["progress"], 4, names, rng)
    return f"{_dates(chart)}\n\nADDENDUM:\n{_wrap(' '.join(lines))}\n"


def nursing_note(chart: Chart, rng: random.Random, *, told: float = 0.5) -> str:
    """A nursing note of 60 to 150 word-pieces; it tells each true fact with chance `told`."""
    story, lines = _short_note(chart, FILLER["nursing"], rng, told)
    return "\n".join(["NPN 1900-0700", *lines, _wrap(f"NOTE: {story}")]) + "\n"


def physician_note(chart: Chart, rng: random.Random, *, told: float = 0.5) -> str:
    """A physician's note of 60 to 150 word-pieces; it tells each true fact with chance `told`."""
    story, lines = _short_note(chart, FILLER["physician"], rng, told)
    return "\n".join([f"Chief Complaint: {chart.complaint}", _wrap(story), *lines]) + "\n"


def newborn_summary(chart: Chart, rng: random.Random) -> str:
    """A short discharge summary of a healthy newborn."""
    text = fill(FILLER["newborn"][0], {}, rng)
    return f"{_dates(chart)}\n\nService: NEONATOLOGY\n\n{_wrap(text)}\n"


def count_pieces(text: str) -> int:
    """A rough count of the word-pieces of an English text, within about a tenth."""
    tokens = re.findall(r"[A-Za-z]+|\d{1,3}|[^\w\s]", text)
    return sum(1 + (len(token) - 1) // 7 for token in tokens)


def _names(chart: Chart, rng: random.Random) -> Names:
    female = ("she", "her", "Ms.", "woman")
    forms = ("he", "his", "Mr.", "man") if chart.patient.sex == "M" else female
    admitted = chart.stay.admitted
    days = max(1, (chart.stay.discharged - admitted).days)
    years = int((admitted - chart.patient.birth).days / 365.25)
    return {
        **chart.details,
        **dict(zip(("he", "his", "Mr", "man"), forms, strict=True)),
        "He": forms[0].capitalize(),
        "His": forms[1].capitalize(),
        "complaint": chart.complaint,
        "age": str(years) if years < 90 else "[**Age over 90 **]",
        "pmh": " and ".join(rng.sample(FILLER["history"], 2)),
        "kin": [kin for people in KIN.values() for kin in people],
        "date": [_date(admitted + timedelta(days=rng.randint(0, days))) for _ in range(4)],
    }


def _header(chart: Chart, names: Names, rng: random.Random) -> str:
    service = rng.choice(("MEDICINE", "CARDIOTHORACIC", "SURGERY", "NEUROLOGY", "ORTHOPAEDICS"))
    procedure = fill(rng.choice(FILLER["procedures"]), names, rng)
    allergy = rng.choice(FILLER["allergies"])
    return (
        f"{_dates(chart)}\n\nDate of Birth:  [**{_date(chart.patient.birth)}**]     "
        f"Sex:  {chart.patient.sex}\n\nService: {service}\n\n"
        f"Allergies:\n{allergy}\n\n"
        f"Attending: [**First Name{rng.randint(1, 9)} (NamePattern{rng.randint(1, 2)}) **]\n\n"
        f"Chief Complaint:\n{chart.complaint.capitalize()}\n\n"
        f"Major Surgical or Invasive Procedure:\n{procedure}"
    )


def _history(chart: Chart, names: Names, rng: random.Random) -> str:
    opening = fill(rng.choice(FILLER["presentation"]), names, rng)
    # Charts copy part of the hospital course forward.
    parts = statements(chart.true_names, rng, told=0.5, refuted=0.15)
    told = _tell(chart, parts, names, rng, clause_share=0.8)
    lines = _draw(FILLER["hpi"], rng.randint(3, 5), names, rng) + told
    rng.shuffle(lines)
    return "HISTORY OF PRESENT ILLNESS:\n" + _wrap(" ".join([opening, *lines]))


def _hospital_course(chart: Chart, names: Names, rng: random.Random) -> str:
    course = _tell(chart, statements(chart.true_names, rng), names, rng, clause_share=0.7)
    issues = _tell(chart, statements(chart.true_names, rng), names, rng, clause_share=0.1)
    numbered = "\n".join(_wrap(f"{i}. {line}") for i, line in enumerate(issues, start=1))
    title = rng.choice(("BRIEF HOSPITAL COURSE", "HOSPITAL COURSE", "ASSESSMENT AND PLAN"))
    second = rng.choice(("TRANSITIONAL ISSUES", "ISSUES", "SUMMARY FOR THE NEXT CARE TEAM"))
    return f"{title}:\n{_wrap(' '.join(course))}\n\n{second}:\n{numbered}"


def _tell(
    chart: Chart, parts: list[Statement], names: Names, rng: random.Random, *, clause_share: float
) -> list[str]:
    """Sentences for all statements, which the chart collects."""
    told = tell(parts, names, rng, clause_share=clause_share)
    chart.told.extend(told)
    return [one.sentence for one in told]


def _dates(chart: Chart) -> str:
    admitted, discharged = _date(chart.stay.admitted), _date(chart.stay.discharged)
    return f"Admission Date:  [**{admitted}**]     Discharge Date:  [**{discharged}**]"


def _background(names: Names, rng: random.Random) -> str:
    history = _draw(FILLER["history"], rng.randint(3, 7), names, rng)
    surgery = _draw(FILLER["surgeries"], rng.randint(0, 2), names, rng)
    listed = "\n".join(f"{i}. {item.capitalize()}" for i, item in enumerate(history + surgery, 1))
    social = " ".join(_draw(FILLER["social"], rng.randint(2, 3), names, rng))
    family = " ".join(_draw(FILLER["family"], rng.randint(1, 3), names, rng))
    return (
        f"PAST MEDICAL HISTORY:\n{listed}\n\nSOCIAL HISTORY:\n{_wrap(social)}\n\n"
        f"FAMILY HISTORY:\n{_wrap(family)}"
    )


def _exam(names: Names, rng: random.Random) -> str:
    count = rng.randint(6, len(FILLER["exam"]))
    kept = sorted(rng.sample(range(len(FILLER["exam"])), count))
    lines = [fill(FILLER["exam"][i], names, rng) for i in kept]
    return "PHYSICAL EXAM:\n" + "\n".join(lines)


def _laboratory(names: Names, rng: random.Random) -> str:
    lines = _draw(FILLER["labs"], rng.randint(2, 4), names, rng)
    title = rng.choice(("PERTINENT RESULTS", "LABS", "LABORATORY DATA"))
    stamp = "[**{date}**] {4..11}:{10..59}AM "
    return f"{title}:\n" + "\n".join(_wrap(fill(stamp, names, rng) + line) for line in lines)


def _short_note(
    chart: Chart, templates: Sequence[str], rng: random.Random, told: float
) -> tuple[str, list[str]]:
    """A few sentences on the facts, and lines from the templates that fill up the note."""
    names = _names(chart, rng)
    # Absent facts are denied less often in notes that tell less.
    parts = statements(chart.true_names, rng, told=told, refuted=0.4 * told)
    story = ""
    for one in tell(parts, names, rng, clause_share=0.6):
        if count_pieces(story + one.sentence) <= _SHORT_PIECES[1]:
            story = f"{story} {one.sentence}".strip()
            chart.told.append(one)
    lines: list[str] = []
    for line in _draw(templates, len(templates), names, rng):
        if lines and count_pieces(" ".join([story, *lines])) >= _SHORT_PIECES[0]:
            break
        lines.append(line)
    return story, lines


def _report(report: str, names: Names, rng: random.Random) -> str:
    title, text = report.split(": ", 1)
    return f"{title} {fill('[**{date}**]', names, rng)}:\n{_wrap(fill(text, names, rng))}"


def _progress(names: Names, rng: random.Random) -> str:
    lines = _draw(FILLER["progress"], rng.randint(4, 8), names, rng)
    return f"EVENTS {fill('[**{date}**]', names, rng)}:\n{_wrap(' '.join(lines))}"


def _discharge_medications(names: Names, rng: random.Random) -> str:
    new = rng.randint(1, 3)
    drugs = _draw(FILLER["medications"], rng.randint(4, 8) + new, names, rng)
    before = "\n".join(f"{i}. {item}" for i, item in enumerate(drugs[:-new], 1))
    after = "\n".join(f"{i}. {item}" for i, item in enumerate(drugs, 1))
    return f"MEDICATIONS ON ADMISSION:\n{before}\n\nDISCHARGE MEDICATIONS:\n{after}"


def _instructions(chart: Chart, names: Names, rng: random.Random) -> str:
    if chart.stay.kind == "death":
        return "DISCHARGE CONDITION:\nExpired."
    condition = rng.choice(FILLER["conditions"])
    lines = _draw(FILLER["instructions"], rng.randint(3, 6), names, rng)
    told = _wrap(" ".join(lines))
    return f"DISCHARGE CONDITION:\n{_wrap(condition)}\n\nDISCHARGE INSTRUCTIONS:\n{told}"


def _draw(templates: Sequence[str], count: int, names: Names, rng: random.Random) -> list[str]:
    return [fill(template, names, rng) for template in rng.sample(templates, count)]


def _wrap(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _date(moment: datetime) -> str:
    return f"{moment.year}-{moment.month}-{moment.day}"
