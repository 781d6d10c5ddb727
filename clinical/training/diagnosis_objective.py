"""What a diagnosis model trains on: stays through the rule, or windows whose groups are known."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pandas as pd
import torch
from pydantic import Field
from torch.nn.functional import binary_cross_entropy

from clinical.evaluation.diagnoses import ranking_scores
from clinical.risk.aggregation import aggregate_stays, aggregate_tensor
from clinical.risk.stay_model import PreparationSettings
from clinical.stays.cohorts import DIAGNOSES, EVIDENCE, labels_of
from clinical.training.recalibration import EPSILON
from domainbert.errors import UserError
from domainbert.settings import Count, Positive
from domainbert.text.runner import padded_inputs
from domainbert.training.objective import Batch, FreshBatches, Objective
from domainbert.training.recipes import ModelTable

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from clinical.risk.diagnoses import DiagnosisModel
    from clinical.risk.reading import PreparedStay
    from domainbert.training.settings import TrainingSettings

log = logging.getLogger(__name__)
_WORD = re.compile(r"\S+")


class DiagnosisTable(ModelTable, PreparationSettings):
    """The `[model]` table of a diagnosis recipe; see also `PreparationSettings`.

    Attributes:
        min_stays: stays that a group needs on the train side; rarer groups are left out.
        auxiliary_stays: groups with at least so many stays are learned beside the others, which
            teaches the encoder more, and are left out of the model. None learns no others.
        positive_weight: how much more a group that is there counts in the loss than one that is
            not. 1 keeps the probabilities near the shares; more helps rare groups.
        negatives: share of the windows without any group that an epoch draws, where it is known
            in which windows the groups are; see `DiagnosisObjective`.
        window: tokens, from 16 to the encoder's limit, which is the default.
    """

    min_stays: Count = 20
    auxiliary_stays: Count | None = None
    positive_weight: Positive = 5.0
    negatives: Annotated[float, Field(gt=0, le=1)] = 0.4
    window: Annotated[int, Field(ge=16)] | None = None


@dataclass(frozen=True)
class Example:
    """Windows that are trained on together: a stay, or one window whose groups are known.

    Attributes:
        windows: token ids.
        target: 1 for each group that is there, shape (groups,).
        weight: 0 for a group that is not known in this window, else 1.
    """

    windows: list[np.ndarray] = field(repr=False)
    target: np.ndarray
    weight: np.ndarray

    @property
    def ids(self) -> np.ndarray:
        """All tokens; batches are planned by their number."""
        return np.concatenate(self.windows)


@dataclass(frozen=True)
class _TrainStay:
    """A stay to train on; `evidence` as in the cohort, and None where it is not known."""

    read: PreparedStay
    target: np.ndarray
    evidence: Any = None


class DiagnosisObjective(Objective):
    """Binary cross-entropy of the groups of stays through the readmission rule.

    Where the column `evidence` says at which characters of the notes a group was found, each
    window is an example by itself: its groups are those whose place it contains, and a group whose
    place it cuts does not count. Each epoch cuts these notes at new places, and draws a new share
    of the windows without any group. A stay without evidence is one example with all its groups.

    Args:
        model: an untrained model, which gives windows and c.
        rows: from `coded_stays`, of the sides train and val.
        table: the recipe's table.
        training: limits of a batch, and the seed.
    """

    metric = "auprc"

    def __init__(
        self,
        model: DiagnosisModel,
        rows: pd.DataFrame,
        *,
        table: DiagnosisTable,
        training: TrainingSettings,
    ) -> None:
        self._model = model
        self._table = table
        self._training = training
        self._rows = rows
        read = [model.prepared(text) for text in rows["text"]]
        has_windows = np.array([bool(stay.windows) for stay in read])
        if not has_windows.all():
            log.warning(
                "%d stays have no readable text and are left out",
                int((~has_windows).sum()),
            )
        labels = labels_of(rows, model.labels)
        is_train = (rows["split"] == "train").to_numpy() & has_windows
        is_val = (rows["split"] == "val").to_numpy() & has_windows
        if not is_train.any():
            raise UserError("no stay of the train side has readable text")
        self.val_labels = labels[is_val]
        self.val_windows = [
            read[row].input_ids for row in np.flatnonzero(is_val)
        ]
        evidence = rows.get(EVIDENCE, pd.Series([None] * len(rows)))
        self._stays = [
            _TrainStay(read[row], labels[row], evidence[row])
            for row in np.flatnonzero(is_train).tolist()
        ]
        self.batches = FreshBatches(
            self, batch_tokens=training.batch_tokens, seed=training.seed
        )

    def shares(self) -> np.ndarray:
        """The share of each group in the examples of an epoch, weighted as in the loss."""
        examples = self.make(0)
        positive = np.sum([e.target for e in examples], axis=0)
        counted = np.sum([e.weight for e in examples], axis=0)
        weighted = positive * self._table.positive_weight
        # As if one more example had the group, and one more had it not.
        shares: np.ndarray = (weighted + 1) / (
            weighted + counted - positive + 2
        )
        return shares

    def _moved(
        self, stay: PreparedStay, generator: np.random.Generator
    ) -> list[tuple[int, int, int, np.ndarray]]:
        """The windows of a stay, whose first ones end at random words: `(note, start, end, ids)`.

        So each epoch cuts the notes at other places.
        """
        first_end: dict[int, int] = {}
        for note, window in stay.windows:
            first_end.setdefault(note, window.end)
        windows = []
        for note, end in first_end.items():
            text = stay.texts[note]
            starts = [word.start() for word in _WORD.finditer(text, 0, end)]
            cut = int(generator.choice(starts))
            for origin, piece in ((0, text[:cut]), (cut, text[cut:])):
                for _, window in self._model.prepared([piece]).windows:
                    start = window.start + origin
                    end = window.end + origin
                    windows.append((note, start, end, window.input_ids))
        return windows

    def _by_window(
        self,
        windows: Sequence[tuple[int, int, int, np.ndarray]],
        evidence: Sequence[Any],
    ) -> list[Example]:
        """The windows of a stay, each with the groups whose evidence it contains."""
        numbers = {
            group: number for number, group in enumerate(self._model.labels)
        }
        examples = []
        for note, start, end, ids in windows:
            target = np.zeros(len(numbers), np.float32)
            weight = np.ones(len(numbers), np.float32)
            for span in evidence:
                number = numbers.get(span["group"])
                if number is None or span["note"] != note:
                    continue
                if span["end"] <= start or span["start"] >= end:
                    continue
                is_whole = span["start"] >= start and span["end"] <= end
                if is_whole:
                    target[number] = weight[number] = 1
                elif not target[number]:
                    weight[number] = 0
            examples.append(Example([ids], target, weight))
        return examples

    def make(self, epoch: int) -> list[Example]:
        """The examples of an epoch."""
        generator = np.random.default_rng((self._training.seed, epoch, 2))
        limit = self._training.max_windows
        chosen = []
        for stay in self._stays:
            if isinstance(stay.evidence, Sequence):
                windows = self._moved(stay.read, generator)
                for example in self._by_window(windows, stay.evidence):
                    is_drawn = generator.random() < self._table.negatives
                    if is_drawn or example.target.any():
                        chosen.append(example)
                continue
            ids = stay.read.input_ids
            if len(ids) > limit:
                rows = generator.choice(len(ids), limit, replace=False)
                ids = [ids[row] for row in rows]
            every_group = np.ones_like(stay.target)
            chosen.append(Example(ids, stay.target, every_group))
        return chosen

    def collate(self, batch: Sequence[Example], *, epoch: int) -> Batch:
        """The windows of a batch, padded, with the number of each window's example."""
        del epoch
        windows = [ids for example in batch for ids in example.windows]
        numbers = np.repeat(
            np.arange(len(batch)), [len(e.windows) for e in batch]
        )
        padding = self._model.tokenizer.pad_token_id
        return {
            "group": torch.from_numpy(numbers),
            "targets": torch.from_numpy(np.stack([e.target for e in batch])),
            "weights": torch.from_numpy(np.stack([e.weight for e in batch])),
            **padded_inputs(windows, pad_token_id=padding),
        }

    def loss(self, network: PreTrainedModel, batch: Batch) -> torch.Tensor:
        """Binary cross-entropy, summed over groups; see `DiagnosisTable.positive_weight`."""
        output = network(
            input_ids=batch["input_ids"],
            attention_mask=batch.get("attention_mask"),
        )
        targets = batch["targets"]
        risk = aggregate_tensor(
            torch.sigmoid(output.logits.float()),
            batch["group"],
            stays=len(targets),
            c=self._model.c,
        )
        factor = 1 + (self._table.positive_weight - 1) * targets
        losses = binary_cross_entropy(
            risk.clamp(EPSILON, 1 - EPSILON),
            targets,
            weight=factor * batch["weights"],
            reduction="none",
        )
        return losses.sum(dim=1).mean()

    def evaluate(self, network: PreTrainedModel) -> dict[str, float]:
        """Ranking of the groups on the validation stays; see `ranking_scores`.

        Without such stays the metric is 0, so that the first weights that are measured count.
        """
        if not len(self.val_labels):
            return {self.metric: 0.0}
        model = self._model.with_network(network)
        values, counts = model.window_probabilities(self.val_windows)
        risks = aggregate_stays(values, counts, c=self._model.c)
        scores = ranking_scores(self.val_labels, risks)
        return {
            "auprc": scores["macro AUPRC"],
            "auroc": scores["macro AUROC"],
            "micro_auprc": scores["micro AUPRC"],
        }

    def facts(self) -> dict[str, object]:
        """A hash of patients, groups, sides, texts and evidence, and the settings of the loss."""
        digest = hashlib.sha256()
        for cells in _cells(self._rows):
            digest.update(cells.encode(errors="replace"))
        return {
            "data_sha256": digest.hexdigest(),
            "positive_weight": self._table.positive_weight,
            "negatives": self._table.negatives,
        }


def _cells(rows: pd.DataFrame) -> Iterator[str]:
    """What identifies each stay."""
    columns = ["patient_id", "split", DIAGNOSES, "text"]
    if EVIDENCE in rows:
        columns.append(EVIDENCE)
    for cells in rows[columns].itertuples(index=False):
        yield "\x1f".join(map(str, cells))
