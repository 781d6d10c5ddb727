"""Words: the ranking of texts by the words of a query (BM25)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from domainbert.errors import UserError
from domainbert.ranking import Hits

if TYPE_CHECKING:
    from collections.abc import Sequence


class Words:
    """BM25 over texts (Robertson and Zaragoza 2009, by bm25s): the baseline by words.

    Args:
        texts: the texts, one row each.

    Raises:
        UserError: bm25s is not installed, or no text has a word that counts.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        try:
            import bm25s
        except ImportError:
            raise UserError("BM25 needs bm25s: pip install 'domainbert[search]'") from None
        self._library, self._count = bm25s, len(texts)
        self._index = bm25s.BM25()
        tokens = self._tokens(list(texts))
        if not any(map(len, tokens.ids)):
            raise UserError("no text has a word that BM25 counts; search by meaning alone")
        self._index.index(tokens, show_progress=False)

    def search(self, queries: Sequence[str], *, k: int) -> Hits:
        """The k best rows of each query; a row without a word of the query is not among them."""
        some = min(k, self._count)
        tokens = self._tokens(list(queries))
        rows, scores = self._index.retrieve(tokens, k=some, show_progress=False)
        rows, scores = np.asarray(rows, dtype=np.int64), np.asarray(scores, dtype=np.float32)
        none = scores <= 0
        pad = ((0, 0), (0, k - some))
        return Hits(
            np.pad(np.where(none, -1, rows), pad, constant_values=-1),
            np.pad(np.where(none, np.nan, scores), pad, constant_values=np.nan),
        )

    def _tokens(self, texts: list[str]) -> Any:
        return self._library.tokenize(texts, stopwords="en", show_progress=False)
