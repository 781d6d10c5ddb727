"""Names of releases and tables become one file for `biomed.ner.dictionaries.DictionaryFile`.

DuckDB joins and sorts the names on disk, and SQLite keeps them.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from biomed.ner.dictionaries import (
    APPLICATION,
    INDEX,
    SCHEMA,
    build_dictionary,
)
from biomed.ner.releases import (
    NO_CROSSWALK,
    QUERIES,
    TABLES,
    Choices,
    Release,
    count_rows,
    find_release,
    read_release,
    set_variables,
)
from biomed.terms.names import folded, normalised
from domainbert.errors import UserError
from domainbert.files import atomic_path, folder_beside
from domainbert.tables import TableError
from domainbert.tables.sources import quoted

if TYPE_CHECKING:
    import duckdb

_MEMORY = "1000MB"  # of DuckDB; Python and SQLite need a third of it
_BATCH = 50_000  # names
_SHORTEST = 4  # letters and digits of a name that a release may use by itself


def build_file(
    sources: Sequence[Path],
    out: Path,
    *,
    listed: Sequence[Path] = (),
    mappings: Path | None = None,
    choices: Choices | None = None,
) -> dict[str, object]:
    """Write the names of releases and tables into one file for `Dictionary.read`.

    With OMOP's concepts among several sources, concepts of the others become OMOP's standard ones
    where these have their code. Memory does not grow with the releases.

    Args:
        sources: folders or files of releases, and tables as in `build_dictionary`.
        out: the file, which ends in .sqlite.
        listed: tables whose names are used however short they are.
        mappings: the codes of the tables' concepts; see `build_dictionary`.
        choices: what is read of releases.

    Returns:
        The facts in the file: `names`, `concepts`, `versions` of the systems and so on.

    Raises:
        UserError: a source that is no release and no table, a line that is not a row, no name of
            the chosen types, or no concept with a code in the system.
    """
    import duckdb

    choices = choices or Choices()
    releases = []
    tables = []
    for source in sources:
        release = find_release(source)
        if release:
            releases.append(release)
        else:
            tables.append(source)
    with (
        folder_beside(out) as work,
        duckdb.connect(work / "names.duckdb") as con,
    ):
        folder = quoted(str(work))
        con.execute(f"SET memory_limit = '{_MEMORY}'")
        con.execute(f"SET temp_directory = {folder}")
        con.execute("SET preserve_insertion_order = false")
        con.execute("SET enable_progress_bar = false")
        con.execute(TABLES)
        for release in releases:
            read_release(con, release, choices)
        con.execute(NO_CROSSWALK)
        _check_ids(con)
        if tables:
            _add_tables(con, tables, mappings=mappings, is_listed=False)
        if listed:
            _add_tables(con, listed, mappings=None, is_listed=True)
        _number_names(con, choices, releases, has_tables=bool(tables))
        titles = [release.title for release in releases]
        facts = _facts(con)
        facts["sources"] = [*titles, *(path.name for path in tables)]
        return _write(con, work, out, facts)


def _facts(con: duckdb.DuckDBPyConnection) -> dict[str, object]:
    """The versions of the systems, and the entity types of the concepts."""
    # Of SNOMED CT, Athena gives a text where the others give a URI.
    versions = con.execute(
        "SELECT prefix, arg_max(version, ROW(starts_with(version, 'http'), version)) "
        "FROM VERSIONS GROUP BY prefix"
    )
    systems = dict(versions.fetchall())
    labels = con.execute(
        "SELECT DISTINCT label FROM NUMBERED WHERE label IS NOT NULL ORDER BY label"
    )
    return {
        "systems": systems,
        "labels": [row[0] for row in labels.fetchall()],
    }


def _check_ids(con: duckdb.DuckDBPyConnection) -> None:
    """Raise a `TableError` if a release gives one id to two concepts."""
    query = "SELECT concept FROM CONCEPTS GROUP BY concept HAVING count(*) > 1 ORDER BY ALL LIMIT 1"
    rows = con.execute(query).fetchall()
    if rows:
        raise TableError(
            f"two concepts have the id {rows[0][0]}; keep one release of a vocabulary"
        )


def _add_tables(
    con: duckdb.DuckDBPyConnection,
    tables: Sequence[Path],
    *,
    mappings: Path | None,
    is_listed: bool,
) -> None:
    """Add names of tables; an id that is a code of a release's concept is that concept."""
    frame = build_dictionary(tables, mappings=mappings)
    con.register(
        "ROWS", frame.assign(position=range(len(frame)), listed=is_listed)
    )
    con.execute((QUERIES / "tables.sql").read_text("utf-8"))


def _number_names(
    con: duckdb.DuckDBPyConnection,
    choices: Choices,
    releases: Sequence[Release],
    *,
    has_tables: bool,
) -> None:
    """Give the concepts their ids, numbers and codes."""
    has_omop = any(release.name == "athena" for release in releases)
    is_mixed = len(releases) + has_tables > 1
    system = choices.system or ""
    if has_omop and is_mixed and not system:
        system = "OMOP"
    prefix = ""
    if system:
        prefix = f"{system}:"
    variables = {
        "prefix": prefix,
        "crosswalk": has_omop and is_mixed,
        "keeps_all": choices.system is None,
    }
    set_variables(con, variables)
    con.execute((QUERIES / "names.sql").read_text("utf-8"))
    if not count_rows(con, "NUMBERED"):
        raise UserError(
            f"no concept with a code in {choices.system or 'these sources'}; name its codes with "
            "`mappings='FILE'`"
        )


def _write(
    con: duckdb.DuckDBPyConnection,
    work: Path,
    out: Path,
    facts: dict[str, object],
) -> dict[str, object]:
    """Write the file, sorted, so that each insertion is at the end of a tree."""
    _write_keys(con, work / "keys.parquet")
    keys = f"read_parquet({quoted(str(work / 'keys.parquet'))})"
    digest = hashlib.sha256()
    with atomic_path(out) as path:
        path.unlink()
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            file.executescript(
                "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF"
            )
            file.execute(f"PRAGMA application_id = {APPLICATION}")
            file.executescript(f"{SCHEMA}; BEGIN")
            for table, query in _INSERTIONS.items():
                rows = con.sql(query.format(keys=keys))
                marks = ", ".join("?" for _ in rows.columns)
                insertion = f"INSERT INTO {table} VALUES ({marks})"  # noqa: S608
                file.executemany(insertion, _hashed(rows, digest))
            file.execute(INDEX)
            for table in ("names", "concepts"):
                count = file.execute(f"SELECT count(*) FROM {table}")  # noqa: S608
                (facts[table],) = count.fetchone()
            facts["digest"] = digest.hexdigest()
            stored = [
                (name, json.dumps(value)) for name, value in facts.items()
            ]
            file.executemany("INSERT INTO facts VALUES (?, ?)", stored)
            file.execute("COMMIT")
    return facts


# The rows come in the order of the tables' keys. Of names that differ in case only, the first keeps
# its spelling.
_INSERTIONS = {
    "concepts": """
        SELECT number, id, name, label, codes, name_count
        FROM NUMBERED LEFT JOIN CODES_OF USING (id) ORDER BY number
    """,
    "names": """
        SELECT key, number, min(preference), arg_min(spelling, preference),
            bool_or(listed)::INTEGER, arg_min(ROW(source), preference)[1]
        FROM {keys} GROUP BY key, number ORDER BY key, number
    """,
    "forms": """
        SELECT form, number, arg_min(ROW(source), preference)[1]
        FROM {keys} WHERE form <> '' GROUP BY form, number ORDER BY form, number
    """,
    "codes": """
        SELECT code, min(display) FROM DISPLAYS WHERE display IS NOT NULL
        GROUP BY code ORDER BY code
    """,
}


def _hashed(
    result: duckdb.DuckDBPyRelation, digest: hashlib._Hash
) -> Iterator[tuple[object, ...]]:
    """The rows of a query, batch by batch, which also go into a hash."""
    for batch in result.to_arrow_reader(_BATCH):
        columns = [column.to_pylist() for column in batch.columns]
        digest.update(repr(columns[:3]).encode(errors="replace"))
        yield from zip(*columns, strict=True)


_KEYS = pa.schema(
    {
        "key": "string",
        "form": "string",
        "spelling": "string",
        "number": "int64",
        "preference": "int64",
        "listed": "bool",
        "source": "string",
    }
)
_NAMES = r"""
    SELECT NAMES.name, number, preference, listed, source
    FROM NAMES JOIN IDS USING (concept) JOIN NUMBERED USING (id)
    WHERE listed OR NOT is_release
        OR length(regexp_replace(NAMES.name, '[^\p{L}\p{N}]', '', 'g')) >= $shortest
"""


def _write_keys(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Write each name with the keys that find it; short names of releases are left out."""
    import pyarrow.parquet as pq

    with pq.ParquetWriter(path, _KEYS) as writer:
        names = con.sql(_NAMES, params={"shortest": _SHORTEST})
        for batch in names.to_arrow_reader(_BATCH):
            texts = batch.column(0).to_pylist()
            keys = pa.array(map(folded, texts), "string")
            forms = pa.array(map(normalised, texts), "string")
            columns = [keys, forms, *batch.columns]
            table = pa.Table.from_arrays(columns, names=_KEYS.names)
            writer.write_table(table.cast(_KEYS))
