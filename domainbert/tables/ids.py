"""Ids: missing cells, ids as text, ids compared, and ids in CSV that a spreadsheet cannot run."""

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
    except (TypeError, ValueError):  # pandas.NA and arrays have no truth value
        return type(value).__name__ == "NAType"
    except ArithmeticError:  # Decimal("sNaN") cannot be compared
        return True


def id_text(value: Any) -> str | None:
    """An id as text without surrounding spaces; None if it is missing.

    12, 12.0 and Decimal("12") are all "12", and True is "true".
    """
    if is_missing(value):
        return None
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Real | Decimal):
        return _number_text(value)
    text = str(value)
    if text in ("True", "False"):
        return text.lower()
    return text


def _number_text(value: Any) -> str:
    """A number, without a fraction of zero; in hex if it has too many digits for `str`."""
    if not isinstance(value, Integral):
        if not math.isfinite(value) or value != int(value):
            return str(value)
        value = int(value)
    try:
        return str(int(value))
    except ValueError:  # more than 4,300 digits
        return hex(int(value))


def id_key(value: Any) -> str | None:
    """An id for comparison: "P1" equals "p1 ", 1001 equals "1001.0", "0012" does not equal "12"."""
    text = id_text(value)
    if text is None:
        return None
    text = unicodedata.normalize("NFKC", text).strip().casefold()
    return _ZEROS.sub(r"\1", text)


def is_id_column(name: object) -> bool:
    """Whether a column holds ids: `id`, `mrn`, `*_id` and the like, in any case."""
    lower = str(name).lower()
    if lower in ("id", "mrn", "patient", "patient_nbr", "stay"):
        return True
    return lower.endswith("_id")


def guard(text: str) -> str:
    """A text for CSV, with a `'` in front if a spreadsheet would run it as a formula."""
    if _FORMULA.match(text):
        return f"'{text}"
    return text


def unguard(text: str) -> str:
    """A text from CSV, without the `'` that `guard` put in front."""
    if _GUARDED.match(text):
        return text[1:]
    return text
