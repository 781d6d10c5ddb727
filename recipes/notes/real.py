"""Corpora from real text: BioRED without what devel sides measure on, and self-tagged notes.

    python -m recipes.notes.real runs --data ../shared/data --model disease-drug

`runs/biored` has BioRED's abstracts, `runs/silver` sentences of real notes that a model and the
open lists of names tag alike; where they disagree the sentence is left out.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from biomed import EntityTagger
from biomed.corpora.documents import Document, Span, tagged
from biomed.corpora.formats import read_pubtator
from domainbert.cli.console import one_line_errors, say
from recipes.corpora import write_iob2
from recipes.notes import open_names
from recipes.notes.open_names import CHEMICAL, DISEASE

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPES = {"DiseaseOrPhenotypicFeature": DISEASE, "ChemicalEntity": CHEMICAL}
MEASURED = ("ncbi-disease/devel.tsv", "ncbi-disease/test.tsv", "bc5cdr-disease/devel.tsv")
TITLE = 50  # letters of a title that tell an abstract
SURE, UNSURE = 0.9, 0.3  # scores from which a name that no list has is kept, or a sentence left out
LISTED = 0.6  # score from which a listed name is kept
_SENTENCE = re.compile(r"[^\n]+?(?:[.!?](?=\s)|$)", re.MULTILINE)


def biored(data: Path) -> Iterator[Document]:
    """BioRED's abstracts with diseases and chemicals, without those of the sides in `MEASURED`."""
    measured = ""
    for name in MEASURED:
        lines = (data / "ner" / name).read_text("utf-8").splitlines()
        measured += _letters(" ".join(line.split("\t")[0] for line in lines))
    for side in ("train", "devel"):
        for document in read_pubtator(data / "ner" / "biored" / f"{side}.pubtator"):
            if _letters(document.text)[:TITLE] not in measured:
                spans = (Span(s.start, s.end, TYPES.get(s.label, "")) for s in document.spans)
                yield Document(document.id, document.text, tuple(s for s in spans if s.label))


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.casefold())


def silver(data: Path, model: str) -> Iterator[Document]:
    """Sentences of real notes where model and lists agree, with the entities that both find."""
    names, (short, others) = open_names.listed(data), open_names.abbreviations(data)
    known = {name.casefold() for label in short for name in short[label]}
    wrong = {name.casefold() for name in others} - known
    tagger = EntityTagger.from_pretrained(model, min_score=0.0)
    sentences = list(
        dict.fromkeys(
            found[0].strip()
            for text in open_names.real_notes(data)
            for found in _SENTENCE.finditer(text)
            if 15 < len(found[0]) < 400
        )
    )
    for sentence, entities in zip(sentences, tagger.tag_many(sentences), strict=True):
        spans, agreed = [], True
        for entity in entities:
            name = entity.text
            is_listed = names.get(open_names.key(name)) == entity.label
            is_listed |= name.casefold() in known
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
    words = [open_names.key(word) for word in "".join(free).replace(".", " . ").split()]
    pairs = pairwise(words)
    return any(names.get(f"{first} {second}") for first, second in pairs if first and second)


@one_line_errors
def main(
    out: Annotated[Path, typer.Argument(help="Folder for biored and silver.")],
    data: Annotated[Path, typer.Option(help="The public data.")],
    model: Annotated[str, typer.Option(help="Tags the notes.")] = "disease-drug",
) -> None:
    """Write both corpora."""
    for name, documents in (("biored", biored(data)), ("silver", silver(data, model))):
        (out / name).mkdir(parents=True, exist_ok=True)
        texts = [tagged(document)[0] for document in documents]
        write_iob2((text for text in texts if text.words), out / name / "train.tsv")
        say(f"{out / name}: {len(texts):,} texts")


if __name__ == "__main__":
    typer.run(main)
