"""The commands that use readmission models: score, discharges, trajectory, convert."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from typer import Argument, Option

from clinical.cohort.commands import DiedLocations, MappingFile  # noqa: TC001  (typer reads it at run time)
from domainbert.cli import options
from domainbert.cli.console import one_line_errors, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from clinical.risk.diagnoses import DiagnosisModel
    from clinical.risk.discharges import SourceOptions
    from clinical.risk.model import ReadmissionModel
    from clinical.risk.stay_model import StayModel
    from clinical.risk.task import StayTask, TrajectoryTask

    AnyStayTask = StayTask[Any]
    AnyStayModel = TypeVar("AnyStayModel", bound=StayModel[Any, Any])

Cache = Annotated[
    Path | None,
    Option(
        help="Keep what the model gives for each window in this file, and reuse it in later runs."
    ),
]
NotesOption = Annotated[
    Literal["chosen", "as-given"],
    Option(
        "--notes",
        help="chosen: the categories of notes the model was trained on; as-given: all notes.",
    ),
]
Remaining = Annotated[
    bool,
    Option(
        "--remaining",
        help="Add the remaining risk on days 1, 3, 7, 14 and 21 after discharge.",
    ),
]
Top = Annotated[
    int | None,
    Option(
        min=1,
        help="Of a model of diagnoses: only so many of the most probable groups of each stay.",
    ),
]
ExportForm = Annotated[
    Literal["table", "meds", "omop", "fhir"],
    Option(
        "--format",
        help="meds, omop or fhir: also write the risks in this form; needs a cohort or a hospital.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class HospitalOptions:
    """How to read a hospital's tables, as an argument of a command."""

    since: Annotated[
        str | None,
        Option(
            help="Only the stays of a hospital's tables or a cohort that were discharged since "
            "this date or time, and those still in hospital."
        ),
    ] = None
    schema: Annotated[
        str | None,
        Option(help="Form of a hospital's tables, as for clinical cohort."),
    ] = None
    mapping: MappingFile = None
    definition: Annotated[
        str | None,
        Option(
            help="Definition for a hospital's tables; by default the model's, if shipped."
        ),
    ] = None
    died_locations: DiedLocations = None

    def __bool__(self) -> bool:
        """Whether one of these options is used."""
        return any(vars(self).values())

    def source_options(self, run: options.RunOptions) -> SourceOptions:
        """The options of a source with admissions, for `new_discharges`."""
        from clinical.risk.discharges import SourceOptions

        return SourceOptions(
            schema=self.schema,
            mapping=self.mapping,
            definition=self.definition,
            died_locations=tuple(self.died_locations or ()),
            delimiter=run.delimiter,
            encoding=run.encoding,
            escape=run.escape,
        )


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
    remaining: Remaining = False,
    top: Top = None,
    form: ExportForm = "table",
) -> None:
    """Score every stay of a table of notes or of a cohort; see discharges for a hospital's tables.

    Each stay gets one row, with a status and a reason; with a model of diagnoses, a row for each
    group.
    """

    def make_task() -> AnyStayTask:
        return _scoring_task(
            model,
            cache,
            scoring,
            notes=notes,
            remaining=remaining,
            top=top,
            form=form,
        )

    _refuse_admissions(source, scoring)
    if form != "table":
        from clinical.cohort.result import Cohort

        # Only a cohort has the times that other forms need.
        Cohort.open(source)
    options.score_source(make_task, source, out, scoring)
    _export(out, Path(source), form, top=top)


def _scoring_task(
    name: str,
    cache: Path | None,
    run: options.RunOptions,
    *,
    notes: Literal["chosen", "as-given"] = "chosen",
    remaining: bool,
    top: int | None,
    form: str,
) -> AnyStayTask:
    """The task of a model of risks or of diagnoses; a `UserError` for options of the other."""
    from domainbert.errors import UserError

    if has_groups(name):
        return _groups_task(
            load_groups(name, cache, run),
            notes,
            top=top,
            remaining=remaining,
            form=form,
        )
    from clinical.risk.task import ReadmissionTask

    if top is not None:
        raise UserError("--top is for a model of diagnoses")
    return ReadmissionTask(
        load_model(name, cache, run), notes=notes, remaining=remaining
    )


def _groups_task(
    model: DiagnosisModel,
    notes: Literal["chosen", "as-given"],
    *,
    top: int | None,
    remaining: bool,
    form: str,
) -> AnyStayTask:
    """The task of a model of diagnoses; a `UserError` for options of risks alone."""
    from clinical.risk.diagnosis_task import DiagnosisTask
    from domainbert.errors import UserError

    if remaining:
        raise UserError(
            "--remaining is for risks; a model of diagnoses writes a table of groups"
        )
    if form == "meds":
        raise UserError(
            "MEDS predictions are of one outcome; write groups of codes with --format omop or fhir"
        )
    if form != "table" and top is None and not model.settings.thresholds:
        raise UserError(
            "this model has no thresholds, so nothing is proposed: add --top 5"
        )
    return DiagnosisTask(model, notes=notes, top=top)


def _refuse_admissions(source: str, run: options.RunOptions) -> None:
    """Raise a `UserError` for a folder with admissions, whose rules a table of notes lacks."""
    if not Path(source).is_dir():
        return
    from clinical.risk.discharges import has_admissions
    from domainbert.errors import UserError

    if has_admissions(source, HospitalOptions().source_options(run)):
        raise UserError(
            f"{source} holds the admissions of a hospital; expected a table of notes or a cohort: "
            "score its stays with `clinical discharges`, or name one of its files"
        )


@one_line_errors
@options.takes_options
def discharges(
    hospital: Annotated[
        str,
        Argument(
            metavar="HOSPITAL",
            help="A folder, DuckDB file, postgresql:// or sqlite:// with admissions and notes, "
            "or a cohort.",
        ),
    ],
    model: options.ModelName,
    out: options.Table,
    *,
    tables: HospitalOptions,
    run: options.RunOptions,
    cache: Cache = None,
    remaining: Remaining = False,
    top: Top = None,
    form: ExportForm = "table",
) -> None:
    """Score the stays of a hospital's tables that were discharged since a date or time.

    The tables are read as clinical cohort reads them. Each stay gets one row, with a status and a
    reason.
    """

    def make_task() -> AnyStayTask:
        return _scoring_task(
            model, cache, run, remaining=remaining, top=top, form=form
        )

    score_discharges(make_task, hospital, out, tables, run, form=form, top=top)


def score_discharges(
    make_task: Callable[[], AnyStayTask],
    hospital: str,
    out: Path,
    tables: HospitalOptions,
    run: options.RunOptions,
    *,
    form: str = "table",
    top: int | None = None,
) -> None:
    """Run a task over the stays of a hospital that were discharged since a time."""
    from clinical.risk.discharges import new_discharges, parse_since
    from domainbert.tables.options import table_format

    table_format(out)  # before a source is read
    start = None
    if tables.since:
        start = parse_since(tables.since)
    task = make_task()
    choice = task.choice
    with new_discharges(
        hospital,
        choice,
        out=out,
        since=start,
        options=tables.source_options(run),
    ) as stays:
        if tables.since:
            say(
                f"{stays.n_stays:,} of {stays.n_admissions:,} stays were discharged "
                f"since {tables.since} or have no discharge time yet"
            )
        if not stays.n_stays:
            say("there is nothing to score: the table has no rows")
        if choice and choice.definition_sha256 != stays.definition_sha256:
            say(
                f"note: these stays were chosen by {stays.definition}, those of the model's "
                f"training by {choice.definition}, or one of the two was edited: check that the "
                "rules are the same, or name others with --definition"
            )
        keep = [*(run.keep or ()), "discharge_time"]
        options.score_source(
            lambda: task, stays.path, out, replace(run, keep=keep)
        )
        _export(out, stays.path, form, top=top)


def _export(
    out: Path, cohort: Path, form: str, *, top: int | None = None
) -> None:
    if form == "table":
        return
    from clinical.risk.exports import export_scores

    paths = export_scores(out, cohort, form, top=top is not None)
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

        return TrajectoryTask(load_model(model, cache, scoring), notes=notes)

    options.score_source(make_task, source, out, scoring)


def load_model(
    name: str, cache: Path | None, run: options.RunOptions
) -> ReadmissionModel:
    """The model, with the window cache if one was asked for."""
    from clinical.risk.model import ReadmissionModel

    return _with_cache(
        ReadmissionModel.from_pretrained(name, **run.loading()), cache
    )


def load_groups(
    name: str, cache: Path | None, run: options.RunOptions
) -> DiagnosisModel:
    """The same of a model of diagnoses."""
    from clinical.risk.diagnoses import DiagnosisModel

    return _with_cache(
        DiagnosisModel.from_pretrained(name, **run.loading()), cache
    )


def _with_cache(model: AnyStayModel, cache: Path | None) -> AnyStayModel:
    if cache:
        from domainbert.scoring.cache import WindowCache

        model.cache = WindowCache(cache, model=model.fingerprint())
    return model


def has_groups(name: str) -> bool:
    """Whether a shipped model or a model folder is one of diagnoses."""
    from domainbert.files import expanded
    from domainbert.models.storage import read_task_config, shipped_models

    folder = shipped_models("clinical").get(name, expanded(name))
    if not (folder / "config.json").is_file():
        return False
    config = read_task_config(folder)
    return config is not None and config.task == "diagnoses"


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
