"""FHIR dosages of what a text says about a drug: timing, route and amount, where they are exact."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from biomed.ner.medications import DATA, Attribute, any_of

UCUM = "http://unitsofmeasure.org"
_SNOMED = "http://snomed.info/sct"
_TIMES = re.compile(any_of("{frequency}"))
_COUNT = re.compile(any_of("{count}"))
_RANGE = re.compile(r"\s?(?:-|\u2013|\bto\b|\bor\b)\s?")
_RATE = re.compile(r"(n|\d)/(n|\d)([a-z]+)")
_DAYS = re.compile(
    r"(.{0,20}?)[\s-]{0,6}(d|w|mo|y|h|n)(?:ays?|(?:ee)?ks?|nths?|s|ea?rs?|(?:ou)?rs?|ights?)?"
)
_LENGTHS = {"d": "d", "w": "wk", "mo": "mo", "y": "a", "h": "h", "n": "d"}
_STRENGTHS = ("/mL", "/{dose}")
_ROUTES = {row["name"]: row for row in DATA["route"]}


def _patterns() -> dict[str, list[tuple[re.Pattern[str], str]]]:
    """For each table of words: patterns and what they mean."""
    tables: dict[str, Iterable[tuple[str, str]]] = {
        "route": ((row["words"], row["name"]) for row in DATA["route"]),
        "frequency": ((row["words"], row["repeat"]) for row in DATA["frequency"]),
        "unit": ((words, code) for code, words in DATA["units"].items()),
        "per": ((words, code) for code, words in DATA["per"].items()),
    }
    return {
        name: [(re.compile(any_of(words)), value) for words, value in rows]
        for name, rows in tables.items()
    }


_PATTERNS = _patterns()


@cache
def meaning(kind: str, text: str) -> str | None:
    """What an attribute means: a route's name, a unit in UCUM, `repeat` of a frequency."""
    patterns = _PATTERNS[kind]
    matching = (value for pattern, value in patterns if pattern.fullmatch(text.lower()))
    return next(matching, None)


def dosages(attributes: Iterable[Attribute]) -> list[dict[str, Any]]:
    """FHIR R4 Dosages of a drug; a dose after a frequency begins another one."""
    groups: list[list[Attribute]] = [[]]
    for part in attributes:
        kinds = [known.kind for known in groups[-1]]
        if part.kind == "dose" and "frequency" in kinds and "dose" in kinds:
            groups.append([])
        groups[-1].append(part)
    return [
        {**_dosage(parts), "sequence": number}
        for number, parts in enumerate(groups, start=1)
        if any(part.kind not in ("reason", "reaction") for part in parts)
    ]


def days_of(doses: Sequence[dict[str, Any]]) -> int | None:
    """Days of a single dosage whose duration is stated in days or weeks."""
    bounds = [
        dose.get("timing", {}).get("repeat", {}).get("boundsDuration") for dose in doses
    ]
    if len(bounds) != 1 or not bounds[0]:
        return None
    days = {"d": 1, "wk": 7}.get(bounds[0]["code"])
    return int(days * bounds[0]["value"]) if days else None


def route_concept(text: str) -> int | None:
    """The OMOP concept of a route as a text writes it."""
    return _ROUTES[meaning("route", text) or ""].get("omop")


def _dosage(parts: list[Attribute]) -> dict[str, Any]:
    texts: dict[str, list[str]] = {}
    for part in parts:
        texts.setdefault(part.kind, []).append(part.text)
    stated = {part.start: part.text for part in parts if part.kind[:3] != "rea"}
    dosage: dict[str, Any] = {"text": " ".join(stated.values())}
    frequency = " ".join(texts.get("frequency", []))
    repeat = _repeat(frequency) | _bounds(texts.get("duration", []))
    if frequency or repeat:
        timing = {"repeat": repeat, "code": {"text": frequency}}
        dosage["timing"] = {
            name: value
            for name, value in timing.items()
            if value != {"text": ""} and value
        }
    if "as_needed" in texts:
        reasons = ", ".join(texts.get("reason", []))
        if reasons:
            dosage["asNeededCodeableConcept"] = {"text": reasons}
        else:
            dosage["asNeededBoolean"] = True
    routes = texts.get("route", [])
    if routes:
        dosage["route"] = _route(routes[0])
    amount = _amount(parts)
    if amount:
        dosage["doseAndRate"] = [amount]
    return dosage


def _route(text: str) -> dict[str, Any]:
    row = _ROUTES[meaning("route", text) or ""]
    coding = {"system": _SNOMED, "code": row["snomed"], "display": row["name"]}
    return {"text": text, "coding": [coding]}


def _repeat(frequency: str) -> dict[str, Any]:
    """Timing.repeat; empty if a part of the frequency has no exact meaning."""
    repeat: dict[str, Any] = {}
    for match in _TIMES.finditer(frequency.lower()):
        value = meaning("frequency", match[0])
        if not value:
            return {}
        rate = _RATE.fullmatch(value)
        if rate is None:
            times = value.split(",")
            repeat |= (
                {"count": 1}
                if value == "1"
                else {"when": [*repeat.get("when", []), *times]}
            )
        elif "frequency" not in repeat:
            ends = _numbers(match[0])
            for name, number in (("frequency", rate[1]), ("period", rate[2])):
                low, *high = ends if number == "n" else [int(number)]
                repeat[name] = low
                repeat |= {f"{name}Max": end for end in high}
            repeat["periodUnit"] = rate[3]
    return repeat


def _numbers(text: str) -> list[float]:
    """The first number of a text, or both ends of its range."""
    count = _COUNT.search(text)
    ends = _RANGE.split(count[0]) if count else []
    return [number for end in ends if (number := _number(end)) is not None]


def _number(text: str) -> float | None:
    written = text.lower().replace(",", "")
    if written in DATA["numerals"]:
        return DATA["numerals"][written]
    try:
        number = float(written)
    except ValueError:
        return None
    return int(number) if number.is_integer() else number


def _bounds(durations: list[str]) -> dict[str, Any]:
    """How long, of a single duration in units of time."""
    match = _DAYS.fullmatch(durations[0].lower()) if len(durations) == 1 else None
    value = _number(match[1] or "a") if match else None
    if match is None or value is None:
        return {}
    code = _LENGTHS[match[2]]
    return {
        "boundsDuration": {"value": value, "unit": code, "system": UCUM, "code": code}
    }


def _amount(parts: list[Attribute]) -> dict[str, Any]:
    """The only counted amount, as in "2 tablets", or else the only other one.

    A percentage and an amount in each millilitre or puff are strengths, which only the text has.
    """
    amounts: dict[bool, list[list[dict[str, Any]]]] = {True: [], False: []}
    for part, following in itertools.pairwise(parts):
        if part.kind != "dose" or following.kind != "unit":
            continue
        first, *per = following.text.split("/")
        codes = [
            meaning("unit", first.strip()),
            *(meaning("per", p.strip()) for p in per),
        ]
        ends = [_number(end) for end in _RANGE.split(part.text)]
        code = "/".join(code or "" for code in codes)
        is_known = None not in codes and None not in ends and len(ends) < 3
        if is_known and code != "%" and not code.endswith(_STRENGTHS):
            unit = {"unit": following.text}
            if code:
                unit |= {"system": UCUM, "code": code}
            amounts[not code].append([{"value": end, **unit} for end in ends])
    chosen = amounts[True] or amounts[False]
    if len(chosen) != 1:
        return {}
    low, *high = chosen[0]
    name = "rate" if low.get("code", "").endswith(("/h", "/min")) else "dose"
    if high:
        return {f"{name}Range": {"low": low, "high": high[0]}}
    return {f"{name}Quantity": low}
