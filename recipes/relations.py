"""Training texts of term vectors: names and sentences that mean the same or belong together.

A relation is a set of texts whose vectors should be close. Relations with the same key are about
the same thing, so they are never negatives of each other. No rated pair is used.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from recipes.public_data import (
    icd9_titles,
    medquad_documents,
    pubmed_sentences,
)

if TYPE_CHECKING:
    from collections.abc import (
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from pathlib import Path

    import pandas as pd

LONGEST = 400  # characters; a longer sentence is mostly a list
SHORTEST = 30
SHORTEST_NAME = 4  # a shorter one is mostly an abbreviation of several things
SENTENCE_END = re.compile(r"(?<=[a-z)][.?!]) +(?=[A-Z])")
_WORD = re.compile(r"\w+|[^\w\s]")
_HEADING = re.compile(r"^(Key Points - |Summary : )")
# MedlinePlus names a drug with its dosage form; the drug is what comes before.
_FORM = re.compile(
    r" (and .*|injection|oral|nasal|topical|ophthalmic|otic|inhalation|transdermal|rectal|vaginal"
    r"|buccal|sublingual|urogenital)\b.*",
    flags=re.IGNORECASE,
)


@dataclass(frozen=True)
class Relation:
    """Two or more texts whose vectors should be close, and a key for what they are about."""

    key: str
    texts: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True)
class Mention:
    """An occurrence of a term: its number, the sentence, and its characters there."""

    term: int
    sentence: str = field(repr=False)
    start: int
    end: int


@dataclass(frozen=True)
class Concept:
    """A concept of MedQuAD: its key, its names, and sentences that say what it is."""

    key: str
    names: tuple[str, ...] = field(repr=False)
    sentences: tuple[str, ...] = field(repr=False)


def find_mentions(
    terms: Sequence[str], sentences: Iterable[str]
) -> Iterator[Mention]:
    """Occurrences of terms in sentences, as whole words in any case; spacing does not matter.

    A sentence counts once for a term. Time grows with the length of the sentences, not with the
    number of terms.
    """
    by_first: dict[str, list[tuple[int, list[str]]]] = defaultdict(list)
    for number, term in enumerate(terms):
        words = [word.lower() for word in _WORD.findall(term)]
        if words:
            by_first[words[0]].append((number, words))
    for sentence in sentences:
        matches = list(_WORD.finditer(sentence))
        sentence_words = [match[0].lower() for match in matches]
        seen: set[int] = set()
        for first, word in enumerate(sentence_words):
            for number, words in by_first.get(word, ()):
                end = first + len(words)
                if number not in seen and sentence_words[first:end] == words:
                    seen.add(number)
                    start = matches[first].start()
                    yield Mention(
                        number, sentence, start, matches[end - 1].end()
                    )


def vocabulary_relations(
    vocabulary: pd.DataFrame, *, level: str
) -> list[Relation]:
    """Names that belong together, of the terms that are not held out.

    Args:
        vocabulary: from `vocabulary_terms` or `read_vocabulary`.
        level: "term": a term with its synonyms; "group" or "category": all names in it, as often
            as it has terms.
    """
    kept = vocabulary[~vocabulary["held_out"]]
    if level == "term":
        rows = (row for row in kept.itertuples() if row.synonyms)
        return [Relation(row.group, (row.term, *row.synonyms)) for row in rows]
    relations: list[Relation] = []
    for key, terms in kept.groupby(level, sort=False):
        if len(terms) > 1:
            relation = Relation(str(key), tuple(_names_of(terms)))
            relations += [relation] * len(terms)
    return relations


def _names_of(terms: pd.DataFrame) -> Iterator[str]:
    """Each term, followed by its synonyms."""
    for row in terms.itertuples():
        yield row.term
        yield from row.synonyms


def held_out_names(vocabulary: pd.DataFrame) -> set[str]:
    """The names of the terms that are held out, as they are spelled."""
    return set(_names_of(vocabulary[vocabulary["held_out"]]))


def without_names(
    relations: Iterable[Relation], names: Collection[str]
) -> list[Relation]:
    """Relations without the texts that contain one of the names as whole words.

    Case does not matter, except for abbreviations in capitals: "ALL" is not in "all of them".

    Args:
        relations: any number of them; those with fewer than two texts left are dropped.
        names: the names, as they are spelled.
    """
    relations = list(relations)
    texts = {text for relation in relations for text in relation.texts}
    naming_texts = _texts_with(texts, names)
    kept = []
    for relation in relations:
        kept_texts = tuple(
            text for text in relation.texts if text not in naming_texts
        )
        if len(kept_texts) > 1:
            kept.append(Relation(relation.key, kept_texts))
    return kept


def _texts_with(texts: Collection[str], names: Collection[str]) -> set[str]:
    """The texts that contain one of the names, see `without_names`."""
    words = [name for name in names if not name.isupper()]
    capitals = sorted(name for name in names if name.isupper())
    naming_texts = {
        mention.sentence for mention in find_mentions(words, texts)
    }
    if capitals:
        any_name = "|".join(map(re.escape, capitals))
        pattern = re.compile(rf"(?<!\w)({any_name})(?!\w)")
        naming_texts |= {text for text in texts if pattern.search(text)}
    return naming_texts


def read_concepts(path: Path) -> list[Concept]:
    """MedQuAD's concepts: documents of one focus with its synonyms, and the start of its answer.

    A document with more than one UMLS number is about something narrower than each of them, and
    keeps a key of its own.

    Raises:
        TableError: no such file, or not MedQuAD as JSON lines.
    """
    return [
        concept
        for document in medquad_documents(path)
        if (concept := _concept(document)).names
    ]


def concept_key(document: dict[str, Any]) -> str:
    """The key of a MedQuAD document's concept: its UMLS number if it has one, else its name."""
    numbers: list[str] = document["cuis"]
    if len(numbers) == 1:
        return numbers[0]
    name: str = document["focus"]
    return name.casefold()


def _concept(document: dict[str, Any]) -> Concept:
    key = concept_key(document)
    first = spaced(document["focus"])
    if document["source"] == "MPlusDrugs":
        first = _FORM.sub("", first)
    all_names = [document["focus"], *document["synonyms"]]
    spellings = set(map(spaced, all_names)) - {first}
    names = [first, *sorted(spellings)]
    # Of names that differ only in case, the first stays.
    different = {
        name.casefold(): name for name in reversed(names) if 2 < len(name) < 80
    }
    sentences = [
        sentence
        for question in document["questions"]
        if question["type"] == "information" and question["answer"]
        for sentence in _first_sentences(question["answer"])
    ]
    return Concept(key, tuple(reversed(different.values())), tuple(sentences))


def _first_sentences(answer: str, *, number: int = 3) -> list[str]:
    text = _HEADING.sub("", spaced(answer))
    statements = [
        sentence
        for sentence in SENTENCE_END.split(text)
        if not sentence.endswith("?")
    ]
    return [
        sentence
        for sentence in statements[:number]
        if _has_moderate_length(sentence)
    ]


def _has_moderate_length(sentence: str) -> bool:
    return SHORTEST < len(sentence) < LONGEST


def spaced(text: str) -> str:
    """The text with single spaces."""
    return " ".join(text.split())


def name_relations(
    concepts: Iterable[Concept], *, without: Collection[str]
) -> list[Relation]:
    """The names of each concept.

    Args:
        concepts: from `read_concepts`.
        without: folded names that no relation may have.
    """
    kept = (
        (concept.key, _kept_names(concept, without)) for concept in concepts
    )
    return [Relation(key, names) for key, names in kept if len(names) > 1]


def definition_relations(
    concepts: Iterable[Concept], *, without: Collection[str]
) -> list[Relation]:
    """The first name of each concept with each sentence of its definition.

    Names in the sentence are replaced by "it", so that the model learns the meaning.

    Args:
        concepts: from `read_concepts`.
        without: folded names that no relation may have.
    """
    return [
        Relation(concept.key, (names[0], unnamed(sentence, concept.names)))
        for concept in concepts
        if (names := _kept_names(concept, without))
        for sentence in concept.sentences
    ]


def _kept_names(concept: Concept, without: Collection[str]) -> tuple[str, ...]:
    return tuple(
        name for name in concept.names if name.casefold() not in without
    )


def name_keys(
    concepts: Iterable[Concept], vocabulary: pd.DataFrame
) -> dict[str, str]:
    """Folded name -> key of its concept or group, for `context_relations`.

    Held-out names and very short ones are left out.
    """
    without = {name.casefold() for name in held_out_names(vocabulary)}
    keys: dict[str, str] = {}
    for concept in concepts:
        keys |= dict.fromkeys(_kept_names(concept, without), concept.key)
    for row in vocabulary[~vocabulary["held_out"]].itertuples():
        keys |= dict.fromkeys((row.term, *row.synonyms), str(row.group))
    return {
        name.casefold(): key
        for name, key in keys.items()
        if len(name.casefold()) >= SHORTEST_NAME
    }


def unnamed(sentence: str, names: Iterable[str]) -> str:
    """The sentence with "it" for each of these names."""
    for name in sorted(names, key=len, reverse=True):
        sentence = re.sub(
            rf"(?i)(?<!\w){re.escape(name)}s?(?!\w)", "it", sentence
        )
    return sentence


def context_relations(
    names: Mapping[str, str], sentences: Iterable[str], *, limit: int
) -> list[Relation]:
    """Each name with sentences that contain it, with the name replaced by "it".

    Args:
        names: name -> key of what it names.
        sentences: any number of them.
        limit: sentences per name; the first ones are used.
    """
    terms = list(names)
    n_sentences: Counter[str] = Counter()
    relations = []
    for mention in find_mentions(terms, sentences):
        name = terms[mention.term]
        if n_sentences[name] < limit:
            n_sentences[name] += 1
            before = mention.sentence[: mention.start]
            after = mention.sentence[mention.end :]
            context = f"{before}it{after}"
            relations.append(Relation(names[name], (name, context)))
    # A sentence that several names share is a template and says nothing about any of them.
    times = Counter(relation.texts[1] for relation in relations)
    return [
        relation for relation in relations if times[relation.texts[1]] == 1
    ]


def read_sentences(medquad: Path, pubmed: Path) -> Iterator[str]:
    """Distinct sentences of MedQuAD's answers and of PubMed abstracts, of moderate length.

    Raises:
        TableError: a file is missing.
    """
    answers = (
        question["answer"]
        for document in medquad_documents(medquad)
        for question in document["questions"]
    )
    answer_sentences = (
        sentence
        for answer in answers
        for sentence in SENTENCE_END.split(spaced(answer))
    )
    seen: set[int] = set()  # hashes take less memory than sentences
    for sentence in chain(answer_sentences, pubmed_sentences(pubmed)):
        is_new = hash(sentence) not in seen
        if is_new and _has_moderate_length(sentence):
            seen.add(hash(sentence))
            yield sentence


def icd9_relations(
    path: Path, *, without: Collection[str], seed: int = 0
) -> list[Relation]:
    """Titles of ICD-9 diagnoses that share a category of three digits.

    Args:
        path: CMS's file of codes and long titles.
        without: folded titles that no relation may have.
        seed: of the pairing; each title is paired with one other.

    Raises:
        TableError: no such file.
    """
    families: dict[str, list[str]] = defaultdict(list)
    for code, title in icd9_titles(path):
        if title.casefold() not in without:
            families[code[:3]].append(title)
    chooser = random.Random(seed)  # noqa: S311  (no secret)
    relations = []
    for family, titles in families.items():
        if len(titles) < 2:
            continue
        for title in titles:
            siblings = [text for text in titles if text != title]
            sibling = chooser.choice(siblings)
            relations.append(Relation(f"ICD-9 {family}", (title, sibling)))
    return relations
