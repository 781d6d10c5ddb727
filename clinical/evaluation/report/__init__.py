"""The committee's report: one HTML page, and the documents that rules and guidelines ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clinical.evaluation.report.examples import example_calls
from clinical.evaluation.report.facts import gather
from clinical.evaluation.report.hospital import Hospital
from clinical.evaluation.report.page import About, write_metrics, write_report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clinical.evaluation.comparison import Comparison
    from clinical.risk.model import ReadmissionModel

__all__ = ["About", "Hospital", "describe", "write_metrics", "write_report"]


def describe(
    model: ReadmissionModel,
    comparison: Comparison,
    *,
    name: str,
    summary: Mapping[str, Any] | None = None,
    hospital: Hospital | None = None,
    include_notes: bool = False,
) -> About:
    """What the report's documents need, from a model and its evaluation.

    Args:
        model: the one that was evaluated.
        comparison: its evaluation.
        name: of the model, as the user gave it.
        summary: of the cohort, from `clinical.cohort.Cohort`; None for other tables.
        hospital: its answers; none by default.
        include_notes: show parts of the notes of up to four stays. Only for made-up patients, or
            where whoever reads the report may read the notes.
    """
    working = comparison.use.working if comparison.use else None
    examples = []
    if include_notes:
        level = working.threshold if working else None
        examples = example_calls(model, comparison.stays, threshold=level)
    facts = gather(model, comparison, name=name, summary=summary)
    return About(facts, hospital or Hospital(), tuple(examples))
