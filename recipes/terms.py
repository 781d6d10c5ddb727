"""The shipped model `terms`: vectors of medical terms and sentences, from public vocabularies.

Run it with `python -m recipes.terms ../shared/data --out MODEL`.
"""

from __future__ import annotations

import random
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
import pandas as pd
import typer
from pydantic import Field
from sentence_transformers.sentence_transformer import losses

from biomed.sentences.data import read_pairs
from biomed.sentences.data import without as without_pairs
from biomed.sentences.evaluation import (
    TextEvaluation,
    evaluate_pairs,
    evaluate_retrieval,
    mean_scores,
)
from biomed.sentences.objectives import TextVectorsObjective, vectors_of
from biomed.sentences.training import SentenceRecipe, fit_encoder
from biomed.terms.similarity import TermEmbedder
from domainbert.errors import UserError
from domainbert.models.manifest import Scores
from domainbert.models.pooling import unit
from domainbert.settings import Settings
from domainbert.statistics.bootstrap import RESAMPLES
from domainbert.training.objective import LengthBatches
from recipes import passages
from recipes.categories import (
    evaluate_categories,
    measured_terms,
    vocabulary_terms,
)
from recipes.commands import training_command
from recipes.passages import topic_side
from recipes.relations import (
    SHORTEST_NAME,
    Relation,
    context_relations,
    definition_relations,
    find_mentions,
    held_out_names,
    icd9_relations,
    name_keys,
    name_relations,
    read_concepts,
    read_sentences,
    vocabulary_relations,
    without_names,
)
from recipes.vocabularies import (
    CHOOSING,
    HPO,
    MEASURED,
    MESH,
    MONDO,
    definition_rows,
    drug_rows,
    family_rows,
    held_out,
    look_alikes,
    name_key,
    read_vocabularies,
    synonym_rows,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import torch
    from transformers import PreTrainedModel

    from domainbert.training.objective import Batch, BatchPlan
    from domainbert.training.settings import TrainingSettings
    from recipes.relations import Concept
    from recipes.vocabularies import Entry

MEDQUAD = "text/medquad.jsonl.gz"
ICD9 = "readmission/icd9_diagnosis_long_titles.txt"
PUBMED = "text/pubmed_sentences.txt.gz"
RATED_PAIRS = "terms/umnsrs_similarity_half.csv"
CONTEXTS = 5  # sentences of one name
STS = "sentences/stsb_en_{}.tsv"
RELATED = "terms/ehr_relb_half.tsv"
STS_SCALE, RELATED_SCALE = 5, 3
RELATED_APART = 2  # tenths of the rated pairs of health records that choose
MOST_SYNONYMS = {MESH: 8, MONDO: 3, HPO: 3}
SCORES_NOTE = (
    "No pair of UMNSRS or of STS-B dev was trained on, and no name, in any spelling, of a "
    "held-out term or of the tenth of MeSH that is held out, and no topic or question that search "
    "is measured on. STS-B dev and UMNSRS also chose the weights, so their scores are optimistic. "
    "95% intervals from 1,000 resamples of pairs, terms, synonyms or questions."
)
Times = Annotated[float, Field(ge=0)]
OF_TOPICS = ("definitions", "contexts")
SEARCH_SCORES = ("MRR@10", "recall@1")
AnyRow = TypeVar("AnyRow")
Row = tuple[
    str, str, str
]  # first text, second text, key of what both are about


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
        vocabularies: a synonym with the preferred name of its concept in MeSH, MONDO or HPO, and
            the name of another concept that looks like it.
        families: a concept of MeSH or HPO with its parent or a child of the same parent.
        explained: a name of MONDO or HPO with its definition, in which the name is replaced.
        drugs: another name or a US brand of a drug with its name.
        questions: a question of MedQuAD with its answer.
        paragraphs: a question of SQuAD with its paragraph.
        titles: a title with its abstract.
        sentences: rated pairs of STS-B train.
        related: rated pairs of EHR-RelB.
    """

    synonyms: Times = 1.0
    groups: Times = 1.0
    categories: Times = 1.0
    names: Times = 1.0
    definitions: Times = 1.0
    icd9: Times = 1.0
    contexts: Times = 1.0
    vocabularies: Times = 1.0
    families: Times = 1.0
    explained: Times = 1.0
    drugs: Times = 1.0
    questions: Times = 1.0
    paragraphs: Times = 1.0
    titles: Times = 1.0
    sentences: Times = 1.0
    related: Times = 1.0


class MedicalTermRecipe(SentenceRecipe):
    """A recipe of term vectors from public vocabularies.

    Attributes:
        relations: what is trained on.
    """

    relations: Relations = Relations()


class RatedObjective(TextVectorsObjective):
    """The contrastive objective, with sets of rated pairs among its sets.

    A set with a column `rating` is learned by the order of its ratings (CoSENT).
    """

    _rated_loss = losses.CoSENTLoss(None, scale=20.0)

    def _batch_plan(
        self,
        pairs: pd.DataFrame,
        texts: list[tuple[str, ...]],
        training: TrainingSettings,
    ) -> BatchPlan:
        if "rating" not in pairs:
            return super()._batch_plan(pairs, texts, training)
        return LengthBatches.of_texts(
            texts, batch_size=training.batch_size, seed=training.seed
        )

    def _read(
        self, pairs: pd.DataFrame, *, name: str
    ) -> tuple[list[tuple[str, ...]], list[float]]:
        texts, _ = super()._read(pairs, name=name)
        ratings = pairs.get("rating", [np.nan] * len(pairs))
        return texts, list(ratings)

    def loss(self, network: PreTrainedModel, batch: Batch) -> torch.Tensor:
        """The loss of the batch's set, see the class."""
        labels = batch["labels"]
        # A batch comes from one set: all of its rows have a rating, or none.
        if labels.isnan().any():
            return super().loss(network, batch)
        vectors = vectors_of(self._embedder, network, batch).split(len(labels))
        return self._rated_loss.compute_loss_from_embeddings(vectors, labels)


def train_medical_terms(
    recipe: MedicalTermRecipe,
    data: Path,
    *,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> TermEmbedder:
    """Train by a recipe, and measure beside the plain encoder.

    Args:
        recipe: the plan.
        data: folder of the public data sets; rated pairs there are only measured on.
        checkpoints: folder that keeps the checkpoints; a temporary one by default.
        resume: continue from the last checkpoint there.

    Raises:
        TableError: a file that training needs is missing.
    """
    terms, entries = vocabulary_terms(), read_vocabularies(data)
    plain = TermEmbedder.from_pretrained(recipe.model.encoder)
    choosing = held_out(entries, CHOOSING)
    trained = fit_encoder(
        training_sets(recipe, terms, entries, data, embedder=plain),
        frame(
            [
                (name, e.names[0], e.names[0])
                for e in choosing
                for name in e.names[1:3]
            ]
        ),
        recipe,
        model_class=TermEmbedder,
        objective_class=RatedObjective,
        checkpoints=checkpoints,
        resume=resume,
    )
    manifest = trained.manifest
    n_held_out = int(terms["held_out"].sum())
    manifest.data.counts["terms of the vocabulary held out"] = n_held_out
    places = terms, entries, data
    manifest.card = recipe.card
    manifest.scores = Scores(
        table={
            "plain encoder": measure(plain, *places),
            "this model": measure(trained, *places),
        },
        note=SCORES_NOTE,
    )
    return trained


def training_sets(
    recipe: MedicalTermRecipe,
    terms: pd.DataFrame,
    entries: list[Entry],
    data: Path,
    *,
    embedder: TermEmbedder,
) -> dict[str, pd.DataFrame]:
    """The pairs of each source, `first, second, key`; those of the vocabularies have a `negative`.

    Args:
        recipe: says how often each source is read.
        terms: from `vocabulary_terms`.
        entries: from `read_vocabularies`.
        data: folder of the public data sets.
        embedder: finds the names that look alike.
    """
    times, seed = recipe.relations, recipe.training.seed
    apart = [*held_out(entries, MEASURED), *held_out(entries, CHOOSING)]
    names = {name for entry in apart for name in entry.names}
    keys = set(map(name_key, names))
    concepts = read_concepts(data / MEDQUAD)
    searched = {
        concept.key
        for concept in concepts
        if topic_side(concept.key) <= passages.CHOOSING
    }
    chooser = random.Random(seed)  # noqa: S311  (no secret)
    rows: dict[str, list[Row]] = {}
    for name, part in all_relations(terms, concepts, data).items():
        kept = [
            relation
            for relation in part
            if keys.isdisjoint(map(name_key, relation.texts))
            and not (name in OF_TOPICS and relation.key in searched)
        ]
        rows[name] = drawn(
            repeated(kept, getattr(times, name), seed=seed), chooser
        )
    unread = held_out_names(terms)
    used = without(entries, keys | set(map(name_key, unread)))
    synonyms = synonym_rows(used, most=MOST_SYNONYMS, seed=seed)
    synonyms = repeated(synonyms, times.vocabularies, seed=seed)
    near = look_alikes(synonyms, used, embedder, seed=seed)
    others = {
        "families": family_rows(used, seed=seed),
        "explained": without_held_out(
            definition_rows(used, seed=seed), keys, unread
        ),
        "drugs": without_held_out(drug_rows(data, seed=seed), keys, unread),
        **passage_rows(data, concepts, names | unread, keys),
    }
    for name, part in others.items():
        rows[name] = repeated(part, getattr(times, name), seed=seed)
    sets = {name: frame(part) for name, part in rows.items()}
    for name, pairs in rated_pairs(data, keys, unread).items():
        rated = pairs.to_dict("records")
        sets[name] = pd.DataFrame(
            repeated(rated, getattr(times, name), seed=seed),
            columns=pairs.columns,
        )
    return {**sets, "vocabularies": frame(synonyms).assign(negative=near)}


def without_held_out(
    rows: Sequence[Row], keys: Collection[str], names: Collection[str]
) -> list[Row]:
    """The rows of which no text has one of these `name_key`s or contains one of these names."""
    relations = [
        Relation(key, (first, second))
        for first, second, key in rows
        if keys.isdisjoint((name_key(first), name_key(second)))
    ]
    return [
        (*relation.texts, relation.key)
        for relation in without_names(relations, names)
        if len(relation.texts) > 1
    ]


def passage_rows(
    data: Path,
    concepts: Sequence[Concept],
    names: Collection[str],
    keys: Collection[str],
) -> dict[str, list[Row]]:
    """Questions and titles with their passages.

    Questions of MedQuAD and titles that contain one of these names, and topics of MedQuAD with one
    of these `name_key`s, are left out, and so are the topics that search is measured on or chosen
    by.
    """
    apart = {
        concept.key
        for concept in concepts
        if not keys.isdisjoint(map(name_key, concept.names))
    }
    sides = passages.medquad_sides(data)
    questions = [
        pair
        for side, pairs in sorted(sides.items())
        for pair in pairs
        if side > passages.CHOOSING and pair[2] not in apart
    ]
    long_names = [name for name in names if len(name) >= SHORTEST_NAME]
    sources = {"questions": questions, "titles": passages.titles(data)}
    rows = {"paragraphs": passages.squad(data)}
    for name, pairs in sources.items():
        heads = [head for head, *_ in pairs]
        naming = {m.sentence for m in find_mentions(long_names, heads)}
        rows[name] = [pair for pair in pairs if pair[0] not in naming]
    longest = passages.LONGEST
    return {
        name: [(head, text[:longest], key) for head, text, key in pairs]
        for name, pairs in rows.items()
    }


def rated_pairs(
    data: Path, keys: Collection[str], names: Collection[str]
) -> dict[str, pd.DataFrame]:
    """Pairs with a `rating` from 0 to 1: of sentences, and of terms without held-out names."""
    sentences = without_pairs(
        read_pairs(data / STS.format("train")),
        read_pairs(data / STS.format("dev")),
    )
    related = related_pairs(data)
    kept = {
        frozenset(row[:2])
        for row in without_held_out(related_rows(related), keys, names)
    }
    is_kept = [
        frozenset(pair) in kept and not is_apart(*pair)
        for pair in zip(related["first"], related["second"], strict=True)
    ]
    rated = {
        "sentences": (sentences, STS_SCALE),
        "related": (related[is_kept], RELATED_SCALE),
    }
    return {
        name: pairs[["first", "second"]].assign(
            rating=pairs["label"].astype(float) / scale
        )
        for name, (pairs, scale) in rated.items()
    }


def related_pairs(data: Path) -> pd.DataFrame:
    """The pairs of EHR-RelB: `first, second` and the mean rating, `label`."""
    columns = {
        "snomed_label_1": "first",
        "snomed_label_2": "second",
        "mean_rating": "label",
    }
    table = pd.read_csv(data / RELATED, sep="\t").rename(columns=columns)
    return table[list(columns.values())]


def related_rows(pairs: pd.DataFrame) -> list[Row]:
    """The pairs as rows without a key."""
    return [
        (first, second, "")
        for first, second in zip(pairs["first"], pairs["second"], strict=True)
    ]


def is_apart(first: str, second: str) -> bool:
    """Whether a rated pair chooses the weights and is not trained on."""
    return topic_side(" | ".join(sorted((first, second)))) < RELATED_APART


def drawn(relations: Sequence[Relation], chooser: random.Random) -> list[Row]:
    """Two texts of each relation, drawn at random, and its key."""
    return [(*chooser.sample(r.texts, 2), r.key) for r in relations]


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Rows of two texts and the key of what they are about: `first, second, key`."""
    return pd.DataFrame(rows, columns=["first", "second", "key"])


def all_relations(
    vocabulary: pd.DataFrame,
    concepts: list[Concept],
    data: Path,
    *,
    limit: int | None = None,
) -> dict[str, list[Relation]]:
    """All training relations by source; no text contains a held-out name.

    Args:
        vocabulary: from `vocabulary_terms`.
        concepts: from `recipes.relations.read_concepts`.
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
    return {
        name: without_names(part, held_out) for name, part in sources.items()
    }


def repeated(
    relations: Sequence[AnyRow], times: float, *, seed: int
) -> list[AnyRow]:
    """The rows repeated `times` times; 1.5 is all rows and a random half of them again."""
    whole = int(times)
    chooser = random.Random(seed)  # noqa: S311  (no secret)
    part = chooser.sample(
        list(relations), round((times - whole) * len(relations))
    )
    return [*relations] * whole + part


def measure(
    embedder: TermEmbedder,
    vocabulary: pd.DataFrame,
    entries: Sequence[Entry],
    data: Path,
) -> dict[str, Any]:
    """The rows of the card's table of scores."""
    measured = {
        "pairs rated by physicians": evaluate_pairs(
            embedder, read_pairs(data / RATED_PAIRS)
        ),
        "pairs of STS-B dev": evaluate_pairs(
            embedder, read_pairs(data / STS.format("dev"))
        ),
    }
    for name, pairs in passages.measured_passages(data).items():
        search = evaluate_retrieval(embedder, pairs)["meaning"]
        scores = {score: search.scores[score] for score in SEARCH_SCORES}
        measured[f"questions of {name}"] = TextEvaluation(scores, search.table)
    measured["held-out terms"] = evaluate_categories(embedder, vocabulary)
    measured["synonyms of held-out terms"] = evaluate_synonyms(
        embedder, vocabulary
    )
    mesh = pd.DataFrame(
        {
            "term": e.names[0],
            "synonyms": list(e.names[1:]),
            "held_out": e in wanted,
        }
        for wanted in [held_out(entries, MEASURED)]
        for e in entries
        if e.source == MESH
    )
    first = mesh.assign(synonyms=mesh["synonyms"].str[:1])
    measured["synonyms of held-out MeSH diseases"] = evaluate_synonyms(
        embedder, mesh
    )
    measured["first synonyms of held-out MeSH diseases"] = evaluate_synonyms(
        embedder, first
    )
    return {
        f"{name}, {len(evaluation.table)} {kind}": asdict(score)
        for kind, evaluation in measured.items()
        for name, score in evaluation.scores.items()
    }


def evaluate_synonyms(
    embedder: TermEmbedder,
    vocabulary: pd.DataFrame,
    *,
    bootstrap: int = RESAMPLES,
) -> TextEvaluation:
    """Search each synonym among all terms by its vector.

    Args:
        embedder: gives the vectors.
        vocabulary: `term, synonyms`; with a column `held_out` only the synonyms of held-out terms
            are searched, among all terms.
        bootstrap: resamples of synonyms.

    Returns:
        The score "own term first for a synonym" (the share of synonyms whose own term is
        nearest); the table `synonym, term, found` (the nearest term) and `own_rank` (of the own
        term, from 1), the worst synonyms first.

    Raises:
        UserError: no term has a synonym.
    """
    rows = vocabulary.reset_index(drop=True)
    pairs = rows.loc[measured_terms(rows), "synonyms"].explode().dropna()
    if pairs.empty:
        raise UserError(
            "no term of this vocabulary has a synonym; expected a column synonyms"
        )
    terms = rows["term"].to_numpy(dtype=object)
    cosines = (
        unit(embedder.embed(pairs.tolist()))
        @ unit(embedder.embed(terms.tolist())).T
    )
    each, own = np.arange(len(pairs)), pairs.index.to_numpy()
    ranks = 1 + (cosines > cosines[each, own][:, None]).sum(axis=1)
    columns = {"synonym": pairs.to_numpy(), "term": terms[own]}
    table = pd.DataFrame(
        {**columns, "found": terms[cosines.argmax(axis=1)], "own_rank": ranks}
    )
    name = "own term first for a synonym"
    scores = mean_scores(
        pd.DataFrame({name: ranks == 1}), [name], bootstrap=bootstrap
    )
    table = table.sort_values(
        "own_rank", ascending=False, kind="stable", ignore_index=True
    )
    return TextEvaluation(scores, table)


main = training_command("terms", MedicalTermRecipe, train_medical_terms)


if __name__ == "__main__":
    typer.run(main)
