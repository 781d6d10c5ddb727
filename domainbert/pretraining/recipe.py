"""The recipe of a pretraining, one TOML file.

[model]     encoder: what to start from: shipped name, folder or Hub id
[scratch]   or from nothing, the names of `ScratchSettings`
[corpus]    the names of `CorpusSettings`
[examples]  the names of `ExampleSettings`
[training]  the names of `TrainingPlan`
[short]     the first phase, the names of `Phase`
[long]      the second, where there is one
[card]      name, title, data, limits, licence, rebuild: what people should know

The settings are in `domainbert.pretraining.settings`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from domainbert.encoders import DEFAULT_ENCODER
from domainbert.errors import UserError
from domainbert.pretraining.settings import (
    CorpusSettings,
    ExampleSettings,
    Phase,
    ScratchSettings,
    TrainingPlan,
)
from domainbert.training.old.recipes import CARD_NAMES, read_recipe_tables

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PHASES = ("short", "long")


@dataclass(frozen=True)
class Recipe:
    """A pretraining; see `domainbert.pretraining.fitting.pretrain` for what its parts do.

    Attributes:
        encoder: what to start from; None from scratch.
        scratch: the encoder from scratch; None to start from one.
        corpus: where the text is.
        examples: how it is made into examples.
        training: what the phases share.
        phases: name -> phase, in order.
        card: what people should know.
    """

    encoder: str | None = DEFAULT_ENCODER
    scratch: ScratchSettings | None = None
    corpus: CorpusSettings = field(default_factory=CorpusSettings)
    examples: ExampleSettings = field(default_factory=ExampleSettings)
    training: TrainingPlan = field(default_factory=TrainingPlan)
    phases: Mapping[str, Phase] = field(default_factory=lambda: {PHASES[0]: Phase()})
    card: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that there is one start."""
        if (self.encoder is None) == (self.scratch is None):
            msg = "start from an encoder or from [scratch], not from both or neither"
            raise UserError(msg)

    def at_most(self, steps: int | None) -> Recipe:
        """The same with no more than so many steps in each phase; None changes nothing."""
        if steps is None:
            return self
        short = {name: replace(p, steps=min(p.steps, steps)) for name, p in self.phases.items()}
        return replace(self, phases=short)


def read_recipe(path: Path | None, **overrides: Any) -> Recipe:
    """Read a recipe, or start from the defaults; overrides that are not None win.

    Args:
        path: a TOML file.
        **overrides: `encoder`, and names of `TrainingPlan`.

    Raises:
        ValueError: not TOML, a table or name that means nothing, or a value that is not legal.
    """
    kinds: dict[str, Any] = {
        "corpus": CorpusSettings,
        "examples": ExampleSettings,
        "training": TrainingPlan,
        "scratch": ScratchSettings,
        **dict.fromkeys(PHASES, Phase),
    }
    names = {table: {f.name for f in fields(kind)} for table, kind in kinds.items()}
    legal = {"model": {"encoder"}, **names, "card": CARD_NAMES}
    tables = read_recipe_tables(path, legal=legal)
    given = {name: value for name, value in overrides.items() if value is not None}
    tables["model"] |= {n: v for n, v in given.items() if n == "encoder"}
    tables["training"] |= {n: v for n, v in given.items() if n in names["training"]}
    scratch = ScratchSettings(**tables["scratch"]) if tables["scratch"] else None
    phases = {name: Phase(**tables[name]) for name in PHASES if tables[name]}
    return Recipe(
        encoder=tables["model"].get("encoder", None if scratch else DEFAULT_ENCODER),
        scratch=scratch,
        corpus=CorpusSettings(**tables["corpus"]),
        examples=ExampleSettings(**tables["examples"]),
        training=TrainingPlan(**tables["training"]),
        phases=phases or {PHASES[0]: Phase()},
        card=tables["card"],
    )
