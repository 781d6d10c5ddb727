"""Train an Embedder with sentence-transformers' trainer and losses."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import torch
from datasets import Dataset, DatasetDict
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers.base.modules import InputModule
from sentence_transformers.base.sampler import NoDuplicatesBatchSampler
from sentence_transformers.sentence_transformer import losses
from torch.utils.checkpoint import checkpoint

from domainbert.embedding import Embedder
from domainbert.errors import UserError
from domainbert.inference import pad
from domainbert.lora import add_lora
from domainbert.pooling import hidden_states, pool
from domainbert.training.library import Resumable, SimilarLengths, fingerprint, run_trainer
from domainbert.training.train import versions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from domainbert.pooling import EmbeddingSettings
    from domainbert.training.settings import TrainingSettings

AnyEmbedder = TypeVar("AnyEmbedder", bound=Embedder)
Objective = Literal["contrastive", "regression", "classification", "triplet"]
Columns = dict[str, list[Any]]
KEY = "key"
SCALE = 20.0  # one over the temperature of the contrastive objective
_READ = 32  # windows read together in training
_KEPT = 8192  # padded tokens of a column; larger batches use gradient checkpointing
MARGIN = 1.0  # of the triplet objective, as in the SBERT paper


class TextModule(InputModule):
    """An embedder as sentence-transformers' trainer wants it, with the windows of prediction.

    Args:
        embedder: its windower and settings are used.
        network: its network, plain or wrapped by peft.
    """

    def __init__(self, embedder: Embedder, network: Any) -> None:
        super().__init__()
        self.network, self.tokenizer = network, embedder.tokenizer
        self._settings, self._windower = embedder.settings, embedder.windower
        self._dimension = embedder.dimension

    def get_embedding_dimension(self) -> int:
        """Length of a vector."""
        return self._dimension

    def preprocess(
        self, inputs: Sequence[str], prompt: str | None = None, **_: Any
    ) -> dict[str, torch.Tensor]:
        """Texts -> padded ids of their windows, their lengths, and the windows of each text."""
        del prompt
        read = self._windower.split_many(inputs)
        windows = [window.input_ids for text in read for window in text.windows]
        ids, _mask = pad(windows, pad_token_id=self.tokenizer.pad_token_id)
        return {
            "input_ids": ids,
            "lengths": torch.tensor([len(window) for window in windows]),
            "counts": torch.tensor([len(text.windows) for text in read]),
        }

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add "sentence_embedding", shape (texts, dimension)."""
        ids, counts = features["input_ids"], features["counts"]
        lengths = features["lengths"]
        # Windows of similar length are read together, because most of a batch would be padding.
        order = lengths.argsort()
        parts = order.split(_READ)
        read: Callable[..., torch.Tensor] = self._pooled
        if ids.numel() > _KEPT and torch.is_grad_enabled():
            read = partial(checkpoint, self._pooled, use_reentrant=False)
        rows = torch.cat([read(ids[part], lengths[part]) for part in parts])
        rows = rows[order.argsort()]
        if len(rows) > len(counts):
            rows = _joined(rows, lengths, counts, is_max=self._settings.pooling == "max")
        if self._settings.unit_norm:
            rows = torch.nn.functional.normalize(rows, dim=1)
        return {**features, "sentence_embedding": rows}

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Not needed: a model is saved by its own `save_pretrained`."""
        raise NotImplementedError

    def _pooled(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        ids = ids[:, : int(lengths.max())]
        mask = None
        if int(lengths.min()) < ids.shape[1]:
            mask = (torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]).long()
        output = self.network(input_ids=ids, attention_mask=mask)
        hidden = hidden_states(output, layers=self._settings.layers).float()
        return pool(hidden, mask, pooling=self._settings.pooling)


def _joined(
    rows: torch.Tensor, lengths: torch.Tensor, counts: torch.Tensor, *, is_max: bool
) -> torch.Tensor:
    """One row per text, as `domainbert.pooling.join_windows` does, with gradients."""
    if is_max:
        return torch.segment_reduce(rows, "max", lengths=counts, axis=0)
    weights = lengths.to(rows.dtype)[:, None]
    sums = torch.segment_reduce(rows * weights, "sum", lengths=counts, axis=0)
    return sums / torch.segment_reduce(weights, "sum", lengths=counts, axis=0)


class _TextTrainer(Resumable, SentenceTransformerTrainer):
    pass


class _Rows(list):
    """A dataset held as a list of rows, which the library's sampler reads many times."""

    column_names: tuple[str, ...] = ()


def different_batches(dataset: Dataset, **options: Any) -> NoDuplicatesBatchSampler:
    """Batches in which no text and no key occurs twice, so that negatives are negatives."""
    options["valid_label_columns"] = []
    return NoDuplicatesBatchSampler(_Rows(dataset), **options)


def make_loss(
    objective: Objective, model: SentenceTransformer, *, labels: int = 0, difference: bool = True
) -> torch.nn.Module:
    """The loss of an objective.

    Args:
        objective: "contrastive": a text's partner among those of the batch, as the cross-entropy
            of cosines times 20 (multiple negatives ranking). "regression": squared error of
            cosine and score. "classification": softmax over u, v and |u - v|. "triplet":
            max(|a - p| - |a - n| + 1, 0), Euclidean. The last three are those of Reimers and
            Gurevych 2019 (arXiv 1908.10084).
        model: the one that trains.
        labels: classes of "classification".
        difference: whether "classification" sees |u - v|.

    Raises:
        UserError: an unknown objective.
    """
    if objective not in get_args(Objective):
        msg = f"objective must be one of {', '.join(get_args(Objective))}; got {objective!r}"
        raise UserError(msg)
    if objective == "contrastive":
        return losses.MultipleNegativesRankingLoss(model, scale=SCALE)
    if objective == "regression":
        return losses.CosineSimilarityLoss(model)
    if objective == "triplet":
        return losses.TripletLoss(model, triplet_margin=MARGIN)
    dimension = int(model.get_embedding_dimension() or 0)
    return losses.SoftmaxLoss(model, dimension, labels, concatenation_sent_difference=difference)


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
    model = SentenceTransformer(modules=[TextModule(embedder, network)])
    loss = make_loss(objective, model, labels=len(labels), difference=difference)
    parts = {name: _dataset(columns, objective, labels) for name, columns in sets.items()}
    objective_facts = {"name": objective, "labels": list(labels), "difference": difference}
    best = run_trainer(
        _TextTrainer,
        model,
        data=DatasetDict(parts),
        loss=loss,
        network=network,
        score=lambda current: score(embedder, current),
        metric=metric,
        training=training,
        facts={
            **embedder.facts(encoder),
            "objective": objective_facts,
            "data": fingerprint(sets),
            "split": split,
        },
        checkpoints=checkpoints,
        resume=resume,
        batch_sampler=different_batches if objective == "contrastive" else SimilarLengths,
    )
    with torch.no_grad():
        for name, weights in network.named_parameters():
            if "lora_B" in name:
                weights.mul_(share)
    if share != 1:
        best = score(embedder, network)
    trained = embedder.finished(network, encoder=encoder, lora=training.lora)
    trained.name = str(encoder)
    trained.manifest = {
        "training": training.model_dump(),
        "objective": objective,
        "counts": {f"training rows, {name}": _rows(columns) for name, columns in sets.items()},
        "versions": versions(),
        "validation": best,
    }
    return trained


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
    texts = {name: columns[name] for name in _texts(columns)}
    expected = 3 if objective == "triplet" else 2
    if len(texts) < expected or (objective in ("regression", "classification") and len(texts) > 2):
        msg = f"{objective} needs {expected} columns of texts, got {', '.join(texts)}"
        raise UserError(msg)
    return Dataset.from_dict({**texts, **_labels(columns, objective, labels)})


def _labels(columns: Columns, objective: Objective, labels: Sequence[str]) -> Columns:
    """The column that the loss or, of keys, the sampler reads."""
    if objective == "contrastive":
        keys = columns.get(KEY) or [f"row {number}" for number in range(_rows(columns))]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        return {"label": [numbers[key] for key in keys]}
    if objective == "triplet":
        return {}
    values = columns.get("label") or [None] * _rows(columns)
    if objective == "classification":
        if unknown := [n for n, value in enumerate(values) if value not in labels]:
            msg = f"{len(unknown)} rows have no known class, the first is row number {unknown[0]}"
            raise UserError(f"{msg}; expected {', '.join(labels)}")
        return {"label": [list(labels).index(value) for value in values]}
    wrong = [n for n, v in enumerate(values) if not isinstance(v, int | float) or not 0 <= v <= 1]
    if wrong:
        msg = f"{len(wrong)} scores are not in [0, 1], the first is that of row number {wrong[0]}"
        raise UserError(f"{msg}; divide by the largest score of the scale")
    return {"label": [float(value) for value in values]}
