"""What `biomed ner tag` writes, and what `biomed ner evaluate` prints."""

from __future__ import annotations

import itertools
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.table import Table

from biomed.folder import spell
from biomed.ner.export import FORMATS, check_names, to_json, to_pubtator, write_tagged
from biomed.ner.task import TagTask
from domainbert.console import counted, say, stdout
from domainbert.errors import UserError
from domainbert.scoring.cli import run
from domainbert.tables import iter_rows, match_columns, table_columns, write_table
from domainbert.tables.rows import source_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from biomed.ner.evaluation import Scores
    from biomed.ner.export import Format, Tagged
    from biomed.ner.tagger import EntityTagger
    from domainbert.tables import ReadOptions

STDIN = "-"


@dataclass(frozen=True)
class Output:
    """Where the entities go: a table or folder, a format of another tool, or the terminal."""

    path: Path | None
    form: str | None
    keep: tuple[str, ...] = ()
    restart: bool = False
    metrics: Path | None = None

    def __post_init__(self) -> None:
        if self.form not in (None, *FORMATS):
            msg = f"--format: expected {', '.join(FORMATS)}, got {self.form!r}"
            raise UserError(msg)
        if self.form == "brat" and self.path is None:
            raise UserError("--format brat writes a folder: name it with --out")


def tag_source(
    load: Callable[[], EntityTagger],
    source: str,
    output: Output,
    *,
    text: str | None,
    options: ReadOptions,
) -> None:
    """Tag a source and write or show the entities; the model is loaded when the input is known."""
    named = {"text": text} if text else {}
    if output.form is None and output.path and source != STDIN:
        more: dict[str, Any] = {"restart": output.restart, "metrics": output.metrics}
        more |= {"named": named, "keep": output.keep, "options": options}
        run(lambda: TagTask(load()), source, output.path, **more)
        return
    texts = _stdin(options) if source == STDIN else _texts(source, named, options)
    if output.form == "brat" and source != STDIN:
        check_names(name for name, _ in _texts(source, named, options, is_check=True))
    if output.form:
        _export(load(), texts, output)
    elif output.path:
        import pandas as pd

        frame = pd.DataFrame({"text": [found for _, found in texts]})
        write_table(load().tag_frame(frame), output.path)
        say(f"1 text; written to {output.path}")
    else:
        tagger = load()
        for _, found in texts:
            stdout.print(tagger.show(found), soft_wrap=True)


def _stdin(options: ReadOptions) -> Iterator[tuple[str, str]]:
    yield "stdin", sys.stdin.buffer.read().decode(options.encoding or "utf-8-sig", "replace")


def _texts(
    source: str, named: dict[str, str], options: ReadOptions, *, is_check: bool = False
) -> Iterator[tuple[str, str]]:
    """Id and text of each row: the note's id, else its file's path, else the row's number."""
    names = table_columns(source, options)
    chosen = match_columns(names, TagTask.columns, named=named, source=Path(source).name)
    rows, files = iter_rows(source, options), _file_ids(source)

    def read() -> Iterator[tuple[str, str]]:
        for row in rows:
            file = next(files) if row.place.lower().endswith((".txt", ".txt.gz")) else None
            found = row.cells.get(chosen["text"])
            if not isinstance(found, str):
                if not is_check:
                    say(f"{row.place}: {row.fault or 'no text'}")
                continue
            own = row.cells.get(chosen["note_id"]) if "note_id" in chosen else None
            yield str(own or file or row.number), found

    return read()


def _file_ids(source: str) -> Iterator[str]:
    """The path of each .txt file within the source, without its ending."""
    paths = source_files(source)
    folder = source if Path(source).is_dir() else os.path.commonpath([p.parent for p in paths])
    for path in paths:
        if path.name.lower().endswith((".txt", ".txt.gz")):
            name = path.relative_to(folder).as_posix()
            yield name.removesuffix(".gz").removesuffix(".txt")


def _export(tagger: EntityTagger, texts: Iterator[tuple[str, str]], output: Output) -> None:
    documents = _tagged(tagger, texts)
    if output.path is None:
        write = to_json if output.form == "json" else to_pubtator
        for document in documents:
            sys.stdout.write(write(*document).rstrip("\n") + ("\n" if write is to_json else "\n\n"))
        return
    number = write_tagged(
        counted(documents, what="texts"), output.path, kind=cast("Format", output.form)
    )
    say(f"{number:,} texts; written to {output.path}")


def _tagged(tagger: EntityTagger, texts: Iterator[tuple[str, str]]) -> Iterator[Tagged]:
    own, copies = itertools.tee(texts)
    found = tagger.tag_many(text for _, text in copies)
    for (name, text), entities in zip(own, found, strict=True):
        yield name, text, entities


def print_scores(title: str, scores: Scores) -> None:
    """A table of the scores over all types and of each type."""
    table = Table(title, "precision", "recall", "F1", "correct", "found", "gold")
    for kind, values in scores.to_dict().items():
        table.add_row(kind, *map(spell, values.values()))
    stdout.print(table)


def print_errors(errors: dict[str, dict[str, int]]) -> None:
    """A table of the entities that are right and wrong, by kind of error."""
    table = Table("entities", *next(iter(errors.values())))
    for kind, counts in errors.items():
        table.add_row(kind, *map(str, counts.values()))
    stdout.print(table)


def note_report(
    tagger: EntityTagger, *, side: str | None, labels: dict[str, str]
) -> dict[str, Any]:
    """Print the scores on the notes corpus, and return them for JSON."""
    from biomed.corpora.notes import SIDES
    from biomed.ner.notes import evaluate_notes

    if side not in (None, *SIDES):
        msg = f"--side: expected {' or '.join(SIDES)}, got {side!r}"
        raise UserError(msg)
    result: dict[str, Any] = {"gold": "notes"}
    names = {}
    for each in SIDES:
        if side not in (None, each):
            continue
        scores = evaluate_notes(tagger, each, labels=labels)
        given = scores.assertions.to_dict()
        result[each] = {"entities": scores.entities.to_dict(), "assertions": given}
        names = result["names"] = {kind: list(pair) for kind, pair in scores.names.items()}
        print_scores(f"notes {each}", scores.entities)
        table = Table(f"assertions {each}", "gold", "given", "correct")
        for name, counts in list(given.items())[1:]:
            table.add_row(name, *(str(counts[key]) for key in ("gold", "given", "correct")))
        stdout.print(table)
        stdout.print(f"accuracy of assertions on gold entities: {given['accuracy']:.3f}")
    for kind, (found, count) in names.items():
        stdout.print(f"{kind}: {found} of {count} found")
    return result
