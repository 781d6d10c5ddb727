"""What words alone tell about entities: what never is one, levels of labs, and shorthand."""

import re

import numpy as np

from biomed.notes.assertion import DRUGS
from biomed.notes.dosages import is_unit_or_form
from biomed.notes.patterns import Patterns
from domainbert.files import read_toml

_DATA = read_toml(__file__, "slips.toml")
_NEVER = frozenset(_DATA["never"].split())
_GENERA = frozenset(_DATA["genera"].split())
_PART = re.compile(r"[^\W_]+")
_ANSWERS = frozenset("YN")  # of a form: "Stroke: N"
_LONGEST_SHORT_FORM = 3  # capitals, such as NO or MEN, that may be a name


# One pattern with a group for the abbreviation in each of its frames.
_FRAMES = Patterns(_DATA["macros"]).regex(_DATA["frames"]["regex"])

_PHRASES = re.compile(_DATA["phrases"])

_LABS = read_toml(__file__, "labs.toml")
_LARGEST: dict[str, float] = _LABS["largest"]
_VALUE, _LEVEL, _BEFORE = (
    re.compile(_LABS["patterns"][name], re.IGNORECASE | re.VERBOSE)
    for name in ("value", "level", "before")
)
_FARTHEST = 12  # characters before a substance that are read
# Fields of dates: of evaluation, of delivery.
_DATE_FIELD = re.compile(r"DO[A-Z]|ED[CD]|LN?MP|DT|LOV|NOV")
_DATE = re.compile(r"\s?:?\s{0,3}\d{1,4}[-/.]\d{1,2}[-/.]\d{2,4}(?!\d)")


def phrases(text: str) -> list[tuple[int, int]]:
    """Where the names of diseases are that a network does not find."""
    return [match.span() for match in _PHRASES.finditer(text)]


def framed_words(text: str, words: np.ndarray) -> np.ndarray:
    """The words that mean a disease where they are ("No PE."), though not everywhere.

    Returns:
        Numbers of `words` (from `split_words`) in order, int64.
    """
    starts = [
        match.start(match.lastgroup or 0) for match in _FRAMES.finditer(text)
    ]
    return np.searchsorted(words[:, 0], np.array(starts, dtype=np.int64))


def is_never_entity(text: str, label: str) -> bool:
    """Whether an entity is a slip: words for people; an organism, or words of units, as a drug."""
    parts = _PART.findall(text)
    if all(map(_is_common_word, parts)):
        return True
    if label.casefold() not in DRUGS:
        return False
    is_species = len(parts) <= 2 and parts[0].casefold() in _GENERA
    return is_species or is_unit_or_form(text)


def _is_common_word(part: str) -> bool:
    is_short_form = part.isupper() and len(part) <= _LONGEST_SHORT_FORM
    return part in _ANSWERS or (
        not is_short_form and part.casefold() in _NEVER
    )


def is_measured(text: str, start: int, end: int, label: str) -> bool:
    """Whether a text tells the level of a substance rather than a dose of it, or a date.

    In "magnesium 1.8, phosphorus 3.0" neither is a drug, in "DOE: 1/2/1980" there is no dyspnea.
    A number is a level if it has a unit of a laboratory, or none and is no larger than levels are.
    """
    name = text[start:end]
    if _DATE_FIELD.fullmatch(name) and _DATE.match(text, end):
        return True
    if label.casefold() not in DRUGS:
        return False
    largest = _LARGEST.get(name.casefold())
    if largest is None:
        return False
    if _LEVEL.match(text, end):
        return True
    if _BEFORE.search(text[max(0, start - _FARTHEST) : start]):
        return True
    value = _VALUE.match(text, end)
    if value is None:
        return False
    return value["unit"] is not None or float(value["number"]) <= largest
