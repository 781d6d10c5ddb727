"""Inference in bfloat16: the layers of an encoder are cast, its heads stay in float32.

Processors with AMX or AVX512-BF16, and GPUs, multiply bfloat16 several times as fast as float32.
Others are slower with it; `multiplication_rates` measures which of the two a machine is.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from domainbert.settings import check_choice

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

Precision = Literal["float32", "bfloat16"]
Dtype: TypeAlias = "Precision | torch.dtype"
# One window of 512 tokens in a layer of the shipped encoder.
_ROWS = 512
_WIDTH = 384
_INNER = 1536
WORTHWHILE = 1.5  # times as fast, from which bfloat16 is advised


def precision_of(dtype: Dtype) -> Precision:
    """The name of a precision, given as a name or as a type of torch.

    Raises:
        UserError: neither float32 nor bfloat16.
    """
    name = str(dtype).removeprefix("torch.")
    check_choice("dtype", name, get_args(Precision))
    if name == "bfloat16":
        return "bfloat16"
    return "float32"


def cast_encoder(network: PreTrainedModel) -> None:
    """Cast the encoder of a network to bfloat16, in place.

    Its heads and its pooler keep float32 and get their inputs in float32. An encoder alone is cast
    as a whole; what reads its hidden states pools them in float32.
    """
    import torch

    body = network.base_model
    body.to(torch.bfloat16)
    if body is network:
        return
    heads = [module for module in network.children() if module is not body]
    if (pooler := getattr(body, "pooler", None)) is not None:
        heads.append(pooler.float())
    for head in heads:
        head.register_forward_pre_hook(_inputs_in_float32)


def _inputs_in_float32(
    module: torch.nn.Module, inputs: tuple[object, ...]
) -> tuple[object, ...]:
    """The inputs of a head as float32; a forward pre-hook of PyTorch."""
    del module
    return tuple(map(_in_float32, inputs))


def _in_float32(value: Any) -> Any:
    """A tensor of floating-point numbers as float32; any other value as it is."""
    is_floating_point = getattr(value, "is_floating_point", bool)
    if is_floating_point():
        return value.float()
    return value


def multiplication_rates(seconds: float = 0.25) -> dict[Precision, float]:
    """Billions of multiplications and additions a second of this processor, by precision.

    Each precision multiplies matrices of the shipped encoder's shape for about `seconds`.
    """
    import torch

    rates: dict[Precision, float] = {}
    for name in get_args(Precision):
        rows = torch.ones(_ROWS, _WIDTH, dtype=getattr(torch, name))
        weights = torch.ones(_WIDTH, _INNER, dtype=rows.dtype)
        _ = rows @ weights  # the first product also prepares the library
        products = 0
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            _ = rows @ weights
            products += 1
        operations = 2 * products * _ROWS * _WIDTH * _INNER
        rates[name] = operations / (time.perf_counter() - start) / 1e9
    return rates


def precision_advice(rates: Mapping[Precision, float]) -> str:
    """Which precision to score in, from `multiplication_rates`."""
    ratio = rates["bfloat16"] / rates["float32"]
    measured = (
        f"bfloat16 multiplies {ratio:.2g} times as fast as float32 on this processor "
        f"({rates['bfloat16']:,.0f} and {rates['float32']:,.0f} billion operations a second)"
    )
    if ratio >= WORTHWHILE:
        return f"{measured}: score faster with --precision bfloat16"
    return f"{measured}: leave the precision at float32"


def long_run_hint(rates: Mapping[Precision, float]) -> str:
    """What a long run in float32 says where bfloat16 is worthwhile; "" elsewhere."""
    ratio = rates["bfloat16"] / rates["float32"]
    if ratio < WORTHWHILE:
        return ""
    return (
        f"this processor multiplies bfloat16 {ratio:.2g} times as fast as float32: the next run is "
        "faster with --precision bfloat16, and probabilities change by up to 0.01"
    )
