"""Training examples, and their batches under a token budget.

An example is a group of windows with one target (a stay, or a window on its own); groups of like
size travel together. Or an example is a window that is made anew in every epoch.
"""

from __future__ import annotations

from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from torch.utils.data import Dataset, Sampler

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class WindowGroups(Dataset):
    """Groups of windows, each with one target.

    Args:
        groups: for each group its windows' token ids, each window of shape (tokens,); at least
            one window in each.
        targets: shape (groups,), in [0, 1].

    Raises:
        ValueError: no groups, a group without a window, or another number of targets.
    """

    def __init__(self, groups: Sequence[Sequence[np.ndarray]], targets: np.ndarray) -> None:
        if len(groups) != len(targets):
            msg = f"{len(groups)} groups but {len(targets)} targets"
            raise UserError(msg)
        empty = sum(not len(group) for group in groups)
        if empty or not len(groups):
            msg = f"each group needs a window; {empty} of {len(groups)} groups have none"
            raise UserError(msg)
        self.groups, self.targets = groups, np.asarray(targets, dtype=np.float32)

    def __len__(self) -> int:
        """Number of groups."""
        return len(self.groups)

    def __getitem__(self, index: int) -> tuple[int, Sequence[np.ndarray], float]:
        """A group's number, its windows and its target."""
        return index, self.groups[index], float(self.targets[index])


class TokenBudgetBatches(Sampler):
    """Batches of groups of like size under a token budget; their order changes every epoch.

    What is in a batch is decided once, by the seed, so that an epoch always has the same number
    of steps and a run can be resumed exactly.

    Args:
        sizes: (windows, longest window) of each group, shape (groups, 2).
        batch_size: groups in a batch at most.
        batch_tokens: windows x longest in a batch at most; a larger group travels alone.
        seed: decides batches and order.
        epoch: () -> the epoch's number, asked at its start; by default always the first.
        multiple_of: the number of batches is filled up to a multiple of this (of processes).
    """

    def __init__(
        self,
        sizes: np.ndarray,
        *,
        batch_size: int,
        batch_tokens: int,
        seed: int,
        epoch: Callable[[], int] = lambda: 0,
        multiple_of: int = 1,
    ) -> None:
        generator = np.random.default_rng(seed)
        # Jitter keeps batches from always holding the very same lengths.
        noise = generator.uniform(0.9, 1.1, len(sizes))
        order = np.argsort(sizes[:, 1] * noise, kind="stable")
        self._batches: list[list[int]] = []
        windows = longest = 0
        batch: list[int] = []
        for index in order:
            windows, longest = windows + int(sizes[index, 0]), max(longest, int(sizes[index, 1]))
            full = len(batch) == batch_size or windows * longest > batch_tokens
            if batch and full:
                self._batches.append(batch)
                batch, windows, longest = [], int(sizes[index, 0]), int(sizes[index, 1])
            batch.append(int(index))
        if batch:
            self._batches.append(batch)
        spare = -len(self._batches) % multiple_of
        self._batches += list(islice(cycle(self._batches), spare))
        self._seed, self._epoch = seed, epoch

    def __len__(self) -> int:
        """Batches of an epoch."""
        return len(self._batches)

    def __iter__(self) -> Iterator[list[int]]:
        """The batches in this epoch's order."""
        generator = np.random.default_rng((self._seed, self._epoch()))
        for index in generator.permutation(len(self._batches)):
            yield self._batches[index]


class EpochMaker(Protocol):
    """What makes the windows of an epoch; the same number gives the same windows."""

    def make(self, epoch: int) -> Sequence[Any]:
        """The windows, each with `ids` of shape (tokens,)."""


class EpochBatches(Dataset):
    """Batches of an epoch's windows, of like length and about `batch_tokens` tokens each.

    Every epoch has the same number of batches, so that a learning-rate plan holds.

    Args:
        maker: of the windows.
        batch_tokens: tokens of a batch, about; at least twice the longest window.
        seed: of the order.
    """

    def __init__(self, maker: EpochMaker, *, batch_tokens: int, seed: int) -> None:
        self._maker, self._seed, self._epoch = maker, seed, -1
        first = maker.make(0)
        longest = max(len(example.ids) for example in first)
        self._batch_tokens = max(batch_tokens, 2 * longest)
        total = sum(len(example.ids) for example in first)
        self._number = max(1, round(total / self._batch_tokens))
        self.begin(0)

    def begin(self, epoch: int) -> None:
        """Make this epoch's windows."""
        if epoch == self._epoch:
            return
        self._epoch = epoch
        examples = self._maker.make(epoch)
        generator = np.random.default_rng((self._seed, epoch, 1))
        sizes = np.array([len(example.ids) for example in examples])
        order = np.argsort(sizes * generator.uniform(0.9, 1.1, len(sizes)), kind="stable")
        order = np.resize(order, max(len(order), self._number))
        sizes = sizes[order]
        edges = np.linspace(0, sizes.sum(), self._number + 1)[1:-1]
        # However little this epoch has, each batch gets a window.
        place = np.arange(1, self._number)
        ends = np.maximum.accumulate(np.searchsorted(np.cumsum(sizes), edges) - place)
        ends = np.clip(ends, 0, len(order) - self._number) + place
        self._batches = [[examples[i] for i in batch] for batch in np.split(order, ends)]
        generator.shuffle(self._batches)

    def __len__(self) -> int:
        """Batches of an epoch."""
        return self._number

    def __getitem__(self, number: int) -> list[Any]:
        """One batch."""
        return self._batches[number]


class EpochOrder(Sampler):
    """The batches one after the other, those of each epoch made at its start.

    Args:
        batches: of which.
        epoch: () -> the epoch's number; the trainer's own count, which a resumed run has too.
    """

    def __init__(self, batches: EpochBatches, *, epoch: Callable[[], int]) -> None:
        self._batches, self._epoch = batches, epoch

    def __len__(self) -> int:
        """Batches of an epoch."""
        return len(self._batches)

    def __iter__(self) -> Iterator[list[int]]:
        """The numbers of this epoch's batches."""
        self._batches.begin(self._epoch())
        for number in range(len(self._batches)):
            yield [number]
