"""Train a question-answering model in stages, from questions or from a recipe."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field
from torch.nn.functional import cross_entropy

from biomed.qa.answerer import QuestionAnswerer, QuestionSettings
from biomed.qa.evaluation import ask_elsewhere, find_calibration, find_threshold, judge, score
from biomed.qa.examples import WindowMaker
from biomed.qa.formats import read_questions
from biomed.qa.questions import QuestionSet, evenly, split_by_article, without_articles
from domainbert.errors import UserError
from domainbert.inference import pad
from domainbert.settings import Count, Settings
from domainbert.training.objective import FreshBatches, Objective
from domainbert.training.recipes import ModelTable, Recipe
from domainbert.training.train import Stage, train

if TYPE_CHECKING:
    from biomed.qa.examples import Example
    from domainbert.training.settings import TrainingSettings

CHOOSING = 64  # validation questions that choose the weights
HELD_OUT_NOTE = (
    "Held-out articles of the last file: an article is held out if the SHA-256 of its name, as a "
    "number in [0, 1), is below {share}. Some of these questions chose the weights. "
)
SCORES_NOTE = (
    " The last two columns: questions with an answer, asked of their own article and of another "
    "one, with the model's own threshold, {threshold:.2f}; unless given, it was chosen on these."
)
FORCED = "Every question has an answer and the model must give one."
FREE = "{none} of {questions} questions have no answer; the model's own threshold decides."
CALIBRATION_NOTE = (
    "`Answer.probability` is Platt scaling of the score (slope {slope:.3f}, intercept "
    "{intercept:.3f}). It was fitted on the {questions} held-out questions that chose the "
    "threshold, each asked of its own article and of another one; so it assumes that half of all "
    "questions have an answer. Of maps fitted on one half of these questions and "
    "measured on the other, the expected calibration error is {error:.3f}."
)
log = logging.getLogger(__name__)


class QuestionModelTable(ModelTable, QuestionSettings):
    """The `[model]` table: the encoder and the model's settings."""


class Validation(Settings):
    """`[validation]`: the share of the last file's articles to hold out; see `CHOOSING`."""

    share: Annotated[float, Field(gt=0, lt=1)] = 0.2
    choosing: Count = CHOOSING


class QuestionRecipe(Recipe):
    """A recipe for question answering.

    `stages` has names of `[training]`, and `negatives`, each with one value per file of questions.
    """

    model: QuestionModelTable = QuestionModelTable()
    stages: dict[str, list[Any]] = Field(default={})
    validation: Validation = Validation()


@dataclass(frozen=True)
class QuestionStage:
    """One stage of training: the questions, the settings, and `negatives` of `WindowMaker`."""

    questions: QuestionSet
    training: TrainingSettings
    negatives: float = 1.0


class AnswerObjective(Objective):
    """Finding the answer in a window, or [CLS] if it is not there.

    The loss is the mean of the cross-entropies of start and end over [CLS] and the context's
    tokens, the same positions that prediction chooses from. The score is the F1 of the answers to
    `choosing` validation questions. Questions that share an article or a passage with one of the
    validation questions are not trained on.
    """

    metric = "f1"

    def __init__(
        self, model: QuestionAnswerer, stage: QuestionStage, validation: QuestionSet, choosing: int
    ) -> None:
        self.stage, self._model = stage, model
        self._validation = evenly(validation, choosing)
        self._questions = without_articles(stage.questions, validation)
        name, seed = stage.questions.name, stage.training.seed
        if shared := len(stage.questions) - len(self._questions):
            why = "%s: %d questions share an article with validation and are left out"
            log.warning(why, name, shared)
        self.windows = WindowMaker(
            self._questions,
            reader=model.reader,
            negatives=stage.negatives,
            longest=model.max_answer,
            seed=seed,
        )
        if unusable := self.windows.left_out:
            log.warning("%s: %d questions have no usable answer and are left out", name, unusable)
        tokens = stage.training.batch_tokens
        self._batches = FreshBatches(self.windows, batch_tokens=tokens, seed=seed)

    def batches(self) -> FreshBatches:
        """Windows of similar length, drawn anew for every epoch."""
        return self._batches

    def collate(self, batch: Sequence[Example], *, epoch: int) -> dict[str, torch.Tensor]:
        """Token ids, segments, and the answer's start and end."""
        del epoch
        ids, mask = pad([e.ids for e in batch], pad_token_id=self._model.tokenizer.pad_token_id)
        tensors = {
            "input_ids": ids,
            "token_type_ids": pad([example.segments for example in batch], pad_token_id=0)[0],
            "start": torch.tensor([example.start for example in batch]),
            "end": torch.tensor([example.end for example in batch]),
        }
        return tensors if mask is None else {**tensors, "attention_mask": mask}

    def loss(self, network: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """The mean cross-entropy of start and end."""
        left = {"start", "end", "" if self._model.reads_segments else "token_type_ids"}
        inputs = {name: value for name, value in batch.items() if name not in left}
        output = network(**inputs)
        # The context is segment 1 without the [SEP] that ends it.
        segments = batch["token_type_ids"]
        excluded = segments * segments.roll(-1, dims=1) == 0
        excluded[:, 0] = False
        losses = [
            cross_entropy(logits.float().masked_fill(excluded, float("-inf")), batch[name])
            for name, logits in (("start", output.start_logits), ("end", output.end_logits))
        ]
        return torch.stack(losses).mean()

    def score(self, network: Any) -> dict[str, float]:
        """F1 and exact match on the validation questions."""
        found = score(judge(self._model, self._validation, network=network))
        return {"f1": found.f1, "exact": found.exact}

    def facts(self) -> dict[str, Any]:
        """Hashes of the training and validation questions, and the share of negatives."""
        return {
            "questions": self._questions.name,
            "sha256": self._questions.fingerprint(),
            "used": len(self.windows),
            "negatives": self.stage.negatives,
            "validation_sha256": self._validation.fingerprint(),
        }


def fit(
    stages: Sequence[QuestionStage],
    *,
    validation: QuestionSet,
    encoder: str | Path,
    settings: QuestionSettings | None = None,
    choosing: int = CHOOSING,
    share: float | None = None,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> QuestionAnswerer:
    """Train on the stages one after the other.

    Each stage keeps the weights with the best F1 on some of the validation questions, taken evenly
    from their articles; at the end all of them are scored, see `measure`.

    Args:
        stages: general ones first; rank, dropout, seed and `full` of the first apply to all.
        validation: questions with answers; what shares an article with them is not trained on.
        encoder: shipped name, folder or hub:owner/name.
        settings: windows, longest answer, threshold.
        choosing: number of validation questions that choose the weights, and the threshold.
        share: of the articles that are held out by a hash (`split_by_article`), for the card.
        checkpoints: see `domainbert.training.train.train`.
        resume: see there.
    """
    if not stages:
        raise UserError(
            "fit needs at least one stage: fit([QuestionStage(questions, TrainingSettings())], …)"
        )
    for stage in stages:
        stage.questions.check_answered("training")
    validation.check_answered("validation")
    untrained = QuestionAnswerer.untrained(encoder, training=stages[0].training, settings=settings)
    objectives = [AnswerObjective(untrained, stage, validation, choosing) for stage in stages]
    runs = [Stage(objective, objective.stage.training) for objective in objectives]
    model = train(untrained, *runs, encoder=encoder, checkpoints=checkpoints, resume=resume)
    names = [f"{stage.questions.name}, questions for training" for stage in stages]
    model.manifest["counts"] = {
        **{name: len(each.windows) for name, each in zip(names, objectives, strict=True)},
        "questions held out": len(validation),
        "articles held out": len({article for q in validation for article in q.articles}),
    }
    measure(model, validation, choosing=choosing, share=share)
    return model


def measure(
    model: QuestionAnswerer,
    validation: QuestionSet,
    *,
    choosing: int = CHOOSING,
    share: float | None = None,
) -> None:
    """Score a model on held-out questions, and fit its threshold and probability on some of them.

    Without a threshold in the settings, the one that best separates right from wrong articles is
    chosen. Scores and notes go to the manifest.
    """
    model.manifest.pop("calibration", None)
    own, elsewhere = ask_elsewhere(model, validation, count=choosing)
    none = find_threshold(own, elsewhere, model.settings.threshold)
    model.settings = model.settings.replaced(threshold=none["threshold"])
    found = score(judge(model, validation))
    f1 = {"value": found.f1, "low": found.f1_low, "high": found.f1_high}
    row = f"{found.questions} questions of {validation.name}"
    scores = {"F1": {row: found.f1 if found.f1_low is None else f1}}
    scores["exact match"] = {row: found.exact}
    row = f"{none['questions']} of them"
    scores["answered from the right article"] = {row: none["answered"]}
    scores["no answer from a wrong one"] = {row: none["abstained"]}
    model.manifest |= {"validation": asdict(found), "no_answer": none, "scores": scores}
    how = HELD_OUT_NOTE.format(share=share) if share else ""
    without = found.questions - found.answerable
    how += FREE.format(none=without, questions=found.questions) if without else FORCED
    model.manifest["scores_note"] = how + SCORES_NOTE.format(threshold=none["threshold"])
    if known := find_calibration(own, elsewhere):
        slope, intercept = known["map"]
        model.settings = model.settings.replaced(calibration=(slope, intercept))
        numbers = {"questions": len(own), "error": known["error"]}
        note = CALIBRATION_NOTE.format(slope=slope, intercept=intercept, **numbers)
        model.manifest["calibration"] = {"note": note, **numbers, "bins": known["bins"]}


def train_from_recipe(
    recipe: QuestionRecipe,
    files: Sequence[Path],
    *,
    checkpoints: Path | None = None,
    resume: bool = False,
) -> QuestionAnswerer:
    """Read the files, hold out some of the last one's articles, train and score; see `fit`."""
    sets = [read_questions(path) for path in files]
    for questions in sets:
        questions.check_answered("training")
    share = recipe.validation.share
    last, held_out = split_by_article(sets[-1], share=share)
    model = fit(
        make_stages(recipe, [*sets[:-1], last]),
        validation=held_out,
        encoder=recipe.model.encoder,
        settings=QuestionSettings(**recipe.model.model_dump(exclude={"encoder"})),
        choosing=recipe.validation.choosing,
        share=share,
        checkpoints=checkpoints,
        resume=resume,
    )
    model.manifest["card"] = recipe.card.model_dump()
    return model


def make_stages(recipe: QuestionRecipe, sets: Sequence[QuestionSet]) -> list[QuestionStage]:
    """Each file's questions with their own settings.

    Raises:
        UserError: `[stages]` without one value for each file.
    """
    for name, values in recipe.stages.items():
        if len(values) != len(sets):
            found = f"{len(values)} values for {len(sets)} files of questions"
            raise UserError(f"[stages] {name} has {found}")
    stages = []
    for number, questions in enumerate(sets):
        own = {name: values[number] for name, values in recipe.stages.items()}
        negatives = own.pop("negatives", QuestionStage.negatives)
        stages.append(QuestionStage(questions, recipe.training.replaced(**own), negatives))
    return stages
