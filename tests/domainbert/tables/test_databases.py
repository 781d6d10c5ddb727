"""Queries of databases, and their faults."""

import contextlib
import sqlite3

import pytest

from domainbert.tables import (
    ReadOptions,
    TableError,
    iter_rows,
    table_columns,
)
from domainbert.tables.databases import _fault
from domainbert.tables.rows import spooled

from .helpers import (
    error_of,
)


def test_a_query_reads_a_database(tmp_path):
    path = tmp_path / "hospital.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(
            "CREATE TABLE notes (stay_id INTEGER, note TEXT, day REAL)"
        )
        rows = [(7, "a", 1.5), (8, None, 2.0), (9, "038", None)]
        database.executemany("INSERT INTO notes VALUES (?, ?, ?)", rows)
        database.commit()
    uri = f"sqlite:///{path}"
    options = ReadOptions(
        query="SELECT stay_id, note, day FROM notes ORDER BY stay_id"
    )
    kept = spooled(uri, options, folder=tmp_path)
    found = list(iter_rows(kept))
    assert [tuple(row.cells.values()) for row in found] == [
        ("7", "a", "1.5"),
        ("8", None, "2"),
        ("9", "038", None),
    ]
    assert [row.place for row in found] == [
        f"query.parquet row {n}" for n in (1, 2, 3)
    ]
    assert table_columns(kept) == ["stay_id", "note", "day"]
    for wrong, query, message in (
        (uri, None, "say what to read with `query="),
        (uri, "SELECT nothing FROM nowhere", "failed"),
        ("sqlite:///nowhere.db", "SELECT 1", "no such SQLite file"),
    ):
        with pytest.raises(TableError, match=message):
            spooled(wrong, ReadOptions(query=query), folder=tmp_path)
    assert error_of("postgresql://me:secret@host/db").startswith(
        "expected files, got a database"
    )


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            'password authentication failed for user "x"',
            "wrong user or password",
        ),
        ('column "password_hash" does not exist', "DatabaseError"),
        (
            'invalid integer value "a" for connection option "port"',
            "host or port",
        ),
        ('invalid input syntax for type integer: "x"', "DatabaseError"),
    ],
)
def test_a_database_fault_is_told_by_its_kind(message, said):
    class DatabaseError(Exception):
        pass

    assert _fault(DatabaseError(message)).startswith(said)
