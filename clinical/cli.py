"""The command `clinical`: from notes to the risk of readmission."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from domainbert import options
from domainbert.console import command_line, one_line_errors, say, stdout

if TYPE_CHECKING:
    from clinical.cohort import Cohort
    from clinical.evaluation.measures import Evaluation

app = command_line(
    "clinical", "ClinicalBERT: long clinical notes -> the risk of readmission within 30 days."
)

CohortFile = Annotated[Path, typer.Argument(help="A cohort, from `clinical cohort`.")]


@app.command()
@one_line_errors
def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything the demo makes.")] = Path("demo"),
    stays: Annotated[int, typer.Option(help="Stays of the made-up hospital.")] = 1500,
    seed: Annotated[int, typer.Option(help="Another seed is another hospital.")] = 2026,
) -> None:
    """The whole job on a made-up hospital: notes, cohort, risks, report."""
    from clinical.demo import run_demo

    run_demo(out, stays=stays, seed=seed)


@app.command()
@one_line_errors
def synthesize(
    folder: Annotated[Path, typer.Argument(help="Where to write the tables.")],
    stays: Annotated[int, typer.Option(min=1, help="How many stays.")] = 1000,
    seed: Annotated[int, typer.Option(help="Another seed is another hospital.")] = 0,
    brief: Annotated[bool, typer.Option("--brief", help="Short discharge summaries.")] = False,
    notes_per_stay: Annotated[str, typer.Option(help="Short notes per stay: few or many.")] = "few",
) -> None:
    """Write a made-up hospital as MIMIC-III-shaped CSV, with the true risk of each stay."""
    from clinical.datasets.synthetic import synthesize as make

    hospital = make(folder, stays=stays, seed=seed, brief=brief, notes_per_stay=notes_per_stay)
    say(
        f"{hospital.stays} stays of {hospital.patients} patients with {hospital.notes} notes in "
        f"{folder}; the best possible AUROC is {hospital.best_auroc:.3f}"
    )


@app.command()
@one_line_errors
def cohort(
    source: Annotated[str, typer.Argument(help="Folder, DuckDB file, postgresql:// or sqlite://.")],
    out: Annotated[Path, typer.Option(help="The cohort to write, .parquet.")],
    schema: Annotated[str, typer.Option(help="mimic3, mimic4 or generic.")] = "mimic3",
    notes: Annotated[str, typer.Option(help="discharge or early.")] = "discharge",
    hours: Annotated[int, typer.Option(help="With early: hours since admission.")] = 48,
    definition: Annotated[Path | None, typer.Option(help="Your own definition, TOML.")] = None,
    mapping: Annotated[Path | None, typer.Option(help="With generic: your columns, TOML.")] = None,
    data_end: Annotated[
        str | None, typer.Option(help="Until when admissions were recorded: a date, or none.")
    ] = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    seed: Annotated[int, typer.Option(help="Of the split by patient.")] = 0,
) -> None:
    """Admissions and notes -> a labelled cohort, with every exclusion counted."""
    from clinical.cohort import build_cohort
    from domainbert.figures import save_figure

    built = build_cohort(
        source,
        schema=schema,
        notes=notes,
        hours=hours,
        definition=definition,
        mapping=mapping,
        data_end=data_end,
        delimiter=delimiter,
        encoding=encoding,
        seed=seed,
        out=out,
    )
    _print_flow(built)
    for caveat in built.caveats:
        say(f"note: {caveat}")
    built.save_flow_json(out.with_suffix(".flow.json"))
    save_figure(built.plot_flow(), out.with_suffix(".flow.png"))
    say(f"cohort in {out}, its flow beside it as .flow.json and .flow.png")


@app.command()
@one_line_errors
def diabetes130(
    folder: Annotated[Path, typer.Argument(help="Folder with the UCI table and its mappings.")],
    out: Annotated[Path, typer.Option(help="The cohort to write, .parquet.")],
    seed: Annotated[int, typer.Option(help="Of the split by patient.")] = 0,
) -> None:
    """The real encounters of Diabetes 130-US hospitals as a cohort of narrative notes."""
    from clinical.datasets.diabetes130 import build_diabetes130
    from domainbert.tables import write_table

    table = build_diabetes130(folder, seed=seed)
    write_table(table, out)
    kept = table["exclusion"].isna()
    share = table.loc[kept, "readmitted"].mean()
    say(f"{kept.sum()} stays in {out}, {share:.1%} readmitted; {(~kept).sum()} listed as excluded")


@app.command()
@one_line_errors
def train(
    cohort_file: Annotated[Path, typer.Argument(metavar="COHORT.parquet", help="The cohort.")],
    out: options.ModelFolder,
    also: Annotated[
        list[Path] | None, typer.Option(help="Another cohort: its train side joins in.")
    ] = None,
    recipe: options.RecipeFile = None,
    encoder: options.EncoderName = None,
    objective: Annotated[str | None, typer.Option(help="stay or window.")] = None,
    epochs: options.Epochs = None,
    learning_rate: options.LearningRate = None,
    seed: Annotated[int | None, typer.Option(help="Of head, order and dropout.")] = None,
    full: options.FullWeights = False,
    checkpoints: options.Checkpoints = None,
    resume: options.Resume = False,
) -> None:
    """Train on a cohort's train side, choose on val, measure on test, write the model folder."""
    from clinical.risk.recipe import read_recipe, train_from_recipe

    options.check_training(out, checkpoints=checkpoints, resume=resume)
    plan = read_recipe(
        recipe,
        encoder=encoder,
        objective=objective,
        epochs=epochs,
        learning_rate=learning_rate,
        seed=seed,
        full=full or None,
    )
    model = train_from_recipe(
        plan, cohort_file, also=also or (), checkpoints=checkpoints, resume=resume
    )
    model.save_pretrained(out)
    say(f"model in {out}; its card says how it was made and how good it is")


@app.command()
@one_line_errors
def score(
    notes: Annotated[Path, typer.Argument(help="Notes or stays: .csv, .parquet or .jsonl.")],
    model: options.ModelName,
    out: Annotated[Path, typer.Option(help="Risks: .csv, .parquet or .jsonl.")],
) -> None:
    """Score every stay of a table; each gets a row, with a status and a reason."""
    from clinical.risk.model import ReadmissionModel
    from clinical.risk.scoring import score_table
    from domainbert.console import progress
    from domainbert.tables import table_format

    table_format(out)  # a wrong ending should not cost an hour of scoring
    loaded = ReadmissionModel.from_pretrained(model)
    counts: dict[str, int] = {}
    with progress("scoring stays") as advance:
        for part in score_table(loaded, notes, out):
            advance(len(part))
            for status, number in part["status"].value_counts().items():
                counts[status] = counts.get(status, 0) + int(number)
    said = ", ".join(f"{number} {status}" for status, number in counts.items()) or "no stays"
    say(f"{said}; risks in {out}")


@app.command()
@one_line_errors
def evaluate(
    cohort_file: Annotated[Path, typer.Argument(metavar="COHORT.parquet", help="The cohort.")],
    model: options.ModelName,
    out: Annotated[Path, typer.Option(help="Folder for metrics, figures and report.")],
    split: Annotated[str, typer.Option(help="The side to measure.")] = "test",
) -> None:
    """Measure a model on one side of a cohort, beside bag-of-words baselines."""
    from clinical.evaluation.assessment import assess, write_assessment
    from clinical.risk.model import ReadmissionModel
    from domainbert.tables import read_table

    loaded = ReadmissionModel.from_pretrained(model)
    table = read_table(cohort_file)
    assessment = assess(loaded, table, split=split)
    facts = {"model": model, "cohort": cohort_file.name, "side": split, "c": f"{loaded.c:g}"}
    report = write_assessment(assessment, out, title=f"{model} on {cohort_file.name}", facts=facts)
    stdout.print(evaluation_table(assessment.evaluations))
    say(f"report in {report}")


@app.command()
@one_line_errors
def convert(
    release: Annotated[Path, typer.Argument(help="Folder of the 2019 ClinicalBERT release.")],
    out: options.ModelFolder,
) -> None:
    """Turn the 2019 ClinicalBERT release into a model folder."""
    from clinical.risk.convert import convert_release
    from domainbert.storage import check_replaceable

    check_replaceable(out)
    convert_release(release, out=out)
    say(f"model in {out}")


@app.command()
@one_line_errors
def models() -> None:
    """List the shipped models and their measured scores."""
    import json

    from clinical.models import shipped
    from clinical.risk.card import spell

    table = Table("model", "encoder", "test AUROC", "TF-IDF", "what it is")
    table.columns[0].no_wrap = True
    for name, folder in shipped().items():
        config = json.loads((folder / "config.json").read_text())["domainbert"]
        scores = config["manifest"].get("scores", {})
        own, words = (spell(scores.get(key, {}).get("auroc")) for key in ("domainbert", "TF-IDF"))
        title = config["manifest"].get("card", {}).get("title", "")
        table.add_row(name, config["encoder"], own, words, title)
    stdout.print(table)


def evaluation_table(evaluations: dict[str, Evaluation]) -> Table:
    """Metrics down, models across, each with its 95% interval."""
    from clinical.risk.card import METRICS, spell

    table = Table("", *evaluations)
    dicts = [evaluation.to_dict() for evaluation in evaluations.values()]
    for metric, label in METRICS:
        table.add_row(label, *(spell(scores[metric]) for scores in dicts))
    return table


def _print_flow(built: Cohort) -> None:
    table = Table("step", "removed", "left", title="Flow")
    for row in built.flow.itertuples():
        table.add_row(str(row.reason), str(row.removed), str(row.left))
    stdout.print(table)
