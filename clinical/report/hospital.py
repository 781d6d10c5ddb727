"""The hospital's answers: one TOML file with what no manifest can say."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from domainbert.errors import UserError

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


@dataclass(frozen=True)
class Hospital:
    """Answers by key, and what else the file says.

    `external` and `local` say where the evaluated stays come from: another source than the
    training data, and the hospital that is to use the model.
    """

    answers: dict[str, str] = field(default_factory=dict)
    discharges_per_day: float = 0.0
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
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UserError(f"{path} is not TOML: {error}") from None
        known = {**dict.fromkeys(questions(), str), **dict.fromkeys(FLAGS, bool)}
        known |= dict.fromkeys(NUMBERS, float)
        for key, value in given.items():
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"; did you mean {near[0]!r}" if near else ""
                raise UserError(f"{path}: no such question: {key!r}{hint}")
            _check_type(path, key, value, known[key])
        answers = {key: given[key].strip() for key in questions() if given.get(key, "").strip()}
        rest = {key: given[key] for key in (*NUMBERS, *FLAGS) if key in given}
        return cls(answers, **rest)


def _check_type(path: str | Path, key: str, value: object, kind: type) -> None:
    expected = {str: "text in quotes", bool: "true or false", float: "a number of at least 0"}
    right = isinstance(value, kind)
    if kind is float:
        right = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    if not right:
        raise UserError(f"{path}: {key}: expected {expected[kind]}, got {value!r}")
