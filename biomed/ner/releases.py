"""Releases of vocabularies as they are downloaded: UMLS, SNOMED CT, RxNorm, Athena, ICD-10-CM.

DuckDB reads them; none need fit in memory. What is read by default is in `releases.toml`, and the
queries are in `vocabularies`.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from domainbert.errors import UserError
from domainbert.files import read_toml
from domainbert.tables import TableError
from domainbert.tables.options import shortened
from domainbert.tables.sources import identifier, quoted

if TYPE_CHECKING:
    import duckdb

_DATA = read_toml(__file__, "releases.toml")
SYSTEMS: dict[str, dict[str, str]] = _DATA.pop("systems")
QUERIES = Path(__file__).with_name("vocabularies")
_MAX_FILES = 2000  # looked at in a folder
TABLES = """
CREATE TABLE CONCEPTS (concept VARCHAR, label VARCHAR);
CREATE TABLE NAMES (concept VARCHAR, name VARCHAR, preference BIGINT, source VARCHAR,
    listed BOOLEAN, is_release BOOLEAN);
CREATE TABLE CODES (concept VARCHAR, code VARCHAR, position BIGINT DEFAULT 0);
CREATE TABLE DISPLAYS (code VARCHAR, display VARCHAR);
CREATE TABLE VERSIONS (prefix VARCHAR, version VARCHAR);
"""
NO_CROSSWALK = """
CREATE TABLE IF NOT EXISTS CROSSWALK (code VARCHAR, standard VARCHAR, name VARCHAR, label VARCHAR)
"""


@dataclass(frozen=True)
class Choices:
    """What is read of a release; what is empty is as in `releases.toml`.

    Attributes:
        language: of the names: "en", a release's own code such as "ENG", or the id of a language
            reference set of SNOMED CT.
        vocabularies: the sources of UMLS (SAB) or vocabularies of Athena; by default all.
        term_types: of UMLS and RxNorm (TTY).
        types: an entity type -> the semantic types, domains, semantic tags or chapters that are it.
        suppressed: read the names of UMLS and RxNorm that are marked as suppressed too.
        encoding: of the files, if it is not UTF-8, such as "latin-1".
        system: of the ids, one of `SYSTEMS` or "OMOP"; concepts without a code in it are left out.
    """

    language: str = "en"
    vocabularies: Sequence[str] = ()
    term_types: Sequence[str] = ()
    types: Mapping[str, Sequence[str]] = field(default_factory=dict)
    suppressed: bool = False
    encoding: str | None = None
    system: str | None = None


@dataclass(frozen=True)
class Release:
    """A vocabulary and its files: the name of each table -> its files."""

    name: str
    folder: Path
    files: Mapping[str, Sequence[Path]]

    @property
    def title(self) -> str:
        """What the vocabulary is called."""
        return _DATA[self.name]["title"]


def find_release(source: Path) -> Release | None:
    """The release in a folder, or that a file belongs to; None for a table of names.

    Raises:
        UserError: a folder without a release or with several, or a zip file.
    """
    if source.suffix.lower() == ".zip":
        raise UserError(
            f"{source.name} is a zip file: unpack it, and name its folder"
        )
    if source.is_dir():
        paths = sorted(path for path in source.rglob("*") if path.is_file())
        paths = paths[:_MAX_FILES]
    elif source.is_file():
        paths = sorted(source.parent.glob("*"))
    else:
        return None
    candidates = [_release(name, source, paths) for name in _DATA]
    releases = [release for release in candidates if release is not None]
    if source.is_file():
        for release in releases:
            if any(source in group for group in release.files.values()):
                return release
        return None
    if len(releases) == 1:
        return releases[0]
    if releases:
        titles = " and ".join(release.title for release in releases)
        raise UserError(
            f"{source} has releases of {titles}; name the folder of each"
        )
    raise UserError(
        f"{source} has no release of a vocabulary; expected "
        f"{', '.join(_main_file(name) for name in _DATA)}"
    )


def _main_file(name: str) -> str:
    """The name of the first file of a vocabulary."""
    first = next(iter(_DATA[name]["files"].values()))
    return str(first["name"])


def _release(name: str, source: Path, paths: Sequence[Path]) -> Release | None:
    """The files of one vocabulary among others, if its first one is there."""
    files: dict[str, list[Path]] = {}
    for table, about in _DATA[name]["files"].items():
        matches = [path for path in paths if _is_of(path, about)]
        snapshots = [
            path for path in matches if "snapshot" in path.name.lower()
        ]
        files[table] = snapshots or matches
    main_table = next(iter(files))
    if not files[main_table]:
        return None
    return Release(name, source, files)


def _is_of(path: Path, about: Mapping[str, Any]) -> bool:
    """Whether a file has the name of a table, or its two columns."""
    name = path.name.lower()
    if fnmatch.fnmatchcase(name, about["name"]):
        return True
    if "columns" not in about or "textdefinition" in name:
        return False
    if not name.endswith((".csv", ".txt", ".tsv")) or not path.is_file():
        return False
    header = {column.casefold() for column in _header(path)}
    return header >= {column.casefold() for column in about["columns"]}


def _header(path: Path) -> list[str]:
    """The names in the first line of a file, split by tabs or else commas."""
    with path.open("rb") as file:
        line = file.readline(1 << 16).decode("latin-1").strip("\r\n\ufeff")
    line = line.removeprefix("ï»¿")  # a byte-order mark
    return [name.strip('" ') for name in line.split(_delimiter(line))]


def _delimiter(line: str) -> str:
    if "\t" in line:
        return "\t"
    return ","


# --- reading a release


def _open_tables(
    con: duckdb.DuckDBPyConnection, release: Release, choices: Choices
) -> None:
    """A view for each table of a release, all of its columns as text.

    Raises:
        TableError: a file or a column is missing.
    """
    for table, about in _DATA[release.name]["files"].items():
        paths = release.files[table]
        if not paths and not about.get("optional"):
            raise TableError(
                f"{release.title}: {about['name'].upper()} is missing in {release.folder}"
            )
        if release.name == "icd10cm":
            rows = pa.Table.from_pylist(
                _tabular_rows(paths[0]), schema=_TABULAR
            )
            con.register(table, rows)
            continue
        needed = about.get("rrf", " ".join(about.get("needed", ()))).split()
        scans = [
            _scan(
                path, needed, is_rrf="rrf" in about, encoding=choices.encoding
            )
            for path in paths
        ]
        # Without the file, a table without rows.
        empty = ", ".join(
            f"NULL::VARCHAR AS {identifier(name)}" for name in needed
        )
        body = " UNION ALL ".join(scans) or f"SELECT {empty} WHERE false"
        con.execute(f"CREATE OR REPLACE TEMP VIEW {table} AS {body}")


def _scan(
    path: Path, needed: Sequence[str], *, is_rrf: bool, encoding: str | None
) -> str:
    """SQL that reads the needed columns of a file."""
    delimiter = "|"
    quote = ""
    if is_rrf:
        _check_width(path, needed)
        columns = [*needed, "END_OF_LINE"]
    else:
        columns = _columns(path, needed)
        with path.open("rb") as file:
            line = file.readline(1 << 16)
        delimiter = _delimiter(line.decode("latin-1"))
        if delimiter == ",":
            quote = '"'
    types = ", ".join(f"{quoted(name)}: 'VARCHAR'" for name in columns)
    options = {
        "delim": quoted(delimiter),
        "quote": quoted(quote),
        "escape": quoted(quote),
        "header": str(not is_rrf).lower(),
        "encoding": quoted(encoding or "utf-8"),
        "columns": f"{{{types}}}",
        "auto_detect": "false",
        "store_rejects": "true",
    }
    written = ", ".join(f"{name} = {value}" for name, value in options.items())
    listed = ", ".join(map(identifier, needed))
    return f"SELECT {listed} FROM read_csv({quoted(str(path))}, {written})"  # noqa: S608


def _check_width(path: Path, needed: Sequence[str]) -> None:
    """Raise a `TableError` if the first line has another number of columns."""
    with path.open("rb") as file:
        line = file.readline(1 << 20).rstrip(b"\r\n")
    count = line.removesuffix(b"|").count(b"|") + 1
    if count != len(needed):
        raise TableError(
            f"{path.name} has {count} columns, expected {len(needed)}: "
            f"{shortened(needed, 60)}"
        )


def _columns(path: Path, needed: Sequence[str]) -> list[str]:
    """The columns of a file in its order, those that are needed in our spelling.

    Raises:
        TableError: one is missing.
    """
    header = _header(path)
    available = {name.casefold() for name in header}
    missing = [name for name in needed if name.casefold() not in available]
    if missing:
        raise TableError(
            f"{path.name} lacks the column {missing[0]}; it has {shortened(header, 200)}"
        )
    spelled = {name.casefold(): name for name in needed}
    return [spelled.get(name.casefold(), name) for name in header]


_TABULAR = pa.schema(
    {
        "code": "string",
        "name": "string",
        "preference": "int64",
        "chapter": "string",
        "version": "string",
    }
)


def _tabular_rows(path: Path) -> list[dict[str, object]]:
    """The codes of the tabular list of ICD-10-CM with their titles and inclusion terms."""
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    try:
        root = etree.parse(path, parser).getroot()
    except etree.XMLSyntaxError:
        raise TableError(
            f"{path.name} is not whole XML; download it again"
        ) from None
    rows = []
    for chapter in root.iter("chapter"):
        for code in chapter.iter("diag"):
            # Not those of the codes below it.
            notes = code.findall("inclusionTerm/note")
            names = [code.findtext("desc"), *(note.text for note in notes)]
            for preference, name in enumerate(names):
                row = {
                    "code": code.findtext("name"),
                    "name": name,
                    "preference": preference,
                    "chapter": chapter.findtext("name"),
                    "version": root.findtext("version"),
                }
                rows.append(row)
    return rows


def read_release(
    con: duckdb.DuckDBPyConnection, release: Release, choices: Choices
) -> None:
    """Add the names, codes and versions of a release.

    Raises:
        TableError: a line that is not a row, or no name of the chosen types.
    """
    about = _DATA[release.name]
    types = choices.types or about["types"]
    pairs = [(name, label) for label in types for name in types[label]]
    _register(con, "CHOSEN", ["type", "label"], pairs)
    systems = [
        (system[release.name], prefix)
        for prefix, system in SYSTEMS.items()
        if release.name in system
    ]
    _register(con, "SYSTEMS", ["vocabulary", "prefix"], systems)
    suppress = ["N"]
    if choices.suppressed:
        suppress += ["E", "O", "Y"]
    variables = {
        "language": about["languages"].get(choices.language, choices.language),
        "vocabularies": list(choices.vocabularies),
        "term_types": list(choices.term_types),
        "suppress": suppress,
    }
    set_variables(con, variables)
    _open_tables(con, release, choices)
    count_before = count_rows(con, "NAMES")
    query = (QUERIES / f"{release.name}.sql").read_text("utf-8")
    con.execute(query)
    if release.name != "icd10cm":
        _check_rows(con)
    if count_rows(con, "NAMES") == count_before:
        names = shortened([name for name, _ in pairs], 80)
        raise TableError(
            f"{release.title} in {release.folder} has no name of the types {names} in the "
            f"language {choices.language}; choose others with --types and --language"
        )


def _register(
    con: duckdb.DuckDBPyConnection,
    table: str,
    columns: Sequence[str],
    pairs: Sequence[tuple[str, str]],
) -> None:
    """Register a small table of two columns of text."""
    schema = pa.schema(dict.fromkeys(columns, "string"))
    rows = [dict(zip(columns, pair, strict=True)) for pair in pairs]
    con.register(table, pa.Table.from_pylist(rows, schema=schema))


def set_variables(
    con: duckdb.DuckDBPyConnection, variables: Mapping[str, object]
) -> None:
    """Set variables of the queries; lists are lists of text."""
    for name, value in variables.items():
        if isinstance(value, list):
            con.execute(f"SET VARIABLE {name} = ?::VARCHAR[]", [value])
        else:
            con.execute(f"SET VARIABLE {name} = ?", [value])


def count_rows(con: duckdb.DuckDBPyConnection, table: str) -> int:
    """The number of rows of a table."""
    ((count,),) = con.execute(f"SELECT count(*) FROM {table}").fetchall()  # noqa: S608
    return int(count)


def _check_rows(con: duckdb.DuckDBPyConnection) -> None:
    """Raise a `TableError` for the first line of a file that is not a row."""
    query = """
        SELECT parse_filename(file_path), line, error_type::VARCHAR
        FROM reject_errors JOIN reject_scans USING (scan_id, file_id) ORDER BY ALL LIMIT 1
    """
    rows = con.execute(query).fetchall()
    if not rows:
        return
    ((name, line, fault),) = rows
    if "ENCODING" in fault:
        raise TableError(
            f"{name} line {line} is not in UTF-8: name the encoding, such as --encoding latin-1"
        )
    raise TableError(
        f"{name} line {line} is not a whole row ({fault.lower()}); download the release again"
    )
