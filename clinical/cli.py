"""The command `clinical`: from notes to the risk of readmission within 30 days."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from clinical.evidence.commands import explain
from domainbert import options
from domainbert.console import command_line, one_line_errors, say, stdout

if TYPE_CHECKING:
    from clinical.evaluation.comparison import Comparison

app = command_line(
    "clinical", "ClinicalBERT: long clinical notes -> the risk of readmission within 30 days."
)

Cache = Annotated[
    Path | None,
    typer.Option(help="Keep window scores in this file and reuse them in later runs."),
]
CacheSize = Annotated[int, typer.Option(min=1, help="Size of the cache in MB.")]


@app.command()
@one_line_errors
def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything the demo makes.")] = Path("demo"),
    stays: Annotated[int, typer.Option(help="Stays of the made-up hospital.")] = 1500,
    seed: Annotated[int, typer.Option(help="Another seed is another hospital.")] = 2026,
) -> None:
    """Run every step on a made-up hospital: notes, cohort, risks, report."""
    from clinical.demo import run_demo

    comparison, best = run_demo(out, stays=stays, seed=seed)
    _print_comparison(comparison)
    stdout.print(f"best possible AUROC on these stays: {best:.3f}")


@app.command()
@one_line_errors
def synthesize(
    folder: Annotated[Path, typer.Argument(help="Where to write the tables.")],
    stays: Annotated[int, typer.Option(min=1, help="How many stays.")] = 1000,
    seed: Annotated[int, typer.Option(help="Another seed is another hospital.")] = 0,
    brief: Annotated[bool, typer.Option("--brief", help="Short discharge summaries.")] = False,
    notes_per_stay: Annotated[str, typer.Option(help="Short notes per stay: few or many.")] = "few",
    dates: Annotated[str, typer.Option(help="shifted, as in MIMIC, or real.")] = "shifted",
) -> None:
    """Write a made-up hospital as CSV files like MIMIC-III's, with the true risk of each stay."""
    from clinical.datasets.synthetic import synthesize as make

    style: Any = {"brief": brief, "notes_per_stay": notes_per_stay, "dates": dates}
    hospital = make(folder, stays=stays, seed=seed, **style)
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
    definition: Annotated[
        Path | None, typer.Option(help="Your own definition of a readmission, TOML.")
    ] = None,
    mapping: Annotated[Path | None, typer.Option(help="With generic: your columns, TOML.")] = None,
    data_end: Annotated[
        str | None, typer.Option(help="Until when admissions were recorded: a date, or none.")
    ] = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    seed: Annotated[int, typer.Option(help="Seed of the split by patient.")] = 0,
    split_by: Annotated[
        str, typer.Option(help="patient, or time: the latest discharges are the test side.")
    ] = "patient",
) -> None:
    """Build a labelled cohort from admissions and notes, with every exclusion counted."""
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
        split_by=split_by,
        out=out,
    )
    table = Table("step", "removed", "left", title="Flow")
    for row in built.flow.itertuples():
        table.add_row(str(row.reason), str(row.removed), str(row.left))
    stdout.print(table)
    for caveat in built.caveats:
        say(f"note: {caveat}")
    built.save_flow_json(out.with_suffix(".flow.json"))
    save_figure(built.plot_flow(), out.with_suffix(".flow.png"))
    say(f"cohort in {out}, its flow in .flow.json and .flow.png next to it")


@app.command()
@one_line_errors
def diabetes130(
    folder: Annotated[Path, typer.Argument(help="Folder with the UCI table and its mappings.")],
    out: Annotated[Path, typer.Option(help="The cohort to write, .parquet.")],
    seed: Annotated[int, typer.Option(help="Seed of the split by patient.")] = 0,
) -> None:
    """Turn the real encounters of Diabetes 130-US hospitals into a cohort of narrative notes."""
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
        list[Path] | None,
        typer.Option(help="Another cohort whose train side is added; no patient in common."),
    ] = None,
    recipe: options.RecipeFile = None,
    encoder: options.EncoderName = None,
    objective: Annotated[str | None, typer.Option(help="stay or window.")] = None,
    epochs: options.Epochs = None,
    learning_rate: options.LearningRate = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random choices.")] = None,
    full: options.FullWeights = False,
    forget_patients: Annotated[
        bool,
        typer.Option(
            "--forget-patients",
            help="Keep no hashes of patient ids in the model folder; then `evaluate` cannot check "
            "whether the model was trained on the patients it is measured on.",
        ),
    ] = False,
    checkpoints: options.Checkpoints = None,
    resume: options.Resume = False,
) -> None:
    """Train on a cohort's train side, choose on val, measure on test, write the model folder."""
    from clinical.cohort.splits import read_cohort
    from clinical.evaluation.comparison import compare, record
    from clinical.risk.training import ReadmissionRecipe, fit
    from domainbert.training.recipes import read_recipe
    from domainbert.training.session import training_run

    chosen = {
        "model.encoder": encoder,
        "model.objective": objective,
        "training.epochs": epochs,
        "training.learning_rate": learning_rate,
        "training.seed": seed,
        "training.full": full or None,
    }
    plan = read_recipe(ReadmissionRecipe, recipe, chosen)
    with training_run(out, checkpoints, resume=resume) as run:
        table, keep = read_cohort(cohort_file, also=also or ()), not forget_patients
        model = fit(table, plan, checkpoints=run.checkpoints, resume=resume, record_patients=keep)
        if (table["split"] == "test").any():
            comparison = compare(model, table)
            record(comparison, model)
            for line in (*comparison.verdicts, *comparison.caveats):
                say(f"note: {line}")
        run.save(model)
    say(f"model in {out}; its card says how it was made and how good it is")


@app.command()
@one_line_errors
def recalibrate(
    cohort_file: Annotated[Path, typer.Argument(metavar="COHORT.parquet", help="The cohort.")],
    model: options.ModelName,
    out: options.ModelFolder,
    split: Annotated[str, typer.Option(help="The side to fit on.")] = "val",
) -> None:
    """Fit c, the calibrator and the alert threshold on your own stays; the weights stay."""
    from clinical.cohort.splits import read_cohort
    from clinical.evaluation.comparison import compare, record
    from clinical.risk.model import ReadmissionModel
    from clinical.risk.recalibration import recalibrate as fit_again
    from domainbert.training.session import training_run

    with training_run(out) as run:
        table, loaded = read_cohort(cohort_file), ReadmissionModel.from_pretrained(model)
        fit_again(loaded, table, split=split)
        if split != "test" and (table["split"] == "test").any():
            record(compare(loaded, table), loaded)
        run.save(loaded)
    say(f"model in {out}, with c = {loaded.c:g}; its card says how good it is on the test side")


@app.command()
@one_line_errors
def score(
    source: options.Source,
    model: options.ModelName,
    out: options.Table,
    text: options.TextColumn = None,
    stay: options.StayColumn = None,
    patient: options.PatientColumn = None,
    note: options.NoteColumn = None,
    time: options.TimeColumn = None,
    keep: options.Keep = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    query: options.Query = None,
    restart: options.Restart = False,
    metrics: options.Metrics = None,
    cache: Cache = None,
    cache_size: CacheSize = 1024,
    contributions: Annotated[
        bool, typer.Option("--contributions", help="Add each stay's windows, as JSON.")
    ] = False,
    device: options.Device = None,
    precision: options.Precision = "fp32",
) -> None:
    """Score every stay of a table; each stay gets one row, with a status and a reason."""
    from domainbert.scoring import cli
    from domainbert.tables import ReadOptions

    def make_task() -> Any:
        from clinical.risk.model import ReadmissionModel
        from clinical.risk.task import ReadmissionTask

        loaded = ReadmissionModel.from_pretrained(model, device=device)
        if precision == "int8":
            loaded = _int8(loaded, model, source, columns, reading)
        return ReadmissionTask(_cached(loaded, cache, cache_size), contributions=contributions)

    named = {"text": text, "stay_id": stay, "patient_id": patient, "note_id": note}
    columns = {name: own for name, own in {**named, "chart_time": time}.items() if own}
    reading = ReadOptions(delimiter=delimiter, encoding=encoding, query=query)
    cli.run(
        make_task,
        source,
        out,
        named=columns,
        keep=keep or (),
        options=reading,
        restart=restart,
        metrics=metrics,
    )


def _int8(model: Any, name: str, source: str, columns: dict[str, str], reading: Any) -> Any:
    """The model in int8, calibrated on the notes to be scored if it is the first time."""
    from clinical.risk.int8 import STAYS, int8_folder, load_int8
    from clinical.risk.task import ReadmissionTask
    from domainbert.scoring.driver import sample_items

    def stays() -> list[Any]:
        say("calibrating int8 on a sample of these notes")
        task = ReadmissionTask(model)
        found = sample_items(task, source, named=columns, options=reading, number=STAYS)
        return [stay.notes for stay in found]

    result, change = load_int8(model, int8_folder(type(model).resolve(name)), stays)
    say(str(change))
    return result


@app.command()
@one_line_errors
def trajectory(
    source: options.Source,
    model: options.ModelName,
    out: options.Table,
    figure: Annotated[
        Path | None, typer.Option(help="Also draw one stay: .png, .svg or .pdf.")
    ] = None,
    of: Annotated[
        str | None,
        typer.Option("--of", help="The stay to draw; else the one with the highest risk."),
    ] = None,
    text: options.TextColumn = None,
    stay: options.StayColumn = None,
    patient: options.PatientColumn = None,
    note: options.NoteColumn = None,
    time: options.TimeColumn = None,
    keep: options.Keep = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    query: options.Query = None,
    restart: options.Restart = False,
    metrics: options.Metrics = None,
    cache: Cache = None,
    cache_size: CacheSize = 1024,
    device: options.Device = None,
) -> None:
    """Write the risk of every stay after each of its notes: one row a note, in time order."""
    from domainbert.scoring import cli
    from domainbert.tables import ReadOptions

    threshold = None

    def make_task() -> Any:
        from clinical.risk.model import ReadmissionModel
        from clinical.risk.trajectory_task import TrajectoryTask

        nonlocal threshold
        loaded = ReadmissionModel.from_pretrained(model, device=device)
        threshold = loaded.settings.alert_threshold
        return TrajectoryTask(_cached(loaded, cache, cache_size))

    named = {"text": text, "stay_id": stay, "patient_id": patient, "note_id": note}
    cli.run(
        make_task,
        source,
        out,
        named={**named, "chart_time": time},
        keep=keep or (),
        options=ReadOptions(delimiter=delimiter, encoding=encoding, query=query),
        restart=restart,
        metrics=metrics,
    )
    if figure:
        from clinical.risk.trajectory_figure import draw_stay

        drawn = draw_stay(out, figure, of=of, column=stay, threshold=threshold)
        say(f"stay {drawn} drawn in {figure}")


def _cached(model: Any, cache: Path | None, cache_size: int) -> Any:
    """The model, with the window cache if one was asked for."""
    from domainbert.scoring.cache import WindowCache

    if cache:
        size = cache_size * 1_000_000
        model.cache = WindowCache(cache, model=model.fingerprint(), max_bytes=size)
    return model


@app.command()
@one_line_errors
def evaluate(
    cohort_file: Annotated[Path, typer.Argument(metavar="COHORT.parquet", help="The cohort.")],
    model: options.ModelName,
    out: Annotated[Path, typer.Option(help="Folder for metrics, figures and report.")],
    split: Annotated[str, typer.Option(help="The side to measure.")] = "test",
    hospital: Annotated[
        Path | None,
        typer.Option(help="The hospital's answers, a filled-in hospital-template.toml."),
    ] = None,
    include_notes: Annotated[
        bool,
        typer.Option("--include-notes", help="Show parts of notes of four stays in the report."),
    ] = False,
    bootstrap: Annotated[int, typer.Option(min=0, help="Resamples for intervals.")] = 1000,
) -> None:
    """Measure a model on one side of a cohort, and write the report for a committee."""
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
    _print_comparison(comparison)
    say(f"report in {report}")


app.command()(one_line_errors(explain))


@app.command()
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
    """List the shipped models, and how good each was on patients held out from its training."""
    import json

    from clinical.evaluation.resampling import spell
    from clinical.models import shipped

    for name, folder in shipped().items():
        config = json.loads((folder / "config.json").read_text("utf-8"))["domainbert"]
        manifest = config["manifest"]
        title = manifest.get("card", {}).get("title", "no title")
        stdout.print(f"[bold]{name}[/bold]: {title}", soft_wrap=True)
        stdout.print(f"    encoder {config['encoder']}", soft_wrap=True)
        if scores := manifest.get("scores"):
            own = next(iter(scores.values()))
            others = [f"{other} {spell(scores[other]['auroc'])}" for other in list(scores)[1:]]
            stdout.print(
                f"    AUROC {spell(own['auroc'])} on the {own['n_stays']:,} stays of "
                f"{own['n_patients']:,} held-out patients of its own cohort; "
                f"{', '.join(others)}",
                markup=False,
                soft_wrap=True,
            )


def _cohort_of(cohort_file: Path) -> Any:
    """The cohort that `clinical cohort` wrote; None for other tables."""
    from clinical.cohort import Cohort
    from domainbert.tables import TableError

    try:
        return Cohort.open(cohort_file)
    except TableError:
        return None


def _print_comparison(comparison: Comparison) -> None:
    """Measures down, models across, each with its 95% interval; then verdicts and caveats."""
    from clinical.evaluation.intervals import measure_rows

    head, *rows = measure_rows(comparison.evaluations)
    table = Table(*head)
    for row in rows:
        table.add_row(*row)
    stdout.print(table)
    for line in (*comparison.verdicts, *comparison.caveats):
        stdout.print(line, markup=False, soft_wrap=True)
