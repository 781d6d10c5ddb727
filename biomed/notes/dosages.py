"""FHIR dosages of what a text says about a drug: timing, route and amount, where they are exact.

The words of `medications.toml` are one set of patterns, the grammar of medications.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from biomed.notes.patterns import Patterns
from biomed.notes.statuses import status_cues
from domainbert.files import read_toml

if TYPE_CHECKING:
    from biomed.notes.attributes import Attribute
    from domainbert.files import JsonObject

DATA = read_toml(__file__, "medications.toml")


def _macros() -> dict[str, str]:
    """The macros of the grammar."""
    macros = {**DATA["macros"], **DATA["words"]}
    for table in ("form", "route", "frequency"):
        words = "\n".join(row["words"].strip() for row in DATA[table])
        # The longer ones first.
        macros[table] = "\n".join(
            sorted(words.splitlines(), key=len, reverse=True)
        )
    for table in ("units", "per"):
        macros[table] = "|".join(DATA[table].values())
    macros["counted"] = DATA["units"][""]
    macros["cues"] = status_cues()
    return macros


PATTERNS = Patterns(_macros())

_FORM_WORDS = re.compile(
    rf"(?!insulin)(?:(?:{PATTERNS.source('{form_words}')})(?!\w)[\s/.,-]{{0,3}}){{1,6}}"
)


def is_unit_or_form(text: str) -> bool:
    """Whether words are those of units, dose forms and routes only: "mcg/actuation"."""
    return _FORM_WORDS.fullmatch(text.lower().strip()) is not None


UCUM = "http://unitsofmeasure.org"
_SNOMED = "http://snomed.info/sct"
_TIMES = re.compile(PATTERNS.source("{frequency}"))
_COUNT = re.compile(PATTERNS.source("{count}"))
_RANGE = re.compile(r"\s?(?:-(?!\s?half)|\u2013|\bto\b|\bor\b)\s?")
_THOUSANDS = re.compile(
    r"[,\x20\xa0\u202f](?=\d{3}\b)"
)  # not the comma of "0,5"
_FRACTION = re.compile(r"(\d{1,2})\s?([\xbc-\xbe]|1/[2-4]|3/4)")
_MAGNITUDE = re.compile(r"(.{1,12}?)\s?(million|thousand|k)")
_DIVIDED = re.compile(r"\s?/\s?|\s(?:per|each)\s")
_RATE = re.compile(r"(n|\d)/(n|\d)([a-z]+)")
_DURATION = re.compile(
    r"(.{0,20}?)[\s-]{0,6}(d|w|mo|y|h|n)(?:ays?|(?:ee)?ks?|nths?|s|ea?rs?|(?:ou)?rs?|ights?)?"
)
_PART_OF = re.compile(
    r"(\d{1,2})/(7|52|12)"
)  # of a week, or of a year in weeks or months
# A value of FHIR, which is written as JSON.
_STRENGTHS = ("/mL", "/L", "/dL", "/{dose}")
_PER_TIME = ("/h", "/min", "/(24.h)", "/(72.h)")
_ROUTES: dict[str, JsonObject] = {row["name"]: row for row in DATA["route"]}
# The meanings of each kind of words, with the words.
_WORDS = {
    "route": [(row["name"], row["words"]) for row in DATA["route"]],
    "frequency": [(row["repeat"], row["words"]) for row in DATA["frequency"]],
    "unit": DATA["units"].items(),
    "per": DATA["per"].items(),
}


@cache
def _patterns(kind: str) -> list[tuple[str, re.Pattern[str]]]:
    return [
        (value, re.compile(PATTERNS.source(words)))
        for value, words in _WORDS[kind]
    ]


@cache
def meaning(kind: str, text: str) -> str:
    """What an attribute means: a route's name, a unit in UCUM, `repeat` of a frequency; or ""."""
    written = text.lower()
    for value, pattern in _patterns(kind):
        if pattern.fullmatch(written):
            return value
    return ""


def dosages(attributes: Iterable[Attribute]) -> list[JsonObject]:
    """FHIR R4 Dosages of a drug; a dose after a frequency or a duration starts another one.

    They have a `sequence` only if they follow each other, as those of a taper, whose doses have a
    duration each: doses of the morning and of the evening are taken at the same time.
    """
    groups: list[list[Attribute]] = [[]]
    for part in attributes:
        kinds = {earlier.kind for earlier in groups[-1]}
        is_timed = not kinds.isdisjoint(("frequency", "duration"))
        if part.kind == "dose" and "dose" in kinds and is_timed:
            groups.append([])
        groups[-1].append(part)
    is_taper = len(groups) > 1 and all(
        any(part.kind == "duration" for part in group) for group in groups[:-1]
    )
    results = []
    for number, parts in enumerate(groups, start=1):
        dosage = _dosage(parts)
        if dosage["text"] and is_taper:
            dosage["sequence"] = number
        if dosage["text"]:
            results.append(dosage)
    return results


def route_concept(text: str) -> int | None:
    """The OMOP concept of a route as a text writes it."""
    return _ROUTES[meaning("route", text)].get("omop")


def _dosage(parts: list[Attribute]) -> JsonObject:
    """The FHIR Dosage of the attributes of one drug."""
    texts: dict[str, list[str]] = {}
    stated = {}
    for part in parts:
        texts.setdefault(part.kind, []).append(part.text)
        if part.kind not in ("reason", "reaction"):
            stated[part.start] = part.text  # a unit may be a form too
    dosage: JsonObject = {"text": " ".join(stated.values())}
    timing = _timing(texts)
    if timing:
        dosage["timing"] = timing
    if "as_needed" in texts and "reason" in texts:
        dosage["asNeededCodeableConcept"] = {
            "text": ", ".join(texts["reason"])
        }
    elif "as_needed" in texts:
        dosage["asNeededBoolean"] = True
    if "route" in texts:
        dosage["route"] = _route(texts["route"][0])
    amount = _amount(parts)
    if amount:
        dosage["doseAndRate"] = [amount]
    return dosage


def _route(text: str) -> JsonObject:
    row = _ROUTES[meaning("route", text)]
    coding = {"system": _SNOMED, "code": row["snomed"], "display": row["name"]}
    return {"text": text, "coding": [coding]}


def _timing(texts: dict[str, list[str]]) -> JsonObject:
    """The FHIR Timing of a frequency and a duration."""
    timing = {}
    frequency = " ".join(texts.get("frequency", []))
    repeat = _repeat(frequency)
    durations = texts.get("duration", [])
    if len(durations) == 1:
        repeat |= _bounds(durations[0])
    if repeat:
        timing["repeat"] = repeat
    if frequency:
        timing["code"] = {"text": frequency}
    return timing


def _repeat(frequency: str) -> JsonObject:
    """Timing.repeat; empty if a part of the frequency has no exact meaning."""
    repeat: JsonObject = {}
    for match in _TIMES.finditer(frequency.lower()):
        value = meaning("frequency", match[0])
        rate = _RATE.fullmatch(value)
        if not value:
            return {}
        if value == "1":
            repeat["count"] = 1
        elif rate is None:
            repeat.setdefault("when", []).extend(value.split(","))
        elif "frequency" not in repeat:
            ends = _numbers(match[0])
            repeat |= _ends("frequency", rate[1], ends)
            repeat |= _ends("period", rate[2], ends)
            repeat["periodUnit"] = rate[3]
    return repeat


def _ends(name: str, number: str, ends: list[float]) -> dict[str, float]:
    """A number and its maximum; "n" stands for the numbers of the text.

    FHIR wants whole numbers as such; what is no whole number of times is left out.
    """
    values = ends
    if number != "n":
        values = [float(number)]
    if name == "frequency" and not all(value.is_integer() for value in values):
        return {}
    json_numbers = [
        int(value) if value.is_integer() else value for value in values
    ]
    return dict(zip((name, f"{name}Max"), json_numbers, strict=False))


def _numbers(text: str) -> list[float]:
    """The first number of a text, or both ends of its range."""
    count = _COUNT.search(text)
    if count is None:
        return []
    numbers = map(_number, _RANGE.split(count[0]))
    return [number for number in numbers if number is not None]


def _number(text: str) -> float | None:
    """The number that a text writes, such as "1,000", "2 million", "1 1/2" or "two"."""
    written = _THOUSANDS.sub("", text.lower())
    if with_magnitude := _MAGNITUDE.fullmatch(written):
        number = _number(with_magnitude[1])
        factor: float = DATA["numerals"][with_magnitude[2]]
        if number is None:
            return None
        return number * factor
    if mixed := _FRACTION.fullmatch(written):
        return float(mixed[1]) + DATA["numerals"][mixed[2]]
    try:
        return float(DATA["numerals"].get(written, written))
    except ValueError:
        return None


def _bounds(duration: str) -> JsonObject:
    """How long, if it is in units of time."""
    if part_of := _PART_OF.fullmatch(duration):
        value = _number(part_of[1])
        code = DATA["fractions"][part_of[2]]
    elif match := _DURATION.fullmatch(duration.lower()):
        value = _number(match[1] or "a")
        code = DATA["lengths"][match[2]]
    else:
        return {}
    if value is None:
        return {}
    length = {"value": value, "unit": code, "system": UCUM, "code": code}
    return {"boundsDuration": length}


def _amount(parts: list[Attribute]) -> JsonObject:
    """The only counted amount, as in "2 tablets", or else the only other one."""
    counted = []
    measured = []
    for part, following in itertools.pairwise(parts):
        if part.kind != "dose" or following.kind != "unit":
            continue
        unit = _unit(following.text)
        ends = [_number(end) for end in _RANGE.split(part.text)]
        numbers = [end for end in ends if end is not None]
        is_range = len(ends) < 3 and sorted(numbers) == ends
        if unit is None or not is_range:
            continue
        quantities = [{"value": end, **unit} for end in ends]
        if "code" in unit:
            measured.append(quantities)
        else:
            counted.append(quantities)
    amounts = counted or measured
    if len(amounts) != 1:
        return {}
    low, *high = amounts[0]
    code = str(low.get("code", ""))
    name = "dose"
    if code.endswith(_PER_TIME):
        name = "rate"
    if high:
        return {f"{name}Range": {"low": low, "high": high[0]}}
    return {f"{name}Quantity": low}


def _unit(text: str) -> dict[str, str] | None:
    """The unit of an amount; None for that of a strength, which only the text has."""
    first, *divisors = _DIVIDED.split(text)
    if first.startswith("MU"):
        return None  # millions of units; "mU" are thousandths
    codes = [meaning("unit", first.strip())]
    codes += [meaning("per", divisor) for divisor in divisors]
    code = "/".join(codes)
    if code == "":
        return {"unit": text}
    is_strength = code == "%" or code.endswith(_STRENGTHS)
    if is_strength or "" in codes:
        return None
    return {"unit": text, "system": UCUM, "code": code}
