"""How fast training went, and how fast it could have gone."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import torch

# Sides of the squares: large enough to be at the limit, small enough to take no time.
SIDE = {"cpu": 1024, "cuda": 8192}
ROUNDS = 4


@cache
def matrix_rate(device: torch.device, *, dtype: torch.dtype) -> float:
    """Multiplications and additions a second in a large matrix product; the best of a few."""
    side = SIDE.get(device.type, SIDE["cpu"])
    square = torch.randn(side, side, device=device, dtype=dtype)
    best = float("inf")
    for _ in range(ROUNDS):  # the first warms up, and is hardly the best
        _wait(device)
        start = time.perf_counter()
        torch.mm(square, square)
        _wait(device)
        best = min(best, time.perf_counter() - start)
    return 2 * side**3 / best


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def speed_report(
    *, tokens: int, seconds: float, flops: float, device: torch.device, dtype: torch.dtype
) -> dict[str, Any]:
    """Tokens a second of one process, and the share of its device's matrix rate.

    Args:
        tokens: that were read, padding not counted.
        seconds: that it took, evaluations not counted, checkpoints counted.
        flops: multiplications and additions for a token, see `training_flops`.
        device: it ran on; its rate is measured now.
        dtype: that matrices were multiplied in.
    """
    rate = matrix_rate(device, dtype=dtype)
    per_second = tokens / seconds if seconds > 0 else 0.0
    return {
        "tokens": tokens,
        "seconds": round(seconds, 1),
        "tokens_per_second": round(per_second, 1),
        "gflops": round(per_second * flops / 1e9, 1),
        "matrix_gflops": round(rate / 1e9, 1),
        "share_of_matrix_rate": round(per_second * flops / rate, 3),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "dtype": str(dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
    }
