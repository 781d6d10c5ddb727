"""The recipe of a question-answering model, one TOML file.

[model]       encoder, window, overlap, max_answer, threshold
[training]    the names of `domainbert.training.settings.TrainingSettings`, for every stage
[stages]      the same names and `negatives`, as lists with one value for each file of questions
[validation]  share: of the last file's articles, held out; choosing: questions that choose weights
[card]        name, title, data, limits, licence, rebuild: what people should know

A recipe for yes/no/maybe has [model] (encoder, window, overlap), [training] and [card].
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from biomed.qa.fitting import CHOOSING, Stage, fit
from biomed.qa.formats import read_questions
from biomed.qa.network import QuestionSettings
from biomed.qa.questions import check_answered, split_by_article
from biomed.qa.yes_no import YesNoSettings
from domainbert.encoders import DEFAULT_ENCODER
from domainbert.errors import UserError
from domainbert.training.old.recipes import CARD_NAMES, read_recipe_tables, training_names
from domainbert.training.settings import TrainingSettings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from biomed.qa.network import SpanReader
    from biomed.qa.questions import QuestionSet

SCORES_NOTE = (
    "Whole articles of the last file, held out by article: an article is held out if the SHA-256 "
    "of its name, as a number in [0, 1), is below {share}. Every question has an answer and the "
    "model has to give one. A part of these questions chose the weights."
)

NO_ANSWER_NOTE = (
    " The two last columns: the same questions asked of their own article and of another one, with "
    "the model's own threshold, {threshold:.2f}, which these very questions chose."
)


@dataclass(frozen=True)
class Recipe:
    """A training plan; see `biomed.qa.fitting.fit` for what its parts do."""

    training: TrainingSettings
    encoder: str = DEFAULT_ENCODER
    settings: QuestionSettings = field(default_factory=QuestionSettings)
    stages: dict[str, Any] = field(default_factory=dict)
    share: float = 0.2
    choosing: int = CHOOSING
    card: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check what is typed by hand."""
        if not 0 < self.share < 1:
            msg = f"share must be between 0 and 1, got {self.share}"
            raise UserError(msg)
        if self.choosing < 1:
            msg = f"choosing must be at least 1 question, got {self.choosing}"
            raise UserError(msg)
        for name, values in self.stages.items():
            if not isinstance(values, list):
                msg = f"[stages] {name} must be a list with one value for each file: [{values!r}]"
                raise UserError(msg)


def read_recipe(path: Path | None, **overrides: Any) -> Recipe:
    """Read a recipe, or start from the defaults; overrides that are not None win.

    Raises:
        ValueError: not TOML, or a table or name that means nothing, with the legal ones.
    """
    trained = training_names()
    legal = {
        "model": {f.name for f in fields(QuestionSettings)} | {"encoder"},
        "training": trained,
        "stages": trained | {"negatives"},
        "validation": {"share", "choosing"},
        "card": CARD_NAMES,
    }
    tables = read_recipe_tables(path, legal=legal)
    given = {name: value for name, value in overrides.items() if value is not None}
    model = {**tables["model"], **{k: v for k, v in given.items() if k == "encoder"}}
    training = {k: v for k, v in given.items() if k in trained}
    return Recipe(
        training=TrainingSettings(**{**tables["training"], **training}),
        encoder=model.pop("encoder", DEFAULT_ENCODER),
        settings=QuestionSettings(**model),
        stages={k: v for k, v in tables["stages"].items() if k not in training},
        card=tables["card"],
        **tables["validation"],
    )


def train_from_recipe(
    recipe: Recipe,
    files: Sequence[Path],
    *,
    checkpoints: Path | None = None,
    resume: bool = False,
) -> SpanReader:
    """Read the files, hold out a part of the last one's articles, train, and measure.

    Raises:
        QuestionError: a file that cannot be read, or has no answers.
        ValueError: lists in [stages] that do not have one value for each file.
    """
    sets = [read_questions(path) for path in files]
    for questions in sets:
        check_answered(questions, what="training")
    last, held_out = split_by_article(sets[-1], share=recipe.share)
    check_answered(held_out, what="validation")
    model = fit(
        make_stages(recipe, [*sets[:-1], last]),
        validation=held_out,
        encoder=recipe.encoder,
        settings=recipe.settings,
        choosing=recipe.choosing,
        checkpoints=checkpoints,
        resume=resume,
    )
    found = model.manifest["validation"]
    interval = {"value": found["f1"], "low": found["f1_low"], "high": found["f1_high"]}
    row = f"{len(held_out)} questions of {sets[-1].name}"
    scores = {"F1": {row: interval}, "exact match": {row: found["exact"]}}
    note = SCORES_NOTE.format(share=recipe.share)
    if none := model.manifest.get("no_answer"):
        row = f"{none['questions']} of them"
        scores["answered from the right article"] = {row: none["answered"]}
        scores["no answer from a wrong one"] = {row: none["abstained"]}
        note += NO_ANSWER_NOTE.format(threshold=none["threshold"])
    model.manifest |= {"scores": scores, "scores_note": note}
    model.manifest["card"] = recipe.card
    return model


def make_stages(recipe: Recipe, sets: Sequence[QuestionSet]) -> list[Stage]:
    """Each file's questions with its own settings."""
    for name, values in recipe.stages.items():
        if len(values) != len(sets):
            msg = f"[stages] {name} has {len(values)} values for {len(sets)} files of questions"
            raise UserError(msg)
    stages = []
    for number, questions in enumerate(sets):
        own = {name: values[number] for name, values in recipe.stages.items()}
        options = {"negatives": own.pop("negatives")} if "negatives" in own else {}
        stages.append(Stage(questions, recipe.training.replaced(**own), **options))
    return stages


@dataclass(frozen=True)
class YesNoRecipe:
    """A training plan for yes/no/maybe; see `biomed.qa.yes_no_fitting.fit_decisions`."""

    training: TrainingSettings
    encoder: str = DEFAULT_ENCODER
    settings: YesNoSettings = field(default_factory=YesNoSettings)
    card: dict[str, str] = field(default_factory=dict)


def read_yes_no_recipe(path: Path | None, **overrides: Any) -> YesNoRecipe:
    """Read a recipe, or start from the defaults; overrides that are not None win.

    Raises:
        ValueError: not TOML, or a table or name that means nothing, with the legal ones.
    """
    trained = training_names()
    legal = {
        "model": {f.name for f in fields(YesNoSettings)} | {"encoder"},
        "training": trained,
        "card": CARD_NAMES,
    }
    tables = read_recipe_tables(path, legal=legal)
    given = {name: value for name, value in overrides.items() if value is not None}
    model = {**tables["model"], **{k: v for k, v in given.items() if k == "encoder"}}
    training = {k: v for k, v in given.items() if k in trained}
    return YesNoRecipe(
        training=TrainingSettings(**{**tables["training"], **training}),
        encoder=model.pop("encoder", DEFAULT_ENCODER),
        settings=YesNoSettings(**model),
        card=tables["card"],
    )
