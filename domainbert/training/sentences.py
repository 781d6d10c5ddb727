"""Train embedders on texts that belong together, or are as similar as a score says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import numpy as np
import torch
from sentence_transformers.base.sampler import NoDuplicatesBatchSampler
from sentence_transformers.sentence_transformer import losses
from torch.utils.checkpoint import checkpoint

from domainbert.errors import UserError
from domainbert.models.embedder import Embedder
from domainbert.models.pooling import pool
from domainbert.text.runner import pad
from domainbert.training.objective import LengthBatches, Objective, fingerprint
from domainbert.training.train import Stage, train

if TYPE_CHECKING:
    from domainbert.models.pooling import EmbeddingSettings
    from domainbert.training.objective import BatchPlan
    from domainbert.training.settings import TrainingSettings

AnyEmbedder = TypeVar("AnyEmbedder", bound=Embedder)
Columns = dict[str, list[Any]]
Kind = Literal["contrastive", "regression", "classification", "triplet"]
KEY = "key"
SCALE = 20.0  # one over the temperature of the contrastive objective
MARGIN = 1.0  # of the triplet objective, as in the SBERT paper
EMBEDDING = "sentence_embedding"  # sentence-transformers' name of a vector
WINDOWS = ("ids", "lengths", "counts")
_READ = 32  # windows read together in training
_KEPT = 8192  # padded tokens of a column; larger batches use gradient checkpointing


# --- embedders


class TextVectorsObjective(Objective):
    """Vectors of texts that belong together, or are as similar as a score says.

    Args:
        embedder: its windows and its pooling are those of prediction.
        sets: the training sets, see `fit_embedder`. A batch comes from one set.
        kind: which loss of sentence-transformers. "contrastive": a text's partner among those of
            the batch, as the cross-entropy of cosines times 20 (multiple negatives ranking, arXiv
            1705.00652); further columns are negatives. "regression": squared error of cosine and
            score. "classification": softmax over u, v and |u - v|. "triplet": max(|a - p| -
            |a - n| + 1, 0), Euclidean. The last three are those of Reimers and Gurevych (arXiv
            1908.10084).
        score: (embedder, network) -> metrics on validation.
        metric: that chooses the weights.
        training: see `TrainingSettings`; `batch_size` counts rows.
        split: hash of the validation side.
        classes: class names of "classification".

    Raises:
        UserError: an unknown kind, or a set without the columns that it needs.
    """

    def __init__(
        self,
        embedder: Embedder,
        sets: Mapping[str, Columns],
        *,
        kind: Kind,
        score: Callable[[Embedder, Any], dict[str, float]],
        metric: str,
        training: TrainingSettings,
        split: str,
        classes: Sequence[str] = (),
    ) -> None:
        if kind not in get_args(Kind):
            raise UserError(f"objective must be one of {', '.join(get_args(Kind))}; got {kind!r}")
        self.metric, self._embedder, self._kind, self._score = metric, embedder, kind, score
        about = {"name": kind, "labels": list(classes)}
        self._facts = {"objective": about, "data": fingerprint(sets), "split": split}
        torch.manual_seed(training.seed)  # of the layer of "classification"
        self._loss = _make_loss(kind, embedder.dimension, classes=len(classes))
        self.head = getattr(self._loss, "classifier", None)
        self._rows: list[tuple[tuple[str, ...], float]] = []
        plans: list[tuple[BatchPlan, int]] = []
        for columns in sets.values():
            names = _text_columns(columns)
            expected = 3 if kind == "triplet" else 2
            if len(names) < expected or (len(names) > 2 and "label" in columns):
                raise UserError(f"{kind} needs {expected} columns of texts, got {', '.join(names)}")
            texts = list(zip(*(columns[name] for name in names), strict=True))
            labels: Sequence[float] = columns.get("label", [0.0] * len(texts))
            if kind == "classification":
                labels = [list(classes).index(label) for label in columns["label"]]
            plan: BatchPlan = LengthBatches.of_texts(
                texts, batch_size=training.batch_size, seed=training.seed
            )
            if kind == "contrastive":
                keys = columns.get(KEY) or range(len(texts))
                plan = DifferentBatches(
                    [(*row, f"key {key}") for row, key in zip(texts, keys, strict=True)],
                    batch_size=training.batch_size,
                    seed=training.seed,
                )
            plans.append((plan, len(self._rows)))
            self._rows += zip(texts, labels, strict=True)
        self._plan = _MixedBatches(plans, seed=training.seed)

    def batches(self) -> BatchPlan:
        """Batches of row numbers."""
        return self._plan

    def collate(self, batch: Sequence[int], *, epoch: int) -> dict[str, torch.Tensor]:
        """For each column of texts the padded ids of its windows, their lengths and counts."""
        del epoch
        texts, labels = zip(*(self._rows[number] for number in batch), strict=True)
        result = {"labels": torch.tensor(labels)}
        for number, column in enumerate(zip(*texts, strict=True)):
            for name, tensor in windows_of(self._embedder, column).items():
                result[f"{name} {number}"] = tensor
        return result

    def loss(self, network: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """See the class."""
        vectors = [
            vectors_of(self._embedder, network, *(batch[f"{part} {n}"] for part in WINDOWS))
            for n in range(len(batch) // len(WINDOWS))
        ]
        return self._loss([{EMBEDDING: rows} for rows in vectors], batch["labels"])

    def score(self, network: Any) -> dict[str, float]:
        """The metrics on validation."""
        return self._score(self._embedder, network)

    def facts(self) -> Mapping[str, object]:
        """The kind, and hashes of the training sets and the validation side."""
        return self._facts


class GivenVectors(torch.nn.Module):
    """What sentence-transformers' losses take for the model, where the vectors are there already.

    Attributes:
        device: of the layer that a loss may have; training moves it.
    """

    device = torch.device("cpu")

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The features, which hold the vectors under `EMBEDDING`."""
        return features


def _make_loss(kind: Kind, dimension: int, *, classes: int) -> torch.nn.Module:
    """The loss of sentence-transformers; see `TextVectorsObjective`."""
    given: Any = GivenVectors()
    if kind == "contrastive":
        return losses.MultipleNegativesRankingLoss(given, scale=SCALE)
    if kind == "regression":
        return losses.CosineSimilarityLoss(given)
    if kind == "triplet":
        return losses.TripletLoss(given, triplet_margin=MARGIN)
    return losses.SoftmaxLoss(given, dimension, classes)


def windows_of(embedder: Embedder, texts: Sequence[str]) -> dict[str, torch.Tensor]:
    """Texts -> the ids of their windows, the windows' lengths, and the windows of each text."""
    read = embedder.windower.split_many(texts)
    windows = [window.input_ids for text in read for window in text.windows]
    ids, _ = pad(windows, pad_token_id=embedder.tokenizer.pad_token_id)
    lengths = torch.tensor([len(window) for window in windows])
    return {
        "ids": ids,
        "lengths": lengths,
        "counts": torch.tensor([len(text.windows) for text in read]),
    }


def vectors_of(
    embedder: Embedder,
    network: Any,
    ids: torch.Tensor,
    lengths: torch.Tensor,
    counts: torch.Tensor,
) -> torch.Tensor:
    """The vectors of texts, not scaled, with gradients, shape (texts, dimension).

    Args:
        embedder: its pooling is used.
        network: its network, plain or wrapped by peft.
        ids: token ids of windows, shape (windows, tokens).
        lengths: tokens of each window, shape (windows,).
        counts: windows of each text, shape (texts,).
    """
    # Windows of similar length are read together, because most of a batch would be padding.
    order = lengths.argsort()
    read: Callable[..., torch.Tensor] = partial(_pooled, embedder.settings, network)
    if ids.numel() > _KEPT and torch.is_grad_enabled():
        read = partial(checkpoint, read, use_reentrant=False)
    rows = torch.cat([read(ids[part], lengths[part]) for part in order.split(_READ)])
    rows = rows[order.argsort()]
    if len(rows) > len(counts):  # as `join_windows` does for prediction
        if embedder.settings.pooling == "max":
            return torch.segment_reduce(rows, "max", lengths=counts, axis=0)
        weights = lengths.to(rows.dtype)[:, None]
        sums = torch.segment_reduce(rows * weights, "sum", lengths=counts, axis=0)
        rows = sums / torch.segment_reduce(weights, "sum", lengths=counts, axis=0)
    return rows


def _pooled(
    settings: EmbeddingSettings, network: Any, ids: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    ids = ids[:, : int(lengths.max())]
    mask = None
    if int(lengths.min()) < ids.shape[1]:
        mask = (torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]).long()
    hidden = network(input_ids=ids, attention_mask=mask).last_hidden_state
    return pool(hidden.float(), mask, pooling=settings.pooling)


def fit_embedder(
    data: Mapping[str, Columns],
    *,
    objective: Kind,
    score: Callable[[Embedder, Any], dict[str, float]],
    metric: str,
    encoder: str | Path,
    training: TrainingSettings,
    settings: EmbeddingSettings | None = None,
    labels: Sequence[str] = (),
    model_class: type[AnyEmbedder],
    validation: Columns,
    **options: Any,
) -> AnyEmbedder:
    """Train an embedder; keep the weights that do best on validation.

    Args:
        data: training sets by name, each column -> values: two or more columns of texts, then
            "label" (scores in [0, 1] for "regression", class names for "classification"). For
            "contrastive" a column "key" names what a row is about: rows with one key never share
            a batch.
        objective: see `TextVectorsObjective`.
        score: (embedder, network) -> metrics on validation.
        metric: that chooses the weights; larger is better.
        encoder: shipped name, folder or hub:owner/name.
        training: see `TrainingSettings`; `batch_size` counts rows.
        settings: pooling, see `EmbeddingSettings`.
        labels: class names of "classification".
        model_class: `Embedder` or a subclass.
        validation: columns of texts that `score` reads; a run resumes only if they are the same.
        **options: `share`, `checkpoints` and `resume`, see `train`.

    Raises:
        UserError: no training row, a text without a token, a share without adapters, or `resume`
            with other data, encoder or settings.
    """
    sets = {name: columns for name, columns in data.items() if _row_count(columns)}
    if not sets:
        raise UserError("no rows to train on")
    embedder = model_class.untrained(encoder, training=training, settings=settings)
    for name, columns in [*sets.items(), ("validation", validation)]:
        _check_texts(embedder, columns, name=name)
    stage = TextVectorsObjective(
        embedder,
        sets,
        kind=objective,
        score=score,
        metric=metric,
        training=training,
        split=fingerprint(validation),
        classes=labels,
    )
    trained = train(embedder, Stage(stage, training), encoder=encoder, **options)
    trained.name = str(encoder)
    counts = {f"training rows, {name}": _row_count(columns) for name, columns in sets.items()}
    trained.manifest |= {"objective": objective, "counts": counts}
    return trained


# --- batches


class DifferentBatches:
    """Batches in which no text and no key occurs twice, so that negatives are negatives."""

    def __init__(self, rows: Sequence[tuple[str, ...]], *, batch_size: int, seed: int) -> None:
        self._sampler = NoDuplicatesBatchSampler(
            _Rows(dict(enumerate(row)) for row in rows),
            batch_size=batch_size,
            drop_last=False,
            generator=torch.Generator(),
            seed=seed,
        )

    def __len__(self) -> int:
        """Batches per epoch."""
        return len(self._sampler)

    def epoch(self, number: int) -> list[list[int]]:
        """The batches of an epoch."""
        self._sampler.set_epoch(number)
        return list(self._sampler)


class _Rows(list):
    """A dataset as a list of rows, which the library's sampler reads many times."""

    column_names: tuple[str, ...] = ()


class _MixedBatches:
    """The batches of several plans, with the number of the first row of each, in random order."""

    def __init__(self, plans: Sequence[tuple[BatchPlan, int]], *, seed: int) -> None:
        self._plans, self._seed = plans, seed

    def __len__(self) -> int:
        return sum(len(plan) for plan, _ in self._plans)

    def epoch(self, number: int) -> list[list[int]]:
        batches = [
            [first + row for row in batch]
            for plan, first in self._plans
            for batch in plan.epoch(number)
        ]
        np.random.default_rng((self._seed, number)).shuffle(batches)
        return batches


def _row_count(columns: Columns) -> int:
    return len(next(iter(columns.values()), []))


def _text_columns(columns: Columns) -> list[str]:
    """Names of the columns of texts."""
    return [name for name in columns if name not in (KEY, "label")]


def _check_texts(embedder: Embedder, columns: Columns, *, name: str) -> None:
    for column in _text_columns(columns):
        for number in embedder.windower.without_tokens(columns[column]):
            msg = f"{name}: {column} of row number {number} has no character the model reads"
            raise UserError(msg)
