"""The phrases of the made-up notes, read from `phrases.toml` and `filler.toml`."""

import tomllib
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Fact:
    """Something that a note can say about a stay.

    Attributes:
        name: Short unique name.
        clauses: Ways to say it as a clause in the past tense.
        nouns: Ways to say it as a noun phrase.
        weight: What it adds to the logit of the risk when true; 0 for a neutral condition.
        rate: Share of stays, 0 to 1, of which it is true.
    """

    name: str
    clauses: tuple[str, ...]
    nouns: tuple[str, ...]
    weight: float = 0.0
    rate: float = 0.5


@dataclass(frozen=True)
class Frame:
    """A sentence around one clause, or around one to three noun phrases.

    Attributes:
        text: The sentence with its slots.
        truths: For each slot in order, whether it is true of this stay.
        elsewhere: It is about another time or person and says nothing about this stay.
        of_other: The clause is about somebody else.
        problems_only: The frame makes no sense around an arrangement such as a booked visit.
        share: How often it is drawn relative to the other frames.
    """

    text: str
    truths: tuple[bool, ...]
    elsewhere: bool = False
    of_other: bool = False
    problems_only: bool = False
    share: int = 1


def _load(name: str) -> dict[str, Any]:
    def frozen(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: frozen(item) for key, item in value.items()}
        return tuple(map(frozen, value)) if isinstance(value, list) else value

    text = (resources.files(__package__) / name).read_text(encoding="utf-8")
    return {key: frozen(value) for key, value in tomllib.loads(text).items()}


_PHRASES = _load("phrases.toml")

INTERCEPT: float = _PHRASES["intercept"]
FACTS = tuple(Fact(**entry) for entry in _PHRASES["facts"])
NEUTRAL = tuple(Fact(**entry) for entry in _PHRASES["neutral"])
CLAUSE_FRAMES = tuple(Frame(**entry) for entry in _PHRASES["clause_frames"])
NOUN_FRAMES = tuple(Frame(**entry) for entry in _PHRASES["noun_frames"])
KIN: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(_PHRASES["kin"])
FILLINGS: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(_PHRASES["fillings"])
FILLER: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(_load("filler.toml"))
