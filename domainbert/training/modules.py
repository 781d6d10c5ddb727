"""Embedders and pair models as modules of sentence-transformers; its losses and batches."""

from __future__ import annotations

import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.base.modules import InputModule
from sentence_transformers.base.sampler import DefaultBatchSampler, NoDuplicatesBatchSampler
from sentence_transformers.sentence_transformer import losses
from torch.utils.checkpoint import checkpoint

from domainbert.errors import UserError
from domainbert.models.pooling import hidden_states, pool
from domainbert.text.runner import pad

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from datasets import Dataset

    from domainbert.models.embedder import Embedder
    from domainbert.models.pairs import PairModel, PairWindow

Objective = Literal["contrastive", "regression", "classification", "triplet"]
SCALE = 20.0  # one over the temperature of the contrastive objective
MARGIN = 1.0  # of the triplet objective, as in the SBERT paper
POOL = 16  # batches
NEAR = 16  # characters; lengths that differ by less count as equal, so that batches stay mixed
_READ = 32  # windows read together in training
_KEPT = 8192  # padded tokens of a column; larger batches use gradient checkpointing


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
        texts = self._windower.split_many(inputs)
        windows = [window.input_ids for text in texts for window in text.windows]
        ids, _mask = pad(windows, pad_token_id=self.tokenizer.pad_token_id)
        return {
            "input_ids": ids,
            "lengths": torch.tensor([len(window) for window in windows]),
            "counts": torch.tensor([len(text.windows) for text in texts]),
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
    """One row per text, as `domainbert.models.pooling.join_windows` does, with gradients."""
    if is_max:
        return torch.segment_reduce(rows, "max", lengths=counts, axis=0)
    weights = lengths.to(rows.dtype)[:, None]
    sums = torch.segment_reduce(rows * weights, "sum", lengths=counts, axis=0)
    return sums / torch.segment_reduce(weights, "sum", lengths=counts, axis=0)


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


class PairEncoder(CrossEncoder):
    """A cross-encoder of one `PairModule`."""

    @property
    def num_labels(self) -> int:
        """Number of logits."""
        return 1


def with_layers(student: Embedder, layers: int) -> None:
    """Keep some layers of a network, evenly spaced from the first to the last, in place.

    Raises:
        UserError: fewer than 1 or more than it has, or a network whose layers were not found.
    """
    network = student.network
    number = network.config.num_hidden_layers
    if not 1 <= layers <= number:
        msg = f"layers must be from 1 to {number} for this encoder, got {layers}"
        raise UserError(msg)
    stacks = [
        (parent, name)
        for parent in network.modules()
        for name, child in parent.named_children()
        if isinstance(child, torch.nn.ModuleList) and len(child) == number
    ]
    if len(stacks) != 1:
        msg = (
            f"cannot tell the layers of a {network.config.model_type} model; distil without layers"
        )
        raise UserError(msg)
    ((parent, name),) = stacks
    kept = np.linspace(0, number - 1, layers).round().astype(int) if layers > 1 else [number - 1]
    stack = getattr(parent, name)
    setattr(parent, name, torch.nn.ModuleList([stack[int(place)] for place in kept]))
    network.config.num_hidden_layers = layers


# --- losses


class VectorLoss(torch.nn.Module):
    """The squared distance to the teacher's vector, summed over dimensions, mean over texts.

    This is sentence-transformers' `MSELoss` times the dimension: the mean over dimensions of
    vectors of length 1 is too small for the optimiser's epsilon.
    """

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self._mean, self._dimension = losses.MSELoss(model), model.get_embedding_dimension()

    def forward(self, sentence_features: Any, labels: torch.Tensor) -> torch.Tensor:
        """The loss of a batch; labels have shape (texts, dimension)."""
        return self._mean(sentence_features, labels) * self._dimension


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


# --- batches


class _Rows(list):
    """A dataset held as a list of rows, which the library's sampler reads many times."""

    column_names: tuple[str, ...] = ()


def different_batches(dataset: Dataset, **options: Any) -> NoDuplicatesBatchSampler:
    """Batches in which no text and no key occurs twice, so that negatives are negatives."""
    options["valid_label_columns"] = []
    return NoDuplicatesBatchSampler(_Rows(dataset), **options)


class SimilarLengths(DefaultBatchSampler):
    """Batches of rows of similar length, which need little padding, in a new order every epoch.

    Rows are shuffled, sorted by length within pools of `POOL` batches, and cut into batches, which
    are shuffled. The order depends on the seed and the epoch alone.
    """

    def __init__(self, dataset: Dataset, **options: Any) -> None:
        super().__init__(dataset, **options)
        columns = [column for column in dataset.column_names if column != "label"]
        texts = zip(*(dataset[column] for column in columns), strict=True)
        self._lengths = np.array([sum(map(len, row)) // NEAR for row in texts])

    def __iter__(self) -> Iterator[list[int]]:
        """The batches of an epoch."""
        generator = np.random.default_rng([self.seed, self.epoch])
        rows = generator.permutation(len(self._lengths))
        pool = POOL * self.batch_size
        # Every pool is cut into batches by itself, so that only the last batch may be short.
        batches = []
        for start in range(0, len(rows), pool):
            part = rows[start : start + pool]
            part = part[np.argsort(self._lengths[part], kind="stable")]
            batches += [
                part[first : first + self.batch_size]
                for first in range(0, len(part), self.batch_size)
            ]
        return iter([batches[i].tolist() for i in generator.permutation(len(batches))])
