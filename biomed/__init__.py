"""BioBERT: biomedical text -> entities, answers, embeddings."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from domainbert import __version__

if TYPE_CHECKING:
    from biomed.ner.entities import Entity
    from biomed.ner.export import to_spacy
    from biomed.ner.linking import Dictionary, EntityLinker
    from biomed.ner.tagger import EntityTagger
    from biomed.plots import plot_comparison, plot_similarity, plot_terms
    from biomed.qa.answerer import Answer, QuestionAnswerer
    from biomed.qa.yes_no import YesNoAnswerer
    from biomed.sentences.encoder import CrossEncoder, SentenceEncoder
    from biomed.sentences.search import SentenceIndex
    from biomed.terms.embedder import TermEmbedder
    from biomed.terms.evaluation import (
        compare_encoders,
        evaluate_categories,
        evaluate_pairs,
        read_rated_pairs,
    )
    from biomed.terms.similarity import TermIndex
    from biomed.terms.tables import embed_frame
    from biomed.terms.vocabulary import medical_terms, read_vocabulary

# Each name is imported on first use, so that `biomed --help` does not import torch.
_NAMES = {
    "ner.entities": "Entity",
    "ner.export": "to_spacy",
    "ner.linking": "Dictionary EntityLinker",
    "ner.tagger": "EntityTagger",
    "plots": "plot_comparison plot_similarity plot_terms",
    "qa.answerer": "Answer QuestionAnswerer",
    "qa.yes_no": "YesNoAnswerer",
    "sentences.encoder": "CrossEncoder SentenceEncoder",
    "sentences.search": "SentenceIndex",
    "terms.embedder": "TermEmbedder",
    "terms.evaluation": "compare_encoders evaluate_categories evaluate_pairs read_rated_pairs",
    "terms.similarity": "TermIndex",
    "terms.tables": "embed_frame",
    "terms.vocabulary": "medical_terms read_vocabulary",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Answer",
    "CrossEncoder",
    "Dictionary",
    "Entity",
    "EntityLinker",
    "EntityTagger",
    "QuestionAnswerer",
    "SentenceEncoder",
    "SentenceIndex",
    "TermEmbedder",
    "TermIndex",
    "YesNoAnswerer",
    "__version__",
    "compare_encoders",
    "embed_frame",
    "evaluate_categories",
    "evaluate_pairs",
    "medical_terms",
    "plot_comparison",
    "plot_similarity",
    "plot_terms",
    "read_rated_pairs",
    "read_vocabulary",
    "to_spacy",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module 'biomed' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"biomed.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return __all__
