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

SHIPPED = "readmission-30d"


def _upper(value: Any) -> Any:
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(item.strip().upper() for item in value)
    raise PydanticCustomError("list_of_text", "a list of text")


Text = Annotated[str, Field(min_length=1)]
UpperTexts = Annotated[tuple[str, ...], BeforeValidator(_upper)]
NotNegative = Annotated[float, Field(ge=0)]


class Episode(Settings):
    """The `[episode]` table.

    Attributes:
        transfer_gap_hours: stays at most this far apart are one episode.
    """

    transfer_gap_hours: NotNegative


class Index(Settings):
    """The `[index]` table.

    Attributes:
        newborn_types: admission types of newborns, upper case.
        died_locations: discharge locations that mean death, upper case.
        minimum_age: youngest age kept, in whole years; None for no limit.
        maximum_age: oldest age kept, in whole years; None for no limit.
    """

    newborn_types: UpperTexts
    died_locations: UpperTexts
    minimum_age: NotNegative | None = None
    maximum_age: NotNegative | None = None


class Readmission(Settings):
    """The `[readmission]` table.

    Attributes:
        horizon_days: a readmission begins less than this many days after discharge.
        planned_types: admission types of planned stays, upper case.
        death_after_discharge: whether stays with a death within the horizon are kept.
    """

    horizon_days: Positive
    planned_types: UpperTexts
    death_after_discharge: Literal["keep", "exclude"]


class Definition(Settings):
    """A readmission definition; `clinical/definitions/readmission-30d.toml` has the reasons.

    Attributes:
        name: name of the definition.
        version: its version.
        episode: which stays are one episode of care.
        index: which episodes are followed up.
        readmission: what counts as a readmission.
        text: the TOML text itself.
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
    shipped = Path(str(resources.files("clinical"))) / "definitions" / f"{SHIPPED}.toml"
    path = shipped if path is None else Path(path)
    return read_recipe(Definition, path, {"text": read_text(path)})


def read_text(path: str | Path) -> str:
    """The text of a TOML file.

    Raises:
        UserError: no such file, or not UTF-8.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read as a TOML file ({type(error).__name__})"
        raise UserError(msg) from None
