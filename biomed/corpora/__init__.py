"""Entity corpora in IOB2 (CoNLL), PubTator or BRAT format, read as words with tags."""

from biomed.corpora.corpus import Corpus, Gold, gold_of, read_corpus, read_gold, without
from biomed.corpora.documents import (
    CorpusError,
    Document,
    Remark,
    Span,
    TaggedText,
    flat_spans,
    spans_of,
    tagged,
    tags_of,
)
from biomed.corpora.words import split_words, starts_after_breaks

__all__ = [
    "Corpus",
    "CorpusError",
    "Document",
    "Gold",
    "Remark",
    "Span",
    "TaggedText",
    "flat_spans",
    "gold_of",
    "read_corpus",
    "read_gold",
    "spans_of",
    "split_words",
    "starts_after_breaks",
    "tagged",
    "tags_of",
    "without",
]
