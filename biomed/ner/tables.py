"""Tables of entities: one row an entity, from a DataFrame or streamed from a file."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.tables import TableError, TableWriter, iter_table, require_columns, table_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd

    from biomed.ner.tagger import EntityTagger

ENTITY_COLUMNS = ("row", "start", "end", "text", "label", "score", "score_kind")
REJECT_COLUMNS = ("row", "reason")
OUTPUT_ROWS = 4096


@dataclass(frozen=True)
class TaggedFile:
    """What tagging a file came to: numbers of texts read, of entities found, of rows rejected."""

    texts: int
    entities: int
    rejects: int


def tag_frame(tagger: EntityTagger, frame: pd.DataFrame) -> pd.DataFrame:
    """The entities of a table of texts.

    Args:
        tagger: finds them.
        frame: a column `text`; columns whose name ends in `_id`, and `id`, are carried along.

    Returns:
        One row an entity, in text order: the id columns, then `row` (the text's place in the
        table, from 0), `start, end, text` (the entity's characters), `label, score, score_kind`.
        A text without entities has no row.

    Raises:
        TableError: no column `text`, or a row whose text is missing or no string.
    """
    import pandas as pd

    require_columns(frame.columns, ["text"], source="the table")
    bad = [number for number, text in enumerate(frame["text"]) if not isinstance(text, str)]
    if bad:
        listed = ", ".join(map(str, bad[:9])) + (", …" if len(bad) > 9 else "")
        msg = (
            f"{len(bad)} of {len(frame)} rows have no text (row {listed}); "
            'leave them out first: frame.dropna(subset=["text"])'
        )
        raise TableError(msg)
    ids = _id_columns(frame.columns)
    rows = [row for _, found in _tagged(tagger, _records([frame], ids)) for row in found]
    return pd.DataFrame(rows, columns=[*ids, *ENTITY_COLUMNS])


def tag_file(
    tagger: EntityTagger, source: str | Path, out: str | Path, *, rejects: str | Path
) -> Iterator[TaggedFile]:
    """Tag a file into a table, streamed; yields the counts so far after each piece.

    Args:
        tagger: finds the entities.
        source: .csv, .parquet or .jsonl with a column `text` (see `tag_frame`), or a .txt file,
            which is one text.
        out: the entities: .csv, .parquet or .jsonl.
        rejects: rows whose text is missing or no string, with the reason; written where there are
            any, removed where there are none.

    Raises:
        TableError: a file that cannot be read or written, or has no column `text`.
    """
    import pandas as pd

    table_format(out)
    source, rejects = Path(source), Path(rejects)
    pieces = _pieces(source)
    refused: list[dict[str, Any]] = []
    ids: list[str] = []
    texts = entities = 0
    with TableWriter(out) as writer:
        stream = _tagged(tagger, _accepted(pieces, source.name, ids, refused))
        while part := list(itertools.islice(stream, OUTPUT_ROWS)):
            rows = [row for _, found in part for row in found]
            texts, entities = texts + len(part), entities + len(rows)
            writer.write(_typed(pd.DataFrame(rows, columns=[*ids, *ENTITY_COLUMNS])))
            yield TaggedFile(texts, entities, len(refused))
        if not texts:
            writer.write(_typed(pd.DataFrame(columns=[*ids, *ENTITY_COLUMNS])))
    rejects.unlink(missing_ok=True)
    if refused:
        with TableWriter(rejects) as writer:
            writer.write(pd.DataFrame(refused, columns=[*ids, *REJECT_COLUMNS]))
    yield TaggedFile(texts, entities, len(refused))


def read_texts(source: Path) -> Iterator[str]:
    """The texts of a file; rows without one are passed over.

    Raises:
        TableError: see `tag_file`.
    """
    for record in _accepted(_pieces(source), source.name, [], []):
        yield record["text"]


def _pieces(source: Path) -> Iterable[pd.DataFrame]:
    return [_text_file(source)] if source.suffix.lower() == ".txt" else iter_table(source)


def _text_file(path: Path) -> pd.DataFrame:
    import pandas as pd

    if not path.is_file():
        msg = f"{path}: no such file"
        raise TableError(msg)
    # Bytes, so that "\r\n" stays two characters and positions are those of the file.
    return pd.DataFrame({"text": [path.read_bytes().decode("utf-8", "replace")]})


def _accepted(
    pieces: Iterable[pd.DataFrame], source: str, ids: list[str], refused: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The rows that have a text; the others go to `refused`. Fills in the names of the ids."""
    for record in _records(pieces, ids, source=source):
        text = record["text"]
        if isinstance(text, str):
            yield record
            continue
        missing = text is None or text != text
        reason = "no text" if missing else f"text is {type(text).__name__}, not a string"
        refused.append({**{name: record[name] for name in (*ids, "row")}, "reason": reason})


def _records(
    pieces: Iterable[pd.DataFrame], ids: list[str], *, source: str = "the table"
) -> Iterator[dict[str, Any]]:
    numbers = itertools.count()
    for number, frame in enumerate(pieces):
        require_columns(frame.columns, ["text"], source=source)
        if not number and not ids:
            ids += _id_columns(frame.columns)
        for record in frame.reindex(columns=[*ids, "text"]).to_dict("records"):
            yield {**{str(k): v for k, v in record.items()}, "row": next(numbers)}


def _tagged(
    tagger: EntityTagger, records: Iterable[dict[str, Any]]
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Each record with the rows of its entities."""
    waiting: deque[dict[str, Any]] = deque()

    def texts() -> Iterator[str]:
        for record in records:
            waiting.append(record)
            yield record["text"]

    for entities in tagger.tag_many(texts()):
        record = waiting.popleft()
        known = {name: value for name, value in record.items() if name != "text"}
        yield (
            known,
            [
                {
                    **known,
                    "start": entity.start,
                    "end": entity.end,
                    "text": entity.text,
                    "label": entity.label,
                    "score": entity.score,
                    "score_kind": tagger.score_kind,
                }
                for entity in entities
            ],
        )


def _id_columns(columns: Iterable[Any]) -> list[str]:
    names = [str(name) for name in columns]
    return [name for name in names if name == "id" or name.endswith("_id")]


def _typed(rows: pd.DataFrame) -> pd.DataFrame:
    """One type a column, also where a piece of the table has no row."""
    whole = dict.fromkeys(("row", "start", "end"), "int64")
    text = dict.fromkeys(("text", "label", "score_kind"), "str")
    return rows.astype({**whole, **text, "score": "float64"})
