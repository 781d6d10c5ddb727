"""The hospital's answers: one TOML file with what no manifest can say."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from domainbert.errors import UserError
from domainbert.settings import Settings

NUMBERS = {"discharges_per_day": "How many discharges a day are scored? (a number; 0: not known)"}
FLAGS = {
    "external": "Are the evaluated stays from another source than the training data?",
    "local": "Are the evaluated stays from the hospital that is to use the model?",
}


@cache
def questions() -> dict[str, str]:
    """The questions that are answered in text, by key."""
    return read_data("questions.toml")


@cache
def read_data(name: str) -> Any:
    """A TOML file of this package."""
    return tomllib.loads((resources.files(__package__) / name).read_text("utf-8"))


class Hospital(Settings):
    """Answers by key, and what else the file says.

    `external` and `local` say where the evaluated stays come from: another source than the
    training data, and the hospital that is to use the model.
    """

    answers: dict[str, str] = Field(default_factory=dict)
    discharges_per_day: Annotated[float, Field(ge=0)] = 0.0
    external: bool = False
    local: bool = False

    @classmethod
    def read(cls, path: str | Path) -> Hospital:
        """Read a file made from `hospital-template.toml`; empty answers are open.

        Raises:
            UserError: not TOML, an unknown key, or a value of the wrong type.
        """
        try:
            given = tomllib.loads(Path(path).read_text("utf-8"))
            answers = {key: given.pop(key) for key in questions() if key in given}
            found = cls(answers=answers, **given)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UserError(f"{path} is not TOML: {error}") from None
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        return found.replaced(answers={k: v.strip() for k, v in found.answers.items() if v.strip()})
