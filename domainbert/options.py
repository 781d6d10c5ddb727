"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

ModelFolder = Annotated[Path, typer.Option("--out", help="The model folder to write.")]
RecipeFile = Annotated[
    Path | None, typer.Option(help="A shipped recipe's name or a TOML file; options override it.")
]
EncoderName = Annotated[str | None, typer.Option(help="Shipped name, folder, or hub:owner/name.")]
Epochs = Annotated[float | None, typer.Option(help="Passes over the data.")]
LearningRate = Annotated[float | None, typer.Option(help="Peak learning rate.")]
Seed = Annotated[int | None, typer.Option(help="Seed of all random choices.")]
FullWeights = Annotated[bool, typer.Option("--full", help="Train all weights, not an adapter.")]
Checkpoints = Annotated[
    Path | None,
    typer.Option(help="Folder that keeps the checkpoints; by default they are deleted."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume from the last checkpoint.")]
Merged = Annotated[
    bool, typer.Option("--merged", help="Write all weights, for other libraries, not an adapter.")
]
EncoderModel = Annotated[
    str, typer.Option("--model", help="Shipped name, model or encoder folder, or hub:owner/name.")
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
    typer.Option("--out", help="A table (.csv, .parquet, .jsonl), or a folder for Parquet parts."),
]
TextColumn = Annotated[str | None, typer.Option("--text", help="The column with the text.")]
StayColumn = Annotated[str | None, typer.Option("--stay", help="The column with the stay's id.")]
PatientColumn = Annotated[str | None, typer.Option("--patient", help="The patient's id.")]
NoteColumn = Annotated[str | None, typer.Option("--note", help="The note's id.")]
TimeColumn = Annotated[str | None, typer.Option("--time", help="When a note was written.")]
Keep = Annotated[
    list[str] | None, typer.Option(help="A column to copy to the output; may be repeated.")
]
Delimiter = Annotated[
    str | None,
    typer.Option(help="Delimiter of CSV files, such as ';' or 'tab'; by default a comma."),
]
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of text files, such as cp1252; by default UTF-8.")
]
Query = Annotated[str | None, typer.Option(help="With a database: the SELECT statement to run.")]
Restart = Annotated[bool, typer.Option("--restart", help="Start over instead of resuming.")]
Precision = Annotated[
    Literal["fp32", "int8"],
    typer.Option(help="int8 is faster on a CPU; see docs/scale.md for what it changes."),
]
Metrics = Annotated[
    Path | None,
    typer.Option(help="Also write the run's numbers for Prometheus' textfile collector, .prom."),
]
Device = Annotated[
    str | None, typer.Option(help="cpu, cuda or cuda:1; by default a GPU if there is one.")
]
