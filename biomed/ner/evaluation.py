"""Entity-level scores (strict IOB2 over words, exact character spans), and ensembles."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.corpora.documents import flat_spans
from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from biomed.corpora.corpus import Gold
    from biomed.ner.network import WordTagger
    from biomed.ner.reading import Pieces
    from biomed.ner.tagger import EntityTagger

ALL = "all"


@dataclass(frozen=True)
class Score:
    """Precision, recall and F1 of one entity type; a match needs the type and both ends.

    Attributes:
        kind: the type, or "all" for the micro-average over all types.
        correct: predicted entities that are in the gold standard.
        predicted: number of predicted entities.
        gold: number of entities in the gold standard.
    """

    kind: str
    correct: int
    predicted: int
    gold: int

    @property
    def precision(self) -> float:
        """Share of the predicted entities that are correct; 0 if there are none."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of the gold entities that were found; 0 if there are none."""
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        total = self.predicted + self.gold
        return 2 * self.correct / total if total else 0.0

    def to_dict(self) -> dict[str, Any]:
        """All values, for JSON."""
        names = ("precision", "recall", "f1", "correct", "predicted", "gold")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Scores:
    """The score over all types, and of each type."""

    overall: Score
    by_type: tuple[Score, ...]

    def to_dict(self) -> dict[str, Any]:
        """All values, for JSON."""
        return {score.kind: score.to_dict() for score in (self.overall, *self.by_type)}


def score_tags(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Scores:
    """Strict IOB2 scores; seqeval reads the entities from the tags.

    Args:
        gold: tags of each text.
        predicted: tags of each text.

    Raises:
        UserError: not exactly one prediction for each gold tag.
    """
    if len(gold) != len(predicted):
        msg = f"{len(gold)} gold texts but {len(predicted)} predicted ones"
        raise UserError(msg)
    for number, (right, found) in enumerate(zip(gold, predicted, strict=True)):
        if len(right) != len(found):
            msg = f"text number {number} has {len(right)} gold tags but {len(found)} predictions"
            raise UserError(msg)
    return _score(_strict_entities(gold), _strict_entities(predicted))


def score_spans(
    gold: Sequence[Iterable[tuple[int, int, str]]],
    predicted: Sequence[Iterable[tuple[int, int, str]]],
) -> Scores:
    """Scores of exact spans: (start, end, type) of each entity of each document.

    Raises:
        UserError: different numbers of documents.
    """
    if len(gold) != len(predicted):
        msg = f"{len(gold)} gold documents but {len(predicted)} predicted ones"
        raise UserError(msg)
    return _score(_in_texts(gold), _in_texts(predicted))


def _strict_entities(texts: Sequence[Sequence[str]]) -> set[tuple[int, int, int, str]]:
    from seqeval.scheme import IOB2, Entities

    found = Entities([list(tags) for tags in texts], IOB2).entities
    return {(e.sent_id, e.start, e.end, e.tag) for entities in found for e in entities}


def _in_texts(texts: Iterable[Iterable[tuple[int, int, str]]]) -> set[tuple[int, int, int, str]]:
    return {(number, *span) for number, spans in enumerate(texts) for span in spans}


def _score(
    gold: set[tuple[int, int, int, str]], predicted: set[tuple[int, int, int, str]]
) -> Scores:
    counts = [Counter(span[-1] for span in part) for part in (gold & predicted, predicted, gold)]
    kinds = sorted({kind for count in counts for kind in count})
    return Scores(
        Score(ALL, *(count.total() for count in counts)),
        tuple(Score(kind, *(count[kind] for count in counts)) for kind in kinds),
    )


class TaggerEnsemble:
    """Several networks, such as those of several seeds, tagging by their mean probabilities.

    Args:
        models: with the same labels and tokenizer; their encoders may differ.

    Raises:
        UserError: no models, or models with different labels or tokenizers.
    """

    def __init__(self, models: Sequence[WordTagger]) -> None:
        if not models or any(model.labels != models[0].labels for model in models):
            msg = "an ensemble needs models with the same entity types"
            raise UserError(msg)
        if any(model.tokenizer_hash != models[0].tokenizer_hash for model in models):
            msg = "an ensemble needs models with the same tokenizer"
            raise UserError(msg)
        self.models = tuple(models)
        self.scheme = models[0].scheme
        self.buffer_tokens = models[0].runner.buffer_tokens

    def log_probabilities(self, texts: Sequence[Pieces]) -> np.ndarray:
        """Logarithm of each tag's mean probability, shape (words read, labels), float32."""
        each = np.stack([model.log_probabilities(texts) for model in self.models])
        return np.logaddexp.reduce(each) - np.float32(np.log(len(self.models)))

    def tags(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """The IOB2 tags of each sentence; see `WordTagger.tags`."""
        return self.models[0].decoded(sentences, self.log_probabilities)


def evaluate_words(model: WordTagger | TaggerEnsemble, gold: Gold, **network: Any) -> Scores:
    """Scores over the corpus' own words, each text read on its own."""
    predicted = model.tags([text.words for text in gold.texts], **network)
    return score_tags([text.tags for text in gold.texts], predicted)


def evaluate_documents(tagger: EntityTagger, gold: Gold) -> Scores:
    """Scores of raw documents by character spans; `flat_spans` gives the gold spans."""
    spans = [
        [(span.start, span.end, span.label) for span in flat_spans(document)[0]]
        for document in gold.documents
    ]
    found = tagger.tag_many(document.text for document in gold.documents)
    return score_spans(spans, [[(e.start, e.end, e.label) for e in entities] for entities in found])


def check_types(known: Iterable[Hashable], gold: Gold) -> None:
    """Check that the model has all entity types of a corpus.

    Raises:
        UserError: it has not; the message has the option that renames a type.
    """
    known = sorted(map(str, known))
    if strange := [kind for kind in gold.types if kind not in known]:
        msg = (
            f"{gold.name} has entities of type {', '.join(strange)}; the model finds "
            f"{', '.join(known)}. Map or drop them: --label {strange[0]}={known[0]} "
            f"(or --label {strange[0]}= to drop)"
        )
        raise UserError(msg)
