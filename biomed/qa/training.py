"""Training of a question-answering model, in one stage per file of questions."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field
from torch.nn.functional import cross_entropy

from biomed.qa.evaluation import evaluate
from biomed.qa.examples import AnswerExample, WindowMaker
from biomed.qa.model import QuestionAnswerer, QuestionSettings
from biomed.qa.questions import (
    QuestionSet,
    evenly,
    split_by_article,
    without_articles,
)
from domainbert.errors import UserError
from domainbert.models.manifest import Scores
from domainbert.settings import Count, Settings
from domainbert.statistics.bootstrap import Interval
from domainbert.text.runner import padded_inputs
from domainbert.training.objective import Batch, FreshBatches, Objective
from domainbert.training.recipes import ModelTable, Recipe
from domainbert.training.settings import TrainingSettings
from domainbert.training.train import train

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedModel

HELD_OUT_NOTE = (
    "Held-out articles of the last file: an article is held out if the SHA-256 of its name, as a "
    "number in [0, 1), is below {share}. Some of these questions chose the weights. "
)
FORCED = "Every question has an answer and the model must give one."
FREE = "{count} questions have no answer; the model's threshold decides."
log = logging.getLogger(__name__)


class QuestionModelTable(ModelTable, QuestionSettings):
    """The `[model]` table: the encoder and the model's settings."""


class Validation(Settings):
    """The `[validation]` table.

    Attributes:
        share: the share of the last file's articles that is held out.
        choosing: number of their questions that choose the weights.
    """

    share: Annotated[float, Field(gt=0, lt=1)] = 0.2
    choosing: Count = 64


class QuestionTraining(TrainingSettings):
    """Settings of training; see `TrainingSettings`.

    Attributes:
        negatives: mean number of windows without the answer for each window with it.
    """

    negatives: Annotated[float, Field(ge=0)] = 1.0


class QuestionRecipe(Recipe):
    """A recipe for question answering.

    Attributes:
        model: the `[model]` table.
        training: the `[training]` table.
        stages: names of `[training]`, each with one value per file of questions.
        validation: the `[validation]` table.
    """

    model: QuestionModelTable = QuestionModelTable()
    training: QuestionTraining = QuestionTraining()
    stages: dict[str, list[Any]] = Field(default={})
    validation: Validation = Validation()

    def each_stage(self, count: int) -> list[QuestionTraining]:
        """The settings of each stage.

        Raises:
            UserError: a row of `stages` that does not have `count` values.
        """
        settings = [self.training] * count
        for name, values in self.stages.items():
            if len(values) != count:
                raise UserError(
                    f"[stages] {name} has {len(values)} values for {count} files of questions; "
                    "give one for each"
                )
            settings = [
                stage.replaced(**{name: value})
                for stage, value in zip(settings, values, strict=True)
            ]
        return settings


class AnswerObjective(Objective):
    """Find the answer in a window, or [CLS] if the window does not have it.

    The loss is the mean of the cross-entropies of start and end over [CLS] and the context's
    tokens, the positions that prediction chooses from. The score is the F1 of the answers to
    `choosing` validation questions. Questions that share an article or a context with a validation
    question are not trained on.
    """

    metric = "f1"

    def __init__(
        self,
        model: QuestionAnswerer,
        questions: QuestionSet,
        validation: QuestionSet,
        *,
        training: QuestionTraining,
        choosing: int,
    ) -> None:
        self.name = questions.name
        self._model = model
        self._validation = evenly(validation, choosing)
        self._questions = without_articles(questions, validation)
        self.windows = WindowMaker(
            self._questions,
            pair_tokenizer=model.pair_tokenizer,
            negatives=training.negatives,
            longest=model.max_answer,
            seed=training.seed,
        )
        left_out = len(questions) - len(self.windows)
        if left_out:
            log.warning(
                "%s: %d questions are left out: they share an article with validation, "
                "or their answer is not in the context",
                self.name,
                left_out,
            )
        self.batches = FreshBatches(
            self.windows,
            batch_tokens=training.batch_tokens,
            seed=training.seed,
        )

    def collate(self, batch: Sequence[AnswerExample], *, epoch: int) -> Batch:
        """Token ids, segments, and the answer's start and end."""
        del epoch
        tensors = padded_inputs(
            [example.ids for example in batch],
            [example.segments for example in batch],
            pad_token_id=self._model.tokenizer.pad_token_id,
        )
        tensors["start"] = torch.tensor([example.start for example in batch])
        tensors["end"] = torch.tensor([example.end for example in batch])
        return tensors

    def loss(self, network: PreTrainedModel, batch: Batch) -> torch.Tensor:
        """The mean cross-entropy of start and end."""
        inputs = dict(batch)
        start = inputs.pop("start")
        end = inputs.pop("end")
        if not self._model.reads_segments:
            del inputs["token_type_ids"]
        output = network(**inputs)
        # The context is segment 1 without the [SEP] that ends it.
        segments = batch["token_type_ids"]
        is_excluded = segments * segments.roll(-1, dims=1) == 0
        is_excluded[:, 0] = False  # [CLS] stands for "no answer"

        def loss_of(
            logits: torch.Tensor, target: torch.Tensor
        ) -> torch.Tensor:
            allowed = logits.float().masked_fill(is_excluded, float("-inf"))
            return cross_entropy(allowed, target)

        start_loss = loss_of(output.start_logits, start)
        end_loss = loss_of(output.end_logits, end)
        return torch.stack([start_loss, end_loss]).mean()

    def evaluate(self, network: PreTrainedModel) -> dict[str, float]:
        """F1 and exact match on the validation questions."""
        model = self._model.with_network(network)
        scores = evaluate(model, self._validation)
        return {name: float(scores[name] or 0) for name in ("f1", "exact")}

    def facts(self) -> dict[str, object]:
        """Hashes of the training and validation questions."""
        return {
            "questions": self.name,
            "sha256": self._questions.fingerprint(),
            "used": len(self.windows),
            "validation_sha256": self._validation.fingerprint(),
        }


def fit(
    sets: Sequence[QuestionSet],
    recipe: QuestionRecipe | None = None,
    *,
    validation: QuestionSet | None = None,
    checkpoints: str | Path | None = None,
    resume: bool = False,
    model_class: type[QuestionAnswerer] = QuestionAnswerer,
) -> QuestionAnswerer:
    """Train on sets of questions, one stage after the other.

    Each stage keeps the weights with the best F1 on some of the validation questions, drawn evenly
    from their articles. At the end, all validation questions are scored.

    Args:
        sets: general questions first.
        recipe: encoder, settings and training. Rank, dropout, seed and `full` of the first stage
            apply to all stages.
        validation: questions that share an article with it are not trained on. By default the
            held-out articles of the last set (`split_by_article`).
        checkpoints: see `domainbert.training.train.train`.
        resume: see there.
        model_class: the class of the result.

    Raises:
        UserError: `[stages]` without one value for each set, or a set without answers.
    """
    recipe = recipe or QuestionRecipe()
    share = recipe.validation.share
    training_sets = list(sets)
    note = ""
    if validation is None:
        training_sets[-1], validation = split_by_article(sets[-1], share=share)
        note = HELD_OUT_NOTE.format(share=share)
    if not validation:
        raise UserError(
            f"{validation.name} has no articles to hold out at a share of {share}"
        )
    stages = recipe.each_stage(len(sets))
    settings = QuestionSettings(
        **recipe.model.model_dump(exclude={"encoder", "start"})
    )
    untrained = model_class.untrained(
        recipe.model.encoder, training=stages[0], settings=settings
    )
    objectives = [
        AnswerObjective(
            untrained,
            questions,
            validation,
            training=stage,
            choosing=recipe.validation.choosing,
        )
        for questions, stage in zip(training_sets, stages, strict=True)
    ]
    model = train(
        untrained,
        *zip(objectives, stages, strict=True),
        start=recipe.model.start,
        checkpoints=checkpoints,
        resume=resume,
    )
    scores = evaluate(model, validation)
    manifest = model.manifest
    manifest.card = recipe.card
    manifest.data.counts = _counts(objectives, validation)
    manifest.training.validation = scores
    manifest.scores = card_scores(scores, validation, note)
    return model


def _counts(
    objectives: Sequence[AnswerObjective],
    validation: QuestionSet,
) -> dict[str, int]:
    """The numbers of questions and articles for the card."""
    counts = {
        f"{objective.name}, questions for training": len(objective.windows)
        for objective in objectives
    }
    articles = {question.article for question in validation}
    return counts | {
        "questions held out": len(validation),
        "articles held out": len(articles),
    }


def card_scores(
    scores: Mapping[str, float | int | None],
    validation: QuestionSet,
    note: str,
) -> Scores:
    """The scores for the card."""
    row = f"{len(validation)} questions of {validation.name}"
    f1 = Interval(scores["f1"], scores["f1_low"], scores["f1_high"])
    exact = Interval(scores["exact"])
    n_unanswerable = sum(not question.answers for question in validation)
    threshold_note = FORCED
    if n_unanswerable:
        threshold_note = FREE.format(count=n_unanswerable)
    return Scores(
        table={"F1": {row: f1}, "exact match": {row: exact}},
        note=note + threshold_note,
    )
