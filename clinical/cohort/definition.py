"""The readmission definition: a commented TOML file, checked key by key."""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from domainbert.errors import UserError
from domainbert.settings import Positive, Settings
from domainbert.training.recipes import read_recipe


def _upper(value: Any) -> Any:
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(item.strip().upper() for item in value)
    raise PydanticCustomError("list_of_text", "a list of text")


Text = Annotated[str, Field(min_length=1)]
UpperTexts = Annotated[tuple[str, ...], BeforeValidator(_upper)]
NotNegative = Annotated[float, Field(ge=0)]


class Episode(Settings):
    """Which stays are one episode of care."""

    transfer_gap_hours: NotNegative


class Index(Settings):
    """Which episodes are followed up; ages are in whole years."""

    newborn_types: UpperTexts
    died_locations: UpperTexts
    minimum_age: NotNegative | None = None
    maximum_age: NotNegative | None = None


class Readmission(Settings):
    """What counts as a readmission."""

    horizon_days: Positive
    planned_types: UpperTexts
    death_after_discharge: Literal["keep", "exclude"]


class Definition(Settings):
    """A readmission definition; `definitions/readmission-30d.toml` explains every key.

    `text` is the TOML text itself.
    """

    name: Text
    version: Text
    episode: Episode
    index: Index
    readmission: Readmission
    text: str = Field(default="", repr=False)

    @property
    def sha256(self) -> str:
        """SHA-256 of the text, in hex: the same hash is the same definition."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def load_definition(path: str | Path | None = None) -> Definition:
    """Read and check a definition; the shipped one without a path.

    Raises:
        UserError: no such file, not TOML, a missing or unknown key, or a wrong value.
    """
    folder = Path(str(resources.files("clinical"))) / "definitions"
    path = folder / "readmission-30d.toml" if path is None else Path(path)
    return read_recipe(Definition, path, {"text": read_text(path)})


def read_text(path: Path) -> str:
    """The text of a TOML file; `UserError` if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read as a TOML file ({type(error).__name__})"
        raise UserError(msg) from None
