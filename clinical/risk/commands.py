"""The commands around readmission models: train, recalibrate, score, trajectory, convert."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from domainbert import options
from domainbert.console import one_line_errors, say

Cache = Annotated[
    Path | None,
    typer.Option(help="Keep window scores in this file and reuse them in later runs."),
]
CacheSize = Annotated[int, typer.Option(min=1, help="Size of the cache in MB.")]


@one_line_errors
def train(
    cohort_file: Annotated[Path, typer.Argument(metavar="COHORT.parquet", help="The cohort.")],
    out: options.ModelFolder,
    also: Annotated[
        list[Path] | None,
        typer.Option(help="Another cohort whose train side is added; it must have other patients."),
    ] = None,
    recipe: options.RecipeFile = None,
    encoder: options.EncoderName = None,
    objective: Annotated[str | None, typer.Option(help="stay or window.")] = None,
    epochs: options.Epochs = None,
    learning_rate: options.LearningRate = None,
    seed: options.Seed = None,
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


@one_line_errors
def recalibrate(
    cohort_file: Annotated[Path, typer.Argument(metavar="COHORT.parquet", help="The cohort.")],
    model: options.ModelName,
    out: options.ModelFolder,
    split: Annotated[str, typer.Option(help="The side to fit on.")] = "val",
) -> None:
    """Fit c, the calibrator and the alert threshold on your own stays; the weights are kept."""
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

    columns = _columns(text, stay=stay, patient=patient, note=note, time=time)
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


def _columns(text: str | None, **others: str | None) -> dict[str, str]:
    """Our name of each column that an option names -> the table's."""
    ours = {"stay": "stay_id", "patient": "patient_id", "note": "note_id", "time": "chart_time"}
    named = {"text": text, **{ours[option]: name for option, name in others.items()}}
    return {name: own for name, own in named.items() if own}


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
        typer.Option("--of", help="The stay to draw; by default the one with the highest risk."),
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

    cli.run(
        make_task,
        source,
        out,
        named=_columns(text, stay=stay, patient=patient, note=note, time=time),
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
