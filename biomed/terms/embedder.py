"""TermEmbedder: a medical term -> its vector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from biomed.folder import BiomedFolder
from domainbert.embedding import Embedder, check_many
from domainbert.pooling import unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import pandas as pd

DEFAULT_MODEL = "terms"


class TermEmbedder(BiomedFolder, Embedder):
    """Medical terms as vectors; see `domainbert.embedding.Embedder` for arguments and methods."""

    task = "terms"
    train_command = "biomed terms train DATA --recipe terms --out MODEL"

    @classmethod
    def from_pretrained(cls, name: str | Path = DEFAULT_MODEL, **options: Any) -> Self:
        """Load a model; by default the shipped one.

        Args:
            name: "terms" is trained on medical terms, "all-MiniLM-L6-v2" is the plain encoder; or
                a folder or hub:owner/name.
            **options: pooling, layers, unit_norm, device, batch_tokens; see
                `Embedder.from_pretrained`.

        Raises:
            EncoderError: no such encoder, or one that cannot be used here.
        """
        return super().from_pretrained(name, **options)

    def embed(
        self, texts: str | Sequence[str], *, sentences: Iterable[str] | None = None
    ) -> np.ndarray:
        """The vectors of terms.

        Args:
            texts: a term, or several.
            sentences: where given, a term's vector is the mean of its own tokens over the
                sentences that contain it (see `biomed.terms.context.embed_in_context`). A term
                in none of them is embedded alone.

        Returns:
            Shape (terms, dimension), or (dimension,) for one term; float32.

        Raises:
            UserError: see `Embedder.embed`.
        """
        if sentences is None:
            return super().embed(texts)
        from biomed.terms.context import embed_in_context

        terms = [texts] if isinstance(texts, str) else texts
        vectors = embed_in_context(self, terms, sentences).vectors
        return vectors[0] if isinstance(texts, str) else vectors

    def similarity_matrix(
        self, terms: Sequence[str], others: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """Cosines of all terms with all others (or with each other), named on both sides."""
        import pandas as pd

        for names in (terms, others):
            check_many(names)
        rows = unit(self.embed(list(terms)))
        columns = rows if others is None else unit(self.embed(list(others)))
        across = pd.Index(list(terms if others is None else others))
        cosines = np.clip(rows @ columns.T, -1, 1)
        return pd.DataFrame(cosines, index=pd.Index(list(terms)), columns=across)

    def nearest(
        self,
        term: str,
        vocabulary: Sequence[str] | pd.DataFrame | None = None,
        *,
        k: int = 10,
        context: str = "",
    ) -> pd.DataFrame:
        """The k terms of a vocabulary nearest to a term, by name, synonym and then by vector.

        The vocabulary is a list of terms, or a table with `term` and `synonyms`; by default the
        shipped one. For many terms make one `biomed.TermIndex`; its `nearest` has the details.

        Raises:
            UserError: an empty vocabulary, one string instead of a list, or k < 1.
        """
        from biomed.terms.similarity import TermIndex

        return TermIndex(self, vocabulary).nearest(term, k=k, context=context)
