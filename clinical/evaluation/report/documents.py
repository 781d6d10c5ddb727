"""Source attributes, TRIPOD+AI and the CHAI card: texts filled with facts, and what stays open."""

from __future__ import annotations

import csv
import io
import string
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from clinical.evaluation.report.hospital import questions, read_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from clinical.evaluation.report.facts import Facts

RULE = "45 CFR 170.315(b)(11)(iv)(B)"
CHECKLIST = "TRIPOD+AI (Collins et al. 2024, BMJ 385:e078378)"


@dataclass(frozen=True)
class Item:
    """One item of a document.

    `key` is its number, `group` and `topic` what it asks, `answer` the parts that are known, and
    `missing` the names of facts or questions without a value. `where` is the report's section.
    """

    key: str
    group: str
    topic: str
    answer: tuple[str, ...]
    missing: tuple[str, ...]
    where: str = ""

    @property
    def status(self) -> str:
        """Whether it is "answered", "in part" or "open"."""
        if not self.missing:
            return "answered"
        return "in part" if self.answer else "open"

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {
            "key": self.key,
            "group": self.group,
            "topic": self.topic,
            "status": self.status,
            "answer": list(self.answer),
            "missing": list(self.missing),
            **({"where": self.where} if self.where else {}),
        }


def fill(parts: Sequence[str], facts: Facts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The parts of an answer that are known, and the names that have no value."""
    answer, missing = [], []
    for part in parts:
        lacking = [name for name in names_in(part) if not facts.get(name)]
        missing += lacking
        if not lacking:
            answer.append(part.format_map(facts))
    return tuple(answer), tuple(dict.fromkeys(missing))


def names_in(part: str) -> list[str]:
    """The names in braces."""
    return [name for _, name, _, _ in string.Formatter().parse(part) if name]


@cache
def _attributes() -> list[dict[str, str]]:
    file = resources.files(__package__) / "source_attributes.csv"
    return list(csv.DictReader(io.StringIO(file.read_text("utf-8"))))


def source_attributes(facts: Facts) -> list[Item]:
    """The 31 source attributes of a predictive intervention in certified health IT, in order."""
    answers = read_data("attributes.toml")
    return [
        Item(row["number"], row["group"], row["attribute"], *fill(answers[row["number"]], facts))
        for row in _attributes()
    ]


def tripod(facts: Facts) -> list[Item]:
    """The 52 items of TRIPOD+AI: which is answered where, and which is open."""
    return [
        Item(key, "", item["topic"], *fill(item["answer"], facts), where=item["where"])
        for key, item in read_data("tripod.toml").items()
    ]


def uses() -> dict[str, list[str]]:
    """The documents and items that need each of the hospital's answers."""
    found: dict[str, list[str]] = defaultdict(list)
    for number, parts in read_data("attributes.toml").items():
        _note(found, f"source attribute {number}", parts)
    for number, item in read_data("tripod.toml").items():
        _note(found, f"TRIPOD+AI {number}", item["answer"])
    for element, parts in _elements(read_data("chai.toml")):
        _note(found, f"CHAI {element}", parts)
    return found


def _note(found: dict[str, list[str]], place: str, parts: Sequence[str]) -> None:
    for name in {name for part in parts for name in names_in(part)} & questions().keys():
        found[name].append(place)


def _elements(table: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str]]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _elements(value)
        else:
            yield name, value


def open_questions(answers: Mapping[str, str | None]) -> list[dict[str, str]]:
    """The questions without an answer: `key`, `question` and what `needs` it."""
    needs = uses()
    return [
        {"key": key, "question": question, "needs": "; ".join(needs.get(key, []))}
        for key, question in questions().items()
        if not answers.get(key)
    ]
