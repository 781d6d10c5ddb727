"""The command `clinical explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import BadParameter, Option

from clinical.risk.commands import (
    Cache,
    HospitalOptions,
    NotesOption,
    has_groups,
    load_groups,
    load_model,
    score_discharges,
)
from domainbert.cli import options
from domainbert.cli.console import one_line_errors

if TYPE_CHECKING:
    from clinical.evidence.task import ExplainTask


@one_line_errors
@options.takes_options
def explain(
    source: options.Source,
    model: options.ModelName,
    out: options.Table,
    top: Annotated[
        int,
        Option(
            min=1,
            help="Passages per stay that raise the risk, and as many that lower it.",
        ),
    ] = 5,
    with_text: Annotated[
        bool,
        Option("--with-text", help="Also write the text of the passages."),
    ] = False,
    outcome: Annotated[
        str | None,
        Option(help="The group to explain, of a model of diagnoses."),
    ] = None,
    notes: NotesOption = "chosen",
    cache: Cache = None,
    *,
    scoring: options.ScoringOptions,
    tables: HospitalOptions,
) -> None:
    """Find the passages behind each stay's risk, in what score or discharges reads.

    A folder with the admissions of a known form is read as discharges reads it; so is any source
    with --since, --schema, --mapping, --definition or --died-locations. With the --cache of the
    command that scored them, no window of a note runs again.
    """
    from clinical.risk.discharges import has_admissions

    def make_task() -> ExplainTask:
        from clinical.evidence.task import ExplainTask

        if has_groups(model):
            from clinical.evidence.task import DiagnosisExplainTask

            if outcome is None:
                raise BadParameter(
                    "--outcome: a model of diagnoses needs the group to explain, such as I50"
                )
            return DiagnosisExplainTask(
                load_groups(model, cache, scoring),
                outcome=outcome,
                top=top,
                text=with_text,
                notes=notes,
            )
        if outcome is not None:
            raise BadParameter("--outcome: for a model of diagnoses alone")
        loaded = load_model(model, cache, scoring)
        return ExplainTask(loaded, top=top, text=with_text, notes=notes)

    if not tables and not has_admissions(
        source, tables.source_options(scoring)
    ):
        options.score_source(make_task, source, out, scoring)
        return
    if notes != "chosen":
        raise BadParameter(
            "--notes: no effect on a hospital's tables, whose notes the model chooses"
        )
    scoring.refuse(
        *("text", "stay", "patient", "note", "time", "column", "query"),
        because="on a hospital's tables: name its columns in a --mapping",
    )
    score_discharges(make_task, source, out, tables, scoring)
