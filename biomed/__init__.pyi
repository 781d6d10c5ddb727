"""The public names, each with the module that is imported when it is first used."""

from biomed.ner.dictionaries import Dictionary as Dictionary
from biomed.ner.entities import Entity as Entity
from biomed.ner.linking import EntityLinker as EntityLinker
from biomed.ner.tagger import EntityTagger as EntityTagger
from biomed.ner.tagger import medications as medications
from biomed.notes.attributes import Medication as Medication
from biomed.notes.sections import Section as Section
from biomed.notes.sections import sections as sections
from biomed.qa.model import Answer as Answer
from biomed.qa.model import QuestionAnswerer as QuestionAnswerer
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

__version__: str
