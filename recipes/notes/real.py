"""Corpora from real text: whole abstracts, and sentences of notes that a model tagged.

    python -m recipes.notes.real runs --data ../shared/data
    python -m recipes.notes.real runs --data ../shared/data --model MODEL

The first writes the abstracts of `CORPORA` as they were published, so that models learn from text
as users have it, and leaves out those of devel and test sides; and `runs/tagged`, the notes that
were tagged for training, each of them `TIMES` times. The second writes `runs/silver`:
sentences of real notes that the model and the open lists of names tag alike; where they disagree
the sentence is left out.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from biomed import EntityTagger
from biomed.corpora.documents import Document, Span, tagged
from biomed.corpora.pubtator import read_pubtator
from domainbert.cli.console import one_line_errors, say
from recipes.corpora import write_iob2
from recipes.notes import open_names
from recipes.notes.corpus import training_documents
from recipes.notes.open_names import CHEMICAL, DISEASE
from recipes.notes.sections import real_notes

if TYPE_CHECKING:
    from collections.abc import Iterator

CORPORA = {  # the sides with training texts, and the types that are read
    "biored": (
        ("train", "devel"),
        {"DiseaseOrPhenotypicFeature": DISEASE, "ChemicalEntity": CHEMICAL},
    ),
    "bc5cdr-ids": (("train",), {"Disease": DISEASE, "Chemical": CHEMICAL}),
    "ncbi-disease-ids": (
        ("train",),
        dict.fromkeys(
            (
                "SpecificDisease",
                "DiseaseClass",
                "Modifier",
                "CompositeMention",
            ),
            DISEASE,
        ),
    ),
}
MEASURED = (
    "ncbi-disease/devel.tsv",
    "ncbi-disease/test.tsv",
    "bc5cdr-disease/devel.tsv",
)
TIMES = 3  # an epoch reads the tagged notes so often
TITLE = 50  # letters of a title that tell an abstract
# Scores from which a name that no list has is kept, or a sentence is left out.
SURE = 0.9
UNSURE = 0.3
LISTED = 0.6  # score from which a listed name is kept
_SENTENCE = re.compile(r"[^\n]+?(?:[.!?](?=\s)|$)", re.MULTILINE)


def abstracts(data: Path, name: str) -> Iterator[Document]:
    """Abstracts with diseases and chemicals, without those of the sides in `MEASURED`."""
    measured = measured_letters(data)
    sides, types = CORPORA[name]
    for side in sides:
        for document in read_pubtator(
            data / "ner" / name / f"{side}.pubtator"
        ):
            if only_letters(document.text)[:TITLE] not in measured:
                spans = (
                    Span(s.start, s.end, types.get(s.label, ""))
                    for s in document.spans
                )
                yield Document(
                    document.id,
                    document.text,
                    tuple(s for s in spans if s.label),
                )


def measured_letters(data: Path) -> str:
    """The letters and digits of all texts of the sides in `MEASURED`, in one string."""
    letters = ""
    for side in MEASURED:
        lines = (data / "ner" / side).read_text("utf-8").splitlines()
        letters += only_letters(
            " ".join(line.split("\t")[0] for line in lines)
        )
    return letters


def only_letters(text: str) -> str:
    """The letters and digits of a text in lower case, by which texts are compared."""
    return re.sub(r"[^a-z0-9]", "", text.casefold())


def silver(data: Path, model: str) -> Iterator[Document]:
    """Sentences of real notes where model and lists agree, with the entities that both find."""
    names = open_names.listed(data)
    short, no_entities = open_names.abbreviations(data)
    entity_names = {
        name.casefold() for label in short for name in short[label]
    }
    wrong = {name.casefold() for name in no_entities} - entity_names
    tagger = EntityTagger.from_pretrained(model, min_score=0.0)
    sentences = list(
        dict.fromkeys(
            match[0].strip()
            for text in real_notes(data)
            for match in _SENTENCE.finditer(text)
            if 15 < len(match[0]) < 400
        )
    )
    for sentence, entities in zip(
        sentences, tagger.tag_many(sentences), strict=True
    ):
        spans = []
        agreed = True
        for entity in entities:
            name = entity.text
            is_listed = names.get(open_names.key(name)) == entity.label
            is_listed |= name.casefold() in entity_names
            if name.casefold() in wrong or open_names.is_no_name(name):
                continue
            if entity.score >= (LISTED if is_listed else SURE):
                spans.append(Span(entity.start, entity.end, entity.label))
            elif is_listed or entity.score >= UNSURE:
                agreed = False
        if agreed and not _missed(sentence, spans, names):
            yield Document("silver", sentence, tuple(spans))


def _missed(sentence: str, spans: list[Span], names: dict[str, str]) -> bool:
    """Whether a listed name of two words or more lies outside all entities."""
    free = list(sentence)
    for span in spans:
        free[span.start : span.end] = "." * (span.end - span.start)
    words = [
        open_names.key(word)
        for word in "".join(free).replace(".", " . ").split()
    ]
    pairs = pairwise(words)
    return any(
        names.get(f"{first} {second}")
        for first, second in pairs
        if first and second
    )


@one_line_errors
def main(
    out: Annotated[
        Path, typer.Argument(help="Folder of the corpora's folders.")
    ],
    data: Annotated[Path, typer.Option(help="The public data.")],
    model: Annotated[
        str | None, typer.Option(help="Tags the notes: writes `silver`.")
    ] = None,
) -> None:
    """Write abstracts and tagged notes, or with a model the sentences of notes."""
    written = (
        {"silver": silver(data, model)}
        if model
        else {name: abstracts(data, name) for name in CORPORA}
        | {"tagged": training_documents(data) * TIMES}
    )
    for name, documents in written.items():
        (out / name).mkdir(parents=True, exist_ok=True)
        texts = [tagged(document)[0] for document in documents]
        write_iob2(
            (text for text in texts if text.words), out / name / "train.tsv"
        )
        say(f"{out / name}: {len(texts):,} texts")


if __name__ == "__main__":
    typer.run(main)
