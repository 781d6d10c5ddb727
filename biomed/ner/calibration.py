"""Calibration of entity scores: how often an entity with a score of 0.8 is right.

Platt scaling (Platt 1999) of the log-odds of the network's score, for each entity type, fitted on
the entities that the network finds in devel sides. The map is monotone, so the order of the
entities of a type stays.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from biomed.corpora.documents import spans_of
from biomed.ner.decoding import calibrated, log_odds
from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from biomed.corpora.corpus import Gold
    from biomed.ner.network import WordTagger

Maps = dict[str, list[float]]  # of each type: slope and intercept on the log-odds
_FLATTEST = 1e-4  # slope
_FEWEST = 50  # entities to fit a type on


@dataclass(frozen=True, eq=False)
class Scored:
    """The entities that a network finds: type, score and whether each is right, in text order."""

    kinds: np.ndarray
    scores: np.ndarray
    right: np.ndarray

    def part(self, chosen: np.ndarray) -> Scored:
        """Some of the entities."""
        return Scored(self.kinds[chosen], self.scores[chosen], self.right[chosen])


def scored_entities(model: WordTagger, golds: Iterable[Gold]) -> Scored:
    """The entities that a network finds in corpora, of the types that each corpus annotates.

    The scores are the network's own, whatever calibration the model has.
    """
    rows: list[tuple[str, float, bool]] = []
    for gold in golds:
        entities = model.entities_of((text.words for text in gold.texts), raw=True)
        for text, found in zip(gold.texts, entities, strict=True):
            right = set(spans_of(text.tags))
            rows += [
                (kind, score, (first, end, kind) in right)
                for first, end, kind, score in found
                if kind in gold.types
            ]
    kinds, scores, hits = zip(*rows, strict=True) if rows else ((), (), ())
    return Scored(np.array(kinds, dtype=str), np.array(scores), np.array(hits, dtype=bool))


def fit_maps(entities: Scored) -> Maps:
    """The map of each type.

    Raises:
        UserError: fewer than 50 entities of a type, or none that is right or wrong.
    """
    from sklearn.linear_model import LogisticRegression

    maps: Maps = {}
    for kind in sorted(set(entities.kinds.tolist())):
        part = entities.part(entities.kinds == kind)
        if len(part.scores) < _FEWEST or len(set(part.right.tolist())) < 2:
            msg = f"{kind}: {len(part.scores)} entities found; expected {_FEWEST}, right and wrong"
            raise UserError(msg)
        fitted = LogisticRegression(C=1e4).fit(log_odds(part.scores)[:, None], part.right)
        slope = max(float(fitted.coef_[0, 0]), _FLATTEST)
        maps[kind] = [round(slope, 4), round(float(fitted.intercept_[0]), 4)]
    if not maps:
        raise UserError("the model finds no entity in these corpora; nothing to calibrate on")
    return maps


def apply(maps: Mapping[str, Sequence[float]], entities: Scored) -> np.ndarray:
    """The calibrated scores, shape (entities,); those of types without a map stay."""
    result = entities.scores.copy()
    for kind, (slope, intercept) in maps.items():
        chosen = entities.kinds == kind
        result[chosen] = calibrated(result[chosen], slope, intercept)
    return result


def cross_fitted(entities: Scored) -> np.ndarray:
    """Calibrated scores by maps that were fitted on the other half, every second entity."""
    half = np.arange(len(entities.scores)) % 2 == 0
    result = np.empty(len(entities.scores))
    for side in (half, ~half):
        result[side] = apply(fit_maps(entities.part(~side)), entities.part(side))
    return result


def bins_of(scores: np.ndarray, right: np.ndarray, *, bins: int = 10) -> list[tuple[float, ...]]:
    """Mean score, share of right entities and count in each of equally wide bins that has any."""
    place = np.minimum((scores * bins).astype(int), bins - 1)
    rows: dict[int, list[int]] = defaultdict(list)
    for number, bin_ in enumerate(place.tolist()):
        rows[bin_].append(number)
    return [
        (float(scores[n].mean()), float(right[n].mean()), len(n)) for _, n in sorted(rows.items())
    ]


def calibration_error(scores: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error over ten bins: the mean distance of score and share, weighted."""
    total = max(len(scores), 1)
    return sum(n * abs(mean - share) for mean, share, n in bins_of(scores, right)) / total


def plot_reliability(curves: Mapping[str, tuple[np.ndarray, np.ndarray]], path: str | Path) -> None:
    """Draw the share of right entities against the score, a line for each {name: (scores, right)}.

    The area of a point grows with the number of entities in its bin.
    """
    from domainbert.figures import COLOURS, DASHES, GREY, new_axes, save_figure

    figure, (axes,) = new_axes((5, 4.2))
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
    for number, (name, (scores, right)) in enumerate(curves.items()):
        mean, share, count = map(np.array, zip(*bins_of(scores, right), strict=True))
        colour = COLOURS[number % len(COLOURS)]
        error = calibration_error(scores, right)
        axes.plot(
            mean,
            share,
            color=colour,
            linestyle=DASHES[number % len(DASHES)],
            label=f"{name} (error {error:.3f})",
        )
        axes.scatter(mean, share, s=8 + 120 * count / count.max(), color=colour, alpha=0.7)
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="score", ylabel="share of right entities")
    axes.legend(loc="upper left", frameon=False)
    save_figure(figure, path)
