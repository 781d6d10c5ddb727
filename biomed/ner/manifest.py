"""The manifest of an entity model: its scores on each corpus and with each seed."""

from __future__ import annotations

from pydantic import Field

from domainbert.models.manifest import Manifest, Record, Scores

# Corpus, then entity type or "all", then measure.
CorpusScores = dict[str, dict[str, dict[str, float]]]


class EntityScores(Scores):
    """How an entity model scored on the sides of its corpora."""

    devel: CorpusScores = Field(default_factory=dict)
    test: CorpusScores = Field(default_factory=dict)

    def of_side(self, side: str) -> CorpusScores:
        """The scores of the side "devel" or "test"."""
        return {"devel": self.devel, "test": self.test}[side]


class SeedRun(Record):
    """The F1 of a run with one seed, by corpus."""

    seed: int
    devel: dict[str, float]
    test: dict[str, float]


class EntityManifest(Manifest):
    """All that is known of an entity model beyond what loading needs.

    Attributes:
        seeds: the runs with different seeds, if there were several.
        average: share of the start in the average of the runs; None without averaging.
    """

    scores: EntityScores = Field(default_factory=EntityScores)
    seeds: list[SeedRun] = Field(default_factory=list)
    average: float | None = None
