"""Answer: what is found for a question."""

from __future__ import annotations

from dataclasses import dataclass

SCORE_KIND = "logit_margin"


@dataclass(frozen=True)
class Answer:
    """A run of characters that answers a question; `context[start:end] == text`.

    That there is no answer is an answer too: its text is "", its positions are 0, and its score
    is that of the best candidate, which did not pass the threshold.

    Attributes:
        text: the answer, exactly as it stands in the context.
        start: its first character.
        end: one past its last character.
        score: how far it beats "no answer here" (see `score_kind`); higher is surer. It is no
            probability.
        score_kind: "logit_margin": the logit of its start plus that of its end, minus the same sum
            for [CLS], which stands for "no answer", in the window where it was read. Logits of
            different windows are known only up to a constant of each window; this difference is
            free of it, and so it can be compared across windows and documents.
        document: which of the documents it is in, from 0.
        passage_start: first character of the window in which it was read.
        passage_end: one past the window's last character.
    """

    text: str
    start: int
    end: int
    score: float
    score_kind: str = SCORE_KIND
    document: int = 0
    passage_start: int = 0
    passage_end: int = 0

    @property
    def is_found(self) -> bool:
        """Whether this is a run of characters, not "no answer"."""
        return self.end > self.start
