"""What term vectors are trained on: pairs of texts from each source, without held-out names."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import pandas as pd

from biomed.sentences.data import read_pairs
from biomed.sentences.data import without as without_pairs
from recipes import passages
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
    Row,
    definition_rows,
    drug_rows,
    family_rows,
    held_out,
    look_alikes,
    name_key,
    synonym_rows,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from biomed.terms.similarity import TermEmbedder
    from recipes.relations import Concept
    from recipes.terms.recipe import MedicalTermRecipe
    from recipes.vocabularies import Entry

MEDQUAD = "text/medquad.jsonl.gz"
ICD9 = "readmission/icd9_diagnosis_long_titles.txt"
PUBMED = "text/pubmed_sentences.txt.gz"
STS = "sentences/stsb_en_{}.tsv"
RELATED = "terms/ehr_relb_half.tsv"
CONTEXTS = 5  # sentences of one name
STS_SCALE = 5
RELATED_SCALE = 3
RELATED_APART = 2  # tenths of the rated pairs of health records that choose
MOST_SYNONYMS = {MESH: 8, MONDO: 3, HPO: 3}
OF_TOPICS = ("definitions", "contexts")
AnyRow = TypeVar("AnyRow")


@dataclass(frozen=True)
class HeldOut:
    """Names that training does not read.

    Attributes:
        diseases: names of the held-out MeSH diseases; no text is one of them, in any spelling.
        terms: names of the held-out terms of the vocabulary; no text contains one of them.
    """

    diseases: frozenset[str]
    terms: frozenset[str]

    @cached_property
    def keys(self) -> frozenset[str]:
        """The `name_key`s of the diseases."""
        return frozenset(map(name_key, self.diseases))

    def has_none_of(self, texts: Iterable[str]) -> bool:
        """Whether no text is the name of a held-out disease."""
        return self.keys.isdisjoint(map(name_key, texts))

    def drop_from(self, rows: Sequence[Row]) -> list[Row]:
        """The rows of which no text is a held-out disease or contains a held-out term."""
        relations = [
            Relation(key, (first, second))
            for first, second, key in rows
            if self.has_none_of((first, second))
        ]
        kept: list[Row] = []
        for relation in without_names(relations, self.terms):
            first, second = relation.texts
            kept.append((first, second, relation.key))
        return kept


def held_out_of(terms: pd.DataFrame, entries: Sequence[Entry]) -> HeldOut:
    """The names that are held out of `vocabulary_terms` and `read_vocabularies`."""
    held_out_entries = [
        *held_out(entries, MEASURED),
        *held_out(entries, CHOOSING),
    ]
    diseases = {name for entry in held_out_entries for name in entry.names}
    return HeldOut(frozenset(diseases), frozenset(held_out_names(terms)))


def training_sets(
    recipe: MedicalTermRecipe,
    terms: pd.DataFrame,
    entries: list[Entry],
    data: Path,
    *,
    embedder: TermEmbedder,
) -> dict[str, pd.DataFrame]:
    """The pairs of each source: `first, second`, with `key`, `rating` or `negative`.

    Pairs with the same `key` are about the same; pairs with a `rating` are learned by its order;
    the pairs of `vocabularies` also have a `negative`, a name of another concept.

    Args:
        recipe: says how often each source is read.
        terms: from `vocabulary_terms`.
        entries: from `read_vocabularies`.
        data: folder of the public data sets.
        embedder: finds the names that look alike.
    """
    times = recipe.relations.model_dump()
    seed = recipe.training.seed
    apart = held_out_of(terms, entries)
    concepts = read_concepts(data / MEDQUAD)
    keys_of_terms = frozenset(map(name_key, apart.terms))
    trained_entries = without(entries, apart.keys | keys_of_terms)
    sets: dict[str, pd.DataFrame] = {}

    chooser = random.Random(seed)  # noqa: S311  (no secret)
    relations = trained_relations(terms, concepts, data, apart)
    for name, part in relations.items():
        repeated_part = repeated(part, times[name], seed=seed)
        sets[name] = frame(drawn(repeated_part, chooser))

    rows = {
        "families": family_rows(trained_entries, seed=seed),
        "explained": apart.drop_from(
            definition_rows(trained_entries, seed=seed)
        ),
        "drugs": apart.drop_from(drug_rows(data, seed=seed)),
        **passage_rows(data, concepts, apart),
    }
    for name, source_rows in rows.items():
        sets[name] = frame(repeated(source_rows, times[name], seed=seed))

    for name, pairs in rated_pairs(data, apart).items():
        records = repeated(pairs.to_dict("records"), times[name], seed=seed)
        sets[name] = pd.DataFrame(records, columns=pairs.columns)

    synonyms = synonym_rows(trained_entries, most=MOST_SYNONYMS, seed=seed)
    synonyms = repeated(synonyms, times["vocabularies"], seed=seed)
    negatives = look_alikes(synonyms, trained_entries, embedder, seed=seed)
    sets["vocabularies"] = frame(synonyms).assign(negative=negatives)
    return sets


def all_relations(
    vocabulary: pd.DataFrame,
    concepts: list[Concept],
    data: Path,
    *,
    limit: int | None = None,
) -> dict[str, list[Relation]]:
    """The relations of each source; no text contains a held-out term of the vocabulary.

    Args:
        vocabulary: from `vocabulary_terms`.
        concepts: from `recipes.relations.read_concepts`.
        data: folder of the public data sets.
        limit: sentences read for contexts at most.

    Raises:
        TableError: a file is missing.
    """
    names = held_out_names(vocabulary)
    folded = {name.casefold() for name in names}
    sentences = islice(read_sentences(data / MEDQUAD, data / PUBMED), limit)
    keys = name_keys(concepts, vocabulary)
    sources = {
        "synonyms": vocabulary_relations(vocabulary, level="term"),
        "groups": vocabulary_relations(vocabulary, level="group"),
        "categories": vocabulary_relations(vocabulary, level="category"),
        "names": name_relations(concepts, without=folded),
        "definitions": definition_relations(concepts, without=folded),
        "icd9": icd9_relations(data / ICD9, without=folded),
        "contexts": context_relations(keys, sentences, limit=CONTEXTS),
    }
    return {name: without_names(part, names) for name, part in sources.items()}


def trained_relations(
    terms: pd.DataFrame,
    concepts: list[Concept],
    data: Path,
    apart: HeldOut,
) -> dict[str, list[Relation]]:
    """The relations of each source without held-out names.

    Definitions and contexts of the topics that search is measured on or chosen by are left out.
    """
    search_topics = {
        concept.key
        for concept in concepts
        if topic_side(concept.key) <= passages.CHOOSING
    }
    kept: dict[str, list[Relation]] = {}
    for name, relations in all_relations(terms, concepts, data).items():
        left_out = search_topics if name in OF_TOPICS else set()
        kept[name] = [
            relation
            for relation in relations
            if apart.has_none_of(relation.texts)
            and relation.key not in left_out
        ]
    return kept


def passage_rows(
    data: Path, concepts: Sequence[Concept], apart: HeldOut
) -> dict[str, list[Row]]:
    """Questions and titles with their passages.

    Questions of MedQuAD and titles that contain a held-out name, and topics of MedQuAD that are
    held-out diseases, are left out, and so are the topics that search is measured on or chosen by.
    """
    apart_topics = {
        concept.key
        for concept in concepts
        if not apart.has_none_of(concept.names)
    }
    sides = passages.medquad_sides(data)
    questions = [
        pair
        for pair in passages.training_questions(sides)
        if pair[2] not in apart_topics
    ]
    long_names = [
        name
        for name in apart.diseases | apart.terms
        if len(name) >= SHORTEST_NAME
    ]
    rows = {
        "paragraphs": passages.squad(data),
        "questions": _without_mentions(questions, long_names),
        "titles": _without_mentions(passages.titles(data), long_names),
    }
    longest = passages.LONGEST
    return {
        name: [(head, text[:longest], key) for head, text, key in pairs]
        for name, pairs in rows.items()
    }


def _without_mentions(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """The rows whose first text contains none of the names."""
    heads = [head for head, *_ in rows]
    naming_heads = {
        mention.sentence for mention in find_mentions(names, heads)
    }
    return [row for row in rows if row[0] not in naming_heads]


def rated_pairs(data: Path, apart: HeldOut) -> dict[str, pd.DataFrame]:
    """Pairs with a `rating` from 0 to 1: of sentences, and of terms without held-out names."""
    train = read_pairs(data / STS.format("train"))
    dev = read_pairs(data / STS.format("dev"))
    return {
        "sentences": _with_rating(without_pairs(train, dev), STS_SCALE),
        "related": _with_rating(
            trained_related_pairs(data, apart), RELATED_SCALE
        ),
    }


def _with_rating(pairs: pd.DataFrame, scale: int) -> pd.DataFrame:
    ratings = pairs["label"].astype(float) / scale
    return pairs[["first", "second"]].assign(rating=ratings)


def trained_related_pairs(data: Path, apart: HeldOut) -> pd.DataFrame:
    """The pairs of EHR-RelB that are trained on: no held-out name, and not kept apart."""
    pairs = related_pairs(data)
    texts = list(zip(pairs["first"], pairs["second"], strict=True))
    rows = apart.drop_from([(first, second, "") for first, second in texts])
    kept = {frozenset((first, second)) for first, second, _ in rows}
    is_trained = [
        frozenset(pair) in kept and not is_apart(*pair) for pair in texts
    ]
    return pairs[is_trained]


def related_pairs(data: Path) -> pd.DataFrame:
    """The pairs of EHR-RelB: `first, second` and the mean rating, `label`."""
    columns = {
        "snomed_label_1": "first",
        "snomed_label_2": "second",
        "mean_rating": "label",
    }
    table = pd.read_csv(data / RELATED, sep="\t").rename(columns=columns)
    return table[list(columns.values())]


def is_apart(first: str, second: str) -> bool:
    """Whether a rated pair chooses the weights and is not trained on."""
    pair = " | ".join(sorted((first, second)))
    return topic_side(pair) < RELATED_APART


def drawn(relations: Sequence[Relation], chooser: random.Random) -> list[Row]:
    """Two texts of each relation, drawn at random, and its key."""
    rows = []
    for relation in relations:
        first, second = chooser.sample(relation.texts, 2)
        rows.append((first, second, relation.key))
    return rows


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Rows of two texts and the key of what they are about: `first, second, key`."""
    return pd.DataFrame(rows, columns=["first", "second", "key"])


def repeated(
    rows: Sequence[AnyRow], times: float, *, seed: int
) -> list[AnyRow]:
    """The rows repeated `times` times; 1.5 is all rows and a random half of them again."""
    n_passes = int(times)
    n_drawn = round((times - n_passes) * len(rows))
    chooser = random.Random(seed)  # noqa: S311  (no secret)
    return [*rows] * n_passes + chooser.sample(list(rows), n_drawn)
