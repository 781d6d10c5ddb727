"""Names that differ by one word and mean something else: hard negatives for training."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from biomed.terms.names import normalised
from biomed.terms.relations import Relation
from biomed.terms.vocabulary import percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_WORDS = (
    "left right|acute chronic|upper lower|primary secondary|benign malignant|1 2|i ii|with without|"
    "proximal distal|anterior posterior|medial lateral|internal external|congenital acquired|"
    "viral bacterial|systolic diastolic|dominant recessive|mild severe|high low|small large|"
    "increased decreased|excess deficiency|arterial venous|male female|maternal neonatal"
)
_PREFIXES = "hypo hyper|brady tachy|micro macro|intra extra|pre post|supra infra|mono poly"
# Words that may differ between two names of one thing.
_GENERAL = re.compile(
    r"(disease|disorder|syndrome|dysfunction|problem|condition)s?|type|familial|hereditary|chronic"
    r"|deficiency|attack|failure"
)
_DENIED = 10  # percent of the names without another contrast get "no" before them


def _both_ways(pairs: str) -> dict[str, str]:
    split = [pair.split() for pair in pairs.split("|")]
    return {**{a: b for a, b in split}, **{b: a for a, b in split}}  # noqa: C416


_SWAPPED, _SWAPPED_START = _both_ways(_WORDS), _both_ways(_PREFIXES)
_WORD = re.compile(r"\w+")
_START = re.compile(rf"({'|'.join(_SWAPPED_START)})(?=\w{{4}})")


def contrast_relations(relations: Sequence[Relation], *, seed: int = 0) -> list[Relation]:
    """Two names of one thing, and a name that differs by one word from the first.

    The third has a word or prefix replaced by its opposite (hypo and hyper, left and right), or
    is a name of something else in which one word differs; or it is the first with "no" before it.

    Args:
        relations: names of one thing each.
        seed: of the choices.
    """
    chooser = random.Random(seed)  # noqa: S311  (no secret)
    keys: dict[str, set[str]] = defaultdict(set)
    forms: dict[str, set[str]] = defaultdict(set)
    similar: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for relation in relations:
        for text in relation.texts:
            keys[normalised(text)].add(relation.key)
            forms[relation.key].add(normalised(text))
    for text in dict.fromkeys(text for relation in relations for text in relation.texts):
        for pattern in _patterns(text):
            similar[pattern].append(text)

    def is_other(text: str, key: str) -> bool:
        """Whether no concept with this name shares a name with the concept of the key."""
        near = {own for form in forms[key] for own in keys[form]}
        return not keys.get(normalised(text), set()) & near

    found = []
    for relation in relations:
        for text in relation.texts:
            others = [o for p in _patterns(text) for o in similar[p] if o != text]
            chosen = [*_opposites(text), *chooser.sample(others, len(others))]
            chosen += [f"no {text}"] * (percent(f"no {text}") < _DENIED)
            negative = next((other for other in chosen if is_other(other, relation.key)), None)
            if negative:
                partner = chooser.choice([other for other in relation.texts if other != text])
                found.append(Relation(relation.key, (text, partner), negative))
    return found


def _patterns(text: str) -> Iterator[tuple[str, ...]]:
    """The words of a name with each one left out in turn, if it tells things apart."""
    words = _WORD.findall(text.casefold())
    for place, word in enumerate(words if len(words) > 1 else ()):
        if not _GENERAL.fullmatch(word):
            yield (*words[:place], "", *words[place + 1 :])


def _opposites(text: str) -> Iterable[str]:
    for match in _WORD.finditer(text):
        word = match[0].lower()
        start = _START.match(word)
        other = _SWAPPED.get(word)
        if other is None and start:
            other = _SWAPPED_START[start[0]] + word[start.end() :]
        if other:
            yield text[: match.start()] + other + text[match.end() :]
