"""Options that several commands share, and what every scoring command does with its own."""

from __future__ import annotations

import functools
import inspect
import shlex
import sys
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar, get_type_hints

import typer

from domainbert.cli.console import say
from domainbert.progress import progress

if TYPE_CHECKING:
    from domainbert.scoring.driver import AnyTask, Counts
    from domainbert.tables import ReadOptions

R = TypeVar("R")

ModelFolder = Annotated[Path, typer.Option("--out", help="The model folder to write.")]
RecipeFile = Annotated[
    str | None,
    typer.Option(help="A shipped recipe's name or a TOML file; options override it."),
]
EncoderName = Annotated[
    str | None, typer.Option(help="Shipped name, folder, or hub:owner/name.")
]
Epochs = Annotated[float | None, typer.Option(help="Passes over the data.")]
LearningRate = Annotated[float | None, typer.Option(help="Peak learning rate.")]
Seed = Annotated[int | None, typer.Option(help="Seed of all random choices.")]
FullWeights = Annotated[
    bool, typer.Option("--full", help="Train all weights, not an adapter.")
]
Checkpoints = Annotated[
    Path | None,
    typer.Option(
        help="Folder that keeps the checkpoints; by default they are deleted."
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Resume from the last checkpoint.")
]
Merged = Annotated[
    bool,
    typer.Option(
        "--merged", help="Write all weights, for other libraries, not an adapter."
    ),
]
EncoderModel = Annotated[
    str,
    typer.Option(
        "--model", help="Shipped name, model or encoder folder, or hub:owner/name."
    ),
]
ModelName = Annotated[
    str, typer.Option("--model", help="Shipped name, model folder, or hub:owner/name.")
]

# Options of the scoring commands.
Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help=".csv, .tsv, .jsonl (also .gz), .parquet or .txt; a folder or a 'pattern' of them; "
        "or a database (postgresql://, sqlite:///) with --query.",
    ),
]
Table = Annotated[
    Path,
    typer.Option("--out", help="The table to write: .csv, .tsv, .parquet or .jsonl."),
]
TextColumn = Annotated[
    str | None, typer.Option("--text", help="The column with the text.")
]
StayColumn = Annotated[
    str | None, typer.Option("--stay", help="The column with the stay's id.")
]
PatientColumn = Annotated[
    str | None, typer.Option("--patient", help="The patient's id.")
]
NoteColumn = Annotated[str | None, typer.Option("--note", help="The note's id.")]
TimeColumn = Annotated[
    str | None, typer.Option("--time", help="When a note was written.")
]
Keep = Annotated[
    list[str] | None,
    typer.Option(help="A column to copy to the output; may be repeated."),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        help="Delimiter of CSV files, such as ';' or 'tab'; by default a comma."
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(help="Encoding of text files, such as cp1252; by default UTF-8."),
]
Query = Annotated[
    str | None, typer.Option(help="With a database: the SELECT statement to run.")
]
Restart = Annotated[
    bool, typer.Option("--restart", help="Start over instead of resuming.")
]
Raw = Annotated[
    bool,
    typer.Option(
        "--raw", help="Do not put an apostrophe before text that looks like a formula."
    ),
]
Device = Annotated[
    str | None,
    typer.Option(help="cpu, cuda or cuda:1; by default a GPU if there is one."),
]


@dataclass(frozen=True, kw_only=True)
class ScoringOptions:
    """The options that all scoring commands share, as a command gets them.

    A column that is named here and that the task does not read is copied to the output.
    """

    text: TextColumn = None
    stay: StayColumn = None
    patient: PatientColumn = None
    note: NoteColumn = None
    time: TimeColumn = None
    keep: Keep = None
    delimiter: Delimiter = None
    encoding: Encoding = None
    query: Query = None
    restart: Restart = False
    raw: Raw = False
    device: Device = None

    def named(self, *, text: str = "text") -> dict[str, str]:
        """Our name of each column that an option names -> the table's; --text names `text`."""
        ours = {
            text: self.text,
            "stay_id": self.stay,
            "patient_id": self.patient,
            "note_id": self.note,
            "chart_time": self.time,
        }
        return {name: theirs for name, theirs in ours.items() if theirs}

    def reading(self, *, lines: bool = False) -> ReadOptions:
        """How to read the source; see `ReadOptions`."""
        from domainbert.tables import ReadOptions

        return ReadOptions(self.delimiter, self.encoding, lines, self.query)

    def refuse(self, *names: str, because: str) -> None:
        """Raise a usage error if one of these options was given, which would have no effect."""
        if given := [f"--{name}" for name in names if getattr(self, name)]:
            msg = f"{', '.join(given)}: no effect {because}; leave it out"
            raise typer.BadParameter(msg)


def takes_options(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command the options that a dataclass holds, such as its argument `scoring`."""
    signature = inspect.signature(command, eval_str=True)
    (shared_by,) = (
        p for p in signature.parameters.values() if is_dataclass(p.annotation)
    )
    name, kind = shared_by.name, shared_by.annotation
    hints = get_type_hints(kind, include_extras=True)

    @functools.wraps(command)
    def wrapped(**given: object) -> R:
        shared = {option: given.pop(option) for option in hints}
        return command(**given, **{name: kind(**shared)})

    keyword = inspect.Parameter.KEYWORD_ONLY
    own = [
        p.replace(kind=keyword) for n, p in signature.parameters.items() if n != name
    ]
    shared = [
        inspect.Parameter(
            f.name,
            keyword,
            default=inspect.Parameter.empty if f.default is MISSING else f.default,
            annotation=hints[f.name],
        )
        for f in fields(kind)
    ]
    wrapped.__signature__ = signature.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in (*own, *shared)}
    return wrapped


_DEFAULTS = ScoringOptions()


def score_source(
    make_task: Callable[[], AnyTask],
    source: str | Path,
    out: Path,
    scoring: ScoringOptions = _DEFAULTS,
    *,
    text: str = "text",
    lines: bool = False,
) -> Counts:
    """Score a source with the options of a scoring command, and print the counts.

    A summary of the run is written beside the output.

    Args:
        make_task: loads the model; called once the input is known to be readable.
        source: see `domainbert.scoring.score_file`.
        out: the table to write.
        scoring: the command's options.
        text: our name of the column that --text names.
        lines: read each line of a .txt file as a text.
    """
    from domainbert.scoring.driver import score_file

    done = 0
    with progress("rows") as advance:

        def report(rows: int, total: int) -> None:
            nonlocal done
            advance(rows, total)
            done += rows

        try:
            counts = score_file(
                make_task,
                source,
                out,
                named=scoring.named(text=text),
                keep=scoring.keep or (),
                options=scoring.reading(lines=lines),
                restart=scoring.restart,
                raw=scoring.raw,
                summary=out.with_name(f"{out.name}.summary.json"),
                progress=report,
            )
        except KeyboardInterrupt:
            say(f"stopped after {done:,} rows; resume with: {_command()}")
            raise
    say(f"{counts}; written to {out}")
    return counts


def _command() -> str:
    """The command that resumes this one; a database's address may hold a password."""
    words = [word for word in sys.argv[1:] if word != "--restart"]
    if any("://" in word for word in words):
        return "the same command, without --restart"
    return shlex.join([Path(sys.argv[0]).name, *words])
