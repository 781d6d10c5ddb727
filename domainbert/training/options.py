"""The options that all training commands share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from domainbert.cli import options

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from domainbert.training.checkpoints import TrainingRun
    from domainbert.training.recipes import AnyRecipe


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The options that all training commands share, as a command gets them."""

    recipe: options.RecipeFile = None
    encoder: options.EncoderName = None
    epochs: options.Epochs = None
    learning_rate: options.LearningRate = None
    seed: options.Seed = None
    full: options.FullWeights = False
    checkpoints: options.Checkpoints = None
    resume: options.Resume = False

    def given(self) -> dict[str, object]:
        """The settings of the table `[training]` that were named."""
        values = {"epochs": self.epochs, "learning_rate": self.learning_rate, "seed": self.seed}
        given: dict[str, object] = {k: value for k, value in values.items() if value is not None}
        return {**given, "full": True} if self.full else given

    def plan(
        self,
        kind: type[AnyRecipe],
        changes: Mapping[str, object] | None = None,
        *,
        default: str | None = None,
    ) -> AnyRecipe:
        """The recipe with these options and other changes; `default` where none is named."""
        from domainbert.training.recipes import read_recipe

        named = {f"training.{name}": value for name, value in self.given().items()}
        named["model.encoder"] = self.encoder
        return read_recipe(kind, self.recipe or default, {**named, **(changes or {})})

    def run(self, out: Path) -> AbstractContextManager[TrainingRun]:
        """See `domainbert.training.checkpoints.training_run`."""
        from domainbert.training.checkpoints import training_run

        return training_run(out, self.checkpoints, resume=self.resume)
