"""The commands that make models of stays: train and recalibrate."""

from collections.abc import Sequence
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
    """Train a model: learn from the cohort's train side, choose on val, evaluate on test.

    A cohort with groups of diagnosis codes gives a model of diagnoses.
    """
    from clinical.evaluation.comparison import compare, record
    from clinical.stays.cohorts import is_of_diagnoses, read_cohort
    from clinical.training.training import ReadmissionRecipe, fit

    chosen = {"model.objective": objective, "model.calibration": calibration}
    if is_of_diagnoses(cohort_file):
        _refuse(objective=objective, calibration=calibration)
        _train_groups(
            cohort_file, out, training, also or (), forget=forget_patients
        )
        return
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


def _train_groups(
    cohort_file: Path,
    out: Path,
    training: TrainingOptions,
    also: Sequence[Path],
    *,
    forget: bool,
) -> None:
    """Train a model of the groups of diagnosis codes of a cohort."""
    from clinical.evaluation.diagnoses import compare_diagnoses
    from clinical.stays.cohorts import groups_summary, read_cohort
    from clinical.training.diagnoses import DiagnosisRecipe, fit, record

    facts = groups_summary(cohort_file)
    changes = {}
    if facts and not training.recipe:
        # The definition has already left out the groups with too few stays.
        counts = [row["train"] for row in facts["groups"].values()]
        changes["model.min_stays"] = min(counts)
    plan = training.plan(DiagnosisRecipe, changes)
    with training.run(out) as run:
        table = read_cohort(cohort_file, also=also, outcome="diagnoses")
        model = fit(
            table,
            plan,
            names=facts.get("names"),
            checkpoints=run.checkpoints,
            resume=run.resume,
            record_patients=not forget,
        )
        if (table["split"] == "test").any():
            comparison = compare_diagnoses(model, table)
            record(comparison, model)
            for line in comparison.caveats:
                say(f"note: {line}")
        run.save(model)
    say(
        f"model of {len(model.labels)} groups in {out}; its card says how it was made and how "
        "good it is"
    )


def _refuse(**used: object) -> None:
    """Raise a `UserError` for options that are for readmission models alone."""
    from domainbert.errors import UserError

    names = [
        f"--{name.replace('_', '-')}" for name, value in used.items() if value
    ]
    if names:
        raise UserError(
            f"{', '.join(names)}: for models of one outcome; this one is of diagnoses"
        )


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
    from clinical.risk.commands import has_groups
    from clinical.risk.model import ReadmissionModel
    from clinical.stays.cohorts import read_cohort
    from clinical.training.recalibration import recalibrate as fit_again

    if has_groups(model):
        _refuse(columns=columns)
        _recalibrate_groups(
            cohort_file, model, out, split=split, keep_c=keep_c
        )
        return
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


def _recalibrate_groups(
    cohort_file: Path, model: str, out: Path, *, split: str, keep_c: bool
) -> None:
    """The same of a model of diagnoses."""
    from clinical.evaluation.diagnoses import compare_diagnoses
    from clinical.risk.diagnoses import DiagnosisModel
    from clinical.stays.cohorts import read_cohort
    from clinical.training.diagnoses import recalibrate as fit_again
    from clinical.training.diagnoses import record

    with training_run(out) as run:
        table = read_cohort(cohort_file, outcome="diagnoses")
        loaded = DiagnosisModel.from_pretrained(model)
        fitted = fit_again(loaded, table, split=split, keep_c=keep_c)
        if split != "test" and (table["split"] == "test").any():
            record(compare_diagnoses(fitted, table), fitted)
        run.save(fitted)
    calibrated = len(fitted.settings.calibration)
    say(
        f"model in {out}, with c = {fitted.c:g} and calibrators for {calibrated} of "
        f"{len(fitted.labels)} groups; its card says how good it is on the test side"
    )
