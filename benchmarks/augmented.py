"""Augmented SBERT with 1,000 rated pairs: gold only, augmented, and all pairs rated.

For each seed, 1,000 pairs of STS-B train are the rated ones and 300 others choose the weights; the
upper baseline trains on all the rest. STS-B dev measures and chooses nothing. With `--general`, the
paper's second case: the cross-encoder trains on pairs of other genres than captions, the silver
pairs are captions, and the captions of dev measure.

    python benchmarks/augmented.py --data ../shared/data --out augmented.json
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from reporting import options, report, say, versions_of

from biomed import SentenceEncoder
from biomed.sentences.augment import AugmentRecipe, augment
from biomed.sentences.data import read_pairs, without
from biomed.sentences.evaluation import evaluate_pairs
from biomed.sentences.training import fit
from domainbert.encoders.loading import DEFAULT_ENCODER
from domainbert.training.recipes import read_recipe

if TYPE_CHECKING:
    import pandas as pd

GOLD = 1000
VALIDATION = 300
CAPTIONS = "main-captions"


def few_rated(
    train: pd.DataFrame,
    test: pd.DataFrame,
    *,
    seed: int,
    upper: bool,
    pooling: str,
) -> Any:
    """Spearman on test of each way of training."""
    recipe = _recipe(seed, pooling)
    unread_pairs = without(train, test)
    order = np.random.default_rng(seed).permutation(len(unread_pairs))
    gold = unread_pairs.iloc[order[:GOLD]]
    validation = unread_pairs.iloc[order[GOLD : GOLD + VALIDATION]]
    augmented = augment(recipe, gold, validation)
    # As many steps on gold alone as on gold and silver, so that only the pairs differ.
    longer = (
        recipe.training.epochs
        * (len(gold) + len(augmented.silver))
        / len(gold)
    )
    long = recipe.replaced(
        training=recipe.training.replaced(epochs=round(longer))
    )
    models: dict[str, Any] = {
        "gold only": fit(gold, long, validation=validation),
        "gold and silver": augmented.encoder,
        "cross-encoder on gold": augmented.cross,
    }
    if upper:
        models["all pairs rated"] = fit(
            unread_pairs, recipe, validation=validation
        )
    return {name: _spearman(model, test) for name, model in models.items()}


def none_rated(
    train: pd.DataFrame,
    test: pd.DataFrame,
    genres: list[Any],
    *,
    seed: int,
    pooling: str,
) -> Any:
    """The same for a domain without rated pairs: captions."""
    is_caption, is_test_caption = (
        np.array(part) == CAPTIONS for part in genres
    )
    captions = test[is_test_caption]
    domain = train[is_caption]
    general = without(train[~is_caption], test)
    recipe = _recipe(seed, pooling)
    order = np.random.default_rng(seed).permutation(len(general))
    gold = general.iloc[order[VALIDATION:]]
    validation = general.iloc[order[:VALIDATION]]
    texts = [*domain["first"], *domain["second"]]
    augmented = augment(
        recipe, gold, validation, texts=texts, silver_only=True
    )
    return {
        "general pairs only": _spearman(
            fit(gold, recipe, validation=validation), captions
        ),
        "silver pairs of the domain": _spearman(augmented.encoder, captions),
        "cross-encoder on general pairs": _spearman(augmented.cross, captions),
    }


def _recipe(seed: int, pooling: str) -> AugmentRecipe:
    changes = {
        "training.seed": seed,
        "cross.seed": seed,
        "model.pooling": pooling,
    }
    return read_recipe(AugmentRecipe, "augmented", changes)


def _genres(path: Path) -> list[str]:
    return [
        line.split("\t")[0]
        for line in path.read_text("utf-8").splitlines()
        if line
    ]


def _spearman(model: Any, pairs: pd.DataFrame) -> float:
    return float(evaluate_pairs(model, pairs).scores["Spearman"].value or 0)


def main() -> int:
    """Run all seeds and report means."""
    parser = options(__doc__ or "", quick=False)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--upper",
        type=int,
        default=1,
        help="that many seeds have all pairs too",
    )
    parser.add_argument(
        "--general", action="store_true", help="the case without rated pairs"
    )
    parser.add_argument("--pooling", default="mean")
    asked = parser.parse_args()
    paths = [
        asked.data / "sentences" / f"stsb_en_{side}.tsv"
        for side in ("train", "dev")
    ]
    train, test = map(read_pairs, paths)
    genres = [_genres(path) for path in paths]
    runs = []
    for number, seed in enumerate(asked.seeds):
        if asked.general:
            runs.append(
                none_rated(
                    train, test, genres, seed=seed, pooling=asked.pooling
                )
            )
        else:
            upper = number < asked.upper
            runs.append(
                few_rated(
                    train, test, seed=seed, upper=upper, pooling=asked.pooling
                )
            )
        say(f"seed {seed}: {runs[-1]}")
    plain = _spearman(
        SentenceEncoder.from_pretrained(
            DEFAULT_ENCODER, pooling=asked.pooling
        ),
        test,
    )
    rows = [
        {
            "trained on": "nothing (plain)",
            "Spearman": f"{plain:.4f}",
            "by seed": "",
        }
    ]
    for name in runs[0]:
        values = [run[name] for run in runs if name in run]
        by_seed = ", ".join(f"{value:.4f}" for value in values)
        rows.append(
            {
                "trained on": name,
                "Spearman": f"{np.mean(values):.4f}",
                "by seed": by_seed,
            }
        )
    setting = {
        "gold": GOLD,
        "seeds": asked.seeds,
        **versions_of("torch", "transformers"),
    }
    setting |= {"recipe": "augmented", "pooling": asked.pooling}
    report(
        rows,
        setting=setting,
        measured={"runs": runs, "plain": plain},
        out=asked.out,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
