"""A silver corpus: texts that models have tagged, for one model to learn from (distillation)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from biomed.corpora.tags import TaggedText
from biomed.corpora.words import split_words
from domainbert.inference import chunked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from biomed.ner.network import WordTagger
    from biomed.ner.reading import Pieces

RUN = 20  # neighbours are read together in training


def silver_texts(models: Sequence[WordTagger], texts: Iterable[str]) -> Iterator[TaggedText]:
    """Each text as words, with the tags that the models together find likeliest.

    The probability of a tag is the mean of what the models give it; the tags are the best IOB2
    sequence. A text without a word is left out.

    Args:
        models: with the same labels and tokenizer, such as one recipe's of several seeds.
        texts: raw ones; streamed.

    Raises:
        ValueError: no models, or models that differ in labels or tokenizer.
    """
    if not models or any(model.labels != models[0].labels for model in models):
        msg = "a silver corpus needs models that find the same entity types"
        raise ValueError(msg)
    if any(model.tokenizer_hash != models[0].tokenizer_hash for model in models):
        msg = "the models read different word-pieces; use those of one encoder"
        raise ValueError(msg)
    words = (split for text in texts if (split := _words(text)))
    for chunk in chunked(words, size=len, limit=models[0].runner.buffer_tokens):
        tags = models[0].decoded(chunk, lambda pieces: _mean(models, pieces))
        for sentence, found in zip(chunk, tags, strict=True):
            yield TaggedText(sentence, tuple(found))


def _words(text: str) -> tuple[str, ...]:
    return tuple(text[start:end] for start, end in split_words(text))


def _mean(models: Sequence[WordTagger], pieces: Sequence[Pieces]) -> np.ndarray:
    """The logarithm of the models' mean probabilities, shape (words read, labels)."""
    each = np.stack([model.log_probabilities(pieces) for model in models])
    return np.logaddexp.reduce(each) - np.log(len(models))


def read_lines(source: str | Path, *, share: float = 1.0) -> Iterator[str]:
    """The texts of a file: lines of .txt or .txt.gz, or a table's column `text`.

    Args:
        source: the file.
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
    (file,) = corpus_files([source])
    for number, document in enumerate(read_documents(file, settings=settings)):
        run = number // RUN
        if int((run + 1) * share) > int(run * share):
            yield document.text
