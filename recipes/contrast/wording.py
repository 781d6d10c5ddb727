"""The wording of made-up studies and the names in them, split into train, devel and test."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recipes.public_data import read_rows, side_number

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

WORDING = Path(__file__).parents[1] / "questions" / "contrast.toml"
# Of every six lines of a list, the fifth is for devel and the sixth for test. A name has the side
# of the lines with its `side_number`.
LINES = 6
SIDES = {"train": (0, 1, 2, 3), "devel": (4,), "test": (5,)}
WITHOUT_GROUPS = ("study", "course")  # families of facts on no single group
SLOT = re.compile(r"\{([A-Za-z]+)(\d?)\}")
_NAME = re.compile(r"[A-Z][a-z]{4,15}")
_TWO_ARTICLES = re.compile(r"\bthe an? ")


class Wording:
    """The lines of one side of contrast.toml, with names and real abstracts of that side.

    Attributes:
        drugs: names of drugs, of one word each.
        diseases: names of diseases, of one word each.
        abstracts: texts of PubMedQA.
    """

    def __init__(self, side: str, data: Path) -> None:
        self._numbers = SIDES[side]
        self._table = tomllib.loads(WORDING.read_text(encoding="utf-8"))
        drugs = read_rows(data / "names" / "drugbank.csv.gz")
        self.drugs = self._plain_names(row["name"] for row in drugs)
        diseases = read_rows(data / "names" / "mesh_diseases.csv.gz")
        self.diseases = self._plain_names(row["name"] for row in diseases)
        pubmedqa = data / "qa" / "pubmedqa_labeled.json"
        rows = json.loads(pubmedqa.read_text(encoding="utf-8"))
        self.abstracts = [
            " ".join(row["CONTEXTS"])
            for name, row in rows.items()
            if self._is_on_side(name)
        ]

    def _is_on_side(self, name: str) -> bool:
        return side_number(name, LINES) in self._numbers

    def _plain_names(self, names: Iterable[str]) -> list[str]:
        """The names of this side that are one plain word, in lower case."""
        return [
            name.lower()
            for name in names
            if _NAME.fullmatch(name) and self._is_on_side(name)
        ]

    def lines(self, *path: str) -> list[str]:
        """The lines of this side in the list of contrast.toml at this path of keys."""
        table: Any = self._table
        for key in path:
            table = table[key]
        return [
            line
            for number, line in enumerate(table)
            if number % LINES in self._numbers
        ]

    def slots(self, family: str) -> list[str]:
        """Names of the numbers of a family."""
        return list(self._table["families"][family]["slots"])

    def families(self, arm_types: set[str]) -> list[str]:
        """The families of facts on groups of these kinds."""
        names = []
        for name, family in self._table["families"].items():
            possible_types = family.get("kinds", arm_types)
            if name not in WITHOUT_GROUPS and arm_types.issubset(
                possible_types
            ):
                names.append(name)
        return names


@dataclass(frozen=True)
class Draws:
    """Random choices from the wording of one side."""

    wording: Wording
    chooser: random.Random

    def line(self, *path: str) -> str:
        """A line of the list at this path of keys."""
        return self.chooser.choice(self.wording.lines(*path))


def in_words(form: str, name: str) -> str:
    """A group in a form such as "in the {x} group"; of two articles the first stays."""
    return _TWO_ARTICLES.sub("the ", form.format(x=name))


def abbreviation(name: str) -> str:
    """The initials of a name of several words, or three letters of one word."""
    words = name.split()
    if len(words) > 1:
        return "".join(word[0] for word in words).upper()
    consonants = re.sub("[aeiou]", "", name[1:])
    return (name[0] + consonants[:1] + name[-1]).upper()


def with_capital(text: str) -> str:
    """The text with its first letter as a capital."""
    return text[:1].upper() + text[1:]
