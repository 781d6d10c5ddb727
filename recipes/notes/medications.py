"""Exact F1 of medication attributes on the sections of `medication-lines`, with intervals.

python -m recipes.notes.medications --data ../shared/data --side test
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from biomed.ner.assertion import DRUGS
from biomed.ner.evaluation import score_spans
from biomed.ner.medications import KINDS, read_medications
from biomed.ner.tagger import EntityTagger
from domainbert.cli.console import one_line_errors, print_table
from domainbert.errors import UserError
from recipes.notes.corpus import Side  # noqa: TC001, typer reads it
from recipes.notes.sections import DRAWN, drawable

if TYPE_CHECKING:
    from biomed.ner.entities import Entity, Medication

_FOLDER = Path(__file__).parent / "medication-lines"
_TAGGED = [kind for kind in KINDS if kind != "reaction"]
_HEAD = ["attribute", "F1", "95% interval", "precision", "recall", "gold"]
# A drug of the section, an attribute's kind, its ends; a status has none.
Fact = tuple[int, str, str]


def tagged_sections(
    side: Side, data: Path
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The text and the tags of each section of a side.

    Raises:
        UserError: a text differs from the one that was tagged.
    """
    texts = {s.id: s.text for name in DRAWN for s in drawable(data, name)}
    for line in (_FOLDER / f"{side}.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        text = texts.get(row["id"], "")
        if (
            not hashlib.sha256(text.encode())
            .hexdigest()
            .startswith(row["sha256"])
        ):
            msg = f"{data / 'notes'}: section {row['id']} is not the text that was tagged"
            raise UserError(msg)
        yield text, row


def gold_facts(row: dict[str, Any]) -> list[Fact]:
    """What the tags of a section say about its drugs."""
    facts = []
    for drug in row["drugs"]:
        for kind, start, end in drug["attributes"]:
            facts.append((drug["start"], f"{start}-{end}", kind))
        if drug["status"]:
            facts.append((drug["start"], drug["status"], "status"))
    return facts


def predicted_facts(medications: list[Medication]) -> list[Fact]:
    """The same of the grammar's output."""
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
    texts, rows = zip(*tagged_sections(side, data), strict=True)
    tagger = EntityTagger.from_pretrained(model)
    predicted = []
    for text, row, entities in zip(
        texts, rows, tagger.tag_many(texts), strict=True
    ):
        spans = [(e.start, e.end, e.label) for e in entities]
        if drugs == "gold":
            spans = with_gold_drugs(entities, row)
        predicted.append(predicted_facts(read_medications(text, spans)))
    gold = [gold_facts(row) for row in rows]
    lines = []
    for kind in (*_TAGGED, "status"):
        scores = score_spans(gold, predicted, types=[kind])  # type: ignore[arg-type]
        overall = scores.overall
        f1 = scores.interval
        numbers = [f"{f1.value:.3f}", f"[{f1.low:.3f}, {f1.high:.3f}]"]
        numbers += [f"{overall['precision']:.3f}", f"{overall['recall']:.3f}"]
        lines.append([kind, *numbers, str(int(overall["gold"]))])
    print_table(lines, _HEAD)


if __name__ == "__main__":
    typer.run(main)
