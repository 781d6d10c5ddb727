"""Names and text as SQL spells them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def quoted(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def as_text(columns: Sequence[str]) -> str:
    """A SELECT list that casts every column to text under its own name."""
    return ", ".join(f"CAST({identifier(c)} AS VARCHAR) AS {identifier(c)}" for c in columns)
