"""What the benchmarks share: their options, their clock, their table and their JSON."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.files import write_json
from domainbert.models.card import table

if TYPE_CHECKING:
    import numpy as np


def options(
    description: str, *, quick: bool = True
) -> argparse.ArgumentParser:
    """A command line with what every benchmark takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--rounds", type=int, default=3, help="turns of each way (3)"
    )
    if quick:
        parser.add_argument(
            "--quick", action="store_true", help="does it run? no fair numbers"
        )
    parser.add_argument(
        "--out", type=Path, help="write all that was measured here, as JSON"
    )
    return parser


def versions_of(*packages: str) -> dict[str, str]:
    """The versions of packages, by name."""
    return {package: version(package) for package in packages}


def seconds_of(action: Callable[[], object]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def spread(values: Sequence[float] | np.ndarray, digits: str) -> str:
    """The median, with the least and the largest where there are several."""
    low, middle, high = (
        f"{f(values):{digits}}" for f in (min, statistics.median, max)
    )
    return f"{middle} ({low}–{high})" if len(values) > 1 else middle


def markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """A table of rows with the same columns."""
    return table(list(rows[0]), [list(row.values()) for row in rows])


def report(
    rows: Sequence[Mapping[str, str]],
    *,
    setting: Mapping[str, Any],
    measured: Mapping[str, Any],
    out: Path | None,
) -> None:
    """Print the table under what it was measured with; write everything, if wanted."""
    print(
        ", ".join(f"{key} {value}" for key, value in setting.items()),
        end="\n\n",
    )
    print(markdown(rows))
    if out:
        write_json({**setting, **measured}, out)


def say(message: str) -> None:
    """One line of progress."""
    print(message, file=sys.stderr, flush=True)
