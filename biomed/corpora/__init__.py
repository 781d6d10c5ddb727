"""Corpora of entities: IOB2 (CoNLL), PubTator and BRAT files -> words with tags, checked."""

from biomed.corpora.corpus import (
    Corpus,
    Gold,
    fingerprints,
    gold_of,
    read_corpus,
    read_gold,
    without,
)
from biomed.corpora.documents import Document, Remark, Span, flat_spans, tagged
from biomed.corpora.tags import CorpusError, TaggedText, spans_of, tags_of
from biomed.corpora.words import after_blank_lines, split_words

__all__ = [
    "Corpus",
    "CorpusError",
    "Document",
    "Gold",
    "Remark",
    "Span",
    "TaggedText",
    "after_blank_lines",
    "fingerprints",
    "flat_spans",
    "gold_of",
    "read_corpus",
    "read_gold",
    "spans_of",
    "split_words",
    "tagged",
    "tags_of",
    "without",
]
