"""Tables of terms: their vectors, or their neighbours; in a DataFrame or streamed from a file."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biomed.terms.similarity import NEIGHBOUR_COLUMNS
from domainbert.tables import TableError, TableWriter, iter_table, require_columns, table_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd

    from biomed.terms.embedder import TermEmbedder, TermVectors
    from biomed.terms.similarity import TermIndex

CHUNK_ROWS = 8192
STATUS_COLUMNS = ("status", "reason")


@dataclass(frozen=True)
class Progress:
    """What was done since the last piece: numbers of rows, and of the rows without a vector."""

    rows: int
    rejects: tuple[int, ...]


def embed_frame(embedder: TermEmbedder, frame: pd.DataFrame, *, column: str) -> pd.DataFrame:
    """The vectors of a table of terms.

    Args:
        embedder: gives the vectors.
        frame: the terms and anything else.
        column: the one with the terms.

    Returns:
        The frame's columns, then `n_tokens`, `n_windows`, `status` (ok; long: read in several
        windows; empty; error), `reason`, and the vector as `v0, v1, …` (float32; missing where
        the status is empty or error). One row for each that came in.

    Raises:
        TableError: no such column, or one that has the name of ours.
    """
    import pandas as pd

    added = [*("n_tokens", "n_windows"), *STATUS_COLUMNS, *_vector_columns(embedder)]
    _check_columns(frame, column, added)
    terms = frame[column].tolist()
    parts = [_vector_frame(embedder, part) for part in embedder.embed_many(terms)]
    empty = pd.DataFrame(columns=added)
    result = pd.concat(parts, ignore_index=True) if parts else empty
    return pd.concat([frame, result.set_index(frame.index)], axis=1)


def embed_table(
    embedder: TermEmbedder, source: str | Path, out: str | Path, *, column: str = "term"
) -> Iterator[Progress]:
    """Embed a file into a file, streamed; yields after each piece that is written.

    Args:
        embedder: gives the vectors.
        source: .csv, .parquet or .jsonl, or a .txt file with one term a line.
        out: .csv, .parquet or .jsonl; see `embed_frame` for its columns.
        column: the one with the terms.

    Raises:
        TableError: a file that cannot be read or written, or has no such column.
    """

    def embedded(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[bool]]:
        table = embed_frame(embedder, frame, column=column)
        return table, table["status"].isin(["empty", "error"]).tolist()

    yield from _streamed(source, out, column, embedded)


def nearest_table(
    index: TermIndex,
    embedder: TermEmbedder,
    source: str | Path,
    out: str | Path,
    *,
    column: str = "term",
    k: int = 10,
) -> Iterator[Progress]:
    """The neighbours of every term of a file, streamed; yields after each piece that is written.

    Args:
        index: the vocabulary to look in.
        embedder: gives the vectors.
        source: see `embed_table`.
        out: .csv, .parquet or .jsonl: the columns of `source`, then `rank`, `neighbour`,
            `similarity`, `status`, `reason`; k rows for a term, one for a term without a vector.
        column: the one with the terms.
        k: neighbours of each.

    Raises:
        TableError: see `embed_table`.
    """

    def looked_up(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[bool]]:
        _check_columns(frame, column, [*NEIGHBOUR_COLUMNS, *STATUS_COLUMNS])
        terms = frame[column].tolist()
        rest = iter(terms)
        found: list[list[Any]] = []
        faults: list[str] = []
        for part in embedder.embed_many(terms):
            own = list(itertools.islice(rest, len(part.faults)))
            found += index.of_part(own, part, k=k)
            faults += part.faults
        return _neighbour_frame(frame, found, faults), [bool(fault) for fault in faults]

    yield from _streamed(source, out, column, looked_up)


def read_terms(path: str | Path, *, column: str = "term") -> list[str]:
    """All terms of a file, for a vocabulary: empty rows left out.

    Raises:
        TableError: see `embed_table`.
    """
    return [
        term
        for frame in _pieces(path, column)
        for term in frame[column].tolist()
        if isinstance(term, str) and term.strip()
    ]


def _streamed(source: str | Path, out: str | Path, column: str, work: Any) -> Iterator[Progress]:
    table_format(out)  # a wrong ending should not cost an hour of work
    first = 0
    with TableWriter(out) as writer:
        for frame in _pieces(source, column):
            table, is_reject = work(frame)
            writer.write(table)
            yield Progress(
                len(frame), tuple(first + i for i, rejected in enumerate(is_reject) if rejected)
            )
            first += len(frame)
        if not first:
            import pandas as pd

            writer.write(work(pd.DataFrame({column: pd.Series(dtype="str")}))[0])


def _pieces(source: str | Path, column: str) -> Iterator[pd.DataFrame]:
    path = Path(source)
    if path.suffix.lower() == ".txt":
        return _lines(path, column)
    return _checked(iter_table(path, chunk_rows=CHUNK_ROWS), path.name, column)


def _checked(frames: Iterable[pd.DataFrame], source: str, column: str) -> Iterator[pd.DataFrame]:
    for frame in frames:
        require_columns(frame.columns, [column], source=source)
        yield frame


def _lines(path: Path, column: str) -> Iterator[pd.DataFrame]:
    """A text file as a table: one term a line, an empty line too being a row."""
    import pandas as pd

    if not path.is_file():
        msg = f"{path}: no such file"
        raise TableError(msg)
    with path.open(encoding="utf-8-sig", errors="replace") as handle:
        while lines := [line.rstrip("\n") for line in itertools.islice(handle, CHUNK_ROWS)]:
            yield pd.DataFrame({column: lines})


def _check_columns(frame: pd.DataFrame, column: str, added: list[str]) -> None:
    require_columns(frame.columns, [column], source="the table")
    if taken := [name for name in added if name in frame.columns]:
        msg = f"the table has a column {taken[0]!r} already, which the result needs; rename it"
        raise TableError(msg)


def _vector_columns(embedder: TermEmbedder) -> list[str]:
    return [f"v{i}" for i in range(embedder.dimension)]


def _vector_frame(embedder: TermEmbedder, part: TermVectors) -> pd.DataFrame:
    import pandas as pd

    rows = zip(part.faults, part.windows.tolist(), strict=True)
    status, reason = zip(*(_status(fault, windows) for fault, windows in rows), strict=True)
    facts: dict[str, Any] = {"n_tokens": part.tokens, "n_windows": part.windows}
    facts |= {"status": list(status), "reason": list(reason)}
    vectors = pd.DataFrame(part.vectors, columns=_vector_columns(embedder))
    return pd.concat([pd.DataFrame(facts), vectors], axis=1)


def _neighbour_frame(
    frame: pd.DataFrame, found: list[list[Any]], faults: list[str]
) -> pd.DataFrame:
    """The rows of a frame, each repeated for its neighbours."""
    import pandas as pd

    rows = [own or [(None, None, None)] for own in found]
    repeated = frame.loc[frame.index.repeat([len(own) for own in rows])].reset_index(drop=True)
    flat = [
        (*neighbour, *_status(fault, windows=1))
        for own, fault in zip(rows, faults, strict=True)
        for neighbour in own
    ]
    added = pd.DataFrame(flat, columns=[*NEIGHBOUR_COLUMNS, *STATUS_COLUMNS])
    types = {"rank": "Int64", "neighbour": "str", "similarity": "float64"}
    return pd.concat([repeated, added.astype(types)], axis=1)


def _status(fault: str, windows: int) -> tuple[str, str]:
    if fault:
        return ("empty" if fault == "no text" else "error"), fault
    if windows > 1:
        return "long", f"read in {windows} windows; the vector pools them all"
    return "ok", ""
