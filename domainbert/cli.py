"""The command `domainbert`: what the foundation has to show."""

from __future__ import annotations

from rich.table import Table

from domainbert.console import command_line, one_line_errors, stdout
from domainbert.pretraining.commands import blend, pretrain

app = command_line("domainbert", "The foundation of clinical and biomed: offline BERT encoders.")


@app.command()
@one_line_errors
def encoders() -> None:
    """List the shipped encoders, with their weights' checksums verified."""
    from domainbert.encoders import SHIPPED, find_encoder, load_config, window_limit

    table = Table("encoder", "layers", "hidden", "longest window", "SHA-256 of its weights")
    for name in SHIPPED:
        encoder = find_encoder(name)
        config = load_config(encoder)
        shape = (str(config.num_hidden_layers), str(config.hidden_size), str(window_limit(config)))
        table.add_row(name, *shape, f"{encoder.sha256} (as published)")
    stdout.print(table)


app.command()(pretrain)
app.command()(blend)
