"""Train a question-answering model in stages, from questions or from a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from biomed.qa.answerer import QuestionAnswerer, QuestionSettings
from biomed.qa.evaluation import find_threshold, judge, score
from biomed.qa.formats import read_questions
from biomed.qa.objective import AnswerObjective
from biomed.qa.questions import QuestionSet, check_answered, evenly, split_by_article
from domainbert.errors import UserError
from domainbert.settings import Count, Settings
from domainbert.training.recipes import ModelTable, Recipe
from domainbert.training.train import Stage, train

if TYPE_CHECKING:
    from domainbert.training.settings import TrainingSettings

CHOOSING = 96  # validation questions that choose the weights
SCORES_NOTE = (
    "Held-out articles of the last file: an article is held out if the SHA-256 of its name, as a "
    "number in [0, 1), is below {share}. Every question has an answer and the model must give "
    "one. Some of these questions chose the weights."
)
NO_ANSWER_NOTE = (
    " The last two columns: the same questions, asked of their own article and of another one, "
    "with the model's own threshold, {threshold:.2f}, which was chosen on these questions."
)


class QuestionModelTable(ModelTable, QuestionSettings):
    """The `[model]` table: the encoder and the model's settings."""


class Validation(Settings):
    """The `[validation]` table.

    Attributes:
        share: share of the last file's articles that is held out.
        choosing: number of held-out questions that choose the weights.
    """

    share: Annotated[float, Field(gt=0, lt=1)] = 0.2
    choosing: Count = CHOOSING


class QuestionRecipe(Recipe):
    """A recipe for question answering.

    Attributes:
        stages: names of `[training]`, and `negatives`, each with one value per file of questions.
        validation: what is held out.
    """

    model: QuestionModelTable = QuestionModelTable()
    stages: dict[str, list[Any]] = Field(default={})
    validation: Validation = Validation()


@dataclass(frozen=True)
class QuestionStage:
    """One stage of training.

    Attributes:
        questions: to train on.
        training: how to train.
        negatives: average number of windows without the answer for each one with it.
    """

    questions: QuestionSet
    training: TrainingSettings
    negatives: float = 1.0


def fit(
    stages: Sequence[QuestionStage],
    *,
    validation: QuestionSet,
    encoder: str | Path,
    settings: QuestionSettings | None = None,
    choosing: int = CHOOSING,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> QuestionAnswerer:
    """Train on the stages one after the other.

    Each stage keeps the weights with the best F1 on some of the validation questions, taken evenly
    from their articles; at the end all of them are scored. Without a threshold in the settings,
    the one that best separates right from wrong articles is chosen (`find_threshold`). A training
    question that shares an article or a passage with validation is left out.

    Args:
        stages: general questions first. The first stage's rank, dropout, seed and `full` apply to
            all.
        validation: questions with answers.
        encoder: shipped name, folder or hub:owner/name.
        settings: windows, longest answer, threshold.
        choosing: number of validation questions that choose the weights.
        checkpoints: folder that keeps the checkpoints; a temporary one by default.
        resume: continue from the last checkpoint there.

    Raises:
        QuestionError: a stage or the validation side without answers.
        UserError: no stage, or negatives < 0.
    """
    if not stages:
        msg = "fit needs at least one stage: fit([QuestionStage(questions, TrainingSettings())], …)"
        raise UserError(msg)
    for stage in stages:
        check_answered(stage.questions, what="training")
    check_answered(validation, what="validation")
    untrained = QuestionAnswerer.untrained(encoder, training=stages[0].training, settings=settings)
    objectives = [
        AnswerObjective(
            untrained,
            stage.questions,
            validation=evenly(validation, choosing),
            held_out=validation,
            training=stage.training,
            negatives=stage.negatives,
        )
        for stage in stages
    ]
    runs = [Stage(o, stage.training) for o, stage in zip(objectives, stages, strict=True)]
    model = train(untrained, *runs, encoder=encoder, checkpoints=checkpoints, resume=resume)
    articles = {article for question in validation.questions for article in question.articles}
    model.manifest["counts"] = {
        **{f"{o.questions.name}, questions for training": len(o.windows) for o in objectives},
        "questions held out": len(validation),
        "articles held out": len(articles),
    }
    judged = judge(model, validation)
    model.manifest["validation"] = asdict(score(judged))
    if model.settings.threshold is None:
        found = find_threshold(model, judged, count=choosing)
        model.set_threshold(found["threshold"])
        model.manifest["no_answer"] = found
    return model


def train_from_recipe(
    recipe: QuestionRecipe,
    files: Sequence[Path],
    *,
    checkpoints: Path | None = None,
    resume: bool = False,
) -> QuestionAnswerer:
    """Read the files, hold out some of the last one's articles, train and score.

    Raises:
        QuestionError: a file that cannot be read or has no answers.
        UserError: `[stages]` without one value for each file.
    """
    sets = [read_questions(path) for path in files]
    for questions in sets:
        check_answered(questions, what="training")
    share = recipe.validation.share
    last, held_out = split_by_article(sets[-1], share=share)
    model = fit(
        make_stages(recipe, [*sets[:-1], last]),
        validation=held_out,
        encoder=recipe.model.encoder,
        settings=QuestionSettings(**recipe.model.model_dump(exclude={"encoder"})),
        choosing=recipe.validation.choosing,
        checkpoints=checkpoints,
        resume=resume,
    )
    found = model.manifest["validation"]
    f1 = found["f1"]
    if found["f1_low"] is not None:
        f1 = {"value": f1, "low": found["f1_low"], "high": found["f1_high"]}
    row = f"{len(held_out)} questions of {sets[-1].name}"
    scores = {"F1": {row: f1}, "exact match": {row: found["exact"]}}
    note = SCORES_NOTE.format(share=share)
    if none := model.manifest.get("no_answer"):
        row = f"{none['questions']} of them"
        scores["answered from the right article"] = {row: none["answered"]}
        scores["no answer from a wrong one"] = {row: none["abstained"]}
        note += NO_ANSWER_NOTE.format(threshold=none["threshold"])
    model.manifest |= {"scores": scores, "scores_note": note, "card": recipe.card.model_dump()}
    return model


def make_stages(recipe: QuestionRecipe, sets: Sequence[QuestionSet]) -> list[QuestionStage]:
    """Each file's questions with their own settings."""
    for name, values in recipe.stages.items():
        if len(values) != len(sets):
            msg = f"[stages] {name} has {len(values)} values for {len(sets)} files of questions"
            raise UserError(msg)
    stages = []
    for number, questions in enumerate(sets):
        own = {name: values[number] for name, values in recipe.stages.items()}
        options = {"negatives": own.pop("negatives")} if "negatives" in own else {}
        stages.append(QuestionStage(questions, recipe.training.replaced(**own), **options))
    return stages
