"""SentenceEncoder and CrossEncoder: the two kinds of sentence model."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from domainbert.models.embedder import Embedder
from domainbert.models.pairs import PairModel


class SentenceEncoder(Embedder):
    """Sentences and longer texts as vectors; see `domainbert.models.embedder.Embedder`.

    Every token is read: a text longer than a window gives one vector pooled over its windows
    (`encode`), or one vector per passage with its position (`embed_passages`).
    """

    package = "biomed"
    task = "sentences"
    default = "terms"
    trainer = "biomed.sentences.training:fit"
    tasks: ClassVar = {"sentence vectors": "biomed.sentences.task:EncodeTask"}

    def encode(self, texts: str | Sequence[str]) -> np.ndarray:
        """The vectors of texts, shape (texts, dimension), or (dimension,) for one text.

        Raises:
            UserError: a text that has no vector; the message has its number.
        """
        return self.embed(texts)


class CrossEncoder(PairModel):
    """A score for two texts that are read together; see `domainbert.models.pairs.PairModel`.

    The shipped one, `rerank`, says how well a passage answers a question.
    """

    package = "biomed"
    task = "pairs"
    default = "rerank"
    trainer = "biomed.sentences.training:fit"
    tasks: ClassVar = {"pairs": "biomed.sentences.task:PairTask"}
