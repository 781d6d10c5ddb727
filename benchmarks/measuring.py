"""Clock, peak memory, ways of a job that take turns, and runs in processes of their own.

This module imports little, because some benchmarks measure the memory of the process it is in.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from domainbert.progress import stderr

Result = TypeVar("Result")
QUIET = 1.1  # times the fastest calibration, up to which a machine is quiet
ATTEMPTS = 3


def say(message: str) -> None:
    """Print one line of progress to stderr."""
    stderr.print(message, soft_wrap=True)


def seconds_of(action: Callable[[], object]) -> float:
    """How many seconds a call takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def fastest_size(action: Callable[[int], object], sizes: Sequence[int]) -> int:
    """The batch size at which a call takes the least time."""
    return min(sizes, key=lambda size: seconds_of(lambda: action(size)))


def take_turns(
    ways: Mapping[str, Callable[[], Result]],
    *,
    rounds: int,
) -> tuple[dict[str, Result], dict[str, list[float]]]:
    """Run each way once a round, so that a slow machine slows all of them.

    Returns:
        The last result of each way, and its seconds in each round.
    """
    results: dict[str, Result] = {}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(1, rounds + 1):
        say(f"  round {number} of {rounds}")
        for name, action in ways.items():
            start = time.perf_counter()
            results[name] = action()
            seconds[name].append(time.perf_counter() - start)
    return results, seconds


def calibrate() -> float:
    """Seconds of a fixed number of multiplications on all cores."""
    import torch

    square = torch.ones(1024, 1024)
    return seconds_of(lambda: [square @ square for _ in range(20)])


class QuietMachine:
    """Measures again what other work on the machine has disturbed.

    A calibration before and after each measurement shows it: one of them takes longer than
    `QUIET` times the fastest of the run.

    Attributes:
        disturbed: the measurements that were disturbed in every attempt.
    """

    def __init__(self, calibration: Callable[[], float] = calibrate) -> None:
        self._calibration = calibration
        self._fastest = min(calibration() for _ in range(5))
        self.disturbed: list[str] = []

    def measure(self, name: str, action: Callable[[], Result]) -> Result:
        """The result of the first attempt that was not disturbed, or of the last one."""
        for _ in range(ATTEMPTS):
            before = self._calibration()
            result = action()
            after = self._calibration()
            self._fastest = min(self._fastest, before, after)
            slowest = max(before, after) / self._fastest
            if slowest <= QUIET:
                return result
            say(f"{name}: the machine was not quiet ({slowest:.2f} times)")
        self.disturbed.append(name)
        return result

    def verdict(self) -> str:
        """One line for the table."""
        if not self.disturbed:
            return "yes"
        return f"not in {', '.join(self.disturbed)}, after {ATTEMPTS} attempts"


def resident_bytes(process: int | str = "self", *, peak: bool = False) -> int:
    """The resident memory of a process, now or at its peak, as Linux counts it.

    `getrusage` is not used for the peak: it also counts the process that started this one.
    """
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    field = "VmHWM" if peak else "VmRSS"
    match = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
    if match is None:  # the process has just ended
        return 0
    return int(match[1]) * 1024


def print_cost(action: Callable[[], object]) -> None:
    """Print the seconds of a call, and the peak memory of this process, as JSON."""
    seconds = seconds_of(action)
    peak = resident_bytes(peak=True)
    print(json.dumps({"seconds": seconds, "peak": peak}))


def in_new_process(script: str | Path, *words: object) -> Any:
    """Run a script in a process of its own; what it prints on its last line, as JSON."""
    command = [sys.executable, str(script), *map(str, words)]
    child = subprocess.run(  # noqa: S603
        command,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    last_line = child.stdout.splitlines()[-1]
    return json.loads(last_line)
