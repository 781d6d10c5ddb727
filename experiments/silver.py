"""Silver corpora: texts tagged by an ensemble, for another model to learn from (distillation)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from biomed.corpora import TaggedText, split_words
from biomed.corpora.formats import BYTE_ORDER_MARK, write_iob2
from biomed.ner.evaluation import TaggerEnsemble
from biomed.ner.examples import RUN
from domainbert.console import counted, one_line_errors, say
from domainbert.errors import UserError
from domainbert.inference import chunked
from domainbert.tables import ReadOptions, iter_rows


def silver_texts(tagger: TaggerEnsemble, texts: Iterable[str]) -> Iterator[TaggedText]:
    """Stream texts as words with the ensemble's tags; a text without words is left out."""
    words = (split for text in texts if (split := _words(text)))
    for chunk in chunked(words, size=len, limit=tagger.buffer_tokens):
        for sentence, tags in zip(chunk, tagger.tags(chunk), strict=True):
            yield TaggedText(sentence, tuple(tags))


def _words(text: str) -> tuple[str, ...]:
    words = (text[start:end] for start, end in split_words(text))
    return tuple(word for word in words if word != BYTE_ORDER_MARK)


def read_texts(source: str | Path, *, share: float = 1.0) -> Iterator[str]:
    """The texts of a file or folder: the lines of text files, or a table's column `text`.

    Args:
        source: see `domainbert.tables.iter_rows`.
        share: of the texts that are read, as evenly spread runs of `RUN` consecutive texts.

    Raises:
        UserError: a file that cannot be read, or a share that is not in (0, 1].
    """
    if not 0 < share <= 1:
        msg = f"share: expected a number above 0 and at most 1, got {share}"
        raise UserError(msg)
    rows = iter_rows(source, ReadOptions(lines=True))
    texts = (
        text for row in rows if isinstance(text := row.cells.get("text"), str) and text.strip()
    )
    for number, text in enumerate(texts):
        run = number // RUN
        if math.ceil((run + 1) * share) > math.ceil(run * share):
            yield text


@one_line_errors
def main(
    texts: Annotated[
        Path, typer.Argument(help="Text files (a text a line), a table, or a folder.")
    ],
    model: Annotated[list[str], typer.Option(help="Shipped name or folder; may be repeated.")],
    out: Annotated[Path, typer.Option(help="The corpus folder to write.")],
    share: Annotated[float, typer.Option(help="Share of the texts to read.")] = 1.0,
) -> None:
    """Tag texts with an ensemble: OUT/train.tsv, in IOB2."""
    from biomed.ner.network import WordTagger

    if out.exists():
        msg = f"{out} exists already; choose another name"
        raise UserError(msg)
    ensemble = TaggerEnsemble([WordTagger.from_pretrained(name) for name in model])
    tagged = counted(silver_texts(ensemble, read_texts(texts, share=share)), what="tagging texts")
    out.mkdir(parents=True)
    write_iob2(tagged, out / "train.tsv")
    say(f"{out / 'train.tsv'} has no devel side: train on it together with a corpus that has one")


if __name__ == "__main__":
    typer.run(main)
