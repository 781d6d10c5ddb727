"""Running a model over windows, in batches of similar length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from domainbert.errors import UserError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel
    from transformers.utils import ModelOutput

Device: TypeAlias = "str | torch.device | None"

# Fits the caches of a CPU; fills a GPU.
BATCH_TOKENS = {"cpu": 4096, "cuda": 65536}
SIMILAR = 0.8  # shortest window of a batch, as a share of its longest
# Sorted by length together: enough to avoid most padding.
BUFFER_BATCHES = 16


def plan_batches(
    lengths: Sequence[int] | np.ndarray,
    *,
    batch_tokens: int,
) -> list[np.ndarray]:
    """Group windows of similar length, so that rows x longest row <= `batch_tokens`.

    Args:
        lengths: tokens of each window, shape (windows,).
        batch_tokens: the budget; a longer window gets its own batch.

    Returns:
        The indices of each batch, longest windows first. Windows shorter than `SIMILAR` of the
        longest are left to the next batch, unless this one is under an eighth of the budget:
        then a pass through the model costs more than the padding.
    """
    lengths = np.asarray(lengths)
    order = np.argsort(-lengths, kind="stable")
    batches = []
    while len(order):
        longest = max(1, int(lengths[order[0]]))
        similar = int((lengths[order] >= SIMILAR * longest).sum())
        min_rows = batch_tokens // 8 // longest
        max_rows = batch_tokens // longest
        rows = max(1, min(max_rows, max(min_rows, similar)))
        batches.append(order[:rows])
        order = order[rows:]
    return batches


def find_device(name: Device = None) -> torch.device:
    """The device called cpu, cuda or cuda:N; by default CUDA if available, else the CPU.

    Raises `UserError` for other names and for devices that this machine lacks.
    """
    import torch

    devices = ["cpu"]
    if gpus := torch.cuda.device_count():
        devices += ["cuda", *(f"cuda:{number}" for number in range(gpus))]
    if name is None:
        return torch.device(devices[:2][-1])
    if str(name) not in (*devices, "cpu:0"):
        raise UserError(
            f"no device {str(name)!r}; this machine has: {', '.join(devices)}"
        )
    return torch.device(name)


class WindowRunner:
    """Run a model over windows, in fp32 on a CPU and bf16 on CUDA; threads may share it.

    The result for a window does not depend on the other windows (within 1e-5 in fp32).

    Args:
        model: takes `input_ids`, and `attention_mask` if rows are padded.
        pad_token_id: fills the shorter rows of a batch.
        device: see `find_device`.
        batch_tokens: tokens of one batch, including padding; by default `BATCH_TOKENS`.

    Attributes:
        output: the number of the output that `logits` gives, where a model has several.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        pad_token_id: int,
        device: Device = None,
        batch_tokens: int | None = None,
    ) -> None:
        self.output: int | None = None
        self.device = find_device(device)
        if batch_tokens is None:
            batch_tokens = BATCH_TOKENS[self.device.type]
        if batch_tokens < 1:
            raise UserError(
                f"batch_tokens must be at least 1, got {batch_tokens}"
            )
        self.batch_tokens = batch_tokens
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
        """Logits of a classifier, float32; see `run`.

        They have the shape (windows,) if it has one label, or `output` names one; else
        (windows, labels).
        """
        number = self.output
        if self._model.config.num_labels == 1:
            number = 0
        columns: int | slice = slice(None)
        if number is not None:
            columns = number
        rows = self.run(
            windows, read=lambda output, _: output.logits[:, columns]
        )
        return np.array(rows, dtype=np.float32)

    def run(
        self,
        windows: Sequence[np.ndarray],
        *,
        read: Callable[[ModelOutput, torch.Tensor | None], torch.Tensor],
        token_types: Sequence[np.ndarray] | None = None,
    ) -> list[np.ndarray]:
        """What `read` keeps of the model's output for each window, in their order, float32.

        Args:
            windows: token ids with special tokens, each of shape (tokens,).
            read: (output, mask of shape (rows, longest) or None if nothing is padded) -> one row
                per window. Of an axis of tokens, the first `len(window)` entries are the window's.
            token_types: the segment of each token, shaped as `windows`; one segment by default.
        """
        rows = [np.empty(0)] * len(windows)
        lengths = [len(window) for window in windows]
        batches = plan_batches(lengths, batch_tokens=self.batch_tokens)
        with evaluating(self._model):  # a trainer may have used it since
            for batch in batches:
                segments = None
                if token_types is not None:
                    segments = [token_types[i] for i in batch]
                tensors = padded_inputs(
                    [windows[i] for i in batch],
                    segments,
                    pad_token_id=self._pad,
                )
                inputs = {
                    name: t.to(self.device) for name, t in tensors.items()
                }
                output = self._model(**inputs)
                mask = inputs.get("attention_mask")
                values = read(output, mask).float().cpu().numpy()
                for index, value in zip(batch, values, strict=True):
                    rows[index] = value
        return rows


@contextmanager
def evaluating(network: PreTrainedModel) -> Iterator[None]:
    """Evaluation mode without gradients, in bf16 on CUDA; the network stays in this mode."""
    import torch

    network.eval()
    device_type = network.device.type
    autocast = torch.autocast(
        device_type, torch.bfloat16, enabled=device_type == "cuda"
    )
    with torch.inference_mode(), autocast:
        yield


def pad(
    windows: Sequence[np.ndarray],
    *,
    pad_token_id: int,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Rows of one length: ids of shape (windows, longest), int64, and their mask (1 = token).

    The mask is None if all rows are equally long.
    """
    import torch
    from torch.nn.utils.rnn import pad_sequence

    rows = [torch.from_numpy(window.astype(np.int64)) for window in windows]
    ids = pad_sequence(rows, batch_first=True, padding_value=pad_token_id)
    ones = list(map(torch.ones_like, rows))
    mask = pad_sequence(ones, batch_first=True)
    return ids, None if mask.all() else mask


def padded_inputs(
    ids: Sequence[np.ndarray],
    segments: Sequence[np.ndarray] | None = None,
    *,
    pad_token_id: int,
) -> dict[str, torch.Tensor]:
    """The inputs of a network, padded to the longest window.

    Args:
        ids: token ids of each window, shape (tokens,).
        segments: 0 (first text) or 1 (second text) for each token of each window of two texts.
        pad_token_id: the tokenizer's id of the padding token.

    Returns:
        `input_ids`, `token_type_ids` with segments and, unless all windows are equally long,
        `attention_mask`.
    """
    input_ids, mask = pad(ids, pad_token_id=pad_token_id)
    tensors = {"input_ids": input_ids}
    if segments is not None:
        tensors["token_type_ids"], _ = pad(segments, pad_token_id=0)
    if mask is not None:
        tensors["attention_mask"] = mask
    return tensors
