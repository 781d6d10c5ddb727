"""8-bit linear layers for encoders on a CPU: static ranges, measured on a sample of windows."""

from __future__ import annotations

import copy
import re
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from domainbert.encoders.lora import LINEAR
from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from transformers import PreTrainedModel

    from domainbert.text.runner import WindowRunner

Ranges = dict[str, tuple[float, float]]  # name of a layer -> least and greatest input


class Int8Linear(torch.nn.Module):
    """A linear layer whose product is computed in 8-bit integers by oneDNN.

    Weights have one scale for each output, inputs one scale and zero point for the layer, fixed
    beforehand: the result for a row does not depend on other rows. Input and output are float32.

    Args:
        linear: the layer to imitate.
        low, high: the range of its inputs; others are clipped.
    """

    scales: torch.Tensor

    def __init__(self, linear: torch.nn.Linear, low: float, high: float) -> None:
        super().__init__()
        low, high = min(low, 0.0), max(high, 0.0)
        self.scale = max(high - low, 1e-8) / 255
        self.zero = round(-low / self.scale)
        weight = linear.weight.detach()
        scales = (weight.abs().amax(dim=1) / 127).clamp(min=1e-8)
        self.register_buffer("range", torch.tensor([low, high]))
        self.register_buffer("scales", scales)
        self.register_buffer("weight", (weight / scales[:, None]).round().to(torch.int8))
        self.register_buffer("bias", linear.bias.detach().clone())
        self._packed: torch.Tensor | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickled without oneDNN's own copy of the weights."""
        return {**self.__dict__, "_packed": None}

    def _pack(self) -> None:
        self._zeros = torch.zeros(len(self.scales), dtype=torch.int32)
        self._packed = torch.ops.onednn.qlinear_prepack(self.weight, None)
        with warnings.catch_warnings():
            # torch says once that a later version replaces this; three other passes take longer.
            warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)
            torch.quantize_per_tensor(torch.zeros(1), 1.0, 0, torch.quint8)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """From shape (..., inputs) to (..., outputs)."""
        if self._packed is None:
            self._pack()
        quantised = torch.quantize_per_tensor(
            inputs.contiguous(), self.scale, self.zero, torch.quint8
        )
        # The same bytes as a plain tensor, without a copy.
        plain = torch.empty(0, dtype=torch.uint8).set_(
            quantised.untyped_storage(), 0, quantised.shape, quantised.stride()
        )
        result: torch.Tensor = torch.ops.onednn.qlinear_pointwise(
            *(plain, self.scale, self.zero, self._packed, self.scales, self._zeros, self.bias),
            *(1.0, 0, torch.float32, "none", [], ""),  # the output: float, nothing after it
        )
        return result


def measure_ranges(
    network: PreTrainedModel, windows: Sequence[np.ndarray], *, runner: WindowRunner
) -> Ranges:
    """The least and greatest input of each linear layer of the encoder over some windows.

    Args:
        network: as the runner has it.
        windows: token ids, each of shape (tokens,).
        runner: runs the network.

    Raises:
        UserError: no windows, or an encoder whose layers are not those of BERT.
    """
    ranges: Ranges = {}

    def watch(name: str) -> Any:
        def look(_: Any, inputs: tuple[torch.Tensor, ...]) -> None:
            low, high = (float(value) for value in inputs[0].aminmax())
            before = ranges.get(name, (low, high))
            ranges[name] = (min(low, before[0]), max(high, before[1]))

        return look

    layers = _layers(network)
    hooks = [layer.register_forward_pre_hook(watch(name)) for name, layer in layers.items()]
    try:
        # Alone, so that no padding is measured.
        for window in windows:
            runner.run([window], read=lambda output, _: output.logits)
    finally:
        for hook in hooks:
            hook.remove()
    if not layers or not ranges:
        raise UserError("int8 needs an encoder with BERT's layers and at least one window")
    return ranges


def to_int8(network: PreTrainedModel, ranges: Mapping[str, tuple[float, float]]) -> PreTrainedModel:
    """A copy of a network, for CPUs, with 8-bit linear layers in the encoder.

    Raises:
        UserError: ranges of other layers, or a processor on which `int8_is_exact` is false.
    """
    if not int8_is_exact():
        raise UserError(
            "this processor lacks the 8-bit instructions (VNNI) that int8 needs, and would give "
            "other numbers: leave --precision out"
        )
    layers = _layers(network)
    if set(layers) != set(ranges):
        raise UserError("these int8 ranges belong to another network; delete them and repeat")
    result = copy.deepcopy(network).cpu().eval()
    for name, (low, high) in ranges.items():
        parent, _, leaf = name.rpartition(".")
        setattr(result.get_submodule(parent), leaf, Int8Linear(layers[name].cpu(), low, high))
    return result


@cache
def int8_is_exact() -> bool:
    """Whether 8-bit products are summed without overflow on this processor.

    Without VNNI, oneDNN adds pairs of products in 16 bits: 2 · 255 · 127 is more than they hold.
    """
    linear = torch.nn.Linear(8, 1)
    torch.nn.init.ones_(linear.weight)
    torch.nn.init.zeros_(linear.bias)
    result = Int8Linear(linear, 0.0, 1.0)(torch.ones(1, 8))
    return bool(abs(float(result) - 8) < 0.1)


def _layers(network: PreTrainedModel) -> dict[str, torch.nn.Linear]:
    return {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, torch.nn.Linear) and re.fullmatch(LINEAR, name)
    }
