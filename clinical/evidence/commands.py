"""The command `clinical explain`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from domainbert.cli import options
from domainbert.cli.console import one_line_errors, say, stdout
from domainbert.errors import UserError
from domainbert.files import write_json

if TYPE_CHECKING:
    from clinical.evidence.task import ExplainTask


@one_line_errors
@options.takes_scoring_options
def explain(
    source: options.Source,
    model: options.ModelName,
    out: Annotated[Path, typer.Option(help="The table of passages; with --evaluate, JSON.")],
    top: Annotated[int, typer.Option(min=1, help="Passages per stay, of each direction.")] = 5,
    with_text: Annotated[
        bool, typer.Option("--with-text", help="Also write the passages' own words.")
    ] = False,
    pages: Annotated[
        Path | None, typer.Option(help="Write a page with the notes of every stay to this folder.")
    ] = None,
    *,
    scoring: options.ScoringOptions,
    evaluate: Annotated[
        bool,
        typer.Option("--evaluate", help="Measure how faithful the passages of a cohort are."),
    ] = False,
    split: Annotated[str, typer.Option(help="With --evaluate: the side to evaluate on.")] = "test",
    stays: Annotated[
        int, typer.Option(min=1, help="With --evaluate: this many stays at most, drawn at random.")
    ] = 100,
    record: Annotated[
        bool,
        typer.Option("--record", help="With --evaluate: add the result to the card of MODEL."),
    ] = False,
    seed: Annotated[int, typer.Option(help="With --evaluate: of all random choices.")] = 0,
) -> None:
    """Find the passages behind each stay's risk, or measure how faithful they are."""
    from domainbert.cli.scoring import score_source

    if record and not Path(model).is_dir():
        raise UserError(
            f"--record changes the card in the model's folder, and {model} is no folder of yours; "
            "pass the folder of a model that you trained, or leave out --record"
        )
    if evaluate:
        _evaluate(
            model, Path(source), out, split, stays, seed, device=scoring.device, record=record
        )
        return

    def make_task() -> ExplainTask:
        from clinical.evidence.task import ExplainTask
        from clinical.risk.model import RiskModel

        loaded = RiskModel.from_pretrained(model, device=scoring.device)
        return ExplainTask(loaded, top=top, text=with_text, pages=pages)

    if pages:
        pages.mkdir(parents=True, exist_ok=True)
    score_source(make_task, source, out, scoring)


def _evaluate(
    model: str,
    cohort: Path,
    out: Path,
    split: str,
    stays: int,
    seed: int,
    *,
    device: str | None,
    record: bool,
) -> None:
    """Measure faithfulness on a random part of one side that the model was not trained on."""
    from clinical.evidence.faithfulness import evaluate_faithfulness
    from clinical.risk.model import RiskModel
    from clinical.stays.cohorts import read_cohort, usable_stays
    from clinical.stays.patients import check_unseen

    loaded = RiskModel.from_pretrained(model, device=device)
    rows = usable_stays(read_cohort(cohort))
    side = rows[rows["split"] == split]
    if side.empty:
        raise UserError(f"the cohort has no stays on the side {split!r}")
    check_unseen(side["patient_id"], loaded.manifest, side=split)
    chosen = side.sample(min(stays, len(side)), random_state=seed)
    measured = evaluate_faithfulness(loaded, chosen, seed=seed)
    stdout.print(measured.verdict(), markup=False, soft_wrap=True)
    say(f"measured on {measured.stays} stays of {measured.patients} patients")
    facts = {"model": model, "cohort": cohort.name, "side": split, "seed": seed}
    document = {**facts, **measured.to_dict()}
    write_json(document, out)
    if record:
        loaded.manifest["evidence"] = document
        loaded.save_pretrained(Path(model))
