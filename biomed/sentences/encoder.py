"""SentenceEncoder and CrossEncoder: the two kinds of sentence model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from domainbert.encoders.loading import DEFAULT_ENCODER
from domainbert.models.embedder import Embedder
from domainbert.models.pairs import PairModel

if TYPE_CHECKING:
    import numpy as np


class SentenceEncoder(Embedder):
    """Sentences and longer texts as vectors; see `domainbert.models.embedder.Embedder`.

    Every token is read: a text longer than a window gives one vector pooled over its windows
    (`encode`), or one vector per passage with its place in the text (`embed_passages`).
    """

    package, task = "biomed", "sentences"
    train_command = "biomed sentences train PAIRS --out MODEL"

    @classmethod
    def from_pretrained(cls, name: str | Path = DEFAULT_ENCODER, **options: Any) -> Self:
        """Load a model: a shipped name, a folder (also of sentence-transformers), `hub:owner/name`.

        Args:
            name: of the model; by default the shipped encoder, which was trained on sentences.
            **options: pooling, layers, unit_norm, device, batch_tokens; see
                `Embedder.from_pretrained`.

        Raises:
            EncoderError: no such model, or one that cannot be used here.
        """
        return super().from_pretrained(name, **options)

    def encode(self, texts: str | Sequence[str]) -> np.ndarray:
        """The vectors of texts, shape (texts, dimension), or (dimension,) for one text.

        Raises:
            UserError: a text that has no vector; the message has its number.
        """
        return self.embed(texts)


class CrossEncoder(PairModel):
    """Two texts read together -> a score; see `domainbert.models.pairs.PairModel`."""

    package, task = "biomed", "pairs"
    train_command = "biomed sentences train PAIRS --kind cross-encoder --out MODEL"
