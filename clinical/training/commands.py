"""The commands that make readmission models: train and recalibrate."""

from pathlib import Path
from typing import Annotated

from typer import Option

from clinical.cohort.commands import CohortFile
from domainbert.cli import options
from domainbert.cli.console import one_line_errors, say
from domainbert.cli.training import TrainingOptions, training_run


@one_line_errors
@options.takes_options
def train(
    cohort_file: CohortFile,
    out: options.ModelFolder,
    training: TrainingOptions,
    also: Annotated[
        list[Path] | None,
        Option(
            help="Another cohort whose train side is added; it must have other patients."
        ),
    ] = None,
    objective: Annotated[
        str | None,
        Option(
            help="stay: the rule's score of a stay is trained; window: each window is."
        ),
    ] = None,
    calibration: Annotated[
        str | None,
        Option(
            help="validation, or cross-fitted for a hospital with few stays."
        ),
    ] = None,
    forget_patients: Annotated[
        bool,
        Option(
            "--forget-patients",
            help="Store no hashes of patient ids in the model folder. `evaluate` then cannot "
            "check whether the model was trained on the patients of the evaluation.",
        ),
    ] = False,
) -> None:
    """Train a model: learn from the cohort's train side, choose on val, evaluate on test."""
    from clinical.evaluation.comparison import compare, record
    from clinical.stays.cohorts import read_cohort
    from clinical.training.training import ReadmissionRecipe, fit

    chosen = {"model.objective": objective, "model.calibration": calibration}
    plan = training.plan(ReadmissionRecipe, chosen)
    with training.run(out) as run:
        table = read_cohort(cohort_file, also=also or ())
        model = fit(
            table,
            plan,
            checkpoints=run.checkpoints,
            resume=run.resume,
            record_patients=not forget_patients,
        )
        if (table["split"] == "test").any():
            comparison = compare(model, table)
            record(comparison, model)
            not_shown = [
                v.text for v in comparison.verdicts() if v.status != "shown"
            ]
            for line in (*not_shown, *comparison.caveats):
                say(f"note: {line}")
        run.save(model)
    say(f"model in {out}; its card says how it was made and how good it is")


@one_line_errors
def recalibrate(
    cohort_file: CohortFile,
    model: options.ModelName,
    out: options.ModelFolder,
    split: Annotated[str, Option(help="The side to fit on.")] = "val",
    columns: Annotated[
        str,
        Option(
            help="Numbers to read beside the notes, such as age,prior_admissions."
        ),
    ] = "",
    keep_c: Annotated[
        bool,
        Option(
            "--keep-c",
            help="Do not fit c: stays of other lengths will be scored too.",
        ),
    ] = False,
) -> None:
    """Fit c, the calibrator and the alert threshold on your own stays; the weights are kept."""
    from clinical.evaluation.comparison import compare, record
    from clinical.risk.model import ReadmissionModel
    from clinical.stays.cohorts import read_cohort
    from clinical.training.recalibration import recalibrate as fit_again

    with training_run(out) as run:
        table = read_cohort(cohort_file)
        loaded = ReadmissionModel.from_pretrained(model)
        names = [name.strip() for name in columns.split(",") if name.strip()]
        fit_again(loaded, table, split=split, columns=names, keep_c=keep_c)
        if split != "test" and (table["split"] == "test").any():
            record(compare(loaded, table), loaded)
        run.save(loaded)
    say(
        f"model in {out}, with c = {loaded.c:g}; its card says how good it is on the test side"
    )
