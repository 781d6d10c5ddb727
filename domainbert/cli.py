"""The command `domainbert`: list and check encoders, pretrain one."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from domainbert.console import command_line, one_line_errors, stdout
from domainbert.pretraining.commands import blend, pretrain

app = command_line("domainbert", "The foundation of clinical and biomed: offline BERT encoders.")


@app.command()
@one_line_errors
def encoders(
    names: Annotated[
        list[str] | None, typer.Argument(help="Folders or hub:owner/name; the latter downloads.")
    ] = None,
) -> None:
    """List encoders, by default the shipped ones, and check their files."""
    from domainbert.encoders import SHIPPED, find_encoder, load_config, window_limit

    table = Table("encoder", "layers", "hidden", "longest window", "SHA-256")
    for name in names or SHIPPED:
        encoder = find_encoder(name)
        config = load_config(encoder)
        shape = (str(config.num_hidden_layers), str(config.hidden_size), str(window_limit(config)))
        published = " (of its weights, as published)" if name in SHIPPED else ""
        table.add_row(name, *shape, encoder.sha256 + published)
    stdout.print(table)


app.command()(pretrain)
app.command()(blend)
