"""Corpora from real text: whole abstracts, and sentences of notes that a model tagged.

    python -m recipes.notes.real runs --data ../shared/data
    python -m recipes.notes.real runs --data ../shared/data --model MODEL

The first command writes the abstracts of `CORPORA` as they were published, because that is the text
that users have; abstracts that are measured on are left out. It also writes `runs/tagged`: the
notes that were tagged for training, each `TIMES` times. The second command writes `runs/silver`:
sentences of real notes in which the model and the open lists of names agree on the entities.
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
    from collections.abc import Iterable, Iterator

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
        file = data / "ner" / name / f"{side}.pubtator"
        for document in read_pubtator(file):
            title = only_letters(document.text)[:TITLE]
            if title not in measured:
                spans = tuple(
                    Span(span.start, span.end, types[span.label])
                    for span in document.spans
                    if span.label in types
                )
                yield Document(document.id, document.text, spans)


def measured_letters(data: Path) -> str:
    """The letters and digits of all texts of the sides in `MEASURED`, in one string."""
    letters = ""
    for side in MEASURED:
        lines = (data / "ner" / side).read_text("utf-8").splitlines()
        words = [line.split("\t")[0] for line in lines]
        letters += only_letters(" ".join(words))
    return letters


def only_letters(text: str) -> str:
    """The letters and digits of a text in lower case, by which texts are compared."""
    return re.sub(r"[^a-z0-9]", "", text.casefold())


def silver(data: Path, model: str) -> Iterator[Document]:
    """Sentences of real notes where model and lists agree, with the entities that both find."""
    labels = open_names.listed(data)
    by_type, no_entities = open_names.abbreviations(data)
    abbreviations = {
        name.casefold() for names in by_type.values() for name in names
    }
    wrong = {name.casefold() for name in no_entities} - abbreviations
    tagger = EntityTagger.from_pretrained(model, min_score=0.0)
    sentences = list(dict.fromkeys(_sentences(data)))
    for sentence, entities in zip(
        sentences, tagger.tag_many(sentences), strict=True
    ):
        spans = []
        agreed = True
        for entity in entities:
            name = entity.text.casefold()
            if name in wrong or open_names.is_no_name(name):
                continue
            is_listed = (
                name in abbreviations
                or labels.get(open_names.key(name)) == entity.label
            )
            least_score = LISTED if is_listed else SURE
            if entity.score >= least_score:
                spans.append(Span(entity.start, entity.end, entity.label))
            elif is_listed or entity.score >= UNSURE:
                agreed = False
        if agreed and not _missed(sentence, spans, labels):
            yield Document("silver", sentence, tuple(spans))


def _sentences(data: Path) -> Iterator[str]:
    """Sentences of real notes, of moderate length."""
    for text in real_notes(data):
        for match in _SENTENCE.finditer(text):
            if 15 < len(match[0]) < 400:
                yield match[0].strip()


def _missed(sentence: str, spans: list[Span], labels: dict[str, str]) -> bool:
    """Whether a listed name of two words lies outside all entities."""
    characters = list(sentence)
    for span in spans:
        characters[span.start : span.end] = "." * (span.end - span.start)
    outside = "".join(characters).replace(".", " . ")
    keys = map(open_names.key, outside.split())
    return any(
        f"{first} {second}" in labels
        for first, second in pairwise(keys)
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
    corpora: dict[str, Iterable[Document]] = {}
    if model:
        corpora["silver"] = silver(data, model)
    else:
        for name in CORPORA:
            corpora[name] = abstracts(data, name)
        corpora["tagged"] = training_documents(data) * TIMES
    for name, documents in corpora.items():
        (out / name).mkdir(parents=True, exist_ok=True)
        texts = [tagged(document)[0] for document in documents]
        not_empty = (text for text in texts if text.words)
        write_iob2(not_empty, out / name / "train.tsv")
        say(f"{out / name}: {len(texts):,} texts")


if __name__ == "__main__":
    typer.run(main)
