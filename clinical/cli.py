"""The command `clinical`: from notes to the risk of readmission within 30 days."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from clinical.cohort.commands import cohort
from clinical.evidence.commands import explain
from clinical.report.commands import evaluate, monitor, print_comparison
from clinical.risk.commands import convert, discharges, score, trajectory
from clinical.training.commands import recalibrate, train
from domainbert.cli.console import command_line, one_line_errors, say, stdout

app = command_line(
    "clinical",
    "ClinicalBERT: the risk of readmission within 30 days, from all notes of a stay.",
)


@app.command()
@one_line_errors
def demo(
    out: Annotated[
        Path, Option(help="Folder for everything the demo makes.")
    ] = Path("demo"),
    stays: Annotated[
        int, Option(help="Stays of the made-up hospital.")
    ] = 1500,
    seed: Annotated[
        int, Option(help="Each seed gives a different hospital.")
    ] = 2026,
) -> None:
    """Run every step on a made-up hospital: notes, cohort, risks, report."""
    from clinical.demo import run_demo

    comparison, best, expected = run_demo(out, stays=stays, seed=seed)
    print_comparison(comparison)
    stdout.print(
        f"expected AUROC on these stays: {expected:.3f}; the best possible is {best:.3f}"
    )


@app.command()
@one_line_errors
def synthesize(
    folder: Annotated[Path, Argument(help="Where to write the tables.")],
    stays: Annotated[
        int,
        Option(
            min=1,
            help="Stays that can be predicted from; others, such as newborns, are added.",
        ),
    ] = 1000,
    seed: Annotated[
        int, Option(help="Each seed gives a different hospital.")
    ] = 0,
    brief: Annotated[
        bool, Option("--brief", help="Short discharge summaries.")
    ] = False,
    notes_per_stay: Annotated[
        str,
        Option(
            help="few or many short notes per stay, beside the discharge summary."
        ),
    ] = "few",
    dates: Annotated[
        str, Option(help="shifted dates, as in MIMIC, or real ones.")
    ] = "shifted",
    form: Annotated[
        str | None,
        Option(
            "--as",
            help="Form of the tables, with some rare cases: mimic3, mimic4, omop, meds or fhir.",
        ),
    ] = None,
) -> None:
    """Write a made-up hospital as tables like those of MIMIC, with the true risk of each stay."""
    from clinical.datasets.hospital import synthesize as make

    hospital = make(
        folder,
        stays=stays,
        seed=seed,
        brief=brief,
        notes_per_stay=notes_per_stay,
        dates=dates,
        form=form,
    )
    counts = f"{hospital.stays} stays of {hospital.patients} patients with {hospital.notes} notes"
    say(f"{counts} in {folder}")


for command in (
    cohort,
    train,
    recalibrate,
    score,
    discharges,
    trajectory,
    explain,
    evaluate,
    monitor,
    convert,
):
    app.command()(command)


@app.command()
@one_line_errors
def models() -> None:
    """List the shipped models, and how good each was on patients held out from its training."""
    from clinical.risk.manifest import MACRO, RiskManifest
    from domainbert.models.storage import read_manifest, shipped_models

    for name, folder in shipped_models("clinical").items():
        manifest = read_manifest(folder, RiskManifest)
        quality = "not measured on held-out patients"
        if scores := manifest.scores.model:
            quality = (
                f"AUROC {scores.measures['auroc']} on the {scores.n_stays:,} stays of "
                f"{scores.n_patients:,} held-out patients"
            )
        elif macro := manifest.scores.table.get("model", {}).get(MACRO):
            quality = f"{MACRO} {macro} over its groups, on other cases"
        stdout.print(
            f"{name}: {manifest.card.title}\n    {quality}",
            markup=False,
            soft_wrap=True,
        )
