"""Hard negatives: texts that are near a query and are not its answer."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.sentences.data import Examples
from domainbert.embedding import check_faults
from domainbert.errors import UserError
from domainbert.index import BLOCK_ROWS
from domainbert.pooling import unit
from domainbert.ranking import top_k

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from biomed.sentences.encoder import SentenceEncoder

log = logging.getLogger(__name__)


def mine_negatives(
    pairs: Examples,
    encoder: SentenceEncoder,
    *,
    count: int = 1,
    among: int = 50,
    margin: float = 0.05,
) -> Examples:
    """Give each pair the nearest texts that are not right for its query.

    Vectors lie in a file and are compared block by block, so that memory does not grow with the
    square of the texts.

    Args:
        pairs: queries and the texts that answer them; a query may have several.
        encoder: gives the vectors.
        count: negatives of a pair at most.
        among: nearest texts to choose from.
        margin: a negative's cosine is at least so much below that of the pair, since a nearer
            text is likely to be right too.

    Returns:
        Triplets, a row for each negative; a pair without one is left out, and counted in the log.

    Raises:
        UserError: `count` or `among` below 1, a negative margin, or a text without a vector.
    """
    if count < 1 or among < 1 or margin < 0:
        msg = f"expected count and among from 1 and margin from 0, got {count}, {among}, {margin}"
        raise UserError(msg)
    texts, queries = (list(dict.fromkeys(column)) for column in (pairs.second, pairs.first))
    place = {text: row for row, text in enumerate(texts)}
    right: dict[str, list[int]] = {query: [] for query in queries}
    for query, text in zip(pairs.first, pairs.second, strict=True):
        right[query].append(place[text])
    most = min(len(texts), among + max(map(len, right.values())))
    rows: list[tuple[str, str, str]] = []
    without = 0
    with tempfile.TemporaryDirectory(prefix="negatives-") as folder:
        matrix = _stored(texts, encoder, Path(folder) / "vectors.npy")
        blocks = [matrix[start : start + BLOCK_ROWS] for start in range(0, len(texts), BLOCK_ROWS)]
        for query, vector, near, scores in _nearest(queries, encoder, blocks, k=most):
            own = {*right[query], place.get(query, -1)}
            for answer in right[query]:
                limit = float(vector @ matrix[answer]) - margin
                chosen = [row for row, s in zip(near, scores, strict=True) if s <= limit]
                negatives = [row for row in chosen if row not in own][:count]
                rows += [(query, texts[answer], texts[row]) for row in negatives]
                without += not negatives
        del matrix, blocks
    if without:
        log.info("%d of %d pairs have no negative by this margin", without, len(pairs))
    first, second, third = ([row[column] for row in rows] for column in range(3))
    return Examples(first, second, third, [])


def _stored(texts: Sequence[str], encoder: SentenceEncoder, file: Path) -> np.ndarray:
    """The unit vectors of texts in a memory-mapped file, shape (texts, dimension)."""
    shape = (len(texts), encoder.dimension)
    matrix: Any = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=shape)
    first = 0
    for part in encoder.embed_many(texts):
        check_faults(part.faults, first=first)
        matrix[first : first + len(part.vectors)] = unit(part.vectors)
        first += len(part.vectors)
    return matrix


def _nearest(
    queries: Sequence[str], encoder: SentenceEncoder, blocks: Sequence[np.ndarray], *, k: int
) -> Iterator[tuple[str, np.ndarray, list[int], list[float]]]:
    """Each query, its vector, its k nearest rows, and their cosines."""
    first = 0
    for part in encoder.embed_many(queries):
        check_faults(part.faults, first=first)
        vectors = unit(part.vectors)
        hits = top_k(vectors, blocks, k=k)
        for number, vector in enumerate(vectors):
            near = hits.rows[number].tolist(), hits.scores[number].tolist()
            yield queries[first + number], vector, *near
        first += len(vectors)
