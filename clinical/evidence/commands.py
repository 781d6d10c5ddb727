"""The command `clinical explain`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from domainbert import options
from domainbert.console import one_line_errors, say, stdout
from domainbert.errors import UserError
from domainbert.files import write_json

if TYPE_CHECKING:
    from clinical.evidence.measured import Measured
    from clinical.risk.model import ReadmissionModel


@one_line_errors
def explain(
    source: options.Source,
    model: options.ModelName,
    out: Annotated[Path, typer.Option(help="The table of passages; with --evaluate, JSON.")],
    method: Annotated[str, typer.Option(help="occlusion, gradients or attention.")] = "occlusion",
    top: Annotated[int, typer.Option(min=1, help="Passages per stay, of each direction.")] = 5,
    with_text: Annotated[
        bool, typer.Option("--with-text", help="Also write the passages' own words.")
    ] = False,
    pages: Annotated[
        Path | None, typer.Option(help="Write a page with the notes of every stay to this folder.")
    ] = None,
    text: options.TextColumn = None,
    stay: options.StayColumn = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    query: options.Query = None,
    restart: options.Restart = False,
    device: options.Device = None,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Evaluate the methods on a cohort instead.")
    ] = False,
    split: Annotated[str, typer.Option(help="With --evaluate: the side to evaluate on.")] = "test",
    stays: Annotated[
        int, typer.Option(min=1, help="With --evaluate: this many stays at most, drawn at random.")
    ] = 100,
    other: Annotated[
        list[str] | None,
        typer.Option(
            help="With --evaluate: measure instead how far the passages agree with those "
            "of this model, trained with another seed; may be repeated."
        ),
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="With --evaluate: add the result to the model's card.")
    ] = False,
    seed: Annotated[int, typer.Option(help="With --evaluate: of all random choices.")] = 0,
) -> None:
    """Find the passages behind each stay's risk, or measure how faithful they are."""
    from clinical.risk.model import ReadmissionModel
    from domainbert.scoring import cli
    from domainbert.tables import ReadOptions

    if evaluate:
        loaded = ReadmissionModel.from_pretrained(model, device=device)
        others = [ReadmissionModel.from_pretrained(name, device=device) for name in other or ()]
        found = _measure(loaded, Path(source), split, stays, others, seed)
        _tell(found)
        facts = {"model": model, "cohort": Path(source).name, "side": split, "seed": seed}
        measured = _record(found, facts | ({"others": other} if other else {}))
        write_json(measured, out)
        if record:
            name = "agreement" if other else "evidence"
            loaded.manifest[name] = measured
            loaded.save_pretrained(_folder(model))
        return

    def make_task() -> Any:
        from clinical.evidence.task import ExplainTask

        loaded = ReadmissionModel.from_pretrained(model, device=device)
        return ExplainTask(loaded, method=method, top=top, text=with_text, pages=pages)

    if pages:
        pages.mkdir(parents=True, exist_ok=True)
    read = ReadOptions(delimiter=delimiter, encoding=encoding, query=query)
    named = {"text": text, "stay_id": stay}
    cli.run(make_task, source, out, named=named, options=read, restart=restart)


def _measure(
    model: ReadmissionModel,
    cohort: Path,
    split: str,
    stays: int,
    others: list[ReadmissionModel],
    seed: int,
) -> Measured:
    """Faithfulness, or agreement with other models, on a random part of one side.

    The model must not have been trained on it.
    """
    from clinical.cohort.splits import overlap, read_cohort, usable_stays
    from clinical.evidence.agreement import evaluate_agreement
    from clinical.evidence.faithfulness import evaluate_faithfulness

    rows = usable_stays(read_cohort(cohort))
    side = rows[rows["split"] == split]
    if side.empty:
        raise UserError(f"the cohort has no stays on the side {split!r}")
    stored = model.manifest.get("patients")
    if stored and (seen := overlap(side["patient_id"], stored).get("train", 0)):
        raise UserError(f"the model was trained on {seen} patients of the side {split!r}")
    chosen = side.sample(min(stays, len(side)), random_state=seed)
    if others:
        return evaluate_agreement(model, chosen, others=others, seed=seed)
    return evaluate_faithfulness(model, chosen, seed=seed)


def _tell(found: Measured) -> None:
    from rich.table import Table

    head, *rows = found.to_rows()
    table = Table(*head)
    for row in rows:
        table.add_row(*row)
    stdout.print(table)
    for line in found.verdicts():
        stdout.print(line, markup=False, soft_wrap=True)
    say(f"measured on {found.stays} stays of {found.patients} patients")


def _record(found: Measured, facts: dict[str, Any]) -> dict[str, Any]:
    """What is written, and kept in the manifest for the card."""
    return {
        **facts,
        "stays": found.stays,
        "patients": found.patients,
        "table": found.to_rows(),
        "verdicts": found.verdicts(),
        "measures": [
            {"method": method, "measure": measure, **vars(interval)}
            for (method, measure), interval in found.intervals.items()
        ],
    }


def _folder(model: str) -> Path:
    """The folder of a model, shipped or not."""
    from clinical.models import resolve

    folder = Path(resolve(model))
    if not folder.is_dir():
        raise UserError(f"{model} is not a folder; --record writes to a model folder")
    return folder
