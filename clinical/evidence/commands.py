"""The command `clinical explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from clinical.risk.commands import NotesOption  # noqa: TC001  (typer reads it at run time)
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
    notes: NotesOption = "chosen",
    *,
    scoring: options.ScoringOptions,
) -> None:
    """Find the passages behind each stay's risk."""

    def make_task() -> ExplainTask:
        from clinical.evidence.task import ExplainTask
        from clinical.risk.model import ReadmissionModel

        loaded = ReadmissionModel.from_pretrained(model, device=scoring.device)
        return ExplainTask(loaded, top=top, text=with_text, notes=notes)

    options.score_source(make_task, source, out, scoring)
