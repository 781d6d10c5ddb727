"""Entity-level scores: strict IOB2 over gold words, and exact spans of characters."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from biomed.corpora.documents import flat_spans
from biomed.corpora.tags import spans_of
from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from biomed.corpora.corpus import Gold
    from biomed.ner.ensemble import TaggerEnsemble
    from biomed.ner.network import WordTagger
    from biomed.ner.tagger import EntityTagger

ALL = "all"


@dataclass(frozen=True)
class Score:
    """How well one entity type was found: an entity counts if its type and both ends are right.

    Attributes:
        kind: the type, or "all" for all of them together (micro-averaged).
        correct: entities found that are in the gold standard.
        predicted: entities found.
        gold: entities in the gold standard.
    """

    kind: str
    correct: int
    predicted: int
    gold: int

    @property
    def precision(self) -> float:
        """Share of the found entities that are right; 0 where none is found."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of the gold entities that were found; 0 where there is none."""
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of the two."""
        total = self.predicted + self.gold
        return 2 * self.correct / total if total else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "correct": self.correct,
            "predicted": self.predicted,
            "gold": self.gold,
        }


@dataclass(frozen=True)
class Scores:
    """The score over all types, and of each."""

    overall: Score
    by_type: tuple[Score, ...]

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {score.kind: score.to_dict() for score in (self.overall, *self.by_type)}


def score_tags(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Scores:
    """Strict IOB2 scores, as seqeval's strict mode gives them.

    Args:
        gold: tags of each text.
        predicted: tags of each text.

    Raises:
        ValueError: not exactly one prediction for each gold tag.
    """
    if len(gold) != len(predicted):
        msg = f"{len(gold)} gold texts but {len(predicted)} predicted ones"
        raise UserError(msg)
    for number, (right, found) in enumerate(zip(gold, predicted, strict=True)):
        if len(right) != len(found):
            msg = f"text number {number} has {len(right)} gold tags but {len(found)} predictions"
            raise UserError(msg)
    return _score(_in_texts(map(spans_of, gold)), _in_texts(map(spans_of, predicted)))


def score_spans(
    gold: Sequence[Iterable[tuple[int, int, str]]],
    predicted: Sequence[Iterable[tuple[int, int, str]]],
) -> Scores:
    """Scores of exact spans: (start, end, type) of each entity of each document.

    Raises:
        ValueError: another number of documents.
    """
    if len(gold) != len(predicted):
        msg = f"{len(gold)} gold documents but {len(predicted)} predicted ones"
        raise UserError(msg)
    return _score(_in_texts(gold), _in_texts(predicted))


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


def evaluate_words(model: WordTagger | TaggerEnsemble, gold: Gold, **network: Any) -> Scores:
    """Scores over the words that the corpus gives, each text read by itself."""
    predicted = model.tags([text.words for text in gold.texts], **network)
    return score_tags([text.tags for text in gold.texts], predicted)


def evaluate_documents(tagger: EntityTagger, gold: Gold) -> Scores:
    """Scores over raw documents, by characters; see `flat_spans` for what counts as gold."""
    spans = [
        [(span.start, span.end, span.label) for span in flat_spans(document)[0]]
        for document in gold.documents
    ]
    found = tagger.tag_many(document.text for document in gold.documents)
    return score_spans(spans, [[(e.start, e.end, e.label) for e in entities] for entities in found])


def check_types(known: Iterable[Hashable], gold: Gold) -> None:
    """Refuse to score a corpus whose types the model does not have.

    Raises:
        ValueError: with the line that maps them.
    """
    known = sorted(map(str, known))
    if strange := [kind for kind in gold.types if kind not in known]:
        msg = (
            f"{gold.name} has entities of type {', '.join(strange)}; the model finds "
            f"{', '.join(known)}. Map or drop them: --label {strange[0]}={known[0]} "
            f"(or --label {strange[0]}= to drop)"
        )
        raise UserError(msg)
