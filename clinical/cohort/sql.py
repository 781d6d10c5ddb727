"""The SQL steps that ship with the package."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def step(name: str) -> str:
    """The text of `clinical/sql/NAME.sql`."""
    return (resources.files("clinical") / "sql" / f"{name}.sql").read_text("utf-8")


def run_step(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """Run `clinical/sql/NAME.sql`."""
    con.execute(step(name))
