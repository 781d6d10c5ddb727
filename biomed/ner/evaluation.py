"""Entity-level scores: strict IOB2 over words, or exact character spans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.corpora.documents import flat_spans, spans_of
from domainbert.errors import UserError
from domainbert.statistics.bootstrap import Interval, ratio_interval

if TYPE_CHECKING:
    from biomed.corpora.corpus import Gold
    from biomed.corpora.documents import TaggedText
    from biomed.ner.network import WordTagger
    from biomed.ner.tagger import Tagger


Span = tuple[int, int, str]


@dataclass(frozen=True)
class Score:
    """Precision, recall, F1 and counts of one entity type, or of "all".

    An entity is correct if its type and both its ends are. A score without entities is 0.
    """

    kind: str
    precision: float
    recall: float
    f1: float
    correct: int
    predicted: int
    gold: int


@dataclass(frozen=True)
class Scores:
    """The scores over all types and of each type.

    `interval` is that of the F1 over all types: 2.5% to 97.5% of 1,000 resamples of the texts.
    """

    overall: Score
    by_type: tuple[Score, ...]
    interval: tuple[float, float]

    def to_dict(self) -> dict[str, Any]:
        """The values of each score by its type, for JSON."""
        each = map(asdict, (self.overall, *self.by_type))
        return {values.pop("kind"): values for values in each}

    def add_to_card(self, manifest: dict[str, Any], row: str) -> None:
        """A row of the card's table of scores: precision, recall, and F1 with its interval."""
        one = self.overall
        f1 = asdict(Interval(one.f1, *self.interval))
        columns = manifest.setdefault("scores", {})
        for column, value in (("precision", one.precision), ("recall", one.recall), ("f1", f1)):
            columns.setdefault(column, {})[row] = value


def score_spans(gold: Sequence[Iterable[Span]], predicted: Sequence[Iterable[Span]]) -> Scores:
    """Scores of exact spans: (start, end, type) of each entity of each text."""
    if len(gold) != len(predicted):
        raise UserError(f"{len(gold)} gold texts but {len(predicted)} predicted ones")
    pairs = [(set(right), set(spans)) for right, spans in zip(gold, predicted, strict=True)]
    counts = [Counter[str](), Counter[str](), Counter[str]()]  # correct, predicted, gold
    for right, spans in pairs:
        for count, part in zip(counts, (right & spans, spans, right), strict=True):
            count.update(kind for _, _, kind in part)
    both = np.array([len(right & spans) for right, spans in pairs])
    total = np.array([len(right) + len(spans) for right, spans in pairs])
    return Scores(
        _score("all", *(count.total() for count in counts)),
        tuple(
            _score(kind, *(count[kind] for count in counts))
            for kind in sorted(set().union(*counts))
        ),
        ratio_interval(2 * both, total),
    )


def _score(kind: str, correct: int, predicted: int, gold: int) -> Score:
    precision, recall = correct / max(predicted, 1), correct / max(gold, 1)
    f1 = 2 * correct / max(predicted + gold, 1)
    return Score(kind, precision, recall, f1, correct, predicted, gold)


def evaluate_words(model: WordTagger, gold: Gold, **options: Any) -> Scores:
    """Scores over the corpus' own words, each text read on its own; `options` are for `entities`.

    Only types that the corpus annotates and the model finds are counted.
    """
    known = {*gold.types} & {*model.types}
    entities = model.entities_of((text.words for text in gold.texts), **options)
    found = [[span[:3] for span in each if span[2] in known] for each in entities]
    right = [[s for s in spans_of(text.tags) if s[2] in known] for text in gold.texts]
    return score_spans(right, found)


def look_up_names(texts: Iterable[TaggedText], gold: Gold) -> Scores:
    """The scores of finding the names of training texts again, the longest first: a baseline."""
    names = {
        tuple(word.casefold() for word in text.words[start:end]): kind
        for text in texts
        for start, end, kind in spans_of(text.tags)
        if kind in gold.types
    }
    longest = max(map(len, names), default=0)
    found = []
    for text in gold.texts:
        words, spans, at = [word.casefold() for word in text.words], list[Span](), 0
        while at < len(words):
            ends = range(min(at + longest, len(words)), at, -1)
            if end := next((end for end in ends if tuple(words[at:end]) in names), 0):
                spans.append((at, end, names[tuple(words[at:end])]))
            at = end or at + 1
        found.append(spans)
    return score_spans([spans_of(text.tags) for text in gold.texts], found)


def evaluate_documents(tagger: Tagger, gold: Gold) -> Scores:
    """Scores of raw documents by character spans; of overlapping gold spans the longest counts.

    Only types that the corpus annotates and the tagger finds are counted.
    """
    known = {*gold.types} & {*tagger.labels}
    right = map(flat_spans, gold.documents)
    entities = tagger.tag_many(document.text for document in gold.documents)
    gold_spans, spans = (
        [[(s.start, s.end, s.label) for s in each if s.label in known] for each in side]
        for side in (right, entities)
    )
    return score_spans(gold_spans, spans)


def check_types(known: Iterable[str], gold: Gold) -> None:
    """Raise a `UserError` if a corpus has entity types that the model does not know."""
    known = sorted(known)
    if strange := [kind for kind in gold.types if kind not in known]:
        raise UserError(
            f"{gold.name} has entities of type {', '.join(strange)}; the model finds "
            f"{', '.join(known)}. Map or drop them: --label {strange[0]}={known[0]} "
            f"(or --label {strange[0]}= to drop)"
        )
