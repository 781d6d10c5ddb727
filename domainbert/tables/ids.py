"""Ids as they are shown, as they are compared, and as they are kept in CSV files."""

from __future__ import annotations

import math
import re
import unicodedata
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

_ZEROS = re.compile(r"^([+-]?\d+)\.0+\Z")
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_GUARDED = re.compile(r"'+[=+\-@\t\r]")


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
    """An id as text without surrounding spaces, or None where it is missing.

    12, 12.0 and Decimal("12") are all "12", and True is "true".
    """
    if is_missing(value):
        return None
    if isinstance(value, str):
        return value.strip()
    is_number = isinstance(value, Real | Decimal) and not isinstance(value, bool)
    if is_number and not isinstance(value, Integral):
        whole = math.isfinite(value) and value == int(value)
        return str(int(value)) if whole else str(value)
    text = str(int(value)) if is_number else str(value)
    return text.lower() if text in ("True", "False") else text


def id_key(value: Any) -> str | None:
    """An id for comparison: "P1" is "p1 " and 1001 is "1001.0", but "0012" is not "12"."""
    text = id_text(value)
    if text is None:
        return None
    text = unicodedata.normalize("NFKC", text).strip().casefold()
    return _ZEROS.sub(r"\1", text)


def is_id_column(name: object) -> bool:
    """Whether a column holds ids: `id`, `mrn`, `*_id` and the like, in any case."""
    lower = str(name).lower()
    return lower in ("mrn", "patient", "patient_nbr", "stay") or f"_{lower}".endswith("_id")


def guard(text: str) -> str:
    """An id as it is written to CSV: a `'` in front where a spreadsheet would see a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def unguard(text: str) -> str:
    """An id as it was before `guard`."""
    return text[1:] if _GUARDED.match(text) else text
