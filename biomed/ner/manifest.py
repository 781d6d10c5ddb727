"""What is kept with an entity model: its settings, and its scores on corpora."""

from domainbert.models.manifest import Manifest, Record, Scores
from domainbert.models.model import WindowSettings


class EntitySettings(WindowSettings):
    """The windows of an entity model.

    Attributes:
        calibration: slope and intercept that make the scores of an entity type probabilities;
            see `recipes/calibration.py`. Types without one keep the network's score.
        abbreviations: the words that nearly always are of an entity type, as they are spelt.
            Their log-odds are raised by `LISTED` when tags are decoded.
    """

    calibration: dict[str, list[float]] = {}
    abbreviations: dict[str, list[str]] = {}


# Corpus, then entity type or "all", then measure.
CorpusScores = dict[str, dict[str, dict[str, float]]]


class EntityScores(Scores):
    """How an entity model scored on the sides of its corpora."""

    devel: CorpusScores = {}
    test: CorpusScores = {}

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

    scores: EntityScores = EntityScores()
    seeds: list[SeedRun] = []
    average: float | None = None
