"""The commands that measure models: evaluate, monitor."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from typer import Argument, Option

from clinical.cohort.commands import CohortFile  # noqa: TC001  (typer reads it at run time)
from domainbert.cli import options
from domainbert.cli.console import one_line_errors, print_table, say, stdout
from domainbert.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from clinical.evaluation.comparison import Comparison
    from clinical.risk.diagnoses import DiagnosisModel
    from clinical.risk.model import ReadmissionModel

AnyModel = TypeVar("AnyModel", "ReadmissionModel", "DiagnosisModel")
Resamples = Annotated[int, Option(min=0, help="Resamples for intervals.")]


@one_line_errors
def evaluate(
    cohort_file: CohortFile,
    out: Annotated[
        Path, Option(help="Folder for metrics, figures and report.")
    ],
    model: Annotated[
        str | None,
        Option(
            help="A shipped model, a folder or a Hub id; not needed with --scores."
        ),
    ] = None,
    scores: Annotated[
        Path | None,
        Option(
            help="Evaluate the risks in this table, which `clinical score` has written. "
            "They are joined to the cohort by stay_id, and no note is read."
        ),
    ] = None,
    split: Annotated[str, Option(help="The side to evaluate on.")] = "test",
    hospital: Annotated[
        Path | None,
        Option(
            help="The hospital's answers: a filled-in copy of hospital-template.toml."
        ),
    ] = None,
    bootstrap: Resamples = 1000,
) -> None:
    """Evaluate a model, or a table of risks, on one side of a cohort; write the report."""
    from clinical.cohort.result import Cohort
    from clinical.evaluation.comparison import compare
    from clinical.report.facts import Hospital, gather
    from clinical.report.page import write_report
    from clinical.risk.model import ReadmissionModel
    from clinical.stays.cohorts import read_cohort
    from domainbert.tables import TableError
    from domainbert.training.recipes import read_recipe

    if model is None and scores is None:
        raise UserError("nothing to evaluate: pass --model, --scores, or both")
    if _is_of_groups(model, scores):
        if hospital:
            raise UserError(
                "--hospital is for models of one outcome; this one is of diagnoses"
            )
        _evaluate_groups(
            cohort_file, out, model, scores, split=split, bootstrap=bootstrap
        )
        return
    answers = read_recipe(Hospital, hospital)
    table = read_cohort(cohort_file, notes=scores is None)
    facts = {"model": model or "", "cohort": cohort_file.name, "side": split}
    loaded, risks = _load_measured(ReadmissionModel, model, scores, facts)
    comparison = compare(
        loaded, table, scores=risks, split=split, bootstrap=bootstrap
    )
    flow = None
    summary = None
    with suppress(TableError):  # a table that clinical cohort did not write
        built = Cohort.open(cohort_file)
        flow = built.flow
        summary = built.summary
        facts["definition"] = summary["definition"]["label"]
        facts["definition_sha256"] = summary["definition"]["sha256"]
    name = model or facts["scores"]
    facts["model"] = name
    report = write_report(
        comparison,
        out,
        title=f"{name} on {cohort_file.name}",
        facts=facts,
        flow=flow,
        about=gather(
            loaded, comparison, name=name, summary=summary, hospital=answers
        ),
        hospital=answers,
    )
    print_comparison(comparison)
    say(f"report in {report}")


def _is_of_groups(model: str | None, scores: Path | None) -> bool:
    """Whether a model, or else a table of scores, is of groups of diagnoses."""
    from clinical.risk.commands import has_groups
    from domainbert.tables import table_columns

    if model:
        return has_groups(model)
    return scores is not None and "group" in table_columns(scores)


def _load_measured(
    model_class: type[AnyModel],
    model: str | None,
    scores: Path | None,
    facts: dict[str, str],
) -> tuple[AnyModel | None, pd.DataFrame | None]:
    """The model and the table of scores that are named, and what the report says of them."""
    from domainbert.tables import read_table

    table = None
    if scores:
        table = read_table(scores, schema={"probability": "float"})
        facts["scores"] = scores.name
    loaded = None
    if model:
        loaded = model_class.from_pretrained(model)
        facts["c"] = f"{loaded.c:g}"
    return loaded, table


def _evaluate_groups(
    cohort_file: Path,
    out: Path,
    model: str | None,
    scores: Path | None,
    *,
    split: str,
    bootstrap: int,
) -> None:
    """Evaluate a model of diagnoses, or a table of its scores; write the report."""
    from clinical.cohort.result import Cohort
    from clinical.evaluation.diagnoses import compare_diagnoses
    from clinical.report.page import write_diagnoses
    from clinical.risk.diagnoses import DiagnosisModel
    from clinical.stays.cohorts import read_cohort
    from domainbert.tables import TableError

    table = read_cohort(cohort_file, outcome="diagnoses", notes=scores is None)
    facts = {"model": model or "", "cohort": cohort_file.name, "side": split}
    loaded, probabilities = _load_measured(
        DiagnosisModel, model, scores, facts
    )
    name = model or facts["scores"]
    facts["model"] = name
    with suppress(TableError):  # a table that clinical cohort did not write
        built = Cohort.open(cohort_file)
        facts["definition"] = built.summary["definition"]["label"]
        facts["definition_sha256"] = built.summary["definition"]["sha256"]
    comparison = compare_diagnoses(
        loaded, table, scores=probabilities, split=split, bootstrap=bootstrap
    )
    report = write_diagnoses(
        comparison, out, title=f"{name} on {cohort_file.name}", facts=facts
    )
    head, *rows = comparison.rows()
    print_table(rows, head)
    for line in comparison.caveats:
        stdout.print(line, soft_wrap=True)
    say(f"report in {report}")


_BESIDE = (
    "Model {model} on {n:,} of these risks: {change:+.1f} points on average, {low:+.1f} to "
    "{high:+.1f}; {added:,} alerts added, {missed:,} missed."
)


@one_line_errors
def monitor(
    stays: Annotated[
        Path,
        Argument(
            metavar="NEW", help="A cohort, or a table with one row per stay."
        ),
    ],
    model: options.ModelName,
    out: Annotated[Path, Option(help="Folder for the tables.")],
    served: Annotated[
        Path | None,
        Option(
            help="The ledger of `domainbert serve`: adds alerts and overrides."
        ),
    ] = None,
    bootstrap: Resamples = 1000,
) -> None:
    """Compare new stays with the model's validation stays: drift, and quality by month."""
    from clinical.evaluation.drift import number_text
    from clinical.evaluation.monitoring import monitor as watch
    from clinical.report.page import write_monitoring
    from clinical.risk.model import ReadmissionModel
    from clinical.stays.cohorts import read_stays

    table = read_stays(stays)
    loaded = ReadmissionModel.from_pretrained(model)
    watched = watch(loaded, table, bootstrap=bootstrap)
    rows = [
        [
            row.quantity.replace("_", " "),
            number_text(row.then),
            number_text(row.now),
            row.finding,
        ]
        for row in watched.inputs.itertuples()
    ]
    print_table(rows, ["quantity", "then", "now", "finding"])
    lines = list(watched.findings)
    if served:
        lines += in_service(served, loaded)
    for line in lines:
        stdout.print(line, soft_wrap=True)
    say(f"tables beside {write_monitoring(watched, out)}")


def in_service(ledger: Path, model: ReadmissionModel) -> list[str]:
    """What was served, alerts, drift of the risks, and overrides by reason."""
    from clinical.evaluation.drift import compare_inputs
    from domainbert.service.ledger import compare_models, read_ledger

    served, feedback = read_ledger(ledger)
    served = served[
        (served["status"] == "ok") & (served["task"] == model.task)
    ]
    risks = served[served["model"] == model.fingerprint()]
    if risks.empty:
        return ["No risk of this model was served."]
    alerts = 100 * risks["alert"].dropna().astype(float)
    share = (
        f"{alerts.mean():.1f} alerts per 100"
        if len(alerts)
        else "no alert threshold"
    )
    lines = [f"Served: {len(risks):,} risks, {share}."]
    lines += compare_inputs(model, risks)[1]
    pairs = compare_models(ledger, model.fingerprint())
    lines += [_BESIDE.format(**pair) for pair in pairs]
    # A client may send the feedback on a card again; the last one counts.
    cards = feedback[feedback["card"].isin(risks["card"])]
    cards = cards.drop_duplicates("card", keep="last")
    overridden = cards[cards["outcome"] == "overridden"]
    lines.append(
        f"Feedback on {len(cards):,} cards; overridden: {len(overridden):,}."
    )
    reasons = (
        overridden["reason"].replace("", "no reason given").value_counts()
    )
    return [
        *lines,
        *(f"  {reason}: {count:,}" for reason, count in reasons.items()),
    ]


def print_comparison(comparison: Comparison) -> None:
    """Measures down, models across, each with its 95% interval; then verdicts and caveats."""
    from clinical.evaluation.intervals import measure_rows

    head, *rows = measure_rows(comparison.evaluations)
    print_table(rows, head)
    for line in (
        *(verdict.text for verdict in comparison.verdicts()),
        *comparison.caveats,
    ):
        stdout.print(line, soft_wrap=True)
