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

from typer import Argument, Option

from domainbert.cli import options
from domainbert.cli.console import (
    command_line,
    one_line_errors,
    print_table,
    say,
)
from domainbert.errors import UserError, extra_command
from domainbert.files import check_output, remove_abandoned
from domainbert.service.commands import serve

if TYPE_CHECKING:
    from domainbert.service.served import Announced

SAME = "as in the card"
DIFFERENT = "DIFFERENT from the card"
PACKAGES = (
    "domainbert",
    "torch",
    "transformers",
    "peft",
    "sentence-transformers",
    "duckdb",
)
SHOWN = 20  # places of identifiers, without --out
EXTRAS = {
    "databases": "adbc_driver_postgresql",
    "ray": "ray",
    "service": "fastapi",
    "spacy": "spacy",
    "spark": "pyspark",
}

app = command_line(
    "domainbert",
    "The foundation of clinical and biomed: offline BERT encoders.",
)
app.command()(serve)


@app.command()
@one_line_errors
def doctor(
    clean: Annotated[
        list[Path] | None,
        Option(
            help="Only remove what killed runs left in this folder and its subfolders."
        ),
    ] = None,
    identifiers: Annotated[
        str | None,
        Option(
            metavar="TABLE",
            help="Only count what looks like an identifier in the text of this table or folder. It "
            "detects some kinds and removes nothing: this is not de-identification.",
        ),
    ] = None,
    text: options.TextColumn = None,
    out: Annotated[
        Path | None,
        Option(
            help="With --identifiers: the table of all places to write, without text."
        ),
    ] = None,
) -> None:
    """Show versions, extras, speed, encoders and models, and whether their numbers are right."""
    if identifiers:
        _report_identifiers(identifiers, text=text, out=out)
        return
    if text or out:
        raise UserError("--text and --out need --identifiers TABLE")
    if clean:
        for folder in clean:
            for path in remove_abandoned(folder, deep=True):
                say(f"removed {path}")
        return
    from domainbert.encoders.precision import (
        multiplication_rates,
        precision_advice,
    )
    from domainbert.models.storage import shipped_models
    from domainbert.service.served import announced

    print_table(_installation(), ["what", "here"], title="Installation")
    say(precision_advice(multiplication_rates()))
    print_table(
        _encoders(),
        ["encoder", "layers", "hidden", "longest window", "SHA-256"],
        title="Encoders",
    )
    tests = [
        _self_test(task, name)
        for task in announced()
        for name in shipped_models(task.package)
        if task.can_load(name)
    ]
    print_table(tests, ["model", "task", "numbers"], title="Models")
    failed = [name for name, _, numbers in tests if numbers == DIFFERENT]
    if failed:
        raise UserError(
            f"{', '.join(failed)}: the numbers differ from those in the card; reinstall the "
            "package"
        )


def _report_identifiers(
    source: str, *, text: str | None, out: Path | None
) -> None:
    """Print how much text of a table looks like an identifier, and where it is."""
    from domainbert.tables import write_table
    from domainbert.text.identifiers import IDENTIFIERS, find_identifiers

    places, counts = find_identifiers(source, text=text)
    if out:
        check_output(out, [source])
        write_table(places, out)
    else:
        shown = places[:SHOWN].to_numpy()
        print_table(shown, list(places), title="First places")
    rows = [
        (name, counts[name], counts[f"{name} rows"]) for name in IDENTIFIERS
    ]
    print_table(rows, ["kind", "places", "rows with it"])
    say(
        f"{len(places):,} places that look like an identifier, in {counts['rows']:,} rows "
        f"({counts['without text']:,} without text, {counts['unreadable']:,} unreadable). This "
        "only detects these kinds: a clean result is no proof, and this is no de-identification"
    )


def _installation() -> Iterator[tuple[str, object]]:
    """The rows of the table of versions and devices."""
    import torch

    for package in PACKAGES:
        yield package, version(package)
    for extra, module in EXTRAS.items():
        status = "installed"
        if find_spec(module) is None:
            status = extra_command(extra)
        yield f"extra {extra}", status
    cpu = torch.backends.cpu.get_cpu_capability()
    yield "Python", platform.python_version()
    yield "processor", f"{platform.machine()}, {cpu}"
    yield "cores, threads", f"{os.cpu_count()}, {torch.get_num_threads()}"
    yield "CUDA devices", torch.cuda.device_count()


def _encoders() -> Iterator[tuple[object, ...]]:
    """The rows of the table of shipped encoders."""
    from domainbert.encoders import configs, loading

    for name in loading.SHIPPED:
        encoder = loading.find_encoder(name)
        config = loading.load_config(encoder)
        yield (
            name,
            config.num_hidden_layers,
            config.hidden_size,
            configs.window_limit(config),
            f"{encoder.sha256} (of its weights, as published)",
        )


def _self_test(task: Announced, name: str) -> tuple[str, str, str]:
    """A shipped model, its task, and whether it gives the numbers of its card's example."""
    import pandas as pd

    from domainbert.scoring import score_frame

    def score(
        records: list[dict[str, object]],
    ) -> list[dict[Hashable, object]]:
        task = next(iter(served.tasks.values()))
        return score_frame(task, pd.DataFrame(records)).to_dict("records")

    with TemporaryDirectory() as folder:
        served = task.load(name, cache=Path(folder) / "cache", dtype="float32")
        numbers = SAME
        if not served.model.manifest.example:
            numbers = "no example"
        elif served.self_test(score):
            numbers = DIFFERENT
    return name, task.task, numbers


@app.command()
@one_line_errors
def pretrain(
    corpus: Annotated[
        list[Path],
        Argument(
            metavar="CORPUS...",
            help="Text (.txt), tables with a text column (.csv, .tsv, .parquet, .jsonl; also .gz), "
            "or folders of them.",
        ),
    ],
    out: Annotated[Path, Option(help="Encoder folder to write.")],
    recipe: options.RecipeFile = None,
    encoder: options.EncoderName = None,
    exclude: Annotated[
        list[Path] | None,
        Option(
            help="Table of patients, stays or notes to leave out. Of a cohort, the validation and "
            "test sides are left out. May be repeated."
        ),
    ] = None,
    text: options.TextColumn = None,
    patient: options.PatientColumn = None,
    stay: options.StayColumn = None,
    note: options.NoteColumn = None,
    work: Annotated[
        Path | None,
        Option(
            help="Folder for tokens, examples and checkpoints; by default OUT-work."
        ),
    ] = None,
    max_steps: Annotated[
        int | None,
        Option(min=1, help="Stop after this many steps: a trial run."),
    ] = None,
    seed: options.Seed = None,
) -> None:
    """Train an encoder on your own text. A killed run resumes with the same command."""
    from domainbert.cli.training import progress_on_stderr
    from domainbert.pretraining.fitting import pretrain as fit
    from domainbert.pretraining.model import measure_table
    from domainbert.pretraining.settings import PretrainingRecipe
    from domainbert.training.recipes import read_recipe

    overrides = {
        "corpus.text": text,
        "corpus.patient_id": patient,
        "corpus.stay_id": stay,
        "corpus.note_id": note,
        "encoder": encoder,
        "training.seed": seed,
        "training.steps": max_steps,
    }
    plan = read_recipe(PretrainingRecipe, recipe, overrides)
    with progress_on_stderr():
        manifest = fit(
            corpus, out=out, recipe=plan, exclude=exclude or (), work=work
        )
    head, *rows = measure_table(manifest)
    print_table(rows, head)
    for name, count in sorted(manifest["corpus"]["counts"].items()):
        say(f"{count:,} {name}")
    say(
        f"Encoder in {out}; its card says how it was made. Use it with --encoder {out}"
    )
    say(
        f"{work or out.with_name(f'{out.name}-work')} keeps the text as numbers for the "
        "next run; remove it when you are done"
    )


if __name__ == "__main__":
    app()
