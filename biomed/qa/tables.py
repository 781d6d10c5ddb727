"""Tables of answers: one row an answer, from a DataFrame or streamed from a file."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biomed.qa.formats import read_questions
from domainbert.tables import TableError, TableWriter, iter_table, require_columns, table_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd

    from biomed.qa.answerer import QuestionAnswerer
    from biomed.qa.answers import Answer

ANSWER_COLUMNS = (
    *("row", "rank", "answer", "start", "end", "score", "score_kind"),
    *("document", "passage_start", "passage_end"),
)
REJECT_COLUMNS = ("row", "reason")
OUTPUT_ROWS = 512


@dataclass(frozen=True)
class AskedFile:
    """What asking a file came to: questions asked, those answered, rows rejected."""

    questions: int
    answered: int
    rejects: int


def answer_frame(
    answerer: QuestionAnswerer,
    frame: pd.DataFrame,
    *,
    top_k: int = 1,
    threshold: float | None = None,
) -> pd.DataFrame:
    """The answers to a table of questions.

    Args:
        answerer: finds them.
        frame: columns `question` and `context` (a text, or a list of texts); columns whose name
            ends in `_id`, and `id`, are carried along.
        top_k: answers of each question at most.
        threshold: see `QuestionAnswerer.answer`.

    Returns:
        One row an answer, best first: the id columns, then `row` (the question's place in the
        table, from 0), `rank` (from 1), `answer, start, end, score, score_kind, document,
        passage_start, passage_end`. A question without an answer has one row whose answer is "".

    Raises:
        TableError: no such column, or a row that cannot be asked.
    """
    import pandas as pd

    require_columns(frame.columns, ["question", "context"], source="the table")
    refused: list[dict[str, Any]] = []
    ids = _id_columns(frame.columns)
    records = list(_accepted(answerer, _records([frame], ids), refused))
    if refused:
        msg = (
            f"{len(refused)} of {len(frame)} rows cannot be asked, the first is row "
            f"{refused[0]['row']}: {refused[0]['reason']}; leave them out first"
        )
        raise TableError(msg)
    rows = [
        row
        for _, found in _asked(answerer, records, top_k=top_k, threshold=threshold)
        for row in found
    ]
    return pd.DataFrame(rows, columns=[*ids, *ANSWER_COLUMNS])


def answer_file(
    answerer: QuestionAnswerer,
    source: str | Path,
    out: str | Path,
    *,
    rejects: str | Path,
    top_k: int = 1,
    threshold: float | None = None,
) -> Iterator[AskedFile]:
    """Answer a file of questions into a table, streamed; yields the counts so far.

    Args:
        answerer: finds the answers.
        source: .csv, .parquet or .jsonl with columns `question` and `context` (see
            `answer_frame`), or SQuAD or BioASQ JSON, with or without answers.
        out: the answers: .csv, .parquet or .jsonl.
        rejects: rows that cannot be asked, with the reason; written where there are any, removed
            where there are none.
        top_k: answers of each question at most.
        threshold: see `QuestionAnswerer.answer`.

    Raises:
        TableError: a file that cannot be read or written, or lacks a column.
        QuestionError: JSON that is not of these formats.
    """
    import pandas as pd

    table_format(out)
    source, rejects = Path(source), Path(rejects)
    refused: list[dict[str, Any]] = []
    ids: list[str] = []
    questions = answered = 0
    records = _of_json(source, ids) if source.suffix.lower() == ".json" else None
    if records is None:
        records = _records(iter_table(source), ids, source=source.name)
    with TableWriter(out) as writer:
        accepted = _accepted(answerer, records, refused)
        stream = _asked(answerer, accepted, top_k=top_k, threshold=threshold)
        while part := list(itertools.islice(stream, OUTPUT_ROWS)):
            rows = [row for _, found in part for row in found]
            questions += len(part)
            answered += sum(bool(found[0]["answer"]) for _, found in part)
            writer.write(_typed(pd.DataFrame(rows, columns=[*ids, *ANSWER_COLUMNS])))
            yield AskedFile(questions, answered, len(refused))
        if not questions:
            writer.write(_typed(pd.DataFrame(columns=[*ids, *ANSWER_COLUMNS])))
    rejects.unlink(missing_ok=True)
    if refused:
        with TableWriter(rejects) as writer:
            writer.write(pd.DataFrame(refused, columns=[*ids, *REJECT_COLUMNS]))
    yield AskedFile(questions, answered, len(refused))


def _of_json(source: Path, ids: list[str]) -> Iterator[dict[str, Any]]:
    ids.append("id")
    for number, question in enumerate(read_questions(source).questions):
        context = [passage.text for passage in question.passages]
        yield {"id": question.id, "question": question.text, "context": context, "row": number}


def _records(
    pieces: Iterable[pd.DataFrame], ids: list[str], *, source: str = "the table"
) -> Iterator[dict[str, Any]]:
    numbers = itertools.count()
    for number, frame in enumerate(pieces):
        require_columns(frame.columns, ["question", "context"], source=source)
        if not number and not ids:
            ids += _id_columns(frame.columns)
        for record in frame.reindex(columns=[*ids, "question", "context"]).to_dict("records"):
            yield {**{str(k): v for k, v in record.items()}, "row": next(numbers)}


def _accepted(
    answerer: QuestionAnswerer, records: Iterable[dict[str, Any]], refused: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The rows that can be asked; the others go to `refused`."""
    for record in records:
        for name in ("question", "context"):
            record[name] = _plain(record[name])
        if reason := answerer.fault(record["question"], record["context"]):
            refused.append({**_known(record), "reason": reason})
        else:
            yield record


def _plain(value: Any) -> Any:
    """A list for an array, and an empty text for what a table has where nothing was."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return "" if value is None or value != value else value


def _asked(
    answerer: QuestionAnswerer, records: Iterable[dict[str, Any]], **options: Any
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Each record with the rows of its answers."""
    waiting: deque[dict[str, Any]] = deque()

    def pairs() -> Iterator[tuple[str, Any]]:
        for record in records:
            waiting.append(record)
            yield record["question"], record["context"]

    for answers in answerer.answer_many(pairs(), **options):
        known = _known(waiting.popleft())
        yield known, [_row(known, rank, answer) for rank, answer in enumerate(answers, start=1)]


def _row(known: dict[str, Any], rank: int, answer: Answer) -> dict[str, Any]:
    return {
        **known,
        "rank": rank,
        "answer": answer.text,
        "start": answer.start,
        "end": answer.end,
        "score": answer.score,
        "score_kind": answer.score_kind,
        "document": answer.document,
        "passage_start": answer.passage_start,
        "passage_end": answer.passage_end,
    }


def _known(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in ("question", "context")}


def _id_columns(columns: Iterable[Any]) -> list[str]:
    names = [str(name) for name in columns]
    return [name for name in names if name == "id" or name.endswith("_id")]


def _typed(rows: pd.DataFrame) -> pd.DataFrame:
    """One type a column, also where a piece of the table has no row."""
    whole = ("row", "rank", "start", "end", "document", "passage_start", "passage_end")
    text = dict.fromkeys(("answer", "score_kind"), "str")
    return rows.astype({**dict.fromkeys(whole, "int64"), **text, "score": "float64"})
