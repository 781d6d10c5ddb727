"""Which tokens are hidden, and behind what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from domainbert.pretraining.vocabulary import CONTINUES

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

IGNORED = -100  # what is not predicted
# Of the hidden tokens (Devlin et al., arXiv 1810.04805): so many show [MASK], so many a random
# piece, and the others themselves.
AS_MASK, AS_RANDOM = 0.8, 0.1


class Masker:
    """Hides tokens for the model to predict.

    Every token but the special ones has the same chance, independently; with whole words, every
    word has, and its pieces go together.

    Args:
        tokenizer: whose special tokens are never hidden, nor put in another's place.
        masked: share of tokens to hide.
        whole_words: see above.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        *,
        masked: float = 0.15,
        whole_words: bool = False,
    ) -> None:
        pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        self._special = np.zeros(len(pieces), dtype=bool)
        self._special[tokenizer.all_special_ids] = True
        self._continues = np.array([piece.startswith(CONTINUES) for piece in pieces])
        unused = np.array([piece.startswith("[unused") for piece in pieces])
        self._ordinary = np.flatnonzero(~(self._special | unused))
        self._mask = tokenizer.mask_token_id
        self._masked, self._whole_words = masked, whole_words

    def hide(
        self, ids: np.ndarray, generator: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Hide tokens of a batch.

        Args:
            ids: shape (rows, tokens), padded with the tokenizer's own padding.
            generator: decides.

        Returns:
            What the model is shown, and what it must predict (`IGNORED` elsewhere); both of the
            shape of `ids`, int64.
        """
        chance = generator.random(ids.shape)
        if self._whole_words:
            chance = np.take_along_axis(chance, self._word_starts(ids), axis=1)
        hidden = (chance < self._masked) & ~self._special[ids]
        behind = generator.random(ids.shape)
        random = generator.choice(self._ordinary, size=ids.shape)
        shown = np.where(hidden & (behind < AS_MASK), self._mask, ids)
        is_random = hidden & (behind >= AS_MASK) & (behind < AS_MASK + AS_RANDOM)
        return np.where(is_random, random, shown), np.where(hidden, ids, IGNORED)

    def _word_starts(self, ids: np.ndarray) -> np.ndarray:
        """The place where the word of each token starts, shape (rows, tokens)."""
        continues = self._continues[ids]
        # A segment may start in the middle of a word that did not fit before.
        continues[:, 1:] &= ~self._special[ids[:, :-1]]
        continues[:, 0] = False
        places = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
        return np.maximum.accumulate(np.where(continues, 0, places), axis=1)
