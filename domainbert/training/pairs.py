"""Train pair models (cross-encoders) by binary cross-entropy."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from domainbert.errors import UserError
from domainbert.models.pairs import PairModel
from domainbert.text.runner import pad
from domainbert.training.objective import LengthBatches, Objective, fingerprint
from domainbert.training.train import Stage, train

if TYPE_CHECKING:
    from domainbert.models.pairs import PairSettings, PairWindow
    from domainbert.training.objective import BatchPlan
    from domainbert.training.settings import TrainingSettings


class PairsObjective(Objective):
    """The score of two texts: binary cross-entropy, and Spearman's correlation on validation.

    Args:
        model: its windows are those of prediction.
        train: first text, second text, and their score in [0, 1].
        validation: likewise, other pairs.
        training: `max_windows` of a pair are read in a step; of a longer pair a random choice.

    Raises:
        UserError: a text that cannot be read.
    """

    metric = "spearman"

    def __init__(
        self,
        model: PairModel,
        train: Sequence[tuple[str, str, float]],
        validation: Sequence[tuple[str, str, float]],
        *,
        training: TrainingSettings,
    ) -> None:
        self._model, self._training = model, training
        self._targets = [score for _, _, score in train]
        self._expected = np.array([score for _, _, score in validation])
        self._pairs = [pair[:2] for pair in train]
        self._held_out = model.windower.split_many([pair[:2] for pair in validation])
        model.windower.split_many(self._pairs)  # bad texts end here
        self._facts = {
            "data": fingerprint(train),
            "split": fingerprint(validation),
        }
        self._plan = LengthBatches.of_texts(
            self._pairs, batch_size=training.batch_size, seed=training.seed
        )

    def batches(self) -> BatchPlan:
        """Batches of pair numbers."""
        return self._plan

    def collate(self, batch: Sequence[int], *, epoch: int) -> dict[str, torch.Tensor]:
        """Ids and segments of the windows, the windows of each pair, and the targets."""
        split = self._model.windower.split_many([self._pairs[number] for number in batch])
        split = [self._at_most(windows, epoch) for windows in split]
        windows = [window for windows in split for window in windows]
        fill = self._model.tokenizer.pad_token_id
        ids, mask = pad([window.input_ids for window in windows], pad_token_id=fill)
        segments, _ = pad([window.segments for window in windows], pad_token_id=0)
        result = {
            "input_ids": ids,
            "token_type_ids": segments,
            "counts": torch.tensor([len(windows) for windows in split]),
            "targets": torch.tensor([self._targets[number] for number in batch]),
        }
        return result if mask is None else {**result, "attention_mask": mask}

    def loss(self, network: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """See the class."""
        inputs = {k: value for k, value in batch.items() if k not in ("counts", "targets")}
        windows = network(**inputs).logits.float()
        logits = torch.segment_reduce(windows, "max", lengths=batch["counts"], axis=0)
        return binary_cross_entropy_with_logits(logits[:, 0], batch["targets"])

    def score(self, network: Any) -> dict[str, float]:
        """The metric on validation."""
        results = self._model.predict_windows(self._held_out, network=network)
        logits = np.array([result.logit for result in results])
        return {"spearman": spearman(logits, self._expected)}

    def facts(self) -> Mapping[str, object]:
        """Hashes of both sides."""
        return self._facts

    def _at_most(self, windows: list[PairWindow], epoch: int) -> list[PairWindow]:
        most = self._training.max_windows
        if len(windows) <= most:
            return windows
        pair = zlib.crc32(b"".join(window.input_ids.tobytes() for window in windows))
        generator = np.random.default_rng([self._training.seed, epoch, pair])
        return [windows[i] for i in sorted(generator.choice(len(windows), most, replace=False))]


def fit_pairs(
    train_pairs: Sequence[tuple[str, str, float]],
    *,
    validation: Sequence[tuple[str, str, float]],
    encoder: str | Path,
    training: TrainingSettings,
    settings: PairSettings | None = None,
    model_class: type[PairModel] = PairModel,
    **place: Any,
) -> PairModel:
    """Train a pair model; keep the weights that do best on validation.

    Args:
        train_pairs: see `PairsObjective`; likewise `validation`.
        validation: other pairs.
        encoder: shipped name, folder or hub:owner/name.
        training: see `TrainingSettings`.
        settings: windows, see `PairSettings`.
        model_class: `PairModel` or a subclass.
        **place: `checkpoints` and `resume`, see `train`.

    Raises:
        UserError: no pair for training or validation, a text that cannot be read, or `resume`
            with other data, encoder or settings.
    """
    if not (train_pairs and validation):
        raise UserError("no pairs: both training and validation need at least one")
    model = model_class.untrained(encoder, training=training, settings=settings, labels=("score",))
    stage = PairsObjective(model, train_pairs, validation, training=training)
    trained = train(model, Stage(stage, training), encoder=encoder, **place)
    trained.manifest["counts"] = {
        "pairs for training": len(train_pairs),
        "pairs to choose weights": len(validation),
    }
    return trained


def spearman(values: np.ndarray, expected: np.ndarray) -> float:
    """Rank correlation; 0 where one side does not vary."""
    from scipy.stats import spearmanr

    if not np.ptp(values) or not np.ptp(expected):
        return 0.0
    return float(spearmanr(values, expected).statistic)
