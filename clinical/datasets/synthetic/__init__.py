"""A made-up hospital, shaped like MIMIC-III, in which every stay's true risk is known."""

from clinical.datasets.synthetic.hospital import Hospital, synthesize
from clinical.datasets.synthetic.phrases import FACTS, Fact

__all__ = ["FACTS", "Fact", "Hospital", "synthesize"]
