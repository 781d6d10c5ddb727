"""What is asked of a cohort: the checked arguments of `build_cohort`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from clinical.cohort.definition import Definition, Schema
from clinical.stays.choice import NoteChoice


@dataclass(frozen=True)
class Request:
    """The checked arguments of `build_cohort`; `hours` for early notes only."""

    schema: Schema
    notes: str
    hours: float | None
    definition: Definition
    seed: int
    data_end: datetime | None
    derive_data_end: bool
    split_by: str
    fractions: Mapping[str, float]

    @property
    def choice(self) -> NoteChoice:
        """Which notes of a stay are read."""
        notes: Literal["early", "discharge"] = "discharge"
        if self.notes == "early":
            notes = "early"
        return NoteChoice(
            notes=notes,
            hours=self.hours,
            summaries=self.schema.summary_categories,
            addenda=self.schema.addendum_kinds,
            transfer_gap_hours=self.definition.episode.transfer_gap_hours,
            definition=f"{self.definition.name} {self.definition.version}",
            definition_sha256=self.definition.sha256,
            event=self.definition.event,
        )
