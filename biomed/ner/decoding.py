"""Viterbi decoding of IOB2 tags and the score of each entity. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from biomed.corpora.documents import OUTSIDE
from domainbert.calibration import platt
from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

_NEAREST = 1e-6
NO_WORDS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class TagScheme:
    """The tag of each output of a network, the entity types (sorted), and their B and I outputs."""

    labels: tuple[str, ...]
    types: tuple[str, ...]
    begin: np.ndarray
    inside: np.ndarray

    @classmethod
    def of(cls, labels: Sequence[str]) -> TagScheme:
        """The scheme of outputs that are named `O` and a pair `B-type`, `I-type` for each type."""
        labels = tuple(labels)
        place = {label: number for number, label in enumerate(labels)}
        types = tuple(sorted(label[2:] for label in labels if label.startswith("B-")))
        wanted = tags_for(types)
        if not types or len(place) != len(labels) or set(labels) != set(wanted):
            shown = ", ".join(labels[:9]) + (", …" if len(labels) > 9 else "")
            msg = f"the labels are {shown}; IOB2 needs O, and B-type with I-type for each type"
            raise UserError(msg)
        begin = np.array([place[f"B-{kind}"] for kind in types])
        inside = np.array([place[f"I-{kind}"] for kind in types])
        return cls(labels, types, begin, inside)


def tags_for(types: Sequence[str]) -> tuple[str, ...]:
    """All IOB2 tags of these entity types, `O` first."""
    return (OUTSIDE, *(f"{mark}-{kind}" for kind in types for mark in "BI"))


@dataclass(frozen=True, eq=False)
class Found:
    """First and last word, index in `scheme.types` and score of each entity, shape (entities,)."""

    first: np.ndarray
    last: np.ndarray
    kind: np.ndarray
    score: np.ndarray


def best_path(scores: np.ndarray, *, scheme: TagScheme, starts: np.ndarray) -> np.ndarray:
    """The valid IOB2 tag sequence with the largest sum of scores (Viterbi), in linear time.

    `I-x` may follow `B-x` or `I-x` only. The words are split into blocks that are decoded in
    parallel. A block starts at each word where no I tag scores better than its B tag: B may follow
    any tag, and whatever may follow I may follow B, so an optimal path never needs I there.

    Args:
        scores: log-probability of each tag for each word of consecutive texts, shape
            (words, labels).
        scheme: the tags.
        starts: words into which no entity continues: the first word of each text, and others.

    Returns:
        The output number of each word's tag, shape (words,).
    """
    begin, inside = scheme.begin, scheme.inside
    closed = np.asarray((scores[:, inside] <= scores[:, begin]).all(axis=1))
    closed[starts] = True
    closed[:1] = True
    firsts = np.flatnonzero(closed)
    lengths = np.diff(np.append(firsts, len(scores)))
    order = np.argsort(-lengths, kind="stable")
    firsts, lengths = firsts[order], lengths[order]
    # Blocks longer than t come first: step t is one operation on the head of the list.
    active = np.searchsorted(-lengths, -np.arange(lengths[0] if len(lengths) else 0))
    back = np.zeros(scores.shape, dtype=np.int64)
    value = np.array(scores[firsts])
    value[:, inside] = -np.inf
    final = np.zeros_like(value)
    for step, rows in enumerate(active):
        if step:
            # The best sum for each tag, and the tag before it.
            words, value = firsts[:rows] + step, value[:rows]
            before = np.repeat(value.argmax(axis=1)[:, None], value.shape[1], axis=1)
            before[:, inside] = np.where(value[:, inside] > value[:, begin], inside, begin)
            value, back[words] = scores[words] + np.take_along_axis(value, before, axis=1), before
        final[:rows] = value
    # Follow the back pointers from the last word of each block.
    tag, path = final.argmax(axis=1), np.zeros(len(scores), dtype=np.int64)
    for step, rows in enumerate(active):
        words = (firsts + lengths)[:rows] - 1 - step
        path[words] = tag[:rows]
        tag[:rows] = back[words, tag[:rows]]
    return path


def find_entities(
    log_probabilities: np.ndarray,
    *,
    scheme: TagScheme,
    starts: np.ndarray,
    joined: np.ndarray = NO_WORDS,
) -> Found:
    """The entities of the best path (see `best_path`), in word order; scored as in `Entity`.

    Where no entity can continue, what the network takes for a continuation is a beginning: a
    network without line breaks in its input reads on from one list item into the next. No entity
    ends before one of the `joined` words: what the network says of them does not count.
    """
    scores = log_probabilities.copy()
    both = (log_probabilities[starts][:, tags] for tags in (scheme.begin, scheme.inside))
    scores[np.ix_(starts, scheme.begin)] = np.maximum(*both)
    scores[joined, scheme.labels.index(OUTSIDE)] = -_NEAREST
    scores[np.ix_(joined, scheme.inside)] = 0.0
    path = best_path(scores, scheme=scheme, starts=starts)
    is_inside = np.isin(path, scheme.inside)
    first = np.flatnonzero(np.isin(path, scheme.begin))
    stops = np.append(np.flatnonzero(~is_inside), len(path))
    last = stops[np.searchsorted(stops, first, side="right")] - 1
    kind_of = np.zeros(len(scheme.labels), dtype=np.int64)
    kind_of[scheme.begin] = np.arange(len(scheme.types))
    kind = kind_of[path[first]]
    taken = scores[np.arange(len(path)), path].astype(np.float64)
    total = np.concatenate(([0.0], np.cumsum(taken)))
    continues = np.zeros((len(path) + 1, len(scheme.types)))
    continues[:-1] = np.exp(log_probabilities[:, scheme.inside])
    continues[starts] = 0.0
    score = np.exp(total[last + 1] - total[first]) * (1 - continues[last + 1, kind])
    return Found(first, last, kind, score)


def log_odds(score: np.ndarray | float) -> np.ndarray:
    """log(p / (1 - p)) of scores in [0, 1], which are kept a millionth away from 0 and 1."""
    clipped = np.clip(score, _NEAREST, 1 - _NEAREST)
    return np.log(clipped / (1 - clipped))


def calibrated(score: np.ndarray | float, slope: float, intercept: float) -> np.ndarray:
    """`platt` of the log-odds of scores in [0, 1], elementwise."""
    return platt(log_odds(score), slope, intercept)
