"""The recipe of term vectors, one TOML file.

[model]      encoder, and pooling, layers as in `biomed.terms.pooling.TermSettings`
[relations]  how often an epoch reads a source (see `SOURCES`), 1 by default; 0.5 is half of it
[training]   the names of `domainbert.training.settings.TrainingSettings`
[card]       name, title, data, limits, licence, rebuild: what people should know
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from biomed.terms.pooling import TermSettings
from domainbert.encoders import DEFAULT_ENCODER
from domainbert.errors import UserError
from domainbert.training.old.recipes import CARD_NAMES, read_recipe_tables, training_names
from domainbert.training.settings import TrainingSettings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

    from biomed.terms.embedder import TermEmbedder
    from biomed.terms.relations import Concept, Relation

MEDQUAD = "text/medquad.jsonl.gz"
ICD9 = "readmission/icd9_diagnosis_long_titles.txt"
PUBMED = "text/pubmed_sentences.txt.gz"
RATED_PAIRS = "terms/umnsrs_similarity_half.csv"
# The vocabulary's synonyms, groups and categories; MedQuAD's names of a concept, and the sentences
# that say what it is; ICD-9 titles of one category; sentences that contain a name.
SOURCES = ("vocabulary", "names", "definitions", "icd9", "contexts")
CONTEXTS = 5  # sentences of one name
PLAIN = "plain encoder"
TRAINED = "this model"
SCORES_NOTE = (
    "Rated pairs and held-out terms were in no training text; 95% intervals from 1,000 resamples "
    "of pairs or terms."
)


@dataclass(frozen=True)
class Recipe:
    """A training plan."""

    training: TrainingSettings
    encoder: str = DEFAULT_ENCODER
    settings: TermSettings = field(default_factory=TermSettings)
    relations: dict[str, float] = field(default_factory=dict)
    card: dict[str, str] = field(default_factory=dict)


def read_recipe(path: Path | None, **overrides: Any) -> Recipe:
    """Read a recipe, or start from the defaults; overrides that are not None win.

    Raises:
        ValueError: not TOML, or a table or name that means nothing, with the legal ones.
    """
    own, names = ("encoder", "pooling", "layers"), training_names()
    legal = {"model": own, "relations": SOURCES, "training": names, "card": CARD_NAMES}
    tables = read_recipe_tables(path, legal=legal)
    given = {name: value for name, value in overrides.items() if value is not None}
    training = {**tables["training"], **{k: v for k, v in given.items() if k in names}}
    model = {**tables["model"], **{k: v for k, v in given.items() if k in own}}
    encoder = model.pop("encoder", DEFAULT_ENCODER)
    return Recipe(
        training=TrainingSettings(**training),
        encoder=encoder,
        settings=TermSettings(**model),
        relations=tables["relations"],
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
    parts = {
        name: repeated(part, recipe.relations.get(name, 1.0), seed=recipe.training.seed)
        for name, part in all_relations(terms, concepts, data).items()
    }
    trained = fit(
        [relation for part in parts.values() for relation in part],
        validation=synonym_pairs(concepts),
        encoder=recipe.encoder,
        training=recipe.training,
        settings=recipe.settings,
    )
    trained.manifest["counts"] = {
        **{f"relations an epoch reads, {name}": len(part) for name, part in parts.items()},
        "terms of the vocabulary held out": int(terms["held_out"].sum()),
    }
    trained.manifest |= {"card": recipe.card, "scores_note": SCORES_NOTE}
    plain = TermEmbedder.from_pretrained(recipe.encoder)
    trained.manifest["scores"] = {
        PLAIN: measure(plain, terms, data / RATED_PAIRS),
        TRAINED: measure(trained, terms, data / RATED_PAIRS),
    }
    return trained


def all_relations(
    vocabulary: pd.DataFrame, concepts: list[Concept], data: Path
) -> dict[str, list[Relation]]:
    """Everything that training reads, by source; held-out names are in none of it.

    Args:
        vocabulary: from `medical_terms` or `read_vocabulary`.
        concepts: from `biomed.terms.relations.read_concepts`.
        data: folder of the public data sets.

    Raises:
        TableError: a file is not there.
    """
    from biomed.terms.relations import (
        context_relations,
        definition_relations,
        held_out_names,
        icd9_relations,
        name_keys,
        name_relations,
        read_sentences,
        vocabulary_relations,
    )

    without = held_out_names(vocabulary)
    sentences = read_sentences(data / MEDQUAD, data / PUBMED)
    names = name_keys(concepts, vocabulary)
    return {
        "vocabulary": vocabulary_relations(vocabulary),
        "names": name_relations(concepts, without=without),
        "definitions": definition_relations(concepts, without=without),
        "icd9": icd9_relations(data / ICD9, without=without),
        "contexts": context_relations(names, sentences, limit=CONTEXTS),
    }


def repeated(relations: Sequence[Relation], times: float, *, seed: int) -> list[Relation]:
    """Relations so many times over; of a fraction, a random part of them.

    Raises:
        ValueError: times < 0.
    """
    if not times >= 0:
        msg = f"[relations] takes numbers from 0 on, got {times}"
        raise UserError(msg)
    whole = int(times)
    chooser = random.Random(seed)  # noqa: S311  (no secret)
    part = chooser.sample(list(relations), round((times - whole) * len(relations)))
    return [*relations] * whole + part


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
