"""What the benchmarks share to talk to their users: options, tables, pages and JSON."""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from domainbert.files import write_json
from domainbert.models.card import table

if TYPE_CHECKING:
    import numpy as np

# `recipes` is not installed. At the end of the path: the packages are.
sys.path.append(str(Path(__file__).parents[1]))


class Comparison(Protocol):
    """What was measured for one workload."""

    def row(self) -> dict[str, str]:
        """A row of the table."""

    def measured(self) -> dict[str, Any]:
        """All numbers, for the JSON file."""


def command_line(about: str | None) -> argparse.ArgumentParser:
    """A command line whose help is the docstring of the script, line by line."""
    return argparse.ArgumentParser(
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_data_option(parser: argparse.ArgumentParser) -> None:
    """Let a user name the folder of the public data sets."""
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("../shared/data"),
        help="folder of the public data sets (../shared/data)",
    )


def options(
    about: str | None,
    *,
    quick: bool = True,
) -> argparse.ArgumentParser:
    """A command line with the options of benchmarks that have rounds."""
    parser = command_line(about)
    parser.add_argument(
        "--rounds",
        type=int,
        default=3,
        help="turns of each way (3)",
    )
    if quick:
        parser.add_argument(
            "--quick",
            action="store_true",
            help="only see that it runs: one round on little, no fair numbers",
        )
    add_out_option(parser)
    return parser


def add_out_option(parser: argparse.ArgumentParser) -> None:
    """Let a user keep everything that was measured."""
    parser.add_argument(
        "--out",
        type=Path,
        help="write all that was measured here, as JSON",
    )


def versions_of(*packages: str) -> dict[str, str]:
    """The versions of packages, by name."""
    return {package: version(package) for package in packages}


def spread(values: Sequence[float] | np.ndarray, digits: str) -> str:
    """The median, with the smallest and the largest where there are several."""
    middle = f"{statistics.median(values):{digits}}"
    if len(values) == 1:
        return middle
    low = f"{min(values):{digits}}"
    high = f"{max(values):{digits}}"
    return f"{middle} ({low}–{high})"


def ratios(over: Iterable[float], under: Iterable[float]) -> list[float]:
    """First over second, round by round."""
    pairs = zip(over, under, strict=True)
    return [first / second for first, second in pairs]


def times(over: Iterable[float], under: Iterable[float]) -> str:
    """How many times the second the first is, round by round, as text."""
    return spread(ratios(over, under), ".2f")


def rates(amount: float, seconds: Iterable[float]) -> list[float]:
    """An amount a second, round by round."""
    return [amount / duration for duration in seconds]


def markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """A Markdown table of rows with the same columns."""
    head = list(rows[0])
    cells = [list(row.values()) for row in rows]
    return table(head, cells)


def report(
    rows: Sequence[Mapping[str, str]],
    *,
    setting: Mapping[str, Any],
    measured: Mapping[str, Any],
    out: Path | None,
) -> None:
    """Print the table below its setting, and write all numbers to `out`, if wanted."""
    parts = [f"{key} {value}" for key, value in setting.items()]
    print(", ".join(parts), end="\n\n")
    print(markdown(rows))
    if out:
        write_json({**setting, **measured}, out)


def report_comparisons(
    comparisons: Sequence[Comparison],
    *,
    packages: Sequence[str],
    out: Path | None,
) -> None:
    """Print a row for each comparison, below the threads and the versions of packages."""
    import torch

    threads = {"threads": torch.get_num_threads()}
    report(
        [comparison.row() for comparison in comparisons],
        setting=threads | versions_of(*packages),
        measured={
            "comparisons": [
                comparison.measured() for comparison in comparisons
            ]
        },
        out=out,
    )


def write_section(
    page: Path,
    section: str,
    text: str,
) -> None:
    """Replace the text between `<!-- section -->` and `<!-- /section -->`."""
    between = re.compile(
        rf"(<!-- {section} -->\n).*?(<!-- /{section} -->)",
        re.DOTALL,
    )
    old = page.read_text(encoding="utf-8")
    new = between.sub(lambda match: f"{match[1]}{text}\n{match[2]}", old)
    page.write_text(new, encoding="utf-8")
