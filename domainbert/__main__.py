"""The command `domainbert`: check the installation, pretrain an encoder, serve models."""

from __future__ import annotations

import os
import platform
from collections.abc import Hashable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from domainbert.cli import options
from domainbert.cli.console import command_line, one_line_errors, print_table, say
from domainbert.errors import UserError
from domainbert.files import remove_abandoned
from domainbert.service.commands import serve

if TYPE_CHECKING:
    from domainbert.service.served import Announced

SAME, DIFFERENT = "as in the card", "DIFFERENT from the card"
EXTRAS = {
    "databases": "adbc_driver_postgresql",
    "ray": "ray",
    "service": "fastapi",
    "spacy": "spacy",
    "spark": "pyspark",
}

app = command_line(
    "domainbert", "The foundation of clinical and biomed: offline BERT encoders."
)
app.command()(serve)


@app.command()
@one_line_errors
def doctor(
    clean: Annotated[
        list[Path] | None,
        typer.Option(
            help="Only remove what killed runs left in this folder and those below."
        ),
    ] = None,
) -> None:
    """Show versions, extras, threads, encoders and models, and whether their numbers are right."""
    if clean:
        for folder in clean:
            for path in remove_abandoned(folder, deep=True):
                say(f"removed {path}")
        return
    from domainbert.models.storage import shipped_models
    from domainbert.service.served import announced

    print_table(_installation(), ["what", "here"], title="Installation")
    print_table(
        _encoders(),
        ["encoder", "layers", "hidden", "longest window", "SHA-256"],
        title="Encoders",
    )
    tests = [
        _self_test(kind, name)
        for kind in announced()
        for name in shipped_models(kind.package)
        if kind.can_load(name)
    ]
    print_table(tests, ["model", "task", "numbers"], title="Models")
    if wrong := [name for name, _, numbers in tests if numbers == DIFFERENT]:
        msg = f"{', '.join(wrong)}: other numbers than in the card; install the package again"
        raise UserError(msg)


def _installation() -> Iterator[tuple[str, object]]:
    import torch

    for package in (
        "domainbert",
        "torch",
        "transformers",
        "peft",
        "sentence-transformers",
        "duckdb",
    ):
        yield package, version(package)
    for extra, module in EXTRAS.items():
        here = find_spec(module) is not None
        yield (
            f"extra {extra}",
            "installed" if here else f"pip install 'domainbert[{extra}]'",
        )
    yield "Python", platform.python_version()
    yield (
        "processor",
        f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
    )
    yield "cores, threads", f"{os.cpu_count()}, {torch.get_num_threads()}"
    yield "CUDA devices", torch.cuda.device_count()


def _encoders() -> Iterator[tuple[object, ...]]:
    from domainbert.encoders.loading import (
        SHIPPED,
        find_encoder,
        load_config,
        window_limit,
    )

    for name in SHIPPED:
        encoder = find_encoder(name)
        config = load_config(encoder)
        shape = (config.num_hidden_layers, config.hidden_size, window_limit(config))
        yield name, *shape, f"{encoder.sha256} (of its weights, as published)"


def _self_test(kind: Announced, name: str) -> tuple[str, str, str]:
    """A shipped model, its task, and whether it gives the numbers of its card's example."""
    import pandas as pd

    from domainbert.scoring import score_frame

    def score(
        task: str, records: list[dict[str, object]]
    ) -> list[dict[Hashable, object]]:
        return score_frame(served.tasks[task], pd.DataFrame(records)).to_dict("records")

    with TemporaryDirectory() as folder:
        served = kind.load(name, cache=Path(folder) / "cache")
        numbers = DIFFERENT if served.self_test(score) else SAME
    return (
        name,
        kind.task,
        numbers if served.model.manifest.example else "no example",
    )


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
        str | None,
        typer.Option(help="TOML file, or a shipped name such as clinicalbert."),
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
        typer.Option(
            help="Folder for tokens, examples and checkpoints; by default OUT-work."
        ),
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option(min=1, help="Steps, for a trial run.")
    ] = None,
    seed: options.Seed = None,
) -> None:
    """Train an encoder on your own text. A killed run resumes with the same command."""
    from domainbert.cli.training import progress_on_stderr
    from domainbert.pretraining.fitting import pretrain as fit
    from domainbert.pretraining.model import score_table
    from domainbert.pretraining.settings import Recipe
    from domainbert.training.recipes import read_recipe

    given = {
        "corpus.text": text,
        "corpus.patient_id": patient,
        "corpus.stay_id": stay,
        "corpus.note_id": note,
        "encoder": encoder,
        "training.seed": seed,
        "training.steps": max_steps,
    }
    plan = read_recipe(Recipe, recipe, given)
    with progress_on_stderr():
        manifest = fit(corpus, out=out, recipe=plan, exclude=exclude or (), work=work)
    head, *rows = score_table(manifest)
    print_table(rows, head)
    for what, count in sorted(manifest["corpus"]["counts"].items()):
        say(f"{count:,} {what}")
    say(f"Encoder in {out}; its card says how it was made. Use it with --encoder {out}")
    where = work or out.with_name(f"{out.name}-work")
    say(
        f"{where} keeps the text as numbers for the next run; remove it when you are done"
    )
