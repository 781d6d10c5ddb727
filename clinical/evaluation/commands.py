"""The commands that measure models: evaluate, monitor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from domainbert import options
from domainbert.console import one_line_errors, say, stdout

if TYPE_CHECKING:
    from clinical.evaluation.comparison import Comparison


@one_line_errors
def evaluate(
    cohort_file: Annotated[Path, typer.Argument(metavar="COHORT.parquet", help="The cohort.")],
    model: options.ModelName,
    out: Annotated[Path, typer.Option(help="Folder for metrics, figures and report.")],
    split: Annotated[str, typer.Option(help="The side to evaluate on.")] = "test",
    hospital: Annotated[
        Path | None,
        typer.Option(help="The hospital's answers, a filled-in hospital-template.toml."),
    ] = None,
    include_notes: Annotated[
        bool,
        typer.Option("--include-notes", help="Show passages from the notes of up to four stays."),
    ] = False,
    bootstrap: Annotated[int, typer.Option(min=0, help="Resamples for intervals.")] = 1000,
) -> None:
    """Evaluate a model on one side of a cohort, and write the report for a committee."""
    from clinical.cohort.splits import read_cohort
    from clinical.evaluation.comparison import compare, write_comparison
    from clinical.evaluation.report import describe
    from clinical.evaluation.report.hospital import Hospital
    from clinical.risk.model import ReadmissionModel

    answers = Hospital.read(hospital) if hospital else Hospital()
    table = read_cohort(cohort_file)
    loaded = ReadmissionModel.from_pretrained(model)
    comparison = compare(loaded, table, split=split, bootstrap=bootstrap)
    built = _cohort_of(cohort_file)
    report = write_comparison(
        comparison,
        out,
        title=f"{model} on {cohort_file.name}",
        facts={"model": model, "cohort": cohort_file.name, "side": split, "c": f"{loaded.c:g}"},
        flow=built.flow if built else None,
        about=describe(
            loaded,
            comparison,
            name=model,
            summary=built.summary if built else None,
            hospital=answers,
            include_notes=include_notes,
        ),
    )
    print_comparison(comparison)
    say(f"report in {report}")


@one_line_errors
def monitor(
    stays: Annotated[Path, typer.Argument(metavar="NEW", help="A cohort, or one row a stay.")],
    model: options.ModelName,
    out: Annotated[Path, typer.Option(help="Folder for the tables and figures.")],
    bootstrap: Annotated[int, typer.Option(min=0, help="Resamples for intervals.")] = 1000,
) -> None:
    """Compare new stays with a model's training: drift, and quality by month of discharge."""
    from clinical.evaluation.monitoring import monitor as watch
    from clinical.evaluation.monitoring import read_stays, write_monitoring
    from clinical.risk.model import ReadmissionModel

    table = read_stays(stays)
    found = watch(ReadmissionModel.from_pretrained(model), table, bootstrap=bootstrap)
    shown = Table("quantity", "since", "then", "now", "index", "by chance", "finding")
    for row in found.inputs.to_dict("records"):
        numbers = [f"{row[name]:.3g}" for name in ("then", "now", "psi", "chance")]
        since = "training" if row["side"] == "train" else "validation"
        shown.add_row(row["quantity"].replace("_", " "), since, *numbers, row["finding"])
    stdout.print(shown)
    for line in found.findings:
        stdout.print(line, markup=False, soft_wrap=True)
    say(f"tables and figures beside {write_monitoring(found, out)}")


def _cohort_of(cohort_file: Path) -> Any:
    """The cohort that `clinical cohort` wrote; None for other tables."""
    from clinical.cohort.result import Cohort
    from domainbert.tables import TableError

    try:
        return Cohort.open(cohort_file)
    except TableError:
        return None


def print_comparison(comparison: Comparison) -> None:
    """Measures down, models across, each with its 95% interval; then verdicts and caveats."""
    from clinical.evaluation.intervals import measure_rows

    head, *rows = measure_rows(comparison.evaluations)
    table = Table(*head)
    for row in rows:
        table.add_row(*row)
    stdout.print(table)
    for line in (*comparison.verdicts, *comparison.caveats):
        stdout.print(line, markup=False, soft_wrap=True)
