"""The command `domainbert`: list and check encoders, pretrain one, serve models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from domainbert.cli import options
from domainbert.cli.console import command_line, one_line_errors, say, stdout
from domainbert.service.commands import serve

app = command_line("domainbert", "The foundation of clinical and biomed: offline BERT encoders.")
app.command()(serve)


@app.command()
@one_line_errors
def encoders(
    names: Annotated[
        list[str] | None, typer.Argument(help="Folders, or hub:owner/name to download.")
    ] = None,
) -> None:
    """List encoders, by default the shipped ones, and check their files."""
    from domainbert.encoders.loading import SHIPPED, find_encoder, load_config, window_limit

    table = Table("encoder", "layers", "hidden", "longest window", "SHA-256")
    for name in names or SHIPPED:
        encoder = find_encoder(name)
        config = load_config(encoder)
        shape = (str(config.num_hidden_layers), str(config.hidden_size), str(window_limit(config)))
        published = " (of its weights, as published)" if name in SHIPPED else ""
        table.add_row(name, *shape, encoder.sha256 + published)
    stdout.print(table)


@app.command()
@one_line_errors
def pretrain(
    corpus: Annotated[
        list[Path],
        typer.Argument(
            metavar="CORPUS...",
            help="Text (.txt), tables with a text column (.csv, .tsv, .parquet, .jsonl; also .gz), "
            "or folders of them.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Encoder folder to write.")],
    recipe: Annotated[
        str | None, typer.Option(help="TOML file, or a shipped name such as clinicalbert.")
    ] = None,
    encoder: options.EncoderName = None,
    exclude: Annotated[
        list[Path] | None,
        typer.Option(
            help="Table of patients, stays or notes to leave out, or a cohort, of which "
            "all but the train side is left out. May be repeated."
        ),
    ] = None,
    text: options.TextColumn = None,
    patient: options.PatientColumn = None,
    stay: options.StayColumn = None,
    note: options.NoteColumn = None,
    work: Annotated[
        Path | None,
        typer.Option(help="Folder for tokens, examples and checkpoints; by default OUT-work."),
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option(min=1, help="Maximum steps, for a trial run.")
    ] = None,
    seed: options.Seed = None,
) -> None:
    """Train an encoder on your own text. A killed run resumes with the same command."""
    from domainbert.pretraining.fitting import pretrain as fit
    from domainbert.pretraining.model import score_table
    from domainbert.pretraining.settings import Recipe
    from domainbert.training.checkpoints import progress_on_stderr
    from domainbert.training.recipes import read_recipe

    given = {
        "corpus.text": text,
        "corpus.patient_id": patient,
        "corpus.stay_id": stay,
        "corpus.note_id": note,
        "encoder": encoder,
        "training.seed": seed,
    }
    plan = read_recipe(Recipe, recipe, given).at_most(max_steps)
    with progress_on_stderr():
        manifest = fit(corpus, out=out, recipe=plan, exclude=exclude or (), work=work)
    head, rows = score_table(manifest)
    table = Table(*head)
    for row in rows:
        table.add_row(*row)
    stdout.print(table)
    for what, count in sorted(manifest["corpus"]["counts"].items()):
        say(f"{count:,} {what}")
    say(f"Encoder in {out}; its card says how it was made. Use it with --encoder {out}")
    where = work or out.with_name(f"{out.name}-work")
    say(f"{where} keeps the text as numbers for the next run; remove it when you are done")
