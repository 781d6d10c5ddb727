"""The command `biomed`: entities, answers and embeddings from biomedical text."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from biomed.ner import commands as ner
from biomed.qa import commands as qa
from biomed.sentences import commands as sentences
from biomed.terms import commands as terms
from domainbert import __version__
from domainbert.console import stdout

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="BioBERT: entities, answers and embeddings from biomedical text.",
)
app.add_typer(ner.app, name="ner")
app.add_typer(qa.app, name="qa")
app.add_typer(terms.app, name="terms")
app.add_typer(sentences.app, name="sentences")


def _version(asked: bool) -> None:
    if asked:
        stdout.print(f"biomed {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """BioBERT: entities, answers and embeddings from biomedical text."""


@app.command()
def models() -> None:
    """List the shipped models and their measured scores."""
    import json

    from biomed.card import score_rows
    from biomed.models import shipped

    for name, folder in shipped().items():
        manifest = json.loads((folder / "config.json").read_text("utf-8"))["domainbert"]["manifest"]
        head, *rows = score_rows(manifest)
        table = Table(*head, title=f"{name}: {manifest['card']['title']}", title_justify="left")
        for row in rows:
            table.add_row(*row)
        stdout.print(table)
