"""The recipe of term vectors, one TOML file.

[model]      encoder, and pooling, layers as in `biomed.terms.pooling.TermSettings`
[training]   the names of `domainbert.training.TrainingSettings`
[card]       name, title, data, limits, licence, rebuild: what people should know
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from biomed.terms.pooling import TermSettings
from domainbert.encoders import DEFAULT_ENCODER
from domainbert.recipes import CARD_NAMES, read_recipe_tables, training_names

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from biomed.terms.embedder import TermEmbedder
    from biomed.terms.relations import Relation
    from domainbert.training import TrainingSettings

MEDQUAD = "text/medquad.jsonl.gz"
ICD9 = "readmission/icd9_diagnosis_long_titles.txt"
RATED_PAIRS = "terms/umnsrs_similarity_half.csv"
PLAIN = "plain encoder"
TRAINED = "this model"


@dataclass(frozen=True)
class Recipe:
    """A training plan."""

    training: TrainingSettings
    encoder: str = DEFAULT_ENCODER
    settings: TermSettings = field(default_factory=TermSettings)
    card: dict[str, str] = field(default_factory=dict)


def read_recipe(path: Path | None, **overrides: Any) -> Recipe:
    """Read a recipe, or start from the defaults; overrides that are not None win.

    Raises:
        ValueError: not TOML, or a table or name that means nothing, with the legal ones.
    """
    from domainbert.training import TrainingSettings

    own, names = ("encoder", "pooling", "layers"), training_names()
    tables = read_recipe_tables(path, legal={"model": own, "training": names, "card": CARD_NAMES})
    given = {name: value for name, value in overrides.items() if value is not None}
    training = {**tables["training"], **{k: v for k, v in given.items() if k in names}}
    model = {**tables["model"], **{k: v for k, v in given.items() if k in own}}
    encoder = model.pop("encoder", DEFAULT_ENCODER)
    return Recipe(
        training=TrainingSettings(**training),
        encoder=encoder,
        settings=TermSettings(**model),
        card=tables["card"],
    )


def train_from_recipe(
    recipe: Recipe, data: Path, *, vocabulary: Path | None = None
) -> TermEmbedder:
    """Train by a recipe, and measure beside the plain encoder.

    Args:
        recipe: the plan.
        data: folder of the public data sets; rated pairs there are only measured on.
        vocabulary: another one than the shipped.

    Raises:
        TableError: a file that training needs is not there.
    """
    from biomed.terms.embedder import TermEmbedder
    from biomed.terms.relations import read_concepts, synonym_pairs
    from biomed.terms.training import fit
    from biomed.terms.vocabulary import medical_terms, read_vocabulary

    terms = medical_terms() if vocabulary is None else read_vocabulary(vocabulary)
    concepts = read_concepts(data / MEDQUAD)
    parts = all_relations(terms, concepts, data / ICD9)
    trained = fit(
        [relation for part in parts.values() for relation in part],
        validation=synonym_pairs(concepts),
        encoder=recipe.encoder,
        training=recipe.training,
        settings=recipe.settings,
    )
    trained.manifest["counts"] = {
        **{f"relations from {name}": len(part) for name, part in parts.items()},
        "terms of the vocabulary held out": int(terms["held_out"].sum()),
    }
    trained.manifest["card"] = recipe.card
    plain = TermEmbedder.from_pretrained(recipe.encoder)
    trained.manifest["scores"] = {
        PLAIN: measure(plain, terms, data / RATED_PAIRS),
        TRAINED: measure(trained, terms, data / RATED_PAIRS),
    }
    return trained


def all_relations(
    vocabulary: pd.DataFrame, concepts: list[Any], icd9: Path
) -> dict[str, list[Relation]]:
    """Everything that training reads, by where it comes from; held-out names are in none of it."""
    from biomed.terms.relations import (
        concept_relations,
        held_out_names,
        icd9_relations,
        vocabulary_relations,
    )

    without = held_out_names(vocabulary)
    return {
        "the vocabulary": vocabulary_relations(vocabulary),
        "MedQuAD": concept_relations(concepts, without=without),
        "ICD-9": icd9_relations(icd9, without=without),
    }


def measure(embedder: TermEmbedder, vocabulary: pd.DataFrame, pairs: Path) -> dict[str, Any]:
    """The rows of a model card's table of scores; rated pairs where the file is there."""
    from biomed.terms.evaluation import evaluate_categories, evaluate_pairs, read_rated_pairs

    separation = evaluate_categories(embedder, vocabulary).to_dict()
    scores = {
        "category accuracy of 5 neighbours, held-out terms": separation["accuracy"],
        "share of 5 neighbours of the same category": separation["purity"],
        "silhouette of the categories": separation["silhouette"],
    }
    if pairs.is_file():
        agreement = evaluate_pairs(embedder, read_rated_pairs(pairs)).to_dict()
        scores = {
            f"Spearman with physicians, UMNSRS-sim ({agreement['pairs']} pairs)": agreement[
                "spearman"
            ],
            "Pearson": agreement["pearson"],
            **scores,
        }
    return scores
