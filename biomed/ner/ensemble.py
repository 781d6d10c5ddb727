"""Several networks of one kind that tag as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from biomed.ner.network import WordTagger
    from biomed.ner.reading import Pieces


class TaggerEnsemble:
    """Networks, such as one recipe's of several seeds, whose mean probabilities decide.

    Args:
        models: with the same labels and the same tokenizer; their encoders may differ.

    Raises:
        ValueError: no models, or models that differ in labels or tokenizer.
    """

    def __init__(self, models: Sequence[WordTagger]) -> None:
        if not models or any(model.labels != models[0].labels for model in models):
            msg = "models tag together only where all find the same entity types"
            raise UserError(msg)
        if any(model.tokenizer_hash != models[0].tokenizer_hash for model in models):
            msg = "models tag together only where all have the same tokenizer"
            raise UserError(msg)
        self.models = tuple(models)
        self.scheme = models[0].scheme
        self.buffer_tokens = models[0].runner.buffer_tokens

    def log_probabilities(self, texts: Sequence[Pieces]) -> np.ndarray:
        """The logarithm of each tag's mean probability, shape (words read, labels), float32."""
        each = np.stack([model.log_probabilities(texts) for model in self.models])
        return np.logaddexp.reduce(each) - np.float32(np.log(len(self.models)))

    def tags(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """The IOB2 tag of every word of every sentence; see `WordTagger.tags`."""
        return self.models[0].decoded(sentences, self.log_probabilities)
