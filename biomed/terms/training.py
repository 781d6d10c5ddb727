"""Train term vectors: the recipe, the training sets, and what the card reports."""

from __future__ import annotations

import random
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
from pydantic import Field

from biomed.terms.embedder import TermEmbedder
from biomed.terms.evaluation import (
    evaluate_categories,
    evaluate_pairs,
    evaluate_synonyms,
    read_rated_pairs,
)
from biomed.terms.relations import (
    context_relations,
    definition_relations,
    held_out_names,
    icd9_relations,
    name_keys,
    name_relations,
    read_concepts,
    read_sentences,
    synonym_pairs,
    vocabulary_relations,
    without_names,
)
from biomed.terms.vocabulary import medical_terms, read_vocabulary
from domainbert.errors import UserError
from domainbert.pooling import EmbeddingSettings, unit
from domainbert.settings import Settings
from domainbert.training.embedding import fit_embedder
from domainbert.training.library import fingerprint
from domainbert.training.recipes import ModelTable, Recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pandas as pd

    from biomed.terms.relations import Concept, Relation
    from domainbert.embedding import Embedder
    from domainbert.training.settings import TrainingSettings

MEDQUAD = "text/medquad.jsonl.gz"
ICD9 = "readmission/icd9_diagnosis_long_titles.txt"
PUBMED = "text/pubmed_sentences.txt.gz"
RATED_PAIRS = "terms/umnsrs_similarity_half.csv"
CONTEXTS = 5  # sentences of one name
PLAIN, TRAINED = "plain encoder", "this model"
SCORES_NOTE = (
    "No rated pair was trained on, and no training text contains a held-out term or its synonym as "
    "whole words. 95% intervals from 1,000 resamples of pairs or terms."
)
Times = Annotated[float, Field(ge=0)]
AnyRow = TypeVar("AnyRow")


class TermTable(ModelTable, EmbeddingSettings):
    """The `[model]` table: the encoder, and the settings of `EmbeddingSettings`.

    Attributes:
        share: share of the trained change that is kept; 0.5 averages the trained weights with the
            plain encoder's.
    """

    share: Annotated[float, Field(gt=0, le=1)] = 1.0


class Relations(Settings):
    """How often an epoch reads each source; 0.5 is a random half of it.

    Attributes:
        synonyms: a term of the vocabulary with its synonyms.
        groups: terms of one group.
        categories: terms of one category.
        names: the names of a MedQuAD concept.
        definitions: a name with a sentence that defines it, in which the name is replaced.
        icd9: titles of one ICD-9 category.
        contexts: a name with a sentence that contains it, in which the name is replaced.
    """

    synonyms: Times = 1.0
    groups: Times = 1.0
    categories: Times = 1.0
    names: Times = 1.0
    definitions: Times = 1.0
    icd9: Times = 1.0
    contexts: Times = 1.0


class TermRecipe(Recipe):
    """A recipe of term vectors.

    Attributes:
        model: encoder and pooling.
        relations: what is trained on.
    """

    model: TermTable = TermTable()
    relations: Relations = Relations()


def train_from_recipe(
    recipe: TermRecipe,
    data: Path,
    *,
    vocabulary: Path | None = None,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> TermEmbedder:
    """Train by a recipe, and measure beside the plain encoder.

    Args:
        recipe: the plan.
        data: folder of the public data sets; rated pairs there are only measured on.
        vocabulary: a file with a vocabulary; by default the shipped one.
        checkpoints: folder that keeps the checkpoints; a temporary one by default.
        resume: continue from the last checkpoint there.

    Raises:
        TableError: a file that training needs is missing.
    """
    terms = medical_terms() if vocabulary is None else read_vocabulary(vocabulary)
    concepts = read_concepts(data / MEDQUAD)
    seed = recipe.training.seed
    relations = {
        name: repeated(part, getattr(recipe.relations, name), seed=seed)
        for name, part in all_relations(terms, concepts, data).items()
    }
    trained = fit(
        relations,
        validation=synonym_pairs(concepts),
        encoder=recipe.model.encoder,
        training=recipe.training,
        share=recipe.model.share,
        settings=EmbeddingSettings(**recipe.model.model_dump(exclude={"encoder", "share"})),
        checkpoints=checkpoints,
        resume=resume,
    )
    trained.manifest["counts"]["terms of the vocabulary held out"] = int(terms["held_out"].sum())
    plain = TermEmbedder.from_pretrained(recipe.model.encoder)
    trained.manifest |= {
        "card": recipe.card.model_dump(),
        "scores_note": SCORES_NOTE,
        "scores": {
            PLAIN: measure(plain, terms, data / RATED_PAIRS),
            TRAINED: measure(trained, terms, data / RATED_PAIRS),
        },
    }
    return trained


def all_relations(
    vocabulary: pd.DataFrame, concepts: list[Concept], data: Path, *, limit: int | None = None
) -> dict[str, list[Relation]]:
    """All training relations by source; no text contains a held-out name.

    Args:
        vocabulary: from `medical_terms` or `read_vocabulary`.
        concepts: from `biomed.terms.relations.read_concepts`.
        data: folder of the public data sets.
        limit: sentences read for contexts at most.

    Raises:
        TableError: a file is missing.
    """
    held_out = held_out_names(vocabulary)
    without = {name.casefold() for name in held_out}
    sentences = islice(read_sentences(data / MEDQUAD, data / PUBMED), limit)
    names = name_keys(concepts, vocabulary)
    sources = {
        "synonyms": vocabulary_relations(vocabulary, level="term"),
        "groups": vocabulary_relations(vocabulary, level="group"),
        "categories": vocabulary_relations(vocabulary, level="category"),
        "names": name_relations(concepts, without=without),
        "definitions": definition_relations(concepts, without=without),
        "icd9": icd9_relations(data / ICD9, without=without),
        "contexts": context_relations(names, sentences, limit=CONTEXTS),
    }
    return {name: without_names(part, held_out) for name, part in sources.items()}


def repeated(relations: Sequence[AnyRow], times: float, *, seed: int) -> list[AnyRow]:
    """Rows so many times over; of a fraction, a random part of them."""
    whole = int(times)
    chooser = random.Random(seed)  # noqa: S311  (no secret)
    part = chooser.sample(list(relations), round((times - whole) * len(relations)))
    return [*relations] * whole + part


def fit(
    relations: dict[str, list[Relation]],
    *,
    validation: Sequence[tuple[str, str, str]],
    encoder: str | Path,
    training: TrainingSettings,
    settings: EmbeddingSettings | None = None,
    share: float = 1.0,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> TermEmbedder:
    """Train by in-batch negatives on two texts drawn from each relation.

    Args:
        relations: by source; those of one key never share a batch.
        validation: key, first name and another name of concepts that no relation has; the
            weights that rank the first name highest (mean reciprocal rank) are kept.
        encoder: shipped name, folder or hub:owner/name.
        training: `batch_size` counts relations.
        settings: pooling and layers.
        share: of the trained change that is kept, see `TermTable`.
        checkpoints: folder that keeps the checkpoints; a temporary one by default.
        resume: continue from the last checkpoint there.

    Raises:
        UserError: no relation, or no validation pair.
    """
    count = sum(map(len, relations.values()))
    if not count or not validation:
        msg = f"{count} relations and {len(validation)} validation pairs: both are needed"
        raise UserError(msg)
    chooser = random.Random(training.seed)  # noqa: S311
    data = {name: _columns(part, chooser) for name, part in relations.items()}
    return fit_embedder(
        data,
        objective="contrastive",
        score=reciprocal_rank(validation),
        metric="mrr",
        encoder=encoder,
        training=training,
        settings=settings,
        share=share,
        model_class=TermEmbedder,
        split=fingerprint(list(validation)),
        checkpoints=checkpoints,
        resume=resume,
    )


def _columns(relations: Sequence[Relation], chooser: random.Random) -> dict[str, list[Any]]:
    drawn = [chooser.sample(relation.texts, 2) for relation in relations]
    return {
        "anchor": [first for first, _ in drawn],
        "positive": [second for _, second in drawn],
        "key": [relation.key for relation in relations],
    }


def reciprocal_rank(
    pairs: Sequence[tuple[str, str, str]],
) -> Callable[[Embedder, Any], dict[str, float]]:
    """(embedder, network) -> mean reciprocal rank of a concept's first name, asked by another.

    Args:
        pairs: key, first name and another name of each concept.
    """
    names = list(dict.fromkeys(text for _, *both in pairs for text in both))
    place = {name: row for row, name in enumerate(names)}
    firsts = list(dict.fromkeys((key, first) for key, first, _ in pairs))
    keys = np.array([key for key, _ in firsts])
    columns, rows = [place[first] for _, first in firsts], [place[name] for *_, name in pairs]
    wanted = np.array([key for key, *_ in pairs])[:, None] == keys[None]

    def score(embedder: Embedder, network: Any) -> dict[str, float]:
        vectors = unit(embedder.vectors_of(names, network=network))
        cosines = vectors[rows] @ vectors[columns].T
        best = np.where(wanted, cosines, -np.inf).max(axis=1, keepdims=True)
        return {"mrr": float((1 / (1 + (cosines > best).sum(axis=1))).mean())}

    return score


def measure(embedder: TermEmbedder, vocabulary: pd.DataFrame, pairs: Path) -> dict[str, Any]:
    """The rows of the card's table of scores; rated pairs where the file is there."""
    separation = evaluate_categories(embedder, vocabulary)
    scores: dict[str, Any] = {
        "category accuracy of 5 neighbours, held-out terms": asdict(separation.accuracy),
        "share of 5 neighbours of the same category": asdict(separation.purity),
        "silhouette of the categories": separation.silhouette,
    }
    if vocabulary["synonyms"].str.len().any():
        searched = evaluate_synonyms(embedder, vocabulary)
        name = f"own term first, {len(searched.table)} synonyms of held-out terms"
        scores[name] = asdict(searched.first)
    if pairs.is_file():
        found = evaluate_pairs(embedder, read_rated_pairs(pairs))
        name = f"Spearman with physicians, UMNSRS-sim ({len(found.table)} pairs)"
        scores = {name: asdict(found.spearman), "Pearson": asdict(found.pearson), **scores}
    return scores
