"""Training objectives, and plans that cut examples into batches."""

from __future__ import annotations

import hashlib
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from domainbert.files import JsonObject

Batch: TypeAlias = "dict[str, torch.Tensor]"
"""The tensors of a batch, by the names that a loss reads."""


class BatchPlan(Protocol):
    """The batches of every epoch; the same epoch number gives the same batches."""

    def __len__(self) -> int:
        """Batches per epoch, the same in every epoch."""

    def epoch(self, number: int) -> Sequence[Sequence[Any]]:
        """The batches of an epoch (from 0), each a sequence of examples."""


class Objective(ABC):
    """What a task trains on, how it is evaluated, and what identifies it.

    Attributes:
        batches: the training batches.
        metric: the key of `evaluate` that chooses the weights; larger is better.
        head: a module that the loss needs; it trains with the network and is dropped afterwards.
    """

    batches: BatchPlan
    metric: str
    head: torch.nn.Module | None = None

    @abstractmethod
    def collate(self, batch: Sequence[Any], *, epoch: int) -> Batch:
        """The tensors of one batch. Anything random depends on the epoch and the batch alone."""

    @abstractmethod
    def loss(self, network: PreTrainedModel, batch: Batch) -> torch.Tensor:
        """The scalar loss of one batch from `collate`."""

    @abstractmethod
    def evaluate(self, network: PreTrainedModel) -> dict[str, float]:
        """Scores on the validation side, computed as prediction computes them."""

    @abstractmethod
    def facts(self) -> JsonObject:
        """Hashes of data and split, and the settings of the objective, as JSON.

        A run resumes only if all facts are the same; the manifest keeps them.
        """


class LengthBatches:
    """Batches of examples of similar length under a token budget, in a new order every epoch.

    Args:
        sizes: (windows, longest window in tokens) of each example, shape (examples, 2).
        batch_size: maximum examples in a batch.
        batch_tokens: maximum of windows x longest in a batch; a larger example is alone.
        seed: the seed of the batches and their order.
    """

    def __init__(
        self,
        sizes: np.ndarray,
        *,
        batch_size: int,
        batch_tokens: int,
        seed: int,
    ) -> None:
        self._seed = seed
        # Noise on the lengths, so that a batch does not always hold exactly equal ones.
        noise = np.random.default_rng(seed).uniform(0.9, 1.1, len(sizes))
        order = np.argsort(sizes[:, 1] * noise, kind="stable")
        self._batches = []
        batch: list[int] = []
        windows = 0
        longest = 0
        for index, (count, length) in zip(
            order.tolist(),
            sizes[order].tolist(),
            strict=True,
        ):
            windows += count
            longest = max(longest, length)
            if batch and (
                len(batch) == batch_size or windows * longest > batch_tokens
            ):
                self._batches.append(batch)
                batch = []
                windows = count
                longest = length
            batch.append(index)
        if batch:
            self._batches.append(batch)

    @classmethod
    def of_texts(
        cls,
        rows: Sequence[Sequence[str]],
        *,
        batch_size: int,
        seed: int,
    ) -> Self:
        """Batches of rows of texts of similar length, which need little padding."""
        lengths = [sum(map(len, row)) for row in rows]
        sizes = np.stack([np.ones_like(lengths), lengths], axis=1)
        return cls(
            sizes,
            batch_size=batch_size,
            batch_tokens=sys.maxsize,
            seed=seed,
        )

    def __len__(self) -> int:
        """Batches per epoch."""
        return len(self._batches)

    def epoch(self, number: int) -> list[list[int]]:
        """The batches of an epoch, each a list of example numbers."""
        generator = np.random.default_rng((self._seed, number))
        order = generator.permutation(len(self._batches))
        return [self._batches[index] for index in order]


class FreshBatches:
    """Batches of similar length, of examples that are made anew for every epoch.

    Every epoch has the same number of batches, because the learning-rate schedule needs it.

    Args:
        maker: `maker.make(epoch)` gives the examples of an epoch, each with `ids`, shape (tokens,).
        batch_tokens: tokens in a batch, approximately; at least twice the longest example.
        seed: the seed of the order.
    """

    def __init__(
        self,
        maker: Any,
        *,
        batch_tokens: int,
        seed: int,
    ) -> None:
        self._maker = maker
        self._seed = seed
        self._number = 0
        if lengths := [len(example.ids) for example in maker.make(0)]:
            budget = max(batch_tokens, 2 * max(lengths))
            self._number = max(1, round(sum(lengths) / budget))

    def __len__(self) -> int:
        """Batches per epoch."""
        return self._number

    def epoch(self, number: int) -> list[list[Any]]:
        """The batches of an epoch."""
        examples = self._maker.make(number)
        generator = np.random.default_rng((self._seed, number, 1))
        sizes = np.array([len(example.ids) for example in examples])
        noise = generator.uniform(0.9, 1.1, len(sizes))
        order = np.argsort(sizes * noise, kind="stable")
        order = np.resize(order, max(len(order), self._number))
        totals = np.cumsum(sizes[order])
        edges = np.linspace(0, totals[-1], self._number + 1)[1:-1]
        # Batch k ends after at least k examples, so that none is empty.
        position = np.arange(1, self._number)
        surplus = np.maximum.accumulate(
            np.searchsorted(totals, edges) - position
        )
        ends = np.clip(surplus, 0, len(order) - self._number) + position
        batches = [
            list(map(examples.__getitem__, indices))
            for indices in np.split(order, ends)
        ]
        generator.shuffle(batches)
        return batches


def fingerprint(data: object) -> str:
    """SHA-256 of data that JSON can hold, for the facts of a run."""
    written = json.dumps(
        data,
        sort_keys=True,
        default=float,
    )
    return hashlib.sha256(written.encode()).hexdigest()
