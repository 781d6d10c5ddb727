"""Entity corpora in CoNLL, PubTator, BioC or BRAT formats, read as words with tags."""

from biomed.corpora.corpus import Corpus, Gold, gold_of, read_corpus, read_gold
from biomed.corpora.documents import (
    CorpusError,
    Document,
    Relation,
    Span,
    TaggedText,
)

__all__ = [
    "Corpus",
    "CorpusError",
    "Document",
    "Gold",
    "Relation",
    "Span",
    "TaggedText",
    "gold_of",
    "read_corpus",
    "read_gold",
]
