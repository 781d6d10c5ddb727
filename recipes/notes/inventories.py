"""Inventories of the abbreviations in notes: senses, their shares, and spellings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class Sense:
    """A sense of an abbreviation in one inventory.

    Attributes:
        inventory: the name of the inventory.
        abbreviation: as the inventory has it.
        text: the sense, in lower case.
        share: how often the abbreviation has this sense; None where the inventory has no shares.
        spellings: how notes spell the abbreviation, and how often; empty where the inventory does
            not say.
    """

    inventory: str
    abbreviation: str
    text: str
    share: float | None
    spellings: tuple[tuple[str, int], ...]


def read_senses(data: Path) -> Iterator[Sense]:
    """The senses of all inventories in `names/abbreviations` of the public data.

    Raises:
        UserError: there are no inventories.
    """
    folder = data / "names" / "abbreviations"
    files = sorted(folder.glob("*.txt"))
    if not files:
        raise UserError(
            f"{folder} has no lists of abbreviations (.txt): name the public data with --data"
        )
    for file in files:
        for line in file.read_text("utf-8", errors="replace").splitlines():
            cells = _cells(line)
            if len(cells) > 1 and cells[0] not in ("abbreviation", ""):
                yield _sense(file.stem, cells)


def _cells(line: str) -> list[str]:
    """The columns of a line; those of Columbia are an abbreviation, a space, and its sense."""
    cells = line.split("\t")
    if len(cells) == 1:
        return line.split(" ", 1)
    return cells


def _sense(inventory: str, cells: list[str]) -> Sense:
    share = None
    if len(cells) > 2:
        share = float(cells[-1])
    variations: list[str] = []
    if len(cells) > 4:
        variations = cells[2].split("|")
    return Sense(
        inventory,
        abbreviation=cells[0],
        text=cells[1].strip().casefold(),
        share=share,
        spellings=tuple(map(_spelling, variations)),
    )


def _spelling(variation: str) -> tuple[str, int]:
    """`MI_12` -> `MI`, 12 times."""
    form, _, number = variation.rpartition("_")
    count = 1
    if number.isdigit():
        count = int(number)
    return form or variation, count
