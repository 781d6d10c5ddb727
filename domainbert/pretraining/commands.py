"""The command `domainbert pretrain`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from domainbert import options
from domainbert.console import one_line_errors, say, stdout

if TYPE_CHECKING:
    from rich.table import Table

    from domainbert.pretraining.fitting import Pretrained


@one_line_errors
def pretrain(
    corpus: Annotated[
        list[Path],
        typer.Argument(
            metavar="CORPUS...",
            help="Text: .txt, or .csv, .parquet, .jsonl with a column of text; or folders of them.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The encoder folder to write.")],
    recipe: options.RecipeFile = None,
    encoder: Annotated[
        str | None, typer.Option(help="Start: shipped name, folder or Hub id.")
    ] = None,
    exclude: Annotated[
        list[Path] | None,
        typer.Option(
            help="Table of patients, stays, notes or document hashes that must not be read; of a "
            "cohort, what is not on its train side."
        ),
    ] = None,
    work: Annotated[
        Path | None, typer.Option(help="Tokens, examples, checkpoints; by default OUT-work.")
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of a phase at most: a short run.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of examples, weights, masks, order.")] = None,
) -> None:
    """Train an encoder on your own text; killed, the same command goes on where it was."""
    from domainbert.pretraining.fitting import pretrain as fit
    from domainbert.pretraining.recipe import read_recipe
    from domainbert.training.processes import is_first_process

    plan = read_recipe(recipe, encoder=encoder, seed=seed).at_most(max_steps)
    made = fit(corpus, out=out, recipe=plan, exclude=exclude or (), work=work)
    if is_first_process():
        stdout.print(_score_table(made))
        _say_what_was_left_out(made)
        where = work or out.with_name(f"{out.name}-work")
        say(f"encoder in {out}; its card says how it was made. Use it as --encoder {out}")
        say(f"the text in numbers stays in {where} for the next run; remove it when done")


@one_line_errors
def blend(
    start: Annotated[str, typer.Argument(help="Shipped name, folder or Hub id.")],
    trained: Annotated[Path, typer.Argument(help="What `domainbert pretrain` made of it.")],
    out: Annotated[Path, typer.Option(help="The encoder folder to write.")],
    share: Annotated[float, typer.Option(min=0, max=1, help="Of START in each weight.")] = 0.5,
) -> None:
    """Go part of the way back: mix the weights of an encoder and of what it was trained to be."""
    from domainbert.pretraining.blending import blend as mix

    mix(start, trained, out=out, share=share)
    say(f"encoder in {out}; use it as --encoder {out}")


def _score_table(made: Pretrained) -> Table:
    from rich.table import Table

    from domainbert.pretraining.report import score_table

    head, *rows = score_table(made.manifest)
    table = Table(*head)
    for row in rows:
        table.add_row(*row)
    return table


def _say_what_was_left_out(made: Pretrained) -> None:
    for what, count in sorted(made.manifest["corpus"]["counts"].items()):
        say(f"{count:,} {what}")
