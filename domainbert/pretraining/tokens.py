"""A corpus as tokens: documents on disk, each with the ends of its sentences."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from domainbert.inference import chunked
from domainbert.pretraining.shards import TOKENS, Shards, ShardWriter, token_type

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from transformers import PreTrainedTokenizerBase

ENDS = "ends"
# Sentences that are tokenised together.
TOGETHER = 4096


def write_documents(
    corpus: Iterable[tuple[str, list[str]]],
    folder: Path,
    *,
    tokenizer: PreTrainedTokenizerBase,
    sides: Iterable[str],
) -> None:
    """Tokenise a corpus into shards.

    Args:
        corpus: the side of each document and its sentences.
        folder: is there.
        tokenizer: a fast one.
        sides: there are; each has shards of its name.
    """
    columns = {TOKENS: pa.list_(token_type(len(tokenizer))), ENDS: pa.list_(pa.int32())}
    with ExitStack() as stack:
        writers = {
            side: stack.enter_context(ShardWriter(folder, name=side, columns=columns))
            for side in sides
        }
        for documents in chunked(corpus, size=lambda found: len(found[1]), limit=TOGETHER):
            tokens = iter(_tokenised([s for _, found in documents for s in found], tokenizer))
            for side, found in documents:
                parts = [part for part in (next(tokens) for _ in found) if part]
                if parts:
                    joined = [token for part in parts for token in part]
                    writers[side].append(tokens=joined, ends=np.cumsum([*map(len, parts)]))


def _tokenised(sentences: list[str], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    encoded = tokenizer(
        sentences,
        add_special_tokens=False,
        return_attention_mask=False,
        return_token_type_ids=False,
        split_special_tokens=True,
        truncation=False,
        verbose=False,
    )
    return list(encoded["input_ids"])


class Documents:
    """The documents of one side of a corpus.

    Args:
        folder: with the shards.
        side: their name.
    """

    def __init__(self, folder: Path, *, side: str) -> None:
        self._shards = Shards(folder, name=side)

    def __len__(self) -> int:
        """Documents."""
        return len(self._shards)

    def tokens(self, document: int) -> np.ndarray:
        """All its tokens, shape (tokens,)."""
        return self._shards.items(document, TOKENS)

    def ends(self, document: int) -> np.ndarray:
        """One past the last token of each of its sentences, shape (sentences,)."""
        return self._shards.items(document, ENDS)

    def frequencies(self, vocabulary: int) -> np.ndarray:
        """How often each token stands there, shape (vocabulary,)."""
        shards = self._shards.values(TOKENS)
        return np.sum([np.bincount(values, minlength=vocabulary) for values in shards], axis=0)
