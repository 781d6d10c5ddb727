"""Windows -> outputs: token-budget batches, input order restored, flat memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from domainbert.errors import UserError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

T = TypeVar("T")
Device: TypeAlias = "str | torch.device | None"

BATCH_TOKENS = {"cpu": 4096, "cuda": 65536}  # fits the caches of a CPU; fills a GPU
SIMILAR = 0.8  # of the longest window of a batch
BUFFER_BATCHES = (
    16  # pooled and sorted by length together, enough to avoid most padding
)


def plan_batches(
    lengths: Sequence[int] | np.ndarray, *, batch_tokens: int
) -> list[np.ndarray]:
    """Group windows of similar length, so that rows x longest row <= `batch_tokens`.

    From the tokens of each window, shape (windows,), to one array of indices per batch, longest
    windows first. A window longer than the budget has a batch of its own. Windows shorter than
    `SIMILAR` of the longest are left to the next batch, unless this one is small: under an eighth
    of the budget, a pass through the model costs more than the padding that it saves.
    """
    lengths = np.asarray(lengths)
    order, batches = np.argsort(-lengths, kind="stable"), []
    while len(order):
        longest = max(1, int(lengths[order[0]]))
        similar = int((lengths[order] >= SIMILAR * longest).sum())
        fewest, most = batch_tokens // 8 // longest, batch_tokens // longest
        rows = max(1, min(most, max(fewest, similar)))
        batches.append(order[:rows])
        order = order[rows:]
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


def chunked(
    items: Iterable[T], *, size: Callable[[T], int], limit: int
) -> Iterator[list[T]]:
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


def find_device(name: Device = None) -> torch.device:
    """The device called cpu, cuda or cuda:N; by default CUDA if available, else the CPU.

    Raises `UserError` for other names and for devices that this machine lacks.
    """
    import torch

    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    known = ["cpu", "cuda", *gpus] if gpus else ["cpu"]
    if name is None:
        name = "cuda" if gpus else "cpu"
    if str(name) not in (*known, "cpu:0"):
        msg = f"no device {str(name)!r}: expected {', '.join(known)}, which this machine has"
        raise UserError(msg)
    return torch.device(name)


class WindowRunner:
    """Run a model over windows, in fp32 on a CPU and bf16 on CUDA; threads may share it.

    The result for a window does not depend on the other windows (within 1e-5 in fp32).

    Args:
        model: takes `input_ids`, and `attention_mask` if rows are padded.
        pad_token_id: fills the shorter rows of a batch.
        device: see `find_device`.
        batch_tokens: tokens of one batch, including padding; by default `BATCH_TOKENS`.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        pad_token_id: int,
        device: Device = None,
        batch_tokens: int | None = None,
    ) -> None:
        self.device = find_device(device)
        self.batch_tokens = (
            BATCH_TOKENS[self.device.type] if batch_tokens is None else batch_tokens
        )
        if self.batch_tokens < 1:
            raise UserError(f"batch_tokens must be at least 1, got {batch_tokens}")
        self.buffer_tokens = BUFFER_BATCHES * self.batch_tokens
        self._model = model.to(self.device)
        self._pad = pad_token_id

    def with_model(self, model: PreTrainedModel) -> WindowRunner:
        """A runner with the same settings over another model."""
        return WindowRunner(
            model,
            pad_token_id=self._pad,
            device=self.device,
            batch_tokens=self.batch_tokens,
        )

    def logits(self, windows: Sequence[np.ndarray]) -> np.ndarray:
        """Logits of a one-label classifier, shape (windows,), float32; see `run`."""
        rows = self.run(windows, read=lambda output, _: output.logits[:, 0])
        return np.array(rows, dtype=np.float32)

    def run(
        self,
        windows: Sequence[np.ndarray],
        *,
        read: Callable[[Any, torch.Tensor | None], torch.Tensor],
        token_types: Sequence[np.ndarray] | None = None,
    ) -> list[np.ndarray]:
        """What `read` keeps of the model's output for each window, in the order given, float32.

        Args:
            windows: token ids with special tokens, each of shape (tokens,).
            read: (output, mask of shape (rows, longest) or None if nothing is padded) -> one row
                per window. Of an axis of tokens, the first `len(window)` entries are the window's.
            token_types: the segment of each token, shaped as `windows`; one segment by default.
        """
        import torch

        result: list[Any] = [None] * len(windows)
        batches = plan_batches(
            [len(window) for window in windows], batch_tokens=self.batch_tokens
        )
        on_cuda = self.device.type == "cuda"
        half = torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=on_cuda)
        self._model.eval()  # a trainer may have used it since
        with torch.inference_mode(), half:
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


def pad(
    windows: Sequence[np.ndarray], *, pad_token_id: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Rows of one length: ids of shape (windows, longest), int64, and their mask (1 = token).

    The mask is None if all rows are equally long.
    """
    import torch

    longest = max(len(window) for window in windows)
    ids = np.full((len(windows), longest), pad_token_id, dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, window in enumerate(windows):
        ids[row, : len(window)], mask[row, : len(window)] = window, 1
    return torch.from_numpy(ids), None if mask.all() else torch.from_numpy(mask)
