"""The public names, each with the module that is imported when it is first used."""

from .ner.dictionaries import Dictionary as Dictionary
from .ner.entities import Entity as Entity
from .ner.linking import EntityLinker as EntityLinker
from .ner.tagger import EntityTagger as EntityTagger
from .ner.tagger import medications as medications
from .notes.attributes import Medication as Medication
from .notes.sections import Section as Section
from .notes.sections import sections as sections
from .qa.model import Answer as Answer
from .qa.model import QuestionAnswerer as QuestionAnswerer
from .sentences.data import read_pairs as read_pairs
from .sentences.encoder import CrossEncoder as CrossEncoder
from .sentences.encoder import SentenceEncoder as SentenceEncoder
from .sentences.evaluation import evaluate_pairs as evaluate_pairs
from .sentences.search import SentenceIndex as SentenceIndex
from .terms.names import medical_terms as medical_terms
from .terms.names import read_vocabulary as read_vocabulary
from .terms.plots import plot_terms as plot_terms
from .terms.similarity import TermEmbedder as TermEmbedder
from .terms.similarity import TermIndex as TermIndex

__version__: str
