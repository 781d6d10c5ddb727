"""The command of a recipe that reads only the public data, and arguments of several commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from domainbert.cli import options
from domainbert.cli.console import one_line_errors, say
from domainbert.cli.training import training_run
from domainbert.training.recipes import read_recipe, recipe_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from domainbert.models.model import Model
    from domainbert.training.recipes import AnyRecipe

ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="Shipped name or model folder.")
]


def training_command(
    name: str,
    recipe_class: type[AnyRecipe],
    train: Callable[..., Model[Any]],
) -> Callable[..., None]:
    """A command that trains a model by a recipe of this class, by default the shipped `name`.

    `train` gets the recipe and the folder of the data, and `checkpoints` and `resume` by name.
    """

    @one_line_errors
    def main(
        data: Annotated[
            Path, typer.Argument(help="Folder of the public data sets.")
        ],
        *,
        out: options.ModelFolder,
        recipe: options.RecipeFile = None,
        checkpoints: options.Checkpoints = None,
        resume: options.Resume = False,
    ) -> None:
        """Train the model by its recipe, measure it, and write the model folder."""
        plan = read_recipe(recipe_class, recipe or recipe_file(name))
        with training_run(out, checkpoints, resume=resume) as run:
            trained = train(
                plan, data, checkpoints=run.checkpoints, resume=resume
            )
            run.save(trained)
        say(
            f"model in {out}; its card says how it was made and how good it is"
        )

    return main
