"""Augmented SBERT: a cross-encoder labels new pairs, and a bi-encoder learns from them.

Thakur et al. 2021 (arXiv 2010.08240). Few rated pairs are enough for a cross-encoder. It rates
pairs of other texts (silver pairs), and the bi-encoder trains on rated and silver pairs. Where no
pair of the domain is rated, the cross-encoder trains on general pairs, and the bi-encoder on silver
pairs of the domain alone.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
from pydantic import Field

from biomed.sentences.data import Examples
from biomed.sentences.encoder import SentenceEncoder
from biomed.sentences.search import SentenceIndex
from biomed.sentences.training import SentenceRecipe, train_from_recipe
from domainbert.errors import UserError
from domainbert.settings import Count, Settings
from domainbert.training.recipes import Card
from domainbert.training.settings import TrainingSettings
from domainbert.words import Words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from domainbert.pairs import PairModel

Pair = tuple[str, str]
log = logging.getLogger(__name__)


class SilverTable(Settings):
    """The `[silver]` table: which new pairs are rated.

    Attributes:
        pairs: silver pairs at most.
        neighbours: texts that each text is paired with by BM25, and by semantic search.
        random: random texts that each text is paired with; most of them are unlike it.
        bins: of the scores from 0 to 1; silver pairs are drawn so that each bin has its share of
            the rated pairs.
    """

    pairs: Count = 4000
    neighbours: Annotated[int, Field(ge=0)] = 3
    random: Annotated[int, Field(ge=0)] = 2
    bins: Count = 10


class AugmentRecipe(SentenceRecipe):
    """A recipe of Augmented SBERT.

    Attributes:
        cross: how the cross-encoder trains; `[training]` is the bi-encoder's.
        silver: see `SilverTable`.
    """

    cross: TrainingSettings = TrainingSettings()
    silver: SilverTable = SilverTable()


@dataclass(frozen=True)
class Augmented:
    """What Augmented SBERT makes.

    Attributes:
        encoder: the bi-encoder.
        cross: the cross-encoder that rated.
        silver: the pairs that it rated, with scores from 0 to the recipe's scale.
    """

    encoder: SentenceEncoder
    cross: PairModel
    silver: Examples


def augment(
    recipe: AugmentRecipe,
    rated: Examples,
    validation: Examples,
    *,
    texts: Sequence[str] | None = None,
    silver_only: bool = False,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> Augmented:
    """Train a cross-encoder, rate new pairs by it, and train a bi-encoder.

    Args:
        recipe: the plan; its objective must be one that reads scores.
        rated: pairs with scores from 0 to the recipe's scale, of the domain or general.
        validation: others, which choose the weights of both models.
        texts: what the new pairs are made of; by default the texts of `rated`.
        silver_only: train the bi-encoder on silver pairs alone, for rated pairs of another domain.
        checkpoints: folder that keeps the checkpoints of both trainings; by default temporary.
        resume: continue from the last checkpoints there.

    Raises:
        UserError: scores beyond the scale, fewer than two texts, no new pair, or no silver pair
            where it alone would train.
    """
    places: dict[str, dict[str, Any]] = {
        name: {"checkpoints": Path(checkpoints) / name if checkpoints else None, "resume": resume}
        for name in ("cross-encoder", "bi-encoder")
    }
    # What is wrong with the texts is said before anything trains.
    new = candidates(texts or [*rated.first, *rated.second], recipe, without=(rated, validation))
    model = recipe.model.replaced(kind="cross-encoder")
    plan = recipe.replaced(model=model, training=recipe.cross, card=Card())
    cross = cast("PairModel", train_from_recipe(plan, rated, validation, **places["cross-encoder"]))
    silver = rate(cross, new, rated, recipe)
    log.info("%d of %d new pairs are silver pairs", len(silver), len(new))
    if silver_only and not silver:
        msg = f"no silver pair: none of {len(new)} new pairs scores as rated ones; use fewer bins"
        raise UserError(msg)
    both = silver if silver_only else rated.joined(silver)
    trained = train_from_recipe(recipe, both, validation, **places["bi-encoder"])
    encoder = cast("SentenceEncoder", trained)
    encoder.manifest["counts"] |= {
        "rated pairs": len(rated),
        "silver pairs": len(silver),
        "candidates for silver pairs": len(new),
    }
    encoder.manifest["cross_encoder"] = cross.manifest["validation"]
    return Augmented(encoder, cross, silver)


def candidates(
    texts: Sequence[str], recipe: AugmentRecipe, *, without: Sequence[Examples] = ()
) -> list[Pair]:
    """New pairs: each text with its neighbours by words and by meaning, and with random texts.

    Args:
        texts: any; repeated ones count once.
        recipe: its `[silver]` table, and the encoder for the search by meaning.
        without: pairs that are known, in either order.

    Raises:
        UserError: fewer than two different texts, or no new pair.
    """
    texts = list(dict.fromkeys(texts))
    if len(texts) < 2:
        msg = f"new pairs need at least two different texts, got {len(texts)}"
        raise UserError(msg)
    table, own = recipe.silver, np.arange(len(texts))[:, None]
    generator = np.random.default_rng(recipe.training.seed)
    found = [generator.integers(0, len(texts), (len(texts), table.random))]
    if table.neighbours:
        # A text is its own best neighbour.
        some = min(table.neighbours + 1, len(texts))
        found.append(Words(texts).search(texts, k=some).rows)
        found.append(_by_meaning(texts, recipe, k=some))
    known = {pair for part in without for pair in part.pairs()}
    rows = np.hstack(found)
    new: dict[frozenset[str], Pair] = {}
    for first, second in zip(np.broadcast_to(own, rows.shape).flat, rows.flat, strict=True):
        pair = (texts[first], texts[second])
        if second >= 0 and first != second and frozenset(pair) not in known:
            new.setdefault(frozenset(pair), pair)
    if not new:
        raise UserError("no new pair: every pair of these texts is rated; name other texts")
    return list(new.values())


def _by_meaning(texts: list[str], recipe: AugmentRecipe, *, k: int) -> np.ndarray:
    encoder = SentenceEncoder.from_pretrained(recipe.model.encoder)
    index = SentenceIndex.build(texts, encoder)
    hits = index.vectors.search(encoder.embed(texts), k=k)
    # A text of several passages has several rows, each with the text's number as its id.
    numbers = index.vectors.rows(np.arange(len(index)))["id"].astype(int).to_numpy()
    return np.where(hits.rows >= 0, numbers[hits.rows], -1)


def rate(cross: PairModel, new: Sequence[Pair], rated: Examples, recipe: AugmentRecipe) -> Examples:
    """The silver pairs: scored by the cross-encoder, and drawn to score as the rated pairs do.

    Args:
        cross: gives the scores.
        new: from `candidates`.
        rated: pairs whose distribution of scores is kept.
        recipe: its `[silver]` table, scale and seed.
    """
    scores = np.array([result.score for result in cross.predict_many(new)])
    rows = alike(
        scores,
        np.array(rated.scores(recipe.data.scale)),
        count=recipe.silver.pairs,
        bins=recipe.silver.bins,
        seed=recipe.training.seed,
    )
    labels = [str(float(score) * recipe.data.scale) for score in scores[rows]]
    return Examples([new[i][0] for i in rows], [new[i][1] for i in rows], [], labels)


def alike(
    scores: np.ndarray, wanted: np.ndarray, *, count: int, bins: int, seed: int = 0
) -> np.ndarray:
    """Rows drawn at random, so that their scores are distributed like others.

    Args:
        scores: in [0, 1], shape (rows,).
        wanted: scores in [0, 1] whose distribution is kept.
        count: rows at most; fewer where a bin has too few.
        bins: equal parts of [0, 1].
        seed: of the draw.

    Returns:
        Row numbers, sorted, shape (at most count,).
    """
    generator = np.random.default_rng(seed)
    places, target = (
        np.minimum((values * bins).astype(int), bins - 1) for values in (scores, wanted)
    )
    shares = np.bincount(target, minlength=bins) / len(target)
    drawn = []
    for number, share in enumerate(shares):
        here = np.flatnonzero(places == number)
        drawn.append(generator.permutation(here)[: round(share * count)])
    return np.sort(np.concatenate(drawn))
