"""Scores on notes: entities and assertions, two lists of names, and abbreviations in sentences.

python -m recipes.notes.evaluate --model disease-drug --data ../shared/data
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from biomed.ner.commands import print_scores, renaming
from biomed.ner.evaluation import evaluate_documents
from biomed.ner.tagger import EntityTagger
from biomed.notes.assertion import ASSERTIONS, assert_spans
from domainbert.cli.console import one_line_errors, stdout
from domainbert.errors import UserError
from domainbert.files import write_json
from recipes.notes.corpus import (
    SIDES,
    Side,
    note_names,
    notes_gold,
    section_headings,
    sections_gold,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from biomed.corpora.corpus import Gold
    from biomed.ner.entities import Entity

_COMMON = (
    "DKA MI CKD OSA URI HTN CHF COPD DVT PE UTI GERD CAD DM ESRD TIA CVA AFib RA MS BPH IBS PTSD "
    "ADHD ARDS PNA SBO HIV TB SLE"
)
COMMON = tuple(_COMMON.split())  # abbreviations of diseases
FRAMES = (
    "PMH: {}.",
    "Patient with {} presents today.",
    "He was treated for {} last week.",
    "Her {} is well controlled.",
    "No signs of {} on exam.",
    "{}: continue current management.",
    "Mother had {} at age 60.",
    "The team discussed {} with the family.",
)


@dataclass(frozen=True)
class AssertionScore:
    """How often the rules give gold entities their assertion.

    Attributes:
        counts: entities by (gold assertion, predicted assertion).
    """

    counts: Mapping[tuple[str, str], int]

    @property
    def accuracy(self) -> float:
        """Share of entities with the right assertion."""
        n_right = sum(self.counts.get((name, name), 0) for name in ASSERTIONS)
        return n_right / max(sum(self.counts.values()), 1)

    def to_dict(self) -> dict[str, Any]:
        """Accuracy, and for each assertion its entities and those that got it, for JSON."""
        n_gold: Counter[str] = Counter()
        n_predicted: Counter[str] = Counter()
        for (gold, predicted), count in self.counts.items():
            n_gold[gold] += count
            n_predicted[predicted] += count
        by_assertion = {
            name: {
                "gold": n_gold[name],
                "given": n_predicted[name],
                "correct": self.counts.get((name, name), 0),
            }
            for name in ASSERTIONS
        }
        return {"accuracy": self.accuracy, **by_assertion}


def evaluate_assertions(
    gold: Gold, headings: Mapping[str, str] | None = None
) -> AssertionScore:
    """The rules of `biomed.notes.assertion` on the gold entities of a corpus with assertions.

    `headings` are those of the documents whose headings are not in their text, by id.
    """
    headings = headings or {}
    counts: Counter[tuple[str, str]] = Counter()
    for document in gold.documents:
        spans = [(span.start, span.end, span.label) for span in document.spans]
        heading = headings.get(document.id, "")
        predicted = assert_spans(document.text, spans, heading=heading)
        for span, assertion in zip(document.spans, predicted, strict=True):
            if span.assertion:
                counts[span.assertion, assertion] += 1
    return AssertionScore(counts)


def known_types(tagger: EntityTagger, gold: Gold) -> list[str]:
    """The entity types of a corpus that the tagger finds.

    Raises:
        UserError: it finds none of them.
    """
    types = [label for label in gold.types if label in tagger.types]
    if not types:
        model_types = ", ".join(tagger.types)
        msg = (
            f"the notes have {', '.join(gold.types)}; the model finds {model_types}. "
            "Map them: --label OLD=NEW"
        )
        raise UserError(msg)
    return types


def names_found(
    tagger: EntityTagger, types: Sequence[str], labels: Mapping[str, str]
) -> dict[str, tuple[int, int]]:
    """For each list, the names that are found exactly, and all of them."""
    names = [
        name
        for name in note_names()
        if labels.get(name.label, name.label) in types
    ]
    texts = [f"{name.context} {name.name}" for name in names]
    matches: Counter[str] = Counter()
    for name, entities in zip(names, tagger.tag_many(texts), strict=True):
        label = labels.get(name.label, name.label)
        expected = (len(name.context) + 1, name.name, label)
        matches[name.name_type] += expected in _spans(entities)
    total = Counter(name.name_type for name in names)
    return {
        name_type: (matches[name_type], count)
        for name_type, count in total.items()
    }


def abbreviations_in_frames(
    tagger: EntityTagger, *, label: str = "Disease"
) -> dict[str, int]:
    """For each sentence, how many of 30 common abbreviations of diseases are found exactly."""
    counts = {}
    for frame in FRAMES:
        start = frame.index("{}")
        tagged = tagger.tag_many([frame.format(name) for name in COMMON])
        count = 0
        for name, entities in zip(COMMON, tagged, strict=True):
            count += (start, name, label) in _spans(entities)
        counts[frame.format("X")] = count
    return counts


def _spans(entities: Iterable[Entity]) -> list[tuple[int, str, str]]:
    """Start, text and type of entities."""
    return [(entity.start, entity.text, entity.label) for entity in entities]


@one_line_errors
def main(
    model: Annotated[str, typer.Option(help="Shipped name or model folder.")],
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the public data: also the real sections."
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(help="Rename an entity type: OLD=NEW. Repeatable."),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(help="Also write the scores to this file.")
    ] = None,
) -> None:
    """Score a model, and the rules for assertions, on the corpora of notes."""
    tagger = EntityTagger.from_pretrained(model)
    labels = renaming(label)
    hand_tagged = [notes_gold(side, labels=labels) for side in SIDES]
    sections: dict[Side, Gold] = {}
    if data:
        for side in SIDES:
            sections[side] = sections_gold(side, data, labels=labels)
    types = known_types(tagger, hand_tagged[0])  # those of all corpora
    result: dict[str, Any] = {}
    for gold in (*hand_tagged, *sections.values()):
        scores = evaluate_documents(tagger, gold)
        assertions = evaluate_assertions(gold).to_dict()
        result[gold.name] = {
            "entities": scores.table.to_dict("index"),
            "assertions": assertions,
        }
        print_scores(gold.name, scores)
        _print_assertions(gold.name, assertions)
    for side, gold in sections.items():
        headed = evaluate_assertions(gold, section_headings(side)).to_dict()
        result[gold.name]["assertions_with_headings"] = headed
        stdout.print(f"with headings, {gold.name}: {headed['accuracy']:.3f}")
    names = names_found(tagger, types, labels or {})
    result["names"] = {
        name_type: list(pair) for name_type, pair in names.items()
    }
    for name_type, (matches, count) in names.items():
        stdout.print(f"{name_type}: {matches} of {count} found")
    if "Disease" in tagger.types:
        result["frames"] = abbreviations_in_frames(tagger)
        for frame, matches in result["frames"].items():
            stdout.print(f"{frame} {matches} of {len(COMMON)} found")
    if json:
        write_json(result, json)


def _print_assertions(name: str, scores: dict[str, Any]) -> None:
    """Print what `AssertionScore.to_dict` gives."""
    columns = ("gold", "given", "correct")
    table = Table(f"assertions, {name}", *columns)
    for assertion in ASSERTIONS:
        counts = scores[assertion]
        table.add_row(assertion, *(str(counts[column]) for column in columns))
    stdout.print(table)
    stdout.print(
        f"accuracy of assertions on gold entities: {scores['accuracy']:.3f}"
    )


if __name__ == "__main__":
    typer.run(main)
