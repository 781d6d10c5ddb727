"""What a readmission is, as data: a commented TOML file with a version, checked key by key."""

from __future__ import annotations

import difflib
import hashlib
import math
import tomllib
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from domainbert.errors import UserError

SHIPPED = "readmission-30d"
DEATH_CHOICES = ("keep", "exclude")
_NUMBER, _POSITIVE = "a number >= 0", "a number above 0"
_DEATHS, _TEXTS = '"keep" or "exclude"', "a list of text"


class DefinitionError(UserError):
    """A definition or a column mapping that says something we do not understand."""


@dataclass(frozen=True)
class Definition:
    """A readmission definition; see `clinical/definitions/readmission-30d.toml` for the reasons.

    Attributes:
        name: name of the definition.
        version: its version.
        transfer_gap_hours: stays at most this far apart are one episode; >= 0.
        newborn_types: admission types of newborns, upper case.
        died_locations: discharge locations that mean death, upper case.
        horizon_days: a readmission begins less than this many days after discharge; > 0.
        planned_types: admission types of planned stays, upper case.
        death_after_discharge: "keep" or "exclude".
        minimum_age: youngest age kept, in whole years; None for no limit.
        maximum_age: oldest age kept, in whole years; None for no limit.
        text: the TOML text itself.
    """

    name: str
    version: str
    transfer_gap_hours: float
    newborn_types: tuple[str, ...]
    died_locations: tuple[str, ...]
    horizon_days: float
    planned_types: tuple[str, ...]
    death_after_discharge: str
    minimum_age: float | None = None
    maximum_age: float | None = None
    text: str = field(default="", repr=False)

    @property
    def sha256(self) -> str:
        """SHA-256 of the text, in hex: the same hash is the same definition."""
        return hashlib.sha256(self.text.encode()).hexdigest()


# (table, key) -> (what it must be, may it be left out)
_KEYS: dict[tuple[str, str], tuple[str, bool]] = {
    ("", "name"): ("text", False),
    ("", "version"): ("text", False),
    ("episode", "transfer_gap_hours"): (_NUMBER, False),
    ("index", "newborn_types"): (_TEXTS, False),
    ("index", "died_locations"): (_TEXTS, False),
    ("index", "minimum_age"): (_NUMBER, True),
    ("index", "maximum_age"): (_NUMBER, True),
    ("readmission", "horizon_days"): (_POSITIVE, False),
    ("readmission", "planned_types"): (_TEXTS, False),
    ("readmission", "death_after_discharge"): (_DEATHS, False),
}


def load_definition(path: str | Path | None = None) -> Definition:
    """Read and check a definition; the shipped one without a path.

    Raises:
        DefinitionError: no such file, not TOML, a missing or unknown key, or an illegal value.
    """
    text, source = _read(path)
    data = parse_toml(text, source=source)
    found = {("", key): value for key, value in data.items() if not isinstance(value, dict)}
    for table, content in data.items():
        if isinstance(content, dict):
            found |= {(table, key): value for key, value in content.items()}
    for place in found:
        if place not in _KEYS:
            raise DefinitionError(_unknown(place, source))
    values: dict[str, Any] = {}
    for place, (kind, may_be_absent) in _KEYS.items():
        if place in found:
            values[place[1]] = _checked(found[place], kind, place=_spell(place), source=source)
        elif not may_be_absent:
            msg = f"{source} has no {_spell(place)!r}; take the line from {SHIPPED}.toml"
            raise DefinitionError(msg)
    return Definition(**values, text=text)


def parse_toml(text: str, *, source: str) -> dict[str, Any]:
    """TOML text as a dictionary, its errors with the name of the file."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        msg = f"{source} is not TOML: {error}"
        raise DefinitionError(msg) from None


def read_toml(path: str | Path) -> tuple[str, str]:
    """Text and short name of a TOML file."""
    path = Path(path)
    try:
        return path.read_text(encoding="utf-8"), path.name
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read as a TOML file ({type(error).__name__})"
        raise DefinitionError(msg) from None


def nearest(name: str, known: list[str]) -> str:
    """`; did you mean 'x'?`, or nothing where no known name is close."""
    lowered = {word.lower(): word for word in known}
    near = difflib.get_close_matches(name.lower(), lowered, n=1)
    return f"; did you mean {lowered[near[0]]!r}?" if near else ""


def _read(path: str | Path | None) -> tuple[str, str]:
    if path is not None:
        return read_toml(path)
    shipped = resources.files("clinical") / "definitions" / f"{SHIPPED}.toml"
    return shipped.read_text(encoding="utf-8"), f"{SHIPPED}.toml"


def _spell(place: tuple[str, str]) -> str:
    return ".".join(part for part in place if part)


def _unknown(place: tuple[str, str], source: str) -> str:
    known = [_spell(legal) for legal in _KEYS]
    return (
        f"{source}: unknown key {_spell(place)!r}{nearest(_spell(place), known)} "
        f"Legal keys: {', '.join(known)}"
    )


def _checked(value: Any, kind: str, *, place: str, source: str) -> Any:
    """The value in the form that `Definition` holds, or an error naming its place."""
    if kind == "text" and isinstance(value, str) and value.strip():
        return value
    if kind == _DEATHS and value in DEATH_CHOICES:
        return value
    if kind == _TEXTS and isinstance(value, list) and all(_is_text(item) for item in value):
        return tuple(item.strip().upper() for item in value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if (
        kind in (_NUMBER, _POSITIVE)
        and is_number
        and math.isfinite(value)
        and (value > 0 or (value == 0 and kind == _NUMBER))
    ):
        return float(value)
    msg = f"{source}: {place} must be {kind}, got {value!r}"
    raise DefinitionError(msg)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
