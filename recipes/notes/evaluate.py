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

from biomed.ner.assertion import ASSERTIONS, assert_spans
from biomed.ner.commands import print_scores, renaming
from biomed.ner.evaluation import evaluate_documents
from biomed.ner.tagger import EntityTagger
from domainbert.cli.console import one_line_errors, stdout
from domainbert.errors import UserError
from domainbert.files import write_json
from recipes.notes.corpus import (
    SIDES,
    note_names,
    notes_gold,
    section_headings,
    sections_gold,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from biomed.corpora.corpus import Gold

COMMON = (
    "DKA",
    "MI",
    "CKD",
    "OSA",
    "URI",
    "HTN",
    "CHF",
    "COPD",
    "DVT",
    "PE",
    "UTI",
    "GERD",
    "CAD",
    "DM",
    "ESRD",
    "TIA",
    "CVA",
    "AFib",
    "RA",
    "MS",
    "BPH",
    "IBS",
    "PTSD",
    "ADHD",
    "ARDS",
    "PNA",
    "SBO",
    "HIV",
    "TB",
    "SLE",
)
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
        counts: entities by (right assertion, given assertion).
    """

    counts: Mapping[tuple[str, str], int]

    @property
    def accuracy(self) -> float:
        """Share of entities with the right assertion."""
        right = sum(
            count
            for (gold, predicted), count in self.counts.items()
            if gold == predicted
        )
        return right / max(sum(self.counts.values()), 1)

    def to_dict(self) -> dict[str, Any]:
        """Accuracy, and for each assertion its entities and those that got it, for JSON."""
        by_assertion = {}
        for name in ASSERTIONS:
            rows = {
                predicted: n
                for (gold, predicted), n in self.counts.items()
                if gold == name
            }
            by_assertion[name] = {
                "gold": sum(rows.values()),
                "given": sum(
                    n
                    for (_, predicted), n in self.counts.items()
                    if predicted == name
                ),
                "correct": rows.get(name, 0),
            }
        return {"accuracy": self.accuracy, **by_assertion}


def evaluate_assertions(
    gold: Gold, headings: Mapping[str, str] | None = None
) -> AssertionScore:
    """The rules of `biomed.ner.assertion` on the gold entities of a corpus with assertions.

    `headings` are those of the documents whose headings are not in their text, by id.
    """
    headings = headings or {}
    counts: Counter[tuple[str, str]] = Counter()
    for document in gold.documents:
        predicted = assert_spans(
            document.text,
            [(s.start, s.end, s.label) for s in document.spans],
            heading=headings.get(document.id, ""),
        )
        right = (span.assertion for span in document.spans)
        counts.update(
            (r, g) for r, g in zip(right, predicted, strict=True) if r
        )
    return AssertionScore(counts)


def known_types(tagger: EntityTagger, gold: Gold) -> list[str]:
    """The entity types of a corpus that the tagger finds.

    Raises:
        UserError: it finds none of them.
    """
    types = [kind for kind in gold.types if kind in tagger.types]
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
        expected = (len(name.context) + 1, labels.get(name.label, name.label))
        matches[name.kind] += any(
            (e.start, e.label) == expected and e.text == name.name
            for e in entities
        )
    total = Counter(name.kind for name in names)
    return {kind: (matches[kind], count) for kind, count in total.items()}


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
            spans = [(e.start, e.text, e.label) for e in entities]
            count += (start, name, label) in spans
        counts[frame.format("X")] = count
    return counts


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
    golds = [notes_gold(side, labels=labels) for side in SIDES]
    golds += [
        sections_gold(side, data, labels=labels) for side in SIDES if data
    ]
    types = known_types(tagger, golds[0])  # all corpora have the same types
    result: dict[str, Any] = {}
    for gold in golds:
        scores = evaluate_documents(tagger, gold)
        assertions = evaluate_assertions(gold).to_dict()
        result[gold.name] = {
            "entities": scores.table.to_dict("index"),
            "assertions": assertions,
        }
        print_scores(gold.name, scores)
        table = Table(f"assertions, {gold.name}", "gold", "given", "correct")
        for name in ASSERTIONS:
            counts = assertions[name]
            table.add_row(
                name,
                *(str(counts[key]) for key in ("gold", "given", "correct")),
            )
        stdout.print(table)
        stdout.print(
            f"accuracy of assertions on gold entities: {assertions['accuracy']:.3f}"
        )
    for side in SIDES if data else ():
        gold = sections_gold(side, data, labels=labels)
        headed = evaluate_assertions(gold, section_headings(side)).to_dict()
        result[gold.name]["assertions_with_headings"] = headed
        stdout.print(f"with headings, {gold.name}: {headed['accuracy']:.3f}")
    names = names_found(tagger, types, labels or {})
    result["names"] = {kind: list(pair) for kind, pair in names.items()}
    for kind, (matches, count) in names.items():
        stdout.print(f"{kind}: {matches} of {count} found")
    if "Disease" in tagger.types:
        result["frames"] = abbreviations_in_frames(tagger)
        for frame, matches in result["frames"].items():
            stdout.print(f"{frame} {matches} of {len(COMMON)} found")
    if json:
        write_json(result, json)


if __name__ == "__main__":
    typer.run(main)
