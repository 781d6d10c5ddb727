"""Train a question-answering model in stages, from questions or from a recipe."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field
from torch.nn.functional import cross_entropy

from biomed.qa.evaluation import evaluate
from biomed.qa.examples import WindowMaker
from biomed.qa.model import AnswerModel, QuestionSettings
from biomed.qa.questions import QuestionSet, evenly, split_by_article, without_articles
from domainbert.errors import UserError
from domainbert.settings import Count, Settings
from domainbert.text.runner import pad
from domainbert.training.objective import FreshBatches, Objective
from domainbert.training.recipes import ModelTable, Recipe
from domainbert.training.settings import TrainingSettings
from domainbert.training.train import train

if TYPE_CHECKING:
    from biomed.qa.examples import Example

HELD_OUT_NOTE = (
    "Held-out articles of the last file: an article is held out if the SHA-256 of its name, as a "
    "number in [0, 1), is below {share}. Some of these questions chose the weights. "
)
FORCED = "Every question has an answer and the model must give one."
FREE = "{none} questions have no answer; the model's own threshold decides."
log = logging.getLogger(__name__)


class QuestionModelTable(ModelTable, QuestionSettings):
    """The `[model]` table: the encoder and the model's settings."""


class Validation(Settings):
    """`[validation]`: the share of the last file's articles to hold out.

    `choosing` is the number of their questions that choose the weights.
    """

    share: Annotated[float, Field(gt=0, lt=1)] = 0.2
    choosing: Count = 64


class QuestionTraining(TrainingSettings):
    """Settings of training; see `TrainingSettings`.

    Attributes:
        negatives: average number of windows without the answer for each with it.
    """

    negatives: Annotated[float, Field(ge=0)] = 1.0


class QuestionRecipe(Recipe):
    """A recipe for question answering.

    `stages` has names of `[training]`, each with one value per file of questions.
    """

    model: QuestionModelTable = QuestionModelTable()
    training: QuestionTraining = QuestionTraining()
    stages: dict[str, list[Any]] = Field(default={})
    validation: Validation = Validation()

    def each_stage(self, count: int) -> list[QuestionTraining]:
        """The settings of each stage; UserError if `stages` are not as many."""
        for name, values in self.stages.items():
            if len(values) != count:
                msg = f"[stages] {name} has {len(values)} values for {count} files of questions"
                raise UserError(msg)
        return [
            self.training.replaced(
                **{name: values[number] for name, values in self.stages.items()}
            )
            for number in range(count)
        ]


class AnswerObjective(Objective):
    """Finding the answer in a window, or [CLS] if it is not there.

    The loss is the mean of the cross-entropies of start and end over [CLS] and the context's
    tokens, the same positions that prediction chooses from. The score is the F1 of the answers to
    `choosing` validation questions. Questions that share an article or a context with one of the
    validation questions are not trained on.
    """

    metric = "f1"

    def __init__(
        self,
        model: AnswerModel,
        questions: QuestionSet,
        validation: QuestionSet,
        *,
        training: QuestionTraining,
        choosing: int,
    ) -> None:
        self.name, self._model = questions.name, model
        self._validation = evenly(validation, choosing)
        self._questions = without_articles(questions, validation)
        self.windows = WindowMaker(
            self._questions,
            reader=model.reader,
            negatives=training.negatives,
            longest=model.max_answer,
            seed=training.seed,
        )
        if left_out := len(questions) - len(self.windows):
            why = "they share an article with validation, or their answer is not in the context"
            log.warning("%s: %d questions are left out: %s", self.name, left_out, why)
        self.batches = FreshBatches(
            self.windows, batch_tokens=training.batch_tokens, seed=training.seed
        )

    def collate(
        self, batch: Sequence[Example], *, epoch: int
    ) -> dict[str, torch.Tensor]:
        """Token ids, segments, and the answer's start and end."""
        del epoch
        ids, mask = pad(
            [e.ids for e in batch], pad_token_id=self._model.tokenizer.pad_token_id
        )
        tensors = {
            "input_ids": ids,
            "token_type_ids": pad(
                [example.segments for example in batch], pad_token_id=0
            )[0],
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
            cross_entropy(
                logits.float().masked_fill(excluded, float("-inf")), batch[name]
            )
            for name, logits in (
                ("start", output.start_logits),
                ("end", output.end_logits),
            )
        ]
        return torch.stack(losses).mean()

    def score(self, network: Any) -> dict[str, float]:
        """F1 and exact match on the validation questions."""
        scores = evaluate(self._model, self._validation, network=network)
        return {name: float(scores[name] or 0) for name in ("f1", "exact")}

    def facts(self) -> dict[str, Any]:
        """Hashes of the training and validation questions."""
        return {
            "questions": self.name,
            "sha256": self._questions.fingerprint(),
            "used": len(self.windows),
            "validation_sha256": self._validation.fingerprint(),
        }


def fit(
    recipe: QuestionRecipe,
    sets: Sequence[QuestionSet],
    *,
    validation: QuestionSet | None = None,
    **place: Any,
) -> AnswerModel:
    """Train on sets of questions, one stage after the other.

    Each stage keeps the weights with the best F1 on some of the validation questions, taken evenly
    from their articles; at the end all of them are scored.

    Args:
        recipe: encoder, settings and training. Rank, dropout, seed and `full` of the first stage
            apply to all.
        sets: general questions first.
        validation: what shares an article with them is not trained on. By default the last set's
            held-out articles (`split_by_article`).
        **place: `checkpoints` and `resume`, see `domainbert.training.train.train`.

    Raises:
        UserError: `[stages]` without one value for each set, or a set without answers.
    """
    share, sets, note = recipe.validation.share, list(sets), ""
    if validation is None:
        sets[-1], validation = split_by_article(sets[-1], share=share)
        note = HELD_OUT_NOTE.format(share=share)
    if not validation:
        raise UserError(
            f"{validation.name} has no articles to hold out at a share of {share}"
        )
    stages = recipe.each_stage(len(sets))
    encoder, start = recipe.model.encoder, recipe.model.start
    settings = QuestionSettings(**recipe.model.model_dump(exclude={"encoder", "start"}))
    untrained = AnswerModel.untrained(encoder, training=stages[0], settings=settings)
    choosing = recipe.validation.choosing
    objectives = [
        AnswerObjective(
            untrained, questions, validation, training=stage, choosing=choosing
        )
        for questions, stage in zip(sets, stages, strict=True)
    ]
    pairs = zip(objectives, stages, strict=True)
    model = train(untrained, *pairs, encoder=encoder, start=start, **place)
    scores = evaluate(model, validation)
    row = f"{len(validation)} questions of {validation.name}"
    f1 = {"value": scores["f1"], "low": scores["f1_low"], "high": scores["f1_high"]}
    none = sum(not question.answers for question in validation)
    model.manifest |= {
        "card": recipe.card.model_dump(),
        "counts": {
            **{
                f"{each.name}, questions for training": len(each.windows)
                for each in objectives
            },
            "questions held out": len(validation),
            "articles held out": len({question.article for question in validation}),
        },
        "validation": scores,
        "scores": {"F1": {row: f1}, "exact match": {row: scores["exact"]}},
        "scores_note": note + (FREE.format(none=none) if none else FORCED),
    }
    return model
