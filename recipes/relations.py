"""Training texts of term vectors: names and sentences that mean the same or belong together.

A relation is a set of texts whose vectors should be close. Relations with the same key are about
the same thing, so they are never negatives of each other. No rated pair is used.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from domainbert.tables import TableError

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
        if words := [word.lower() for word in _WORD.findall(term)]:
            by_first[words[0]].append((number, words))
    for sentence in sentences:
        found = [
            (m.group().lower(), m.start(), m.end())
            for m in _WORD.finditer(sentence)
        ]
        seen: set[int] = set()
        for i, (word, start, _) in enumerate(found):
            for number, words in by_first.get(word, ()):
                here = found[i : i + len(words)]
                if number not in seen and [w for w, *_ in here] == words:
                    seen.add(number)
                    yield Mention(number, sentence, start, here[-1][2])


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
    relations = []
    for key, part in kept.groupby(level, sort=False):
        names = tuple(
            name
            for row in part.itertuples()
            for name in (row.term, *row.synonyms)
        )
        relations += [Relation(str(key), names)] * (
            len(part) if len(part) > 1 else 0
        )
    return relations


def held_out_names(vocabulary: pd.DataFrame) -> set[str]:
    """The names of the terms that are held out, as they are spelled."""
    rows = vocabulary[vocabulary["held_out"]].itertuples()
    return {name for row in rows for name in (row.term, *row.synonyms)}


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
    texts = list(
        dict.fromkeys(
            text for relation in relations for text in relation.texts
        )
    )
    listed = list(names)
    found = {
        mention.sentence
        for mention in find_mentions(listed, texts)
        if not listed[mention.term].isupper()
    }
    capitals = sorted(name for name in listed if name.isupper())
    if capitals:
        pattern = re.compile(
            rf"(?<!\w)({'|'.join(map(re.escape, capitals))})(?!\w)"
        )
        found |= {text for text in texts if pattern.search(text)}
    left = (
        Relation(r.key, tuple(text for text in r.texts if text not in found))
        for r in relations
    )
    return [relation for relation in left if len(relation.texts) > 1]


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


def medquad_documents(path: Path) -> Iterator[dict[str, Any]]:
    """The documents of MedQuAD's JSON lines (.gz); without such a file a `TableError`."""
    if not path.is_file():
        msg = f"{path}: no such file; training needs MedQuAD as JSON lines"
        raise TableError(msg)
    with gzip.open(path, "rt", encoding="utf-8") as handle:
        for line in handle:
            yield json.loads(line)


def concept_key(document: dict[str, Any]) -> str:
    """The key of a MedQuAD document's concept: its UMLS number if it has one, else its name."""
    numbers = document["cuis"]
    key: str = (
        numbers[0] if len(numbers) == 1 else document["focus"].casefold()
    )
    return key


def _concept(document: dict[str, Any]) -> Concept:
    key = concept_key(document)
    first = spaced(document["focus"])
    if document["source"] == "MPlusDrugs":
        first = _FORM.sub("", first)
    spelled = {
        spaced(name) for name in (document["focus"], *document["synonyms"])
    }
    names = [first, *sorted(spelled - {first})]
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
    said = [
        part for part in SENTENCE_END.split(text) if not part.endswith("?")
    ]
    return [part for part in said[:number] if SHORTEST < len(part) < LONGEST]


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
    rows = vocabulary[~vocabulary["held_out"]].itertuples()
    own = {
        name: str(row.group)
        for row in rows
        for name in (row.term, *row.synonyms)
    }
    read = {name: c.key for c in concepts for name in _kept_names(c, without)}
    both = {name.casefold(): key for name, key in (read | own).items()}
    return {
        name: key for name, key in both.items() if len(name) >= SHORTEST_NAME
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
    listed, left = list(names), dict.fromkeys(range(len(names)), limit)
    relations = []
    for mention in find_mentions(listed, sentences):
        if left[mention.term]:
            left[mention.term] -= 1
            name, text = listed[mention.term], mention.sentence
            said = f"{text[: mention.start]}it{text[mention.end :]}"
            relations.append(Relation(names[name], (name, said)))
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
    seen: set[int] = set()
    answers = (
        question["answer"]
        for document in medquad_documents(medquad)
        for question in document["questions"]
    )
    spoken = (
        part
        for answer in answers
        for part in SENTENCE_END.split(spaced(answer))
    )
    for sentence in chain(spoken, _lines(pubmed)):
        if SHORTEST < len(sentence) < LONGEST and hash(sentence) not in seen:
            seen.add(hash(sentence))
            yield sentence


def _lines(path: Path) -> Iterator[str]:
    if not path.is_file():
        msg = f"{path}: no such file; training needs the sentences of PubMed"
        raise TableError(msg)
    with gzip.open(path, "rt", encoding="utf-8") as handle:
        yield from (line.strip() for line in handle)


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
    if not path.is_file():
        msg = f"{path}: no such file; training needs the long titles of ICD-9"
        raise TableError(msg)
    families: dict[str, list[str]] = defaultdict(list)
    for line in path.read_text(encoding="latin-1").splitlines():
        code, _, title = line.partition(" ")
        # E and V codes are circumstances, not conditions.
        if code[:1].isdigit() and title.strip().casefold() not in without:
            families[code[:3]].append(title.strip())
    chooser = random.Random(seed)  # noqa: S311  (no secret)
    relations = []
    for family, titles in families.items():
        for title in titles if len(titles) > 1 else ():
            other = chooser.choice([text for text in titles if text != title])
            relations.append(Relation(f"ICD-9 {family}", (title, other)))
    return relations
