"""Augmented SBERT: a cross-encoder labels new pairs, and a bi-encoder learns from them.

Thakur et al. 2021 (arXiv 2010.08240). Few rated pairs are enough for a cross-encoder. It rates
pairs of other texts (silver pairs), and the bi-encoder trains on rated and silver pairs. Where no
pair of the domain is rated, the cross-encoder trains on general pairs, and the bi-encoder on silver
pairs of the domain alone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import numpy as np
from pydantic import Field

from biomed.sentences.data import keys, scores
from biomed.sentences.encoder import SentenceEncoder
from biomed.sentences.training import SentenceRecipe, train_from_recipe
from domainbert.errors import UserError
from domainbert.models.pooling import unit
from domainbert.search import top_k
from domainbert.settings import Count, Settings
from domainbert.training.recipes import Card
from domainbert.training.settings import TrainingSettings

if TYPE_CHECKING:
    import pandas as pd

    from biomed.sentences.encoder import CrossEncoder

Pair = tuple[str, str]
log = logging.getLogger(__name__)


class SilverTable(Settings):
    """The `[silver]` table: which new pairs are rated.

    Attributes:
        pairs: silver pairs at most.
        neighbours: texts that each text is paired with by semantic search.
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


class Augmented(NamedTuple):
    """The bi-encoder, the cross-encoder that rated, and the pairs that it rated."""

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
    """Train a cross-encoder, rate new pairs by it, and train a bi-encoder.

    Args:
        recipe: the plan; its objective must be one that reads scores.
        rated: pairs with scores from 0 to the recipe's scale, of the domain or general.
        validation: others, which choose the weights of both models.
        texts: what the new pairs are made of; by default the texts of `rated`.
        silver_only: train the bi-encoder on silver pairs alone, for rated pairs of another domain.
        checkpoints: folder of both trainings, see `train_from_recipe`; and so for `resume`.
        resume: see there.

    Raises:
        UserError: scores beyond the scale, fewer than two texts, no new pair, or no silver pair
            where it alone would train.
    """
    import pandas as pd

    def place(name: str) -> dict[str, Any]:
        return {
            "checkpoints": Path(checkpoints) / name if checkpoints else None,
            "resume": resume,
        }

    # Bad texts are reported before anything trains.
    texts = texts or [*rated["first"], *rated["second"]]
    new = candidates(texts, recipe, without=[rated, validation])
    model = recipe.model.replaced(kind="cross-encoder")
    plan = recipe.replaced(model=model, training=recipe.cross, card=Card())
    trained = train_from_recipe(plan, rated, validation, **place("cross-encoder"))
    cross = cast("CrossEncoder", trained)
    given = np.array([result.score for result in cross.predict_many(new)])
    silver = silver_pairs(new, given, rated, recipe)
    log.info("%d of %d new pairs are silver pairs", len(silver), len(new))
    if silver_only and silver.empty:
        msg = f"no silver pair: none of {len(new)} new pairs scores as rated ones; use fewer bins"
        raise UserError(msg)
    both = silver if silver_only else pd.concat([rated, silver], ignore_index=True)
    encoder = train_from_recipe(recipe, both, validation, **place("bi-encoder"))
    encoder.manifest["counts"] |= {
        "rated pairs": len(rated),
        "silver pairs": len(silver),
        "candidates for silver pairs": len(new),
    }
    encoder.manifest["cross_encoder"] = cross.manifest["validation"]
    return Augmented(cast("SentenceEncoder", encoder), cross, silver)


def candidates(
    texts: Sequence[str], recipe: AugmentRecipe, *, without: Sequence[pd.DataFrame] = ()
) -> list[Pair]:
    """New pairs: each text with its neighbours by meaning, and with random texts.

    Args:
        texts: any; repeated ones count once.
        recipe: its `[silver]` table, and the encoder for the search by meaning.
        without: pairs that are known, in either order.

    Raises:
        UserError: fewer than two different texts, or no new pair.
    """
    texts = list(dict.fromkeys(texts))
    number = len(texts)
    if number < 2:
        raise UserError(f"new pairs need at least two different texts, got {number}")
    table = recipe.silver
    generator = np.random.default_rng(recipe.training.seed)
    partners = generator.integers(0, number, (number, table.random))
    if table.neighbours:
        vectors = unit(
            SentenceEncoder.from_pretrained(recipe.model.encoder).embed(texts)
        )
        # A text is its own best neighbour.
        nearest = top_k(vectors, [vectors], k=min(table.neighbours + 1, number)).rows
        partners = np.hstack([partners, nearest])
    known = {key for pairs in without for key in keys(pairs)}
    new: dict[frozenset[str], Pair] = {}
    for first, row in zip(texts, partners.tolist(), strict=True):
        for second in (texts[place] for place in row):
            pair = frozenset((first, second))
            if len(pair) == 2 and pair not in known:
                new.setdefault(pair, (first, second))
    if not new:
        raise UserError(
            "no new pair: every pair of these texts is rated; name other texts"
        )
    return list(new.values())


def silver_pairs(
    new: Sequence[Pair], given: np.ndarray, rated: pd.DataFrame, recipe: AugmentRecipe
) -> pd.DataFrame:
    """New pairs, drawn at random so that they score as the rated pairs do.

    Args:
        new: from `candidates`.
        given: their scores in [0, 1], shape (pairs,).
        rated: pairs whose distribution of scores is kept.
        recipe: its `[silver]` table (fewer pairs are drawn where a bin has too few), scale, seed.

    Returns:
        `first, second, label`, in the order of `new`.
    """
    import pandas as pd

    table, scale = recipe.silver, recipe.model.scale
    generator = np.random.default_rng(recipe.training.seed)
    edges = np.linspace(0, 1, table.bins + 1)[1:-1]
    bins = np.digitize(given, edges)
    wanted = np.bincount(np.digitize(scores(rated, scale), edges), minlength=table.bins)
    drawn = [
        generator.permutation(np.flatnonzero(bins == number))[
            : round(share * table.pairs)
        ]
        for number, share in enumerate(wanted / len(rated))
    ]
    pairs = pd.DataFrame(list(new), columns=["first", "second"])
    return pairs.assign(label=(given * scale).astype(str)).iloc[
        np.sort(np.concatenate(drawn))
    ]
