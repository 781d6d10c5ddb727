"""A recipe: everything about a trained model that is not its data, as one TOML file."""

from __future__ import annotations

import platform
import tomllib
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from domainbert import __version__
from domainbert.errors import UserError
from domainbert.training.settings import TrainingSettings

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

# What people should know of a model; its card shows them.
CARD_NAMES = ("name", "title", "data", "limits", "licence", "rebuild")


def training_names() -> set[str]:
    """What a `[training]` table may say."""
    return set(TrainingSettings.model_fields)


def read_recipe_tables(
    path: Path | None, *, legal: Mapping[str, Collection[str]]
) -> dict[str, dict[str, Any]]:
    """The tables of a recipe, their names checked.

    Args:
        path: a TOML file; None for a recipe that says nothing.
        legal: the tables there may be, each with the names it may have.

    Returns:
        Every legal table, empty where the file lacks it.

    Raises:
        ValueError: not TOML, or a table or a name that means nothing, with the legal ones.
    """
    tables: dict[str, Any] = {}
    if path is not None:
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            msg = f"{path} is not TOML: {error}"
            raise UserError(msg) from None
    if unknown := sorted(set(tables) - set(legal)):
        msg = f"{path} has a table [{unknown[0]}]; legal are {', '.join(legal)}"
        raise UserError(msg)
    for table, names in legal.items():
        if not isinstance(tables.setdefault(table, {}), dict):
            msg = f"{path}: {table} must be a table, written [{table}]"
            raise UserError(msg)
        if unknown := sorted(set(tables[table]) - set(names)):
            msg = f"{path}: [{table}] has no {unknown[0]!r}; legal are {', '.join(sorted(names))}"
            raise UserError(msg)
    return tables


def versions() -> dict[str, str]:
    """What a training ran with, for its manifest."""
    return {
        "python": platform.python_version(),
        "domainbert": __version__,
        **{package: version(package) for package in ("torch", "transformers", "peft")},
    }
