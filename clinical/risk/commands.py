"""The commands that use readmission models: score, trajectory, convert."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, BadParameter, Option

from clinical.cohort.commands import DiedLocations, MappingFile  # noqa: TC001  (typer reads it at run time)
from domainbert.cli import options
from domainbert.cli.console import one_line_errors, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from clinical.risk.discharges import SourceOptions
    from clinical.risk.model import ReadmissionModel
    from clinical.risk.task import ReadmissionTask, TrajectoryTask

Cache = Annotated[
    Path | None,
    Option(
        help="Keep window scores in this file and reuse them in later runs."
    ),
]
NotesOption = Annotated[
    Literal["chosen", "as-given"],
    Option(
        "--notes",
        help="chosen: the kinds of notes the model was trained on; as-given: all notes.",
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
    remaining: Annotated[
        bool,
        Option(
            "--remaining",
            help="Add the remaining risk on days 1, 3, 7, 14 and 21 after discharge.",
        ),
    ] = False,
    form: Annotated[
        Literal["table", "meds", "omop", "fhir"],
        Option(
            "--format",
            help="meds, omop or fhir: also write the risks in this form; needs a cohort or tables.",
        ),
    ] = "table",
    since: Annotated[
        str | None,
        Option(
            help="Score only the stays of a hospital's tables or a cohort that were discharged "
            "since this date or time, and those still in hospital."
        ),
    ] = None,
    schema: Annotated[
        str | None,
        Option(help="Form of a hospital's tables, as for clinical cohort."),
    ] = None,
    mapping: MappingFile = None,
    definition: Annotated[
        str | None,
        Option(
            help="Definition for a hospital's tables; by default the model's, if shipped."
        ),
    ] = None,
    died_locations: DiedLocations = None,
) -> None:
    """Score every stay of a table, or the new discharges of a hospital's tables.

    Each stay gets one row, with a status and a reason. A folder with the admissions of a known
    form is read as clinical cohort reads it; so is any source with --since, --schema or --mapping.
    """
    from clinical.risk.discharges import SourceOptions, has_admissions

    def make_task() -> ReadmissionTask:
        from clinical.risk.task import ReadmissionTask

        return ReadmissionTask(
            _load(model, cache, scoring.device),
            notes=notes,
            remaining=remaining,
        )

    tables = SourceOptions(
        schema=schema,
        mapping=mapping,
        definition=definition,
        died_locations=tuple(died_locations or ()),
        delimiter=scoring.delimiter,
        encoding=scoring.encoding,
    )
    is_named = any((since, schema, mapping, definition, died_locations))
    if is_named or has_admissions(source, tables):
        if notes != "chosen":
            raise BadParameter(
                "--notes: no effect on a hospital's tables, whose notes the model chooses"
            )
        _score_discharges(source, make_task, out, scoring, tables, since, form)
        return
    if form != "table":
        from clinical.cohort.result import Cohort

        # Only a cohort has the times that other forms need.
        Cohort.open(source)
    options.score_source(make_task, source, out, scoring)
    _export(out, Path(source), form)


def _score_discharges(
    source: str,
    make_task: Callable[[], ReadmissionTask],
    out: Path,
    scoring: options.ScoringOptions,
    tables: SourceOptions,
    since: str | None,
    form: str,
) -> None:
    """Score the stays of a source with admissions that were discharged since a time."""
    from clinical.risk.discharges import new_discharges, parse_since
    from domainbert.tables.options import table_format

    table_format(out)  # before a source is read
    scoring.refuse(
        *("text", "stay", "patient", "note", "time", "column", "query"),
        because="on a hospital's tables: name its columns in a --mapping",
    )
    start = None
    if since:
        start = parse_since(since)
    task = make_task()
    choice = task.choice
    with new_discharges(
        source,
        choice,
        out=out,
        since=start,
        options=tables,
    ) as discharges:
        if since:
            say(
                f"{discharges.n_stays:,} of {discharges.n_admissions:,} stays were discharged "
                f"since {since} or have no discharge time yet"
            )
        if not discharges.n_stays:
            say("there is nothing to score: the table has no rows")
        if choice and choice.definition_sha256 != discharges.definition_sha256:
            say(
                f"note: these stays were chosen by {discharges.definition}, those of the model's "
                f"training by {choice.definition}, or one of the two was edited: check that the "
                "rules are the same, or name others with --definition"
            )
        keep = [*(scoring.keep or ()), "discharge_time"]
        options.score_source(
            lambda: task,
            discharges.path,
            out,
            replace(scoring, keep=keep),
        )
        _export(out, discharges.path, form)


def _export(out: Path, cohort: Path, form: str) -> None:
    if form == "table":
        return
    from clinical.risk.exports import export_scores

    paths = export_scores(out, cohort, form)
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
    """Write the risk of every stay after each of its notes: one row per note, in time order."""

    def make_task() -> TrajectoryTask:
        from clinical.risk.task import TrajectoryTask

        return TrajectoryTask(_load(model, cache, scoring.device), notes=notes)

    options.score_source(make_task, source, out, scoring)


def _load(
    name: str, cache: Path | None, device: str | None
) -> ReadmissionModel:
    """The model, with the window cache if one was asked for."""
    from clinical.risk.model import ReadmissionModel

    model = ReadmissionModel.from_pretrained(name, device=device)
    if cache:
        from domainbert.scoring.cache import WindowCache

        model.cache = WindowCache(cache, model=model.fingerprint())
    return model


@one_line_errors
def convert(
    release: Annotated[
        Path, Argument(help="Folder of the 2019 ClinicalBERT release.")
    ],
    out: options.ModelFolder,
) -> None:
    """Turn the 2019 ClinicalBERT release into a model folder."""
    from clinical.risk.convert import convert_release
    from domainbert.models.storage import check_replaceable

    check_replaceable(out)
    convert_release(release).save_pretrained(out)
    say(f"model in {out}")
