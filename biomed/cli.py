"""The command `biomed`. Its commands come with the tasks; so far there is none."""

from __future__ import annotations

from typing import Annotated

import typer

from domainbert import __version__
from domainbert.console import stdout

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def main(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """BioBERT: entities, answers and embeddings from biomedical text. No command is here yet."""
    stdout.print(f"biomed {__version__}" if version else "biomed has no commands yet: see clinical")
