"""Calibration of entity scores: how often an entity with a score of 0.8 is right.

Platt scaling (Platt 1999) of the log-odds of the network's score, for each entity type, fitted on
the entities that the network finds in devel sides. The map is monotone, so the order of the
entities of a type stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.corpora.documents import spans_of
from biomed.ner.decoding import calibrated, log_odds
from biomed.ner.evaluation import evaluate_documents, evaluate_words
from biomed.ner.tagger import EntityTagger
from domainbert.calibration import bins_of, calibration_error, fit_platt
from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from biomed.corpora.corpus import Gold
    from biomed.ner.network import WordTagger

Maps = dict[str, list[float]]  # of each type: slope and intercept on the log-odds
_FEWEST = 50  # entities to fit a type on
_NOTE = (
    "Platt scaling for each entity type makes the score the probability that an entity is right; "
    "fitted on the {entities} entities that the model finds in {devel}. The expected calibration "
    "error before and after is {errors}; on devel each half was measured by a fit on the other. "
    "The table is of {table}."
)


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
    maps: Maps = {}
    for kind in sorted(set(entities.kinds.tolist())):
        part = entities.part(entities.kinds == kind)
        if len(part.scores) < _FEWEST or len(set(part.right.tolist())) < 2:
            msg = f"{kind}: {len(part.scores)} entities found; expected {_FEWEST}, right and wrong"
            raise UserError(msg)
        maps[kind] = list(fit_platt(log_odds(part.scores), part.right))
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


Curves = dict[str, tuple[np.ndarray, np.ndarray]]


def calibrate(
    model: WordTagger, devel: Sequence[Gold], test: Sequence[Gold] = ()
) -> tuple[dict[str, Any], Curves]:
    """Fit a model's scores on devel sides, and measure them on others.

    The model's settings and manifest are changed; precision, recall and F1 on the sides that are
    only measured go to its card.

    Raises:
        UserError: too few entities, see `fit_maps`, or two test sides of one name.

    Returns:
        The manifest's note, the errors on each side, and bins of the scores after (on the sides
        that were only measured, or on devel); and the curves {"before" and "calibrated": (scores,
        whether right)} of the same entities.
    """
    found = scored_entities(model, devel)
    maps = fit_maps(found)
    parts = {"devel": (found, cross_fitted(found))}
    for gold in test:
        if gold.name in parts:
            raise UserError(f"two sides are named {gold.name}; rename one of the files")
        other = scored_entities(model, [gold])
        parts[gold.name] = (other, apply(maps, other))
        scores = (
            evaluate_documents(EntityTagger(model), gold)
            if gold.documents
            else evaluate_words(model, gold)
        )
        scores.add_to_card(model.manifest, gold.name)
    sides = {
        name: {
            "entities": len(found.scores),
            "right": float(found.right.mean()),
            "before": calibration_error(found.scores, found.right),
            "after": calibration_error(after, found.right),
        }
        for name, (found, after) in parts.items()
    }
    shown = list(parts)[1:] or list(parts)
    right = np.concatenate([parts[name][0].right for name in shown])
    before = np.concatenate([parts[name][0].scores for name in shown])
    after = np.concatenate([parts[name][1] for name in shown])
    errors = (f"{e['before']:.3f} and {e['after']:.3f} on {name}" for name, e in sides.items())
    note = _NOTE.format(
        entities=f"{len(found.scores):,}",
        devel=", ".join(gold.name for gold in devel),
        errors=", ".join(errors),
        table=", ".join(shown),
    )
    numbers = {"note": note, "sides": sides, "bins": bins_of(after, right)}
    model.settings = model.settings.replaced(calibration=maps)
    model.manifest["calibration"] = numbers
    return numbers, {"before": (before, right), "calibrated": (after, right)}
