"""Train embedders and pair models with sentence-transformers' trainers and losses."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from datasets import Dataset, DatasetDict, disable_progress_bars
from sentence_transformers import (
    CrossEncoderTrainer,
    CrossEncoderTrainingArguments,
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss
from transformers import TrainerCallback

from domainbert.encoders.lora import add_lora
from domainbert.errors import UserError
from domainbert.models.embedder import Embedder
from domainbert.models.pairs import PairModel
from domainbert.models.pooling import unit
from domainbert.training.modules import (
    Objective,
    PairEncoder,
    PairModule,
    SimilarLengths,
    TextModule,
    VectorLoss,
    different_batches,
    make_loss,
)
from domainbert.training.objective import fingerprint
from domainbert.training.train import new_manifest
from domainbert.training.trainer import TaskTrainer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from sentence_transformers.base.sampler import DefaultBatchSampler

    from domainbert.models.pairs import PairSettings
    from domainbert.models.pooling import EmbeddingSettings
    from domainbert.training.settings import TrainingSettings

AnyEmbedder = TypeVar("AnyEmbedder", bound=Embedder)
Columns = dict[str, list[Any]]
Side = tuple[list[str], np.ndarray]  # texts, and the vector that each should have
KEY = "key"


class EmbedderTrainer(TaskTrainer, SentenceTransformerTrainer):
    """sentence-transformers' trainer of embedders, on our bridge."""

    arguments_class = SentenceTransformerTrainingArguments


class PairTrainer(TaskTrainer, CrossEncoderTrainer):
    """sentence-transformers' trainer of cross-encoders, on our bridge."""

    arguments_class = CrossEncoderTrainingArguments


class _TellEpoch(TrainerCallback):
    """Tells a `PairModule` the epoch."""

    def __init__(self, module: PairModule) -> None:
        self._module = module

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._module.epoch = int(state.epoch or 0)


def fit_embedder(
    data: Mapping[str, Columns],
    *,
    objective: Objective,
    score: Callable[[Embedder, Any], dict[str, float]],
    metric: str,
    encoder: str | Path,
    training: TrainingSettings,
    settings: EmbeddingSettings | None = None,
    labels: Sequence[str] = (),
    difference: bool = True,
    share: float = 1.0,
    model_class: type[AnyEmbedder],
    validation: Columns | None = None,
    split: str = "",
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> AnyEmbedder:
    """Train an embedder; keep the weights that do best on validation.

    Args:
        data: training sets by name, each column -> values: two or three columns of texts, then
            "label" (scores in [0, 1] for "regression", class names for "classification"). For
            "contrastive" a column "key" names what a row is about: rows with one key never
            share a batch. A batch comes from one set.
        objective: see `make_loss`.
        score: (embedder, network) -> metrics on validation.
        metric: that chooses the weights; larger is better.
        encoder: shipped name, folder or hub:owner/name.
        training: see `TrainingSettings`; `batch_size` counts rows.
        settings: pooling, see `EmbeddingSettings`.
        labels: class names of "classification".
        difference: see `make_loss`.
        share: of the adapters' change that is kept, in (0, 1]; 0.5 is the average of the trained
            and the plain encoder's weights.
        model_class: `Embedder` or a subclass.
        validation: columns of texts that `score` reads, which are checked as those of training.
        split: hash of the validation side; a run resumes only if it is the same.
        checkpoints: folder that keeps the checkpoints; a temporary one by default.
        resume: continue from the last checkpoint there.

    Raises:
        UserError: no training row, a text without a token, a label that is wrong, a share without
            adapters, or `resume` with other data, encoder or settings.
    """
    if share != 1 and training.full:
        raise UserError("share needs adapters; train without full = true")
    sets = {name: columns for name, columns in data.items() if _rows(columns)}
    if not sets:
        raise UserError("no rows to train on")
    embedder = model_class.untrained(encoder, training=training, settings=settings)
    network = add_lora(embedder.network, training.lora)
    for name, columns in [*sets.items(), ("validation", validation or {})]:
        _check_texts(embedder, columns, name=name)
    best = _train_embedder(
        embedder,
        network,
        {name: _dataset(columns, objective, labels) for name, columns in sets.items()},
        make_loss=partial(make_loss, objective, labels=len(labels), difference=difference),
        sampler=different_batches if objective == "contrastive" else SimilarLengths,
        score=lambda current: score(embedder, current),
        metric=metric,
        training=training,
        facts={
            **embedder.facts(encoder),
            "objective": {"name": objective, "labels": list(labels), "difference": difference},
            "data": fingerprint(sets),
            "split": split,
        },
        folder=checkpoints,
        resume=resume,
    )
    with torch.no_grad():
        for name, weights in network.named_parameters():
            if "lora_B" in name:
                weights.mul_(share)
    if share != 1:
        best = score(embedder, network)
    trained = embedder.finished(network, encoder=encoder, lora=training.lora)
    trained.name = str(encoder)
    counts = {f"training rows, {name}": _rows(columns) for name, columns in sets.items()}
    trained.manifest = new_manifest(training.model_dump(), best, objective=objective, counts=counts)
    return trained


def fit_to_vectors(
    student: AnyEmbedder,
    train: Sequence[Side],
    *,
    validation: Mapping[str, Side],
    teacher: str | Path,
    training: TrainingSettings,
) -> AnyEmbedder:
    """Train a student to give texts the vectors of a teacher; keep the weights nearest to it.

    Args:
        student: what to start from; its network is trained in place.
        train: sets of texts, and the vectors they should have, shape (texts, dimension).
        validation: other texts and vectors, by name; weights are chosen by the mean of the
            cosines with the teacher's vectors, which are reported by name.
        teacher: its name: an encoder, or a model of the student's task.
        training: see `TrainingSettings`; there are no adapters here.

    Raises:
        UserError: no text, or no such teacher.
    """
    texts = [text for part, _ in train for text in part]
    if not texts:
        raise UserError("no texts to train on")
    targets = np.concatenate([vectors for _, vectors in train])
    student.origin(teacher)  # a name that is unknown ends here, not after training
    student.network.requires_grad_()  # adapters, when they are merged, leave it frozen
    for module in student.network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = training.dropout

    def score(network: Any) -> dict[str, float]:
        cosines = {}
        for name, (part, vectors) in validation.items():
            ours = unit(student.vectors_of(part, network=network))
            cosines[name] = float((ours * unit(vectors)).sum(axis=1).mean())
        return {"cosine": float(np.mean(list(cosines.values()))), **cosines}

    best = _train_embedder(
        student,
        student.network,
        {"texts": Dataset.from_dict({"text": texts, "label": targets})},
        make_loss=VectorLoss,
        sampler=SimilarLengths,
        score=score,
        metric="cosine",
        training=training,
        facts={},
    )
    trained = student.finished(student.network, encoder=teacher, lora=None)
    trained.name = str(teacher)
    trained.manifest = new_manifest(
        training.model_dump(),
        best,
        objective="the teacher's vectors",
        counts={"training texts": len(texts)},
    )
    return trained


def fit_pairs(
    train: Sequence[tuple[str, str, float]],
    *,
    validation: Sequence[tuple[str, str, float]],
    encoder: str | Path,
    training: TrainingSettings,
    settings: PairSettings | None = None,
    model_class: type[PairModel] = PairModel,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> PairModel:
    """Train a pair model; keep the weights that do best on validation.

    The loss is binary cross-entropy. The weights are chosen by Spearman's correlation.

    Args:
        train: first text, second text, and their score in [0, 1].
        validation: likewise, other pairs.
        encoder: shipped name, folder or hub:owner/name.
        training: see `TrainingSettings`; `max_windows` bounds the windows of a pair in a step.
        settings: windows, see `PairSettings`.
        model_class: `PairModel` or a subclass.
        checkpoints: folder that keeps the checkpoints; a temporary one by default.
        resume: continue from the last checkpoint there.

    Raises:
        UserError: no pair for training or validation, a score outside [0, 1], or `resume` with
            other data, encoder or settings.
    """
    if not (train and validation):
        raise UserError("no pairs: both training and validation need at least one")
    targets, expected = (_scores([pair[2] for pair in part]) for part in (train, validation))
    model = model_class.untrained(encoder, training=training, settings=settings, labels=("score",))
    network = add_lora(model.network, training.lora)
    windows = model.windower.split_many([pair[:2] for pair in validation])
    model.windower.split_many([pair[:2] for pair in train])  # bad texts end here

    def score(current: Any) -> dict[str, float]:
        results = model.predict_windows(windows, network=current)
        logits = np.array([result.logit for result in results])
        return {"spearman": spearman(logits, np.array(expected))}

    module = PairModule(model, network, max_windows=training.max_windows, seed=training.seed)
    encoder_model = PairEncoder(modules=[module])
    loss = BinaryCrossEntropyLoss(encoder_model)
    first, second = ([pair[side] for pair in train] for side in (0, 1))
    _, best = PairTrainer.run(
        training,
        metric="spearman",
        **_library_options({"pairs": len(train)}, training, SimilarLengths),
        facts={
            **model.facts(encoder),
            "data": fingerprint(train),
            "split": fingerprint(validation),
        },
        folder=checkpoints,
        resume=resume,
        model=encoder_model,
        network=network,
        loss=loss,
        module=loss,
        score=score,
        train_dataset=Dataset.from_dict({"first": first, "second": second, "label": targets}),
        callbacks=[_TellEpoch(module)],
    )
    trained = model.finished(network, encoder=encoder, lora=training.lora)
    trained.manifest = new_manifest(
        training.model_dump(),
        best,
        counts={"pairs for training": len(train), "pairs to choose weights": len(validation)},
    )
    return trained


def _train_embedder(
    embedder: Embedder,
    network: Any,
    parts: dict[str, Dataset],
    *,
    make_loss: Callable[..., torch.nn.Module],
    sampler: Callable[..., DefaultBatchSampler],
    training: TrainingSettings,
    **options: Any,
) -> dict[str, float]:
    """Train in place, with the options of `TaskTrainer.run`; returns the best scores."""
    model = SentenceTransformer(modules=[TextModule(embedder, network)])
    loss = make_loss(model=model)
    sizes = {name: len(part) for name, part in parts.items()}
    _, best = EmbedderTrainer.run(
        training,
        **_library_options(sizes, training, sampler),
        model=model,
        network=network,
        loss=loss,
        module=loss,
        train_dataset=DatasetDict(parts),
        **options,
    )
    return best


def _library_options(
    sizes: Mapping[str, int], training: TrainingSettings, sampler: Any
) -> dict[str, Any]:
    """The steps per epoch, and the arguments that only sentence-transformers has."""
    disable_progress_bars()
    return {
        "steps": sum(-(-size // training.batch_size) for size in sizes.values()),
        "arguments": {
            "per_device_train_batch_size": training.batch_size,
            "batch_sampler": sampler,
        },
    }


# --- checks of data


def spearman(values: np.ndarray, expected: np.ndarray) -> float:
    """Rank correlation; 0 where one side does not vary."""
    from scipy.stats import spearmanr

    if not np.ptp(values) or not np.ptp(expected):
        return 0.0
    return float(spearmanr(values, expected).statistic)


def _rows(columns: Columns) -> int:
    return len(next(iter(columns.values()), []))


def _texts(columns: Columns) -> list[str]:
    """Names of the columns of texts."""
    return [name for name in columns if name not in (KEY, "label")]


def _check_texts(embedder: Embedder, columns: Columns, *, name: str) -> None:
    for column in _texts(columns):
        for number, text in enumerate(columns[column]):
            if not isinstance(text, str) or not text.strip():
                what = "empty" if isinstance(text, str) else f"{type(text).__name__}, not a string"
                msg = f"{name}: {column} of row number {number} is {what}"
                raise UserError(msg)
        for number in embedder.windower.without_tokens(columns[column]):
            msg = f"{name}: {column} of row number {number} has no character the model reads"
            raise UserError(msg)
    if any(len(values) != _rows(columns) for values in columns.values()):
        lengths = ", ".join(f"{len(values)} {column}" for column, values in columns.items())
        msg = f"{name}: columns of different lengths ({lengths})"
        raise UserError(msg)


def _dataset(columns: Columns, objective: Objective, labels: Sequence[str]) -> Dataset:
    """The columns of texts, and the column that the loss or, of keys, the sampler reads."""
    texts = {name: columns[name] for name in _texts(columns)}
    expected = 3 if objective == "triplet" else 2
    is_labelled = objective in ("regression", "classification")
    if len(texts) < expected or (is_labelled and len(texts) > 2):
        msg = f"{objective} needs {expected} columns of texts, got {', '.join(texts)}"
        raise UserError(msg)
    numbers: Columns = {}
    if objective == "classification":
        wrong = [row for row, value in enumerate(columns["label"]) if value not in labels]
        if wrong:
            msg = f"row number {wrong[0]} has no known class; expected {', '.join(labels)}"
            raise UserError(msg)
        numbers = {"label": [labels.index(value) for value in columns["label"]]}
    elif objective == "regression":
        numbers = {"label": _scores(columns.get("label") or [None] * _rows(columns))}
    elif objective == "contrastive":
        keys = columns.get(KEY) or [f"row {number}" for number in range(_rows(columns))]
        numbering = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        numbers = {"label": [numbering[key] for key in keys]}
    return Dataset.from_dict({**texts, **numbers})


def _scores(values: Sequence[Any]) -> list[float]:
    """The scores, checked to be in [0, 1]."""
    wrong = [row for row, value in enumerate(values) if not _is_share(value)]
    if wrong:
        msg = (
            f"{len(wrong)} of {len(values)} rows have no score in [0, 1], the first is row number "
            f"{wrong[0]}; divide by the largest score of the scale"
        )
        raise UserError(msg)
    return [float(value) for value in values]


def _is_share(value: object) -> bool:
    return isinstance(value, int | float | np.number) and 0 <= float(value) <= 1
