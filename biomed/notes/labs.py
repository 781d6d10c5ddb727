"""Measured substances: in "magnesium 1.8, phosphorus 3.0" neither is a drug."""

import re

from domainbert.files import read_toml

_DATA = read_toml(__file__, "labs.toml")
_LARGEST: dict[str, float] = _DATA["largest"]
_VALUE, _LEVEL, _BEFORE = (
    re.compile(_DATA["patterns"][name], re.IGNORECASE | re.VERBOSE)
    for name in ("value", "level", "before")
)
_FARTHEST = 12  # characters before a substance that are read


def is_measured(text: str, start: int, end: int) -> bool:
    """Whether a text tells the level of a substance rather than a dose of it.

    A number is a level if it has a unit of a laboratory, or none and is no larger than levels are.
    """
    largest = _LARGEST.get(text[start:end].casefold())
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
