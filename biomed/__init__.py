"""BioBERT: biomedical text -> entities, answers, embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from domainbert import __version__ as __version__
from domainbert import imported_on_use

if TYPE_CHECKING:
    from biomed.classes import EntityTagger as EntityTagger
    from biomed.classes import QuestionAnswerer as QuestionAnswerer
    from biomed.classes import medications as medications
    from biomed.ner.dictionaries import Dictionary as Dictionary
    from biomed.ner.entities import Entity as Entity
    from biomed.ner.linking import EntityLinker as EntityLinker
    from biomed.ner.medications import Medication as Medication
    from biomed.ner.sections import Section as Section
    from biomed.ner.sections import sections as sections
    from biomed.qa.model import Answer as Answer
    from biomed.sentences.data import read_pairs as read_pairs
    from biomed.sentences.encoder import CrossEncoder as CrossEncoder
    from biomed.sentences.encoder import SentenceEncoder as SentenceEncoder
    from biomed.sentences.evaluation import evaluate_pairs as evaluate_pairs
    from biomed.sentences.search import SentenceIndex as SentenceIndex
    from biomed.terms.names import medical_terms as medical_terms
    from biomed.terms.names import read_vocabulary as read_vocabulary
    from biomed.terms.plots import plot_terms as plot_terms
    from biomed.terms.similarity import TermEmbedder as TermEmbedder
    from biomed.terms.similarity import TermIndex as TermIndex
    from biomed.terms.task import embed_frame as embed_frame

# Each name is imported on first use, so that `biomed --help` does not import torch.
_NAMES = {
    "classes": "EntityTagger QuestionAnswerer medications",
    "ner.entities": "Entity",
    "ner.dictionaries": "Dictionary",
    "ner.linking": "EntityLinker",
    "ner.medications": "Medication",
    "ner.sections": "Section sections",
    "qa.model": "Answer",
    "sentences.data": "read_pairs",
    "sentences.encoder": "CrossEncoder SentenceEncoder",
    "sentences.search": "SentenceIndex",
    "sentences.evaluation": "evaluate_pairs",
    "terms.similarity": "TermEmbedder TermIndex",
    "terms.plots": "plot_terms",
    "terms.task": "embed_frame",
    "terms.names": "medical_terms read_vocabulary",
}
__getattr__, __dir__, __all__ = imported_on_use(__name__, _NAMES)
