"""The commands that make models of stays: train and recalibrate."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from clinical.cohort.commands import CohortFile
from domainbert.cli import options
from domainbert.cli.console import one_line_errors, say
from domainbert.cli.training import TrainingOptions, training_run

if TYPE_CHECKING:
    import pandas as pd

    from clinical.risk.diagnoses import DiagnosisModel
    from clinical.risk.model import ReadmissionModel

    AnyModel = ReadmissionModel | DiagnosisModel

# The column of a cohort that is learned, by whether the model is one of diagnoses.
_OUTCOMES = {False: "readmitted", True: "diagnoses"}


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
    from clinical.stays.cohorts import is_of_diagnoses, read_cohort

    of_groups = is_of_diagnoses(cohort_file)
    if of_groups:
        _refuse(objective=objective, calibration=calibration)
        fit = _groups_trainer(cohort_file, training)
    else:
        chosen = {
            "model.objective": objective,
            "model.calibration": calibration,
        }
        fit = _readmission_trainer(training, chosen)
    with training.run(out) as run:
        table = read_cohort(
            cohort_file, also=also or (), outcome=_OUTCOMES[of_groups]
        )
        model = fit(
            table,
            checkpoints=run.checkpoints,
            resume=run.resume,
            record_patients=not forget_patients,
        )
        for line in _measured_on_test(model, table):
            say(f"note: {line}")
        run.save(model)
    description = "model"
    if of_groups:
        description = f"model of {len(model.labels)} groups"
    say(
        f"{description} in {out}; its card says how it was made and how good it is"
    )


def _readmission_trainer(
    training: TrainingOptions, changes: Mapping[str, object]
) -> "Callable[..., AnyModel]":
    """Training of a model of one outcome by the recipe of the options."""
    from clinical.training.training import ReadmissionRecipe, fit

    return partial(fit, recipe=training.plan(ReadmissionRecipe, changes))


def _groups_trainer(
    cohort_file: Path, training: TrainingOptions
) -> "Callable[..., AnyModel]":
    """Training of a model of the groups of diagnosis codes of a cohort."""
    from clinical.stays.cohorts import groups_summary
    from clinical.training.diagnoses import DiagnosisRecipe, fit

    facts = groups_summary(cohort_file)
    changes = {}
    if facts and not training.recipe:
        # The definition has already left out the groups with too few stays.
        counts = [row["train"] for row in facts["groups"].values()]
        changes["model.min_stays"] = min(counts)
    recipe = training.plan(DiagnosisRecipe, changes)
    return partial(fit, recipe=recipe, names=facts.get("names"))


def _measured_on_test(model: "AnyModel", table: "pd.DataFrame") -> list[str]:
    """Put the numbers of the test side on the card, if there is one; what to say of them."""
    from clinical.evaluation.comparison import compare, record
    from clinical.evaluation.diagnoses import compare_diagnoses
    from clinical.risk.diagnoses import DiagnosisModel
    from clinical.training.diagnoses import record as record_groups

    if not (table["split"] == "test").any():
        return []
    if isinstance(model, DiagnosisModel):
        of_groups = compare_diagnoses(model, table)
        record_groups(of_groups, model)
        return of_groups.caveats
    comparison = compare(model, table)
    record(comparison, model)
    not_shown = [v.text for v in comparison.verdicts() if v.status != "shown"]
    return [*not_shown, *comparison.caveats]


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
    from clinical.risk.commands import has_groups
    from clinical.stays.cohorts import read_cohort

    of_groups = has_groups(model)
    if of_groups:
        _refuse(columns=columns)
    with training_run(out) as run:
        table = read_cohort(cohort_file, outcome=_OUTCOMES[of_groups])
        if of_groups:
            fitted, counts = _recalibrated_groups(
                model, table, split=split, keep_c=keep_c
            )
        else:
            names = [n.strip() for n in columns.split(",") if n.strip()]
            fitted, counts = _recalibrated(
                model, table, split=split, columns=names, keep_c=keep_c
            )
        if split != "test":
            _measured_on_test(fitted, table)
        run.save(fitted)
    say(
        f"model in {out}, with c = {fitted.c:g}{counts}; its card says how good it is on the test "
        "side"
    )


def _recalibrated(
    name: str,
    table: "pd.DataFrame",
    *,
    split: str,
    columns: Sequence[str],
    keep_c: bool,
) -> "tuple[AnyModel, str]":
    """A model of one outcome, fitted to the stays of a side."""
    from clinical.risk.model import ReadmissionModel
    from clinical.training.recalibration import recalibrate as fit_again

    model = ReadmissionModel.from_pretrained(name)
    fit_again(model, table, split=split, columns=columns, keep_c=keep_c)
    return model, ""


def _recalibrated_groups(
    name: str, table: "pd.DataFrame", *, split: str, keep_c: bool
) -> "tuple[AnyModel, str]":
    """A model of diagnoses, fitted to the stays of a side, and how many calibrators it has."""
    from clinical.risk.diagnoses import DiagnosisModel
    from clinical.training.diagnoses import recalibrate as fit_again

    model = DiagnosisModel.from_pretrained(name)
    fitted = fit_again(model, table, split=split, keep_c=keep_c)
    n_calibrated = len(fitted.settings.calibration)
    n_groups = len(fitted.labels)
    return fitted, f" and calibrators for {n_calibrated} of {n_groups} groups"
