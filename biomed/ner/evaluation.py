"""Entity-level scores (strict IOB2 over words, exact character spans), and ensembles."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.corpora.documents import flat_spans
from biomed.ner.decoding import tags_for
from biomed.ner.errors import errors_by_kind
from domainbert.errors import UserError
from domainbert.intervals import Interval, ratio_interval

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from biomed.corpora.corpus import Gold
    from biomed.ner.network import WordTagger
    from biomed.ner.reading import Pieces
    from biomed.ner.tagger import EntityTagger


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
    `errors`, over words only, are those of `biomed.ner.errors.errors_by_kind`.
    """

    overall: Score
    by_type: tuple[Score, ...]
    interval: tuple[float, float]
    errors: dict[str, dict[str, int]] = field(default_factory=dict)

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


def score_tags(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Scores:
    """Strict IOB2 scores of the tags of each text; seqeval reads the entities from the tags."""
    for number, (right, found) in enumerate(zip(gold, predicted, strict=False)):
        if len(right) != len(found):
            msg = f"text number {number} has {len(right)} gold tags but {len(found)} predictions"
            raise UserError(msg)
    return score_spans(_strict_entities(gold), _strict_entities(predicted))


def score_spans(
    gold: Sequence[Iterable[tuple[int, int, str]]],
    predicted: Sequence[Iterable[tuple[int, int, str]]],
) -> Scores:
    """Scores of exact spans: (start, end, type) of each entity of each text."""
    gold, predicted = [list(spans) for spans in gold], [list(spans) for spans in predicted]
    if len(gold) != len(predicted):
        msg = f"{len(gold)} gold texts but {len(predicted)} predicted ones"
        raise UserError(msg)
    right, found = (
        {(number, *span) for number, spans in enumerate(texts) for span in spans}
        for texts in (gold, predicted)
    )
    counts = [Counter(span[-1] for span in part) for part in (right & found, found, right)]
    kinds = sorted({kind for count in counts for kind in count})
    return Scores(
        _score("all", *(count.total() for count in counts)),
        tuple(_score(kind, *(count[kind] for count in counts)) for kind in kinds),
        _f1_interval(gold, predicted),
    )


def _f1_interval(*sides: Sequence[Iterable[tuple[int, int, str]]]) -> tuple[float, float]:
    """Bootstrap interval of F1 over texts."""
    sets = [[set(spans) for spans in side] for side in sides]
    both = np.array([len(right & found) for right, found in zip(*sets, strict=True)])
    total = np.array([len(right) + len(found) for right, found in zip(*sets, strict=True)])
    return ratio_interval(2 * both, total)


def _score(kind: str, correct: int, predicted: int, gold: int) -> Score:
    precision, recall = correct / max(predicted, 1), correct / max(gold, 1)
    f1 = 2 * correct / max(predicted + gold, 1)
    return Score(kind, precision, recall, f1, correct, predicted, gold)


def _strict_entities(texts: Sequence[Sequence[str]]) -> list[list[tuple[int, int, str]]]:
    from seqeval.scheme import IOB2, Entities

    found = Entities([list(tags) for tags in texts], IOB2).entities
    return [[(e.start, e.end, e.tag) for e in entities] for entities in found]


class TaggerEnsemble:
    """Several networks, such as those of several seeds, tagging by their mean probabilities.

    They need the same labels and tokenizer (otherwise a `UserError`); their encoders may differ.
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
        return self.models[0].tags(sentences, scores_of=self.log_probabilities)


def evaluate_words(model: WordTagger | TaggerEnsemble, gold: Gold, **options: Any) -> Scores:
    """Scores over the corpus' own words, each text read on its own; `options` are for `tags`.

    Only types that the corpus annotates and the model finds are counted.
    """
    (scores,) = evaluate_sides(model, [gold], **options)
    return scores


def evaluate_sides(
    model: WordTagger | TaggerEnsemble, golds: Sequence[Gold], **options: Any
) -> list[Scores]:
    """The scores of each gold standard; texts that several of them annotate are read once."""
    read: dict[Any, list[list[str]]] = {}
    result = []
    for gold in golds:
        words = tuple(text.words for text in gold.texts)
        if words not in read:
            read[words] = model.tags(words, **options)
        known = {"O", *tags_for(gold.types)} & {"O", *tags_for(model.scheme.types)}
        found = [[tag if tag in known else "O" for tag in tags] for tags in read[words]]
        texts = [
            replace(text, tags=tuple(tag if tag in known else "O" for tag in text.tags))
            for text in gold.texts
        ]
        scores = score_tags([text.tags for text in texts], found)
        result.append(replace(scores, errors=errors_by_kind(texts, found)))
    return result


def evaluate_documents(tagger: EntityTagger, gold: Gold) -> Scores:
    """Scores of raw documents by character spans; of overlapping gold spans the longest counts.

    Only types that the corpus annotates and the tagger finds are counted.
    """
    known = {*gold.types} & {*tagger.labels}
    right = (flat_spans(document)[0] for document in gold.documents)
    found = tagger.tag_many(document.text for document in gold.documents)
    spans = [
        [[(s.start, s.end, s.label) for s in each if s.label in known] for each in side]
        for side in (right, found)
    ]
    return score_spans(*spans)


def check_types(known: Iterable[Hashable], gold: Gold) -> None:
    """Raise a `UserError` if a corpus has entity types that the model does not know."""
    known = sorted(map(str, known))
    if strange := [kind for kind in gold.types if kind not in known]:
        msg = (
            f"{gold.name} has entities of type {', '.join(strange)}; the model finds "
            f"{', '.join(known)}. Map or drop them: --label {strange[0]}={known[0]} "
            f"(or --label {strange[0]}= to drop)"
        )
        raise UserError(msg)
