"""Options that several commands share, and the run of a scoring command."""

from __future__ import annotations

import functools
import inspect
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from typer import Argument, BadParameter, Option

from domainbert.cli.console import say
from domainbert.progress import progress

if TYPE_CHECKING:
    from domainbert.scoring.driver import AnyTask, Counts
    from domainbert.tables import ReadOptions

R = TypeVar("R")
# After which a run says that another precision is faster.
LONG_RUN_SECONDS = 60.0
_MaybeText = str | None

ModelFolder = Annotated[
    Path, Option("--out", help="The model folder to write.")
]
RecipeFile = Annotated[
    _MaybeText,
    Option(
        help="A shipped recipe's name or a TOML file; options override it."
    ),
]
EncoderName = Annotated[
    _MaybeText, Option(help="Shipped name, folder, or hub:owner/name.")
]
Seed = Annotated[int | None, Option(help="Seed of all random choices.")]
Checkpoints = Annotated[
    Path | None,
    Option(
        help="Folder that keeps the checkpoints; by default they are deleted."
    ),
]
Resume = Annotated[
    bool, Option("--resume", help="Resume from the last checkpoint.")
]
Merged = Annotated[
    bool,
    Option(
        "--merged",
        help="Write all weights, for other libraries, not an adapter.",
    ),
]
EncoderModel = Annotated[
    str,
    Option(
        "--model",
        help="Shipped name, model or encoder folder, or hub:owner/name.",
    ),
]
ModelName = Annotated[
    str,
    Option("--model", help="Shipped name, model folder, or hub:owner/name."),
]

# Options of the scoring commands.
Source = Annotated[
    str,
    Argument(
        metavar="SOURCE",
        help=".csv, .tsv, .jsonl (also .gz), .parquet or .txt; a folder or a 'pattern' of them; "
        "or a database (postgresql://, sqlite:///) with --query.",
    ),
]
Table = Annotated[
    Path,
    Option(
        "--out", help="The table to write: .csv, .tsv, .parquet or .jsonl."
    ),
]
TextColumn = Annotated[_MaybeText, Option(help="The column with the text.")]
StayColumn = Annotated[
    _MaybeText, Option(help="The column with the stay's id.")
]
PatientColumn = Annotated[
    _MaybeText, Option(help="The column with the patient's id.")
]
NoteColumn = Annotated[
    _MaybeText, Option(help="The column with the note's id.")
]
Delimiter = Annotated[
    _MaybeText,
    Option(
        help="Delimiter of CSV files, such as ';' or 'tab'; by default a comma."
    ),
]
Encoding = Annotated[
    _MaybeText,
    Option(help="Encoding of text files, such as cp1252; by default UTF-8."),
]
Escape = Annotated[
    _MaybeText,
    Option(
        help="backslash or none: whether one escapes in CSV files; by default found out."
    ),
]
Device = Annotated[
    _MaybeText,
    Option(help="cpu, cuda or cuda:1; by default a GPU if there is one."),
]
PrecisionName = Annotated[
    Literal["float32", "bfloat16"],
    Option(
        "--precision",
        help="Of the encoder; domainbert doctor measures whether bfloat16 is faster here.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of every command that scores a source, as an argument of the command."""

    keep: Annotated[
        list[str] | None,
        Option(help="A column to copy to the output; may be repeated."),
    ] = None
    delimiter: Delimiter = None
    encoding: Encoding = None
    escape: Escape = None
    restart: Annotated[
        bool, Option("--restart", help="Start over instead of resuming.")
    ] = False
    raw: Annotated[
        bool,
        Option(
            "--raw",
            help="Do not put an apostrophe before text that looks like a formula.",
        ),
    ] = False
    device: Device = None
    precision: PrecisionName = "float32"

    def loading(self) -> dict[str, Any]:
        """The arguments of `from_pretrained` that say where and how a model computes."""
        return {"device": self.device, "dtype": self.precision}

    def named(self, *, text: str = "text") -> dict[str, str]:
        """Our name of each column that an option names -> the table's; here none."""
        return {}

    def reading(self, *, lines: bool = False) -> ReadOptions:
        """How to read the source; see `ReadOptions`."""
        from domainbert.tables import ReadOptions

        return ReadOptions(
            self.delimiter, self.encoding, lines, escape=self.escape
        )


@dataclass(frozen=True, kw_only=True)
class ScoringOptions(RunOptions):
    """The options of a command that scores a table, with those that name its columns.

    A column that is named here and that the task does not read is copied to the output.
    """

    text: Annotated[
        list[str] | None,
        Option(
            help="The column with the text; `biomed ner tag` joins several.",
        ),
    ] = None
    stay: StayColumn = None
    patient: PatientColumn = None
    note: NoteColumn = None
    time: Annotated[
        str | None, Option(help="The column with the time of a note.")
    ] = None
    column: Annotated[
        list[str] | None,
        Option(
            help="Another column, as OURS=YOURS: category='Note type'; may be repeated.",
        ),
    ] = None
    query: Annotated[
        str | None,
        Option(help="With a database: the SELECT statement to run."),
    ] = None

    def named(self, *, text: str = "text") -> dict[str, str]:
        """Our name of each column that an option names -> the table's; --text names `text`."""
        if len(self.text or ()) > 1:
            raise BadParameter("--text: expected one column, got several")
        ours = {
            text: self.text[0] if self.text else None,
            "stay_id": self.stay,
            "patient_id": self.patient,
            "note_id": self.note,
            "chart_time": self.time,
        }
        for pair in self.column or ():
            name, is_pair, theirs = pair.partition("=")
            if not (name and is_pair and theirs):
                raise BadParameter(
                    f"--column {pair}: expected our name and the table's name, as in category=Kind"
                )
            ours[name] = theirs
        return {name: theirs for name, theirs in ours.items() if theirs}

    def reading(self, *, lines: bool = False) -> ReadOptions:
        """How to read the source; see `ReadOptions`."""
        return replace(super().reading(lines=lines), query=self.query)

    def refuse(self, *names: str, because: str) -> None:
        """Raise a usage error if one of these options was given, which would have no effect."""
        options = [f"--{name}" for name in names if getattr(self, name)]
        if options:
            raise BadParameter(
                f"{', '.join(options)}: no effect {because}; leave it out"
            )


def takes_options(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command the options that dataclasses hold, such as its argument `scoring`."""
    signature = inspect.signature(command, eval_str=True)
    holders = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if isinstance(parameter.annotation, type)
        and is_dataclass(parameter.annotation)
    }
    options_of = {
        name: inspect.signature(holder, eval_str=True).parameters
        for name, holder in holders.items()
    }

    @functools.wraps(command)
    def wrapped(**arguments: object) -> R:
        for name, holder in holders.items():
            values = {
                option: arguments.pop(option) for option in options_of[name]
            }
            arguments[name] = holder(**values)
        return command(**arguments)

    keyword = inspect.Parameter.KEYWORD_ONLY
    options = [
        parameter.replace(kind=keyword)
        for name, parameter in signature.parameters.items()
        if name not in holders
    ]
    for shared in options_of.values():
        options += shared.values()
    wrapped.__signature__ = signature.replace(parameters=options)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in options}
    return wrapped


_DEFAULTS = ScoringOptions()


def score_source(
    make_task: Callable[[], AnyTask],
    source: str | Path,
    out: Path,
    scoring: RunOptions = _DEFAULTS,
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
    started = time.monotonic()
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
    if time.monotonic() - started > LONG_RUN_SECONDS:
        _hint_precision(scoring)
    return counts


def _hint_precision(scoring: RunOptions) -> None:
    """Say that bfloat16 would be faster, after a run in float32 on a processor where it is."""
    import torch

    from domainbert.encoders.precision import (
        long_run_hint,
        multiplication_rates,
    )

    # A GPU computes in bfloat16 in any case.
    on_cpu = scoring.device == "cpu" or not torch.cuda.is_available()
    if scoring.precision == "bfloat16" or not on_cpu:
        return
    if hint := long_run_hint(multiplication_rates()):
        say(hint)


def _command() -> str:
    """The command that resumes this one; a database's address may hold a password."""
    words = [word for word in sys.argv[1:] if word != "--restart"]
    if any("://" in word for word in words):
        return "the same command, without --restart"
    return shlex.join([Path(sys.argv[0]).name, *words])
