"""How much of a gold standard is also in the training texts, and the recall on what is not.

    biomed ner generate runs/notes --data ../shared/data
    python -m experiments.overlap notes --model disease-drug --train runs/notes/train.tsv

Name every training side with a `--train` of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from biomed.corpora import Document, TaggedText, read_gold, split_words
from biomed.corpora.documents import flat_spans, spans_of
from biomed.corpora.notes import notes_gold
from biomed.ner.tagger import EntityTagger
from domainbert.console import one_line_errors, stdout

Words = tuple[str, ...]


def runs(text: TaggedText, length: int) -> set[Words]:
    """The sequences of so many words of a text, in small letters."""
    words = [word.lower() for word in text.words]
    return {tuple(words[at : at + length]) for at in range(len(words) - length + 1)}


def shared_runs(
    texts: Iterable[TaggedText], train: Sequence[TaggedText], *, length: int
) -> tuple[int, int]:
    """How many sequences of so many words the training texts have too, and of how many."""
    known: set[Words] = set().union(*(runs(text, length) for text in train))
    own = [runs(text, length) for text in texts]
    return sum(len(found & known) for found in own), sum(map(len, own))


def recall_by_name(
    tagger: EntityTagger, documents: Sequence[Document], train: Sequence[TaggedText]
) -> Counter[tuple[str, bool, bool]]:
    """Gold entities by type, whether an entity of training has the name, and whether it is found.

    Names are compared word by word, ignoring case.
    """
    known = {
        tuple(word.lower() for word in text.words[first:end])
        for text in train
        for first, end, _ in spans_of(text.tags)
    }
    counts: Counter[tuple[str, bool, bool]] = Counter()
    found = tagger.tag_many(document.text for document in documents)
    for document, entities in zip(documents, found, strict=True):
        exact = {(e.start, e.end, e.label) for e in entities}
        for span in flat_spans(document)[0]:
            text = document.text[span.start : span.end].lower()
            name = tuple(text[start:end] for start, end in split_words(text).tolist())
            counts[span.label, name in known, (span.start, span.end, span.label) in exact] += 1
    return counts


@one_line_errors
def main(
    gold: Annotated[str, typer.Argument(help="A gold standard with documents, or notes.")],
    model: Annotated[list[str], typer.Option(help="Shipped name or folder; may be repeated.")],
    train: Annotated[list[Path], typer.Option(help="A file of training texts. Repeatable.")],
) -> None:
    """Print both."""
    right = notes_gold("test") if gold == "notes" else read_gold(gold)
    texts = [text for side in train for text in read_gold(side).texts]
    for length in (3, 4, 5, 6):
        same, total = shared_runs(right.texts, texts, length=length)
        typer.echo(f"{same} of {total} sequences of {length} words are in the training texts")
    counts = recall_by_name(EntityTagger.from_pretrained(*model), right.documents, texts)
    table = Table("entities", "name in training", "found", "of", "recall")
    for label, known in sorted({key[:2] for key in counts}):
        hits = counts[label, known, True]
        total = hits + counts[label, known, False]
        table.add_row(label, "yes" if known else "no", str(hits), str(total), f"{hits / total:.3f}")
    stdout.print(table)


if __name__ == "__main__":
    typer.run(main)
