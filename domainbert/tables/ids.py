"""Ids: missing cells, ids as text, ids compared, and ids in CSV that a spreadsheet cannot run."""

import math
import re
import unicodedata
from collections.abc import Callable, Iterable
from decimal import Decimal
from numbers import Integral, Real

from domainbert.tables.options import Cell

_ZEROS = re.compile(r"^([+-]?\d+)\.0+\Z")
# What a spreadsheet runs, also in full width and behind a byte-order mark or a null character.
_START = r"'*[\ufeff\0]*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
_FORMULA = re.compile(rf"\A{_START}")
_GUARDED = re.compile(rf"\A'(?={_START})")
_TEXT_FORMULA = re.compile(r'\A="([^"]*)"\Z')
_ID_COLUMNS = (
    "id",
    "mrn",
    "patient",
    "patient_nbr",
    "stay",
    "pmid",
    "pmcid",
    "doi",
)


class ExactId(str):
    """An id of a form where upper and lower case differ, as in FHIR: it is compared as written."""

    __slots__ = ()


def is_missing(value: object) -> bool:
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


def id_text(value: object) -> str | None:
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
    # NumPy's booleans are neither.
    return {"True": "true", "False": "false"}.get(str(value), str(value))


def _number_text(value: Cell) -> str:
    """A number, without a fraction of zero; in hex if it has too many digits for `str`."""
    is_whole = isinstance(value, Integral)
    if not is_whole and (not math.isfinite(value) or value != int(value)):
        return str(value)
    number = int(value)
    try:
        return str(number)
    except ValueError:  # more than 4,300 digits
        return hex(number)


def id_key(value: object) -> str | None:
    """An id for comparison: "P1" equals "p1 ", 1001 equals "1001.0", "0012" does not equal "12".

    An `ExactId` is its own key.
    """
    text = id_text(value)
    if text is None:
        return None
    if isinstance(value, ExactId):
        return ExactId(text)
    text = unicodedata.normalize("NFKC", text).strip().casefold()
    return _ZEROS.sub(r"\1", text)


def key_like(ids: Iterable[object]) -> Callable[[object], str | None]:
    """How to compare others with these ids: as written where they are `ExactId`, else `id_key`."""
    if any(isinstance(id_, ExactId) for id_ in ids):
        return id_text
    return id_key


def is_id_column(name: object) -> bool:
    """Whether a column holds ids: `id`, `mrn`, `*_id` and the like, in any case."""
    lower = str(name).lower()
    return lower in _ID_COLUMNS or lower.endswith("_id")


def guard(text: str) -> str:
    """A text for CSV, with a `'` in front if a spreadsheet would run it as a formula."""
    return _FORMULA.sub(r"'\g<0>", text)


def unguard(text: str) -> str:
    """A text from CSV, without the `'` that `guard` put in front."""
    return _GUARDED.sub("", text)


def unguarded_id(text: str) -> str:
    """An id from CSV, without `'` or the formula that keeps its zeros: `="00123"`."""
    formula = _TEXT_FORMULA.fullmatch(text)
    if formula:
        return formula[1]
    return unguard(text)
