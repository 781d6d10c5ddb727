"""The phrases of the made-up notes, read from `phrases.toml` and `filler.toml`."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Fact:
    """Something that a note can say about a stay.

    Attributes:
        name: short unique name.
        clauses: ways to say it as a clause in the past tense.
        nouns: ways to say it as a noun phrase.
        weight: what it adds to the logit of the risk when true; 0 for a neutral condition.
        rate: share of stays, 0 to 1, of which it is true.
    """

    name: str
    clauses: list[str]
    nouns: list[str]
    weight: float = 0.0
    rate: float = 0.5


@dataclass(frozen=True)
class Frame:
    """A sentence around one clause, or around one to three noun phrases.

    The comments in `phrases.toml` explain the fields.
    """

    text: str
    truths: list[bool]
    elsewhere: bool = False
    of_other: bool = False
    problems_only: bool = False
    share: int = 1


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads((resources.files(__package__) / name).read_text(encoding="utf-8"))


_PHRASES = _load("phrases.toml")

INTERCEPT: float = _PHRASES["intercept"]
FACTS = tuple(Fact(**entry) for entry in _PHRASES["facts"])
NEUTRAL = tuple(Fact(**entry) for entry in _PHRASES["neutral"])
CLAUSE_FRAMES = tuple(Frame(**entry) for entry in _PHRASES["clause_frames"])
NOUN_FRAMES = tuple(Frame(**entry) for entry in _PHRASES["noun_frames"])
KIN: Mapping[str, list[str]] = _PHRASES["kin"]
FILLINGS: Mapping[str, list[str]] = _PHRASES["fillings"]
FILLER: Mapping[str, list[str]] = _load("filler.toml")
