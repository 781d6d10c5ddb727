"""Windows -> outputs: token-budget batches, input order restored, flat memory."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import torch
    from transformers import PreTrainedModel

T = TypeVar("T")

# Tokens of one batch, including padding: what fits the caches of a CPU, and what fills a GPU.
BATCH_TOKENS = {"cpu": 4096, "cuda": 65536}
# Batches that are pooled and sorted by length together, enough to avoid most padding.
BUFFER_BATCHES = 16


def plan_batches(lengths: Sequence[int] | np.ndarray, *, batch_tokens: int) -> list[np.ndarray]:
    """Group windows of similar length, so that rows x longest row <= `batch_tokens`.

    Args:
        lengths: tokens of each window, shape (windows,).
        batch_tokens: the budget; a window longer than that has a batch of its own.

    Returns:
        Index arrays, one a batch, longest windows first; every index is in one of them.
    """
    lengths = np.asarray(lengths)
    order = np.argsort(-lengths, kind="stable")
    batches, start = [], 0
    while start < len(order):
        rows = max(1, batch_tokens // max(1, int(lengths[order[start]])))
        batches.append(order[start : start + rows])
        start += rows
    return batches


def read_ahead(items: Iterable[T]) -> Iterator[T]:
    """The same items in the same order; a thread prepares the next one while one is used."""
    iterator = iter(items)
    done: Any = object()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="read-ahead") as pool:
        upcoming = pool.submit(next, iterator, done)
        while (item := upcoming.result()) is not done:
            upcoming = pool.submit(next, iterator, done)
            yield item


def chunked(items: Iterable[T], *, size: Callable[[T], int], limit: int) -> Iterator[list[T]]:
    """Lists of consecutive items whose sizes add up to about `limit`; none is split."""
    chunk: list[T] = []
    total = 0
    for item in items:
        chunk.append(item)
        total += size(item)
        if total >= limit:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk


def find_device(name: str | torch.device | None = None) -> torch.device:
    """The device of a name; by default CUDA if there is one, else the CPU.

    Raises:
        UserError: it is not one of cpu, cuda and cuda:N, or not on this machine.
    """
    import torch

    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        msg = f"no device {str(name)!r}: expected cpu, cuda or cuda:N (a number from 0)"
        raise UserError(msg)
    count = torch.cuda.device_count() if device.type == "cuda" else 1
    if (device.index or 0) >= count:
        msg = f"no device {str(name)!r}: this machine has {count} CUDA devices; expected cpu"
        raise UserError(msg + (f" or cuda:0 to cuda:{count - 1}" if count else ""))
    return device


class WindowRunner:
    """Run a model over windows; safe to share between threads.

    fp32 on a CPU, bf16 on CUDA; `inference_mode` and scaled-dot-product attention on both. The
    result for a window does not depend on the other windows (within 1e-5 in fp32).

    Args:
        model: takes `input_ids`, and `attention_mask` if rows are padded.
        pad_token_id: fills the shorter rows of a batch.
        device: see `find_device`.
        batch_tokens: tokens of one batch, including padding; the default depends on the device.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        pad_token_id: int,
        device: str | torch.device | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        self.device = find_device(device)
        if batch_tokens is None:
            batch_tokens = BATCH_TOKENS.get(self.device.type, BATCH_TOKENS["cpu"])
        self.batch_tokens = batch_tokens
        if self.batch_tokens < 1:
            msg = f"batch_tokens must be at least 1, got {batch_tokens}"
            raise UserError(msg)
        self.buffer_tokens = BUFFER_BATCHES * self.batch_tokens
        self._model = model.to(self.device)
        self._pad = pad_token_id
        self._lock, self._running, self._was_training = threading.Lock(), 0, False

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled without the lock: another process makes its own."""
        budget: dict[str, Any] = {"device": self.device, "batch_tokens": self.batch_tokens}
        return partial(WindowRunner, pad_token_id=self._pad, **budget), (self._model,)

    def with_model(self, model: PreTrainedModel) -> WindowRunner:
        """A runner with the same settings over another model."""
        return WindowRunner(
            model, pad_token_id=self._pad, device=self.device, batch_tokens=self.batch_tokens
        )

    def logits(self, windows: Sequence[np.ndarray]) -> np.ndarray:
        """Score one pool of windows by a one-label classifier.

        Args:
            windows: token ids with special tokens, each of shape (tokens,).

        Returns:
            Logits in the order given, shape (windows,), float32.
        """
        rows = self.run(windows, read=lambda output, _: output.logits[:, 0])
        return np.array(rows, dtype=np.float32)

    def run(
        self,
        windows: Sequence[np.ndarray],
        *,
        read: Callable[[Any, torch.Tensor | None], torch.Tensor],
        token_types: Sequence[np.ndarray] | None = None,
    ) -> list[np.ndarray]:
        """The outputs of the model for one pool of windows.

        Args:
            windows: token ids with special tokens, each of shape (tokens,).
            read: (model output, mask of shape (rows, longest) or None if nothing is padded) ->
                what to keep, one row a window. Runs on the device.
            token_types: the segment of each token, shaped as `windows`; one segment by default.

        Returns:
            For each window, in the order given, its row of what `read` kept, float32. If that
            has an axis of tokens, its first `len(window)` entries belong to the window.
        """
        import torch

        result: list[Any] = [None] * len(windows)
        batches = plan_batches([len(window) for window in windows], batch_tokens=self.batch_tokens)
        with self._evaluating(), torch.inference_mode(), self._autocast():
            for batch in batches:
                ids, mask = pad([windows[i] for i in batch], pad_token_id=self._pad)
                inputs = {"input_ids": ids.to(self.device)}
                if mask is not None:
                    mask = inputs["attention_mask"] = mask.to(self.device)
                if token_types is not None:
                    types, _ = pad([token_types[i] for i in batch], pad_token_id=0)
                    inputs["token_type_ids"] = types.to(self.device)
                kept = read(self._model(**inputs), mask).float().cpu().numpy()
                for row, index in enumerate(batch):
                    result[index] = kept[row]
        return result

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Evaluation mode from the first thread's start to the last one's end."""
        with self._lock:
            if not self._running:
                self._was_training = self._model.training
                self._model.eval()
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                if not self._running:
                    self._model.train(self._was_training)

    def _autocast(self) -> torch.autocast:
        import torch

        on_cuda = self.device.type == "cuda"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=on_cuda)


def pad(
    windows: Sequence[np.ndarray], *, pad_token_id: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Rows of one length.

    Returns:
        ids of shape (windows, longest), int64, and the mask of the same shape (1 = token), or
        None if all rows are equally long.
    """
    import torch

    longest = max(len(window) for window in windows)
    ids = np.full((len(windows), longest), pad_token_id, dtype=np.int64)
    mask = np.zeros((len(windows), longest), dtype=np.int64)
    for row, window in enumerate(windows):
        ids[row, : len(window)] = window
        mask[row, : len(window)] = 1
    return torch.from_numpy(ids), None if mask.all() else torch.from_numpy(mask)
