"""Ids as they are shown and as they are compared."""

from __future__ import annotations

import math
import re
import unicodedata
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

_WHOLE = re.compile(r"([+-]?\d+)\.0+")


def is_missing(value: Any) -> bool:
    """Whether a cell is empty: None, NaN, NaT, pandas.NA or an empty string."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    if isinstance(value, str | bytes | list | dict | tuple):
        return False
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # pandas.NA has no truth value, and neither has an array
        return type(value).__name__ == "NAType"


def id_text(value: Any) -> str | None:
    """An id as text; 12, 12.0 and Decimal("12") are all "12".

    Returns:
        The text as it came, without surrounding spaces; None where it is missing.
    """
    if is_missing(value):
        return None
    if isinstance(value, str):
        return value.strip()
    is_number = isinstance(value, Real | Decimal) and not isinstance(value, bool)
    if is_number and not isinstance(value, Integral):
        whole = math.isfinite(value) and value == int(value)
        return str(int(value)) if whole else str(value)
    return str(int(value)) if is_number else str(value)


def id_key(value: Any) -> str | None:
    """An id for comparison: "P1" and "p1 ", or 1001 and "1001.0", are the same.

    Leading zeros count: "0012" is not "12".
    """
    text = id_text(value)
    if text is None:
        return None
    text = unicodedata.normalize("NFKC", text).strip().casefold()
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text
