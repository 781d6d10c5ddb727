"""Train yes/no/maybe in folds: each question is scored once by a model that never saw it."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from biomed.qa.decisions import LABELS, folds
from biomed.qa.metrics import score_decisions
from biomed.qa.questions import QuestionError
from biomed.qa.yes_no import YesNoAnswerer, YesNoSettings
from domainbert.lora import add_lora
from domainbert.training.old.batches import WindowGroups
from domainbert.training.old.recipes import versions
from domainbert.training.old.trainer import GroupTrainer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedModel

    from biomed.qa.decisions import DecisionQuestion
    from biomed.qa.metrics import DecisionScores
    from domainbert.training.settings import TrainingSettings

log = logging.getLogger(__name__)


class DecisionTrainer(GroupTrainer):
    """Trains a classifier of question and context; a pair's windows have their logits averaged.

    Args:
        model: window ids -> logits; plain or wrapped by peft.
        sep_token_id: what ends the question in a window.
        **options: of `GroupTrainer`; `evaluate` gives "accuracy".
    """

    def __init__(self, model: Any, *, sep_token_id: int, **options: Any) -> None:
        self._sep = sep_token_id
        super().__init__(model, loss=decision_loss, **options)
        self.args.metric_for_best_model = "accuracy"

    def batch_loss(self, model: Any, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, Any]:
        """The loss of one batch of pairs."""
        ids = inputs["input_ids"]
        is_sep = (ids == self._sep).long()
        outputs = model(
            input_ids=ids,
            attention_mask=inputs.get("attention_mask"),
            # The context begins behind the first [SEP].
            token_type_ids=((is_sep.cumsum(dim=1) - is_sep) > 0).long(),
        )
        loss = decision_loss(outputs.logits.float(), inputs["group"], inputs["targets"])
        return loss, outputs


def decision_loss(logits: torch.Tensor, group: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of each pair's mean logits.

    Args:
        logits: of all windows, shape (windows, labels).
        group: number of each window's pair, shape (windows,).
        targets: number of each pair's label, shape (pairs,).
    """
    sums = logits.new_zeros(len(targets), logits.shape[1]).index_add(0, group, logits)
    means = sums / torch.bincount(group, minlength=len(targets))[:, None]
    return cross_entropy(means, targets.long())


def fit_decisions(
    train: Sequence[DecisionQuestion],
    *,
    validation: Sequence[DecisionQuestion],
    encoder: str | Path,
    training: TrainingSettings,
    settings: YesNoSettings | None = None,
) -> YesNoAnswerer:
    """Train an adapter (or all weights); keep the weights with the best accuracy on validation.

    Args:
        train: questions with known labels.
        validation: others with known labels.
        encoder: shipped name, folder or Hub id.
        training: see `TrainingSettings`.
        settings: windows.

    Raises:
        QuestionError: a label that is not known.
    """
    _check_labelled([*train, *validation])
    model = YesNoAnswerer.untrained(encoder, training=training, settings=settings)
    targets = np.array([LABELS.index(str(q.label)) for q in train])
    groups = [[ids for ids, _ in model.windows(q.text, q.context)] for q in train]
    with tempfile.TemporaryDirectory() as folder:
        trainer = DecisionTrainer(
            add_lora(model.network, training.lora),
            sep_token_id=model.tokenizer.sep_token_id,
            data=WindowGroups(groups, targets),
            settings=training,
            evaluate=lambda network: _measured(model, validation, network),
            pad_token_id=model.tokenizer.pad_token_id,
            folder=Path(folder),
        )
        trainer.train()
    trained = model.finished(trainer.trained(), encoder=encoder, lora=training.lora)
    trained.manifest = {
        "training": training.model_dump(),
        "counts": {"questions for training": len(train), "to choose weights": len(validation)},
        "versions": versions(),
    }
    return trained


def evaluate_decisions(
    model: YesNoAnswerer,
    questions: Sequence[DecisionQuestion],
    *,
    network: PreTrainedModel | None = None,
) -> DecisionScores:
    """Accuracy and macro F1 over the labels that the questions have.

    Raises:
        QuestionError: a label that is not known.
    """
    _check_labelled(questions)
    decided = model.decide_many(((q.text, q.context) for q in questions), network=network)
    right = [str(q.label) for q in questions]
    return score_decisions([decision.label for decision in decided], right, labels=LABELS)


def cross_validate(
    questions: Sequence[DecisionQuestion], *, count: int, **options: Any
) -> tuple[YesNoAnswerer, DecisionScores]:
    """Train once for each fold, and score each question by the model that never saw it.

    For fold i, fold i + 1 chooses the weights and the others are trained on. So the choice never
    looks at the fold that is scored.

    Args:
        questions: with known labels.
        count: of folds; 10 is PubMedQA's protocol (Jin et al., arXiv 1909.06146).
        **options: of `fit_decisions`.

    Returns:
        The model of the last fold, and the scores over all questions.
    """
    _check_labelled(questions)
    dealt = folds(questions, count=count)
    predicted: list[str] = []
    for number, held in enumerate(dealt):
        chooses = (number + 1) % count
        train = [q for i, fold in enumerate(dealt) if i not in (number, chooses) for q in fold]
        model = fit_decisions(train, validation=dealt[chooses], **options)
        predicted += [d.label for d in model.decide_many((q.text, q.context) for q in held)]
        right = [str(q.label) for fold in dealt[: number + 1] for q in fold]
        scores = score_decisions(predicted, right, labels=LABELS)
        log.info("fold %d of %d: accuracy so far %.3f", number + 1, count, scores.accuracy)
    return model, scores


def _measured(
    model: YesNoAnswerer, questions: Sequence[DecisionQuestion], network: PreTrainedModel
) -> dict[str, float]:
    scores = evaluate_decisions(model, questions, network=network)
    return {"accuracy": scores.accuracy, "macro_f1": scores.macro_f1}


def _check_labelled(questions: Sequence[DecisionQuestion]) -> None:
    if unknown := sum(question.label is None for question in questions):
        msg = (
            f"{unknown} of {len(questions)} questions have no label (a test file?); training and "
            "scoring need them"
        )
        raise QuestionError(msg)
