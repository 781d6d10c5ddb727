"""AnswerObjective: train start and end of the answer on windows with and without it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from biomed.qa.evaluation import judge, score
from biomed.qa.examples import WindowMaker
from biomed.qa.questions import fingerprint, without_articles
from domainbert.inference import pad
from domainbert.training.objective import FreshBatches, Objective

if TYPE_CHECKING:
    from collections.abc import Sequence

    from biomed.qa.answerer import QuestionAnswerer
    from biomed.qa.examples import Example
    from biomed.qa.questions import QuestionSet
    from domainbert.training.settings import TrainingSettings

log = logging.getLogger(__name__)


class AnswerObjective(Objective):
    """Finding the answer in a window, or [CLS] if it is not there.

    The loss of a window is the mean of the cross-entropies of start and end over [CLS] and the
    context's tokens, the same positions that prediction chooses from. The score is the F1 of the
    answers to the validation questions.

    Args:
        model: the model to train; its windows and longest answer are used.
        questions: to train on. Those that share an article or a passage with `held_out` are left
            out.
        validation: questions that choose the weights.
        held_out: all questions that must not be trained on.
        training: settings of this stage.
        negatives: see `WindowMaker`.
    """

    metric = "f1"

    def __init__(
        self,
        model: QuestionAnswerer,
        questions: QuestionSet,
        *,
        validation: QuestionSet,
        held_out: QuestionSet,
        training: TrainingSettings,
        negatives: float,
    ) -> None:
        self._model, self._validation, self._negatives = model, validation, negatives
        self.questions = without_articles(questions, held_out)
        if shared := len(questions) - len(self.questions):
            text = "%s: %d questions share an article with validation and are left out"
            log.warning(text, questions.name, shared)
        self.windows = WindowMaker(
            self.questions,
            reader=model.reader,
            negatives=negatives,
            longest=model.max_answer,
            seed=training.seed,
        )
        if unusable := self.windows.left_out:
            text = "%s: %d questions have no usable answer and are left out"
            log.warning(text, questions.name, unusable)
        self._batches = FreshBatches(
            self.windows, batch_tokens=training.batch_tokens, seed=training.seed
        )

    def batches(self) -> FreshBatches:
        """Windows of similar length, drawn anew for every epoch."""
        return self._batches

    def collate(self, batch: Sequence[Example], *, epoch: int) -> dict[str, torch.Tensor]:
        """Token ids, segments, allowed positions, and the answer's start and end."""
        del epoch
        ids, mask = pad(
            [example.ids for example in batch], pad_token_id=self._model.tokenizer.pad_token_id
        )
        segments, _ = pad([example.segments for example in batch], pad_token_id=0)
        allowed = np.zeros(ids.shape, dtype=bool)
        allowed[:, 0] = True
        for row, example in enumerate(batch):
            allowed[row, example.first : len(example.ids) - 1] = True
        tensors = {
            "input_ids": ids,
            "token_type_ids": segments,
            "allowed": torch.from_numpy(allowed),
            "start": torch.tensor([example.start for example in batch]),
            "end": torch.tensor([example.end for example in batch]),
        }
        return tensors if mask is None else {**tensors, "attention_mask": mask}

    def loss(self, network: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """The mean cross-entropy of start and end."""
        output = network(
            input_ids=batch["input_ids"],
            token_type_ids=batch["token_type_ids"],
            attention_mask=batch.get("attention_mask"),
        )
        excluded = ~batch["allowed"]
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
            "questions": self.questions.name,
            "sha256": fingerprint(self.questions),
            "used": len(self.windows),
            "negatives": self._negatives,
            "validation_sha256": fingerprint(self._validation),
        }
