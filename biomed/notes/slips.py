"""What words alone tell about entities: those that never are one, and shorthand in a frame."""

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
