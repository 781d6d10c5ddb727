"""Exact F1 of medication attributes on the sections of `medication-lines`, with intervals.

python -m recipes.notes.medications --data ../shared/data --side test
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from biomed.ner.evaluation import compare_spans
from biomed.ner.tagger import EntityTagger
from biomed.notes.assertion import DRUGS
from biomed.notes.attributes import KINDS
from biomed.notes.medications import read_medications
from domainbert.cli.console import one_line_errors, print_table
from recipes.notes.corpus import (
    Side,
    tagged_rows,
    tagged_texts,
)
from recipes.notes.sections import DRAWN, drawable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from biomed.ner.entities import Entity
    from biomed.notes.attributes import Medication

_TAGGED = [attribute for attribute in KINDS if attribute != "reaction"]
_HEAD = ["attribute", "F1", "95% interval", "precision", "recall", "gold"]
# A drug of the section, an attribute's kind, its ends; a status has none.
Fact = tuple[int, str, str]


def tagged_sections(
    side: Side, data: Path
) -> tuple[list[str], list[dict[str, Any]]]:
    """The texts of a side's sections, and their tags.

    Raises:
        UserError: a text differs from the one that was tagged.
    """
    sections = chain.from_iterable(drawable(data, name) for name in DRAWN)
    rows = tagged_rows("medication-lines", side)
    texts = tagged_texts(rows, sections, data)
    return list(texts), rows


def gold_facts(row: dict[str, Any]) -> list[Fact]:
    """What the tags of a section say about its drugs."""
    facts = []
    for drug in row["drugs"]:
        for attribute, start, end in drug["attributes"]:
            facts.append((drug["start"], f"{start}-{end}", attribute))
        if drug["status"]:
            facts.append((drug["start"], drug["status"], "status"))
    return facts


def predicted_facts(medications: list[Medication]) -> list[Fact]:
    """What the grammar reads about the drugs of a section."""
    facts = []
    for drug in medications:
        facts += [
            (drug.start, f"{part.start}-{part.end}", part.kind)
            for part in drug.attributes
        ]
        if drug.status:
            facts.append((drug.start, drug.status, "status"))
    return facts


def with_gold_drugs(
    entities: list[Entity], row: dict[str, Any]
) -> list[tuple[int, int, str]]:
    """The drugs of the tags, with the tagger's diseases that do not overlap them."""
    drugs = [(drug["start"], drug["end"], "Chemical") for drug in row["drugs"]]

    def is_free(entity: Entity) -> bool:
        return not any(
            entity.start < end and start < entity.end
            for start, end, _ in drugs
        )

    diseases = [
        (entity.start, entity.end, entity.label)
        for entity in entities
        if entity.label.casefold() not in DRUGS and is_free(entity)
    ]
    return drugs + diseases


@one_line_errors
def main(
    data: Annotated[Path, typer.Option(help="Folder of the public data.")],
    side: Annotated[Side, typer.Option(help="dev or test.")] = "dev",
    model: Annotated[
        str, typer.Option(help="Finds the diseases.")
    ] = "disease-drug",
    drugs: Annotated[
        Literal["gold", "model"], typer.Option(help="Whose drugs are read.")
    ] = "gold",
) -> None:
    """Print the scores of each attribute."""
    texts, rows = tagged_sections(side, data)
    tagger = EntityTagger.from_pretrained(model)
    predicted = []
    for text, row, entities in zip(
        texts, rows, tagger.tag_many(texts), strict=True
    ):
        spans = [
            (entity.start, entity.end, entity.label) for entity in entities
        ]
        if drugs == "gold":
            spans = with_gold_drugs(entities, row)
        predicted.append(predicted_facts(read_medications(text, spans)))
    gold = list(map(gold_facts, rows))
    print_table(list(compare_lines(gold, predicted)), _HEAD)


def compare_lines(
    gold: list[list[Fact]], predicted: list[list[Fact]]
) -> Iterator[list[str]]:
    """The cells of `_HEAD` for each kind of attribute."""
    for attribute in (*_TAGGED, "status"):
        scores = compare_spans(gold, predicted, types=[attribute])  # type: ignore[arg-type]
        f1 = scores.interval
        overall = scores.overall
        yield [
            attribute,
            f"{f1.value:.3f}",
            f"[{f1.low:.3f}, {f1.high:.3f}]",
            f"{overall['precision']:.3f}",
            f"{overall['recall']:.3f}",
            str(int(overall["gold"])),
        ]


if __name__ == "__main__":
    typer.run(main)
