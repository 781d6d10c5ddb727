"""Augmented SBERT: a cross-encoder rates new pairs, and a bi-encoder trains on them.

Thakur et al. 2021 (arXiv 2010.08240). A cross-encoder needs only few rated pairs. It then rates
pairs of other texts (silver pairs), and the bi-encoder trains on rated and silver pairs. For a
domain without rated pairs, the cross-encoder trains on general pairs, and the bi-encoder trains on
silver pairs of the domain alone.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import pandas as pd

from biomed.sentences.data import keys, scores
from biomed.sentences.encoder import CrossEncoder, SentenceEncoder
from biomed.sentences.training import SentenceRecipe, fit
from domainbert.errors import UserError
from domainbert.models.manifest import Card
from domainbert.models.pooling import unit
from domainbert.search import top_k
from domainbert.settings import Count, NotNegative, Settings
from domainbert.training.settings import Resuming, TrainingSettings

Pair = tuple[str, str]
log = logging.getLogger(__name__)


class SilverTable(Settings):
    """The `[silver]` table: how new pairs are chosen.

    Attributes:
        pairs: maximum number of silver pairs.
        neighbours: number of nearest texts that each text is paired with.
        random: number of random texts that each text is paired with; most are dissimilar.
        bins: number of bins of the scores from 0 to 1. Silver pairs are drawn so that each bin
            has the same share as among the rated pairs.
    """

    pairs: Count = 4000
    neighbours: NotNegative = 3
    random: NotNegative = 2
    bins: Count = 10


class AugmentRecipe(SentenceRecipe):
    """A recipe of Augmented SBERT.

    Attributes:
        cross: settings of the cross-encoder's training; `[training]` is for the bi-encoder.
        silver: see `SilverTable`.
    """

    cross: TrainingSettings = TrainingSettings()
    silver: SilverTable = SilverTable()


class Augmented(NamedTuple):
    """The bi-encoder, the cross-encoder, and the pairs that the cross-encoder rated."""

    encoder: SentenceEncoder
    cross: CrossEncoder
    silver: pd.DataFrame


def augment(
    recipe: AugmentRecipe,
    rated: pd.DataFrame,
    validation: pd.DataFrame,
    *,
    texts: Sequence[str] | None = None,
    silver_only: bool = False,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> Augmented:
    """Train a cross-encoder, rate new pairs with it, and train a bi-encoder.

    Args:
        recipe: the recipe; its objective must use scores.
        rated: pairs with scores from 0 to the recipe's scale, of the domain or general.
        validation: pairs that choose the weights of both models.
        texts: texts for new pairs; by default those of `rated`.
        silver_only: train the bi-encoder on silver pairs alone, if `rated` is of another domain.
        checkpoints: folder for the checkpoints of both models, see `fit`.
        resume: see `fit`.

    Raises:
        UserError: scores beyond the scale, fewer than two texts, no new pair, or no silver pair
            with `silver_only`.
    """

    def resuming(name: str) -> Resuming:
        folder = checkpoints and Path(checkpoints) / name
        return {"checkpoints": folder, "resume": resume}

    # Bad texts are reported before anything trains.
    texts = texts or [*rated["first"], *rated["second"]]
    new = candidates(texts, recipe, without=[rated, validation])
    cross = _train_cross(recipe, rated, validation, resuming("cross-encoder"))
    new_scores = np.array([result.score for result in cross.predict_many(new)])
    silver = silver_pairs(new, new_scores, rated, recipe)
    log.info("%d of %d new pairs are silver pairs", len(silver), len(new))
    if silver_only and silver.empty:
        raise UserError(
            f"no silver pair: no new pair of {len(new)} scores like the rated ones; use fewer bins"
        )
    training_pairs = silver
    if not silver_only:
        training_pairs = pd.concat([rated, silver], ignore_index=True)
    encoder = fit(
        training_pairs,
        recipe,
        validation=validation,
        **resuming("bi-encoder"),
    )
    manifest = encoder.manifest
    manifest.data.counts |= {
        "rated pairs": len(rated),
        "silver pairs": len(silver),
        "candidates for silver pairs": len(new),
    }
    manifest.scores.table["cross-encoder"] = cross.manifest.scores.table[
        "validation"
    ]
    return Augmented(cast("SentenceEncoder", encoder), cross, silver)


def _train_cross(
    recipe: AugmentRecipe,
    rated: pd.DataFrame,
    validation: pd.DataFrame,
    resuming: Resuming,
) -> CrossEncoder:
    """The cross-encoder that rates the new pairs, trained on the rated ones."""
    table = recipe.model.replaced(kind="cross-encoder")
    cross_recipe = recipe.replaced(
        model=table, training=recipe.cross, card=Card()
    )
    cross = fit(rated, cross_recipe, validation=validation, **resuming)
    return cast("CrossEncoder", cross)


def candidates(
    texts: Sequence[str],
    recipe: AugmentRecipe,
    *,
    without: Sequence[pd.DataFrame] = (),
) -> list[Pair]:
    """New pairs: each text with its nearest texts, and with random texts.

    Args:
        texts: repeated texts count once.
        recipe: gives the `[silver]` table, and the encoder for the nearest texts.
        without: tables of pairs to leave out, in either order.

    Raises:
        UserError: fewer than two different texts, or no new pair.
    """
    texts = list(dict.fromkeys(texts))
    n_texts = len(texts)
    if n_texts < 2:
        raise UserError(
            f"new pairs need at least two different texts, got {n_texts}"
        )
    table = recipe.silver
    generator = np.random.default_rng(recipe.training.seed)
    partners = generator.integers(0, n_texts, (n_texts, table.random))
    if table.neighbours:
        encoder = SentenceEncoder.from_pretrained(recipe.model.encoder)
        vectors = unit(encoder.embed(texts))
        # A text is its own nearest neighbour.
        k = min(table.neighbours + 1, n_texts)
        partners = np.hstack([partners, top_k(vectors, [vectors], k=k).rows])
    excluded = {key for pairs in without for key in keys(pairs)}
    new: dict[frozenset[str], Pair] = {}
    for first, row in zip(texts, partners.tolist(), strict=True):
        for number in row:
            second = texts[number]
            key = frozenset((first, second))
            if second != first and key not in excluded:
                new.setdefault(key, (first, second))
    if not new:
        raise UserError(
            "no new pair: every pair of these texts is rated; name other texts"
        )
    return list(new.values())


def silver_pairs(
    new: Sequence[Pair],
    new_scores: np.ndarray,
    rated: pd.DataFrame,
    recipe: AugmentRecipe,
) -> pd.DataFrame:
    """New pairs, drawn at random with the distribution of scores of the rated pairs.

    Args:
        new: the new pairs, from `candidates`.
        new_scores: their scores in [0, 1], shape (pairs,).
        rated: pairs whose distribution of scores is matched.
        recipe: gives the `[silver]` table, the scale and the seed. Fewer pairs than the table
            asks for are drawn if a bin has too few.

    Returns:
        `first, second, label`, in the order of `new`.
    """
    table = recipe.silver
    scale = recipe.model.scale
    generator = np.random.default_rng(recipe.training.seed)
    edges = np.linspace(0, 1, table.bins + 1)[1:-1]
    new_bins = np.digitize(new_scores, edges)
    rated_bins = np.digitize(scores(rated, scale), edges)
    rated_counts = np.bincount(rated_bins, minlength=table.bins)
    shares = rated_counts / len(rated)
    drawn = []
    for number, share in enumerate(shares):
        rows = generator.permutation(np.flatnonzero(new_bins == number))
        drawn.append(rows[: round(share * table.pairs)])
    rows = np.sort(np.concatenate(drawn))
    pairs = pd.DataFrame(list(new), columns=["first", "second"])
    pairs["label"] = (new_scores * scale).astype(str)
    return pairs.iloc[rows]
