"""A silver corpus: texts that models have tagged, for one model to learn from (distillation)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from biomed.corpora.tags import TaggedText
from biomed.corpora.words import split_words
from domainbert.inference import chunked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from biomed.ner.ensemble import TaggerEnsemble

RUN = 20  # neighbours are read together in training


def silver_texts(tagger: TaggerEnsemble, texts: Iterable[str]) -> Iterator[TaggedText]:
    """Each text as words with the tags that the ensemble gives them; one without words is left out.

    Args:
        tagger: what knows.
        texts: raw ones; streamed.
    """
    words = (split for text in texts if (split := _words(text)))
    for chunk in chunked(words, size=len, limit=tagger.buffer_tokens):
        for sentence, tags in zip(chunk, tagger.tags(chunk), strict=True):
            yield TaggedText(sentence, tuple(tags))


def _words(text: str) -> tuple[str, ...]:
    return tuple(text[start:end] for start, end in split_words(text))


def read_lines(source: str | Path, *, share: float = 1.0) -> Iterator[str]:
    """The texts of a file or folder: lines of .txt or .txt.gz, or a table's column `text`.

    Args:
        source: the file or folder.
        share: of the texts that are read: runs of `RUN` that follow one another, evenly spread.

    Raises:
        ValueError: a file that is not there, is of another kind or is broken, or a share that is
            none.
    """
    from domainbert.pretraining.documents import corpus_files, read_documents
    from domainbert.pretraining.settings import CorpusSettings

    if not 0 < share <= 1:
        msg = f"share must be above 0 and at most 1, got {share}"
        raise ValueError(msg)
    settings = CorpusSettings(documents="block", lines=1)
    documents = (
        document
        for file in corpus_files([source])
        for document in read_documents(file, settings=settings)
    )
    for number, document in enumerate(documents):
        run = number // RUN
        if int((run + 1) * share) > int(run * share):
            yield document.text
