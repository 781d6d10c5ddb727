"""The commands that use readmission models: score, trajectory, convert."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from domainbert.cli import options
from domainbert.cli.console import one_line_errors, say

if TYPE_CHECKING:
    from clinical.risk.model import RiskModel
    from clinical.risk.task import ReadmissionTask, TrajectoryTask

Cache = Annotated[
    Path | None,
    typer.Option(help="Keep window scores in this file and reuse them in later runs."),
]
NotesOption = Annotated[
    Literal["chosen", "as-given"],
    typer.Option(
        "--notes",
        help="chosen: those that the model was trained on; as-given: all, and every row says so.",
    ),
]


@one_line_errors
@options.takes_options
def score(
    source: options.Source,
    model: options.ModelName,
    out: options.Table,
    *,
    scoring: options.ScoringOptions,
    notes: NotesOption = "chosen",
    cache: Cache = None,
    form: Annotated[
        Literal["table", "meds", "omop", "fhir"],
        typer.Option("--format", help="Write the risks of a cohort in this form too."),
    ] = "table",
) -> None:
    """Score every stay of a table; each stay gets one row, with a status and a reason."""
    if form != "table":
        from clinical.cohort.result import Cohort

        Cohort.open(source)  # only a cohort has the times that other forms need

    def make_task() -> ReadmissionTask:
        from clinical.risk.task import ReadmissionTask

        return ReadmissionTask(_load(model, cache, scoring.device), notes=notes)

    options.score_source(make_task, source, out, scoring)
    if form != "table":
        from clinical.risk.exports import export_scores

        paths = export_scores(out, Path(source), form)
        say(f"as {form}: {', '.join(map(str, paths))}")


@one_line_errors
@options.takes_options
def trajectory(
    source: options.Source,
    model: options.ModelName,
    out: options.Table,
    *,
    scoring: options.ScoringOptions,
    notes: NotesOption = "chosen",
    cache: Cache = None,
) -> None:
    """Write the risk of every stay after each of its notes: one row a note, in time order."""

    def make_task() -> TrajectoryTask:
        from clinical.risk.task import TrajectoryTask

        return TrajectoryTask(_load(model, cache, scoring.device), notes=notes)

    options.score_source(make_task, source, out, scoring)


def _load(name: str, cache: Path | None, device: str | None) -> RiskModel:
    """The model, with the window cache if one was asked for."""
    from clinical.risk.model import RiskModel

    model = RiskModel.from_pretrained(name, device=device)
    if cache:
        from domainbert.scoring.cache import WindowCache

        model.cache = WindowCache(cache, model=model.fingerprint())
    return model


@one_line_errors
def convert(
    release: Annotated[
        Path, typer.Argument(help="Folder of the 2019 ClinicalBERT release.")
    ],
    out: options.ModelFolder,
) -> None:
    """Turn the 2019 ClinicalBERT release into a model folder."""
    from clinical.risk.convert import convert_release
    from domainbert.models.storage import check_replaceable

    check_replaceable(out)
    convert_release(release, out=out)
    say(f"model in {out}")
