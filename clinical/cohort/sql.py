"""The SQL that ships with the package, and names and text as SQL spells them."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb


def step(name: str) -> str:
    """The text of `clinical/sql/NAME.sql`."""
    return (resources.files("clinical") / "sql" / f"{name}.sql").read_text("utf-8")


def run_step(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """Run `clinical/sql/NAME.sql`."""
    con.execute(step(name))


def quoted(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def as_text(columns: Sequence[str]) -> str:
    """A SELECT list that casts every column to text under its own name."""
    return ", ".join(f"CAST({identifier(c)} AS VARCHAR) AS {identifier(c)}" for c in columns)
