"""Source attributes and TRIPOD+AI: texts filled with facts, and what stays open."""

from __future__ import annotations

import csv
import io
import string
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from clinical.report.facts import read_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clinical.report.facts import Facts

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
        return {**vars(self), "status": self.status}


def fill(parts: Sequence[str], facts: Facts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The parts of an answer that are known, and the names that have no value."""
    answer, missing = [], []
    for part in parts:
        names = [name for _, name, _, _ in string.Formatter().parse(part) if name]
        lacking = [name for name in names if not facts.get(name)]
        missing += lacking
        if not lacking:
            answer.append(part.format_map(facts))
    return tuple(answer), tuple(dict.fromkeys(missing))


def source_attributes(facts: Facts) -> list[Item]:
    """The 31 source attributes of a predictive intervention in certified health IT, in order."""
    answers = read_data("attributes.toml")
    file = resources.files(__package__) / "source_attributes.csv"
    return [
        Item(row["number"], row["group"], row["attribute"], *fill(answers[row["number"]], facts))
        for row in csv.DictReader(io.StringIO(file.read_text("utf-8")))
    ]


def tripod(facts: Facts) -> list[Item]:
    """The 52 items of TRIPOD+AI: which is answered where, and which is open."""
    return [
        Item(key, "", item["topic"], *fill(item["answer"], facts), where=item["where"])
        for key, item in read_data("tripod.toml").items()
    ]
