"""A silver corpus: texts that models have tagged, for one model to learn from (distillation)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from biomed.corpora.tags import TaggedText
from biomed.corpora.words import split_words
from biomed.ner.examples import RUN
from domainbert.errors import UserError
from domainbert.inference import chunked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from biomed.ner.ensemble import TaggerEnsemble
    from domainbert.pretraining.corpus import CorpusFile

BYTE_ORDER_MARK = "\ufeff"


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
    words = (text[start:end] for start, end in split_words(text))
    return tuple(word for word in words if word != BYTE_ORDER_MARK)


def read_lines(source: str | Path, *, share: float = 1.0) -> Iterator[str]:
    """The texts of a file or folder: lines of .txt or .txt.gz, or a table's column `text`.

    Args:
        source: the file or folder.
        share: of the texts that are read: runs of `RUN` that follow one another, evenly spread.

    Raises:
        ValueError: a file that is not there, is of another kind or is broken, or a share that is
            none.
    """
    from domainbert.pretraining.corpus import corpus_files

    if not 0 < share <= 1:
        msg = f"share must be above 0 and at most 1, got {share}"
        raise UserError(msg)
    return _lines(corpus_files([source]), share)


def _lines(files: Iterable[CorpusFile], share: float) -> Iterator[str]:
    from domainbert.pretraining.corpus import read_documents
    from domainbert.pretraining.settings import CorpusSettings

    settings = CorpusSettings(documents="block", lines=1)
    documents = (text for file in files for text in read_documents(file, settings=settings))
    for number, document in enumerate(documents):
        run = number // RUN
        if math.ceil((run + 1) * share) > math.ceil(run * share):
            yield document.text
