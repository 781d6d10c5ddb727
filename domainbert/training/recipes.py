"""Recipes: TOML files with everything that defines a trained model except its data."""

import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TypeVar

from domainbert.encoders.loading import DEFAULT_ENCODER
from domainbert.errors import UserError
from domainbert.models.manifest import Card
from domainbert.settings import Settings
from domainbert.training.settings import TrainingSettings

AnyRecipe = TypeVar("AnyRecipe", bound=Settings)


class ModelTable(Settings):
    """What to train; the `[model]` table, to which a task adds its settings.

    Attributes:
        encoder: shipped name, folder or `hub:owner/name`.
        start: a model of the same task (shipped name or folder) with an adapter of the same rank on
            the same encoder, from which training starts.
    """

    encoder: str = DEFAULT_ENCODER
    start: str | None = None


class Recipe(Settings):
    """The tables that every recipe has; a task adds its own as fields."""

    model: ModelTable = ModelTable()
    training: TrainingSettings = TrainingSettings()
    card: Card = Card()


def read_recipe(
    recipe_class: type[AnyRecipe],
    source: str | Path | None = None,
    overrides: Mapping[str, object] | None = None,
) -> AnyRecipe:
    """Read a recipe, or another TOML file that has a settings class, such as a definition.

    Args:
        recipe_class: the class of the recipe or settings.
        source: a TOML file, or the name of a shipped recipe such as "entities". None for the
            defaults.
        overrides: values that replace the file's, by dotted name ("training.epochs"); None values
            are ignored.

    Raises:
        UserError: no such recipe, not TOML, or a setting that is unknown or wrong.
    """
    values = {}
    if source is not None:
        path = recipe_file(source)
        try:
            values = tomllib.loads(path.read_text("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UserError(f"{path} is not TOML: {error}") from None
        # The card of a shipped recipe describes the shipped model, not the one to be trained.
        if not Path(source).is_file():
            values.pop("card", None)
    for name, value in (overrides or {}).items():
        if value is not None:
            _override(values, name.split("."), value)
    try:
        return recipe_class(**values)
    except UserError as error:
        if source is None:
            raise
        raise UserError(f"{source}: {error}") from None


def _override(
    table: dict[str, object],
    path: Sequence[str],
    value: object,
) -> None:
    """Set a value by its path of tables and name; missing tables are made."""
    *names, last = path
    for name in names:
        inner = table.setdefault(name, {})
        if not isinstance(inner, dict):
            return  # the recipe's class says that a table is expected
        table = inner
    table[last] = value


def recipe_file(source: str | Path) -> Path:
    """The file of a recipe, by path or by the name of a shipped one."""
    path = Path(source)
    if path.is_file():
        return path
    shipped = shipped_recipes()
    if str(source) in shipped:
        return shipped[str(source)]
    names = ", ".join(shipped) or "none here"
    raise UserError(
        f"{source}: no such recipe file, and no shipped recipe of that name ({names})"
    )


def shipped_recipes() -> dict[str, Path]:
    """The recipes that come with the package, by name."""
    installed = Path(str(resources.files("domainbert"))) / "recipes"
    checkout = Path(__file__).parents[2] / "recipes"
    folder = installed if installed.is_dir() else checkout
    paths = sorted(folder.glob("*.toml"), key=lambda path: path.stem)
    return {path.stem: path for path in paths}
