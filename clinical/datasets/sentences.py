"""Sentences of the made-up notes: which facts they tell or deny, and in which frame."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from domainbert.files import read_toml

# How often an absent fact is denied, and how often a fact is told of another time or person. They
# decide how much the presence of a word alone tells; the tests measure it.
REFUTED = 0.25
ELSEWHERE = 0.05

# What named slots are filled with; one entry of a list is drawn each time.
SlotValues: TypeAlias = "Mapping[str, str | Sequence[str]]"

_SLOT = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_OBJECTS = {"his": "him", "her": "her"}


class Fact(NamedTuple):
    """Something that a note can say about a stay; `phrases.toml` explains the fields.

    `weight` is what it adds to the logit of the risk when true (0 for a neutral condition), and
    `rate` the share of stays, 0 to 1, of which it is true. `icd10` and `icd9` are its codes.
    """

    name: str
    clauses: list[str]
    nouns: list[str]
    weight: float = 0.0
    rate: float = 0.5
    icd10: str = ""
    icd9: str = ""


class Frame(NamedTuple):
    """A sentence around clauses or noun phrases; `phrases.toml` explains the fields."""

    text: str
    truths: list[bool]
    elsewhere: bool = False
    of_other: bool = False
    harmful_only: bool = False
    share: int = 1

    def fits(self, slot: int, statement: Statement) -> bool:
        """Whether a statement can stand in a slot of this frame."""
        is_wanted = statement.fact.weight >= 0 or not self.harmful_only
        meaning = (self.truths[slot], self.elsewhere)
        return is_wanted and meaning == (statement.truth, statement.elsewhere)


class Statement(NamedTuple):
    """One fact to tell: true of this stay or not, or of another time or person."""

    fact: Fact
    truth: bool
    elsewhere: bool = False


_PHRASES = read_toml(__file__, "phrases.toml")

INTERCEPT: float = _PHRASES["intercept"]
FACTS = tuple(Fact(**entry) for entry in _PHRASES["facts"])
NEUTRAL = tuple(Fact(**entry) for entry in _PHRASES["neutral"])
CLAUSE_FRAMES = tuple(Frame(**entry) for entry in _PHRASES["clause_frames"])
NOUN_FRAMES = tuple(Frame(**entry) for entry in _PHRASES["noun_frames"])
KIN: dict[str, list[str]] = _PHRASES["kin"]
FORMS: dict[str, dict[str, str]] = _PHRASES["forms"]
FILLINGS: dict[str, list[str]] = _PHRASES["fillings"]
_FILLER = read_toml(__file__, "filler.toml")
REPORTS: dict[str, str] = _FILLER.pop("reports")
FILLER: dict[str, list[str]] = _FILLER


def fill(template: str, names: SlotValues, rng: random.Random) -> str:
    """Fill the slots of a template, the innermost first.

    ``{low..high}`` becomes a whole number, ``{one|other}`` one of its options, and ``{name}`` the
    value in `names`. Any other text in braces stays, without the braces.
    """

    def slot(match: re.Match[str]) -> str:
        inner = match[1]
        limits = _RANGE.fullmatch(inner)
        if limits:
            return str(rng.randint(int(limits[1]), int(limits[2])))
        value = names.get(inner, inner)
        if "|" in inner:
            value = inner.split("|")
        return value if isinstance(value, str) else rng.choice(value)

    while "{" in template:
        template = _SLOT.sub(slot, template)
    return template


def statements(
    true_names: Collection[str],
    rng: random.Random,
    *,
    telling_rate: float = 1.0,
    refuted: float = REFUTED,
) -> list[Statement]:
    """What a passage says, in random order: true facts, distractors and neutral conditions.

    A true fact is told with the chance `telling_rate`, an absent one is denied with the chance
    `refuted`. Neutral conditions fill up, so that the number of statements hardly depends on the
    facts.
    """
    true = [fact for fact in FACTS if fact.name in true_names]
    absent = [fact for fact in FACTS if fact.name not in true_names]
    chosen = [
        Statement(f, truth=True) for f in true if rng.random() < telling_rate
    ]
    denied = [
        Statement(f, truth=False) for f in absent if rng.random() < refuted
    ]
    distractors = [f for f in FACTS if rng.random() < ELSEWHERE]
    told_elsewhere = [
        Statement(f, truth=False, elsewhere=True) for f in distractors
    ]
    shuffled = rng.sample(NEUTRAL, len(NEUTRAL))
    neutral = [Statement(f, f.name in true_names) for f in shuffled]
    n_true = round(rng.randint(1, 3) * telling_rate)
    n_denied = rng.randint(1, 2)
    true_neutral = [s for s in neutral if s.truth]
    denied_neutral = [s for s in neutral if not s.truth]
    result = [
        *chosen,
        *denied,
        *told_elsewhere,
        *true_neutral[: max(0, n_true - len(chosen))],
        *denied_neutral[: max(0, n_denied - len(denied))],
    ]
    rng.shuffle(result)
    return result


def clause_sentence(
    statement: Statement,
    names: SlotValues,
    rng: random.Random,
) -> str:
    """One statement as a sentence around a clause."""
    fitting = [frame for frame in CLAUSE_FRAMES if frame.fits(0, statement)]
    frame = rng.choices(fitting, [frame.share for frame in fitting])[0]
    his = str(names["his"])
    he = str(names["he"])
    if frame.of_other:
        possessive = rng.choice(tuple(KIN))
        subject = f"{his} {rng.choice(KIN[possessive])}"
    else:
        possessive = his
        subject = "the patient"  # a pronoun could mean the relative
        if "{He}" in frame.text:
            subject = he
        elif "{kin}" not in frame.text:
            subject = rng.choice((he, he, subject))
    person = {"N": subject, "P": possessive, "O": _OBJECTS[possessive]}
    clause = fill(rng.choice(statement.fact.clauses), {**names, **person}, rng)
    capital = clause[0].upper() + clause[1:]
    return fill(frame.text, {**names, "c": clause, "C": capital}, rng)


def noun_sentences(
    parts: Sequence[Statement],
    names: SlotValues,
    rng: random.Random,
) -> list[str]:
    """Sentences around one to three noun phrases each; every statement is told once."""
    remaining = list(parts)
    sentences = []
    while remaining:
        frame, chosen = _draw_frame(remaining, rng)
        nouns = [fill(rng.choice(s.fact.nouns), names, rng) for s in chosen]
        phrases = dict(zip("abd", nouns, strict=False))
        sentences.append(fill(frame.text, {**names, **phrases}, rng))
        remaining = [s for s in remaining if s not in chosen]
    return sentences


def _draw_frame(
    remaining: Sequence[Statement],
    rng: random.Random,
) -> tuple[Frame, list[Statement]]:
    """Draw a frame that the statements can fill, and a statement for each of its slots."""
    possible = []
    for frame in NOUN_FRAMES:
        chosen: list[Statement] = []
        for slot in range(len(frame.truths)):
            fitting = (
                s for s in remaining if frame.fits(slot, s) and s not in chosen
            )
            chosen.extend(itertools.islice(fitting, 1))
        if len(chosen) == len(frame.truths):
            possible.append((frame, chosen))
    return rng.choices(possible, [frame.share for frame, _ in possible])[0]


def tell(
    parts: Sequence[Statement],
    names: SlotValues,
    rng: random.Random,
    *,
    clause_share: float,
) -> list[str]:
    """Shuffled sentences for all statements; a share of `clause_share`, 0 to 1, as clauses."""
    clauses: list[Statement] = []
    nouns: list[Statement] = []
    for part in parts:
        has_frame = any(frame.fits(0, part) for frame in NOUN_FRAMES)
        is_clause = rng.random() < clause_share or not has_frame
        if is_clause:
            clauses.append(part)
        else:
            nouns.append(part)
    sentences = [clause_sentence(part, names, rng) for part in clauses]
    sentences += noun_sentences(nouns, names, rng)
    rng.shuffle(sentences)
    return sentences
