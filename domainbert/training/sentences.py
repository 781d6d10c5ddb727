"""Train pair models with sentence-transformers' trainer."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import CrossEncoder, CrossEncoderTrainer
from sentence_transformers.base.modules import InputModule
from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss, CrossEntropyLoss

from domainbert.errors import UserError
from domainbert.inference import pad
from domainbert.lora import add_lora
from domainbert.pairs import PairModel
from domainbert.training.library import Resumable, fingerprint, run_trainer
from domainbert.training.train import versions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from domainbert.pairs import PairSettings, PairWindow
    from domainbert.training.settings import TrainingSettings


class PairModule(InputModule):
    """A pair model as sentence-transformers' trainer wants it, with the windows of prediction.

    Args:
        model: its windower and its way to join windows are used.
        network: its network, plain or wrapped by peft.
        max_windows: windows of one pair that a step reads; of a longer pair a random choice.
        seed: of that choice.

    Attributes:
        epoch: the current one; the choice depends on it, so that a resumed run chooses alike.
    """

    def __init__(self, model: PairModel, network: Any, *, max_windows: int, seed: int) -> None:
        super().__init__()
        self.network, self.tokenizer = network, model.tokenizer
        self._windower, self._join = model.windower, model.settings.join
        self._max, self._seed, self.epoch = max_windows, seed, 0

    def preprocess(
        self, inputs: Sequence[tuple[str, str]], prompt: str | None = None, **_: Any
    ) -> dict[str, torch.Tensor]:
        """Pairs -> ids and segments of their windows, and the number of windows of each pair."""
        del prompt
        split = [self._at_most(windows) for windows in self._windower.split_many(inputs)]
        windows = [window for windows in split for window in windows]
        fill = self.tokenizer.pad_token_id
        ids, mask = pad([window.input_ids for window in windows], pad_token_id=fill)
        segments, _mask = pad([window.segments for window in windows], pad_token_id=0)
        counts = torch.tensor([len(windows) for windows in split])
        features = {"input_ids": ids, "token_type_ids": segments, "counts": counts}
        return features if mask is None else {**features, "attention_mask": mask}

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add "scores": one row of logits a pair, shape (pairs, labels)."""
        counts = features["counts"]
        inputs = {name: value for name, value in features.items() if name != "counts"}
        logits = self.network(**inputs).logits.float()
        scores = torch.segment_reduce(logits, self._join, lengths=counts, axis=0)
        return {**features, "scores": scores}

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Not needed: a model is saved by its own `save_pretrained`."""
        raise NotImplementedError

    def _at_most(self, windows: list[PairWindow]) -> list[PairWindow]:
        if len(windows) <= self._max:
            return windows
        pair = zlib.crc32(b"".join(window.input_ids.tobytes() for window in windows))
        generator = np.random.default_rng([self._seed, self.epoch, pair])
        chosen = generator.choice(len(windows), self._max, replace=False)
        return [windows[i] for i in sorted(chosen)]


class _PairEncoder(CrossEncoder):
    def __init__(self, module: PairModule, labels: int) -> None:
        self._labels = labels
        super().__init__(modules=[module])

    @property
    def num_labels(self) -> int:
        return self._labels


class _PairTrainer(Resumable, CrossEncoderTrainer):
    pass


def fit_pairs(
    train: Sequence[tuple[str, str, Any]],
    *,
    validation: Sequence[tuple[str, str, Any]],
    encoder: str | Path,
    training: TrainingSettings,
    settings: PairSettings | None = None,
    labels: Sequence[str] = (),
    model_class: type[PairModel] = PairModel,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> PairModel:
    """Train a pair model; keep the weights that do best on validation.

    The loss is binary cross-entropy for scores and cross-entropy for classes. The weights are
    chosen by Spearman's correlation of scores, or by the accuracy of classes.

    Args:
        train: first text, second text, and its score in [0, 1] or its class.
        validation: likewise, other pairs.
        encoder: shipped name, folder or hub:owner/name.
        training: see `TrainingSettings`; `max_windows` bounds the windows of a pair in a step.
        settings: windows, see `PairSettings`.
        labels: the classes; none for a score.
        model_class: `PairModel` or a subclass.
        checkpoints: folder that keeps the checkpoints; a temporary one by default.
        resume: continue from the last checkpoint there.

    Raises:
        UserError: no pair for training or validation, a score outside [0, 1], or an unknown class;
            or `resume` with other data, encoder or settings.
    """
    labels = tuple(labels)
    targets, expected = (_targets(part, labels) for part in (train, validation))
    model = model_class.untrained(
        encoder, training=training, settings=settings, labels=labels or ("score",)
    )
    network = add_lora(model.network, training.lora)
    pairs = [(first, second) for first, second, _ in validation]
    read = model.windower.split_many(pairs)
    model.windower.split_many([(first, second) for first, second, _ in train])  # bad texts end here

    def score(current: Any) -> dict[str, float]:
        found = model.predict_windows(read, network=current)
        logits = np.stack([result.logits for result in found])
        if labels:
            return {"accuracy": float((logits.argmax(axis=1) == expected).mean())}
        return {"spearman": spearman(logits[:, 0], expected)}

    module = PairModule(model, network, max_windows=training.max_windows, seed=training.seed)
    encoder_model = _PairEncoder(module, max(1, len(labels)))
    loss_class = CrossEntropyLoss if labels else BinaryCrossEntropyLoss
    columns = {
        "first": [pair[0] for pair in train],
        "second": [pair[1] for pair in train],
        "label": targets,
    }
    facts = {**model.facts(encoder), "data": fingerprint(train), "split": fingerprint(validation)}
    best = run_trainer(
        _PairTrainer,
        encoder_model,
        data=Dataset.from_dict(columns),
        loss=loss_class(encoder_model),
        network=network,
        score=score,
        metric="accuracy" if labels else "spearman",
        training=training,
        facts=facts,
        checkpoints=checkpoints,
        resume=resume,
    )
    trained = model.finished(network, encoder=encoder, lora=training.lora)
    trained.manifest = {
        "training": training.model_dump(),
        "counts": {"pairs for training": len(train), "pairs to choose weights": len(validation)},
        "versions": versions(),
        "validation": best,
    }
    return trained


def _targets(pairs: Sequence[tuple[str, str, Any]], labels: tuple[str, ...]) -> np.ndarray:
    """Class numbers or scores of pairs, checked, shape (pairs,)."""
    if not pairs:
        raise UserError("no pairs: both training and validation need at least one")
    values = [pair[2] for pair in pairs]
    if labels:
        if unknown := [n for n, value in enumerate(values) if value not in labels]:
            msg = (
                f"{len(unknown)} of {len(values)} pairs have no known class, the first is pair "
                f"number {unknown[0]}; expected {', '.join(labels)}"
            )
            raise UserError(msg)
        return np.array([labels.index(value) for value in values])
    scores = np.array([_number(value) for value in values], dtype=np.float32)
    if wrong := np.flatnonzero(~((scores >= 0) & (scores <= 1))).tolist():
        msg = (
            f"{len(wrong)} of {len(values)} scores are not in [0, 1], the first is that of pair "
            f"number {wrong[0]}; divide by the largest score of the scale"
        )
        raise UserError(msg)
    return scores


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float | np.number) else float("nan")


def spearman(found: np.ndarray, expected: np.ndarray) -> float:
    """Rank correlation; 0 where one side does not vary."""
    from scipy.stats import spearmanr

    if not np.ptp(found) or not np.ptp(expected):
        return 0.0
    return float(spearmanr(found, expected).statistic)
