"""Entity-level scores: strict IOB2 over words, or exact character spans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import accumulate, repeat
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biomed.corpora.conll import UNTYPED
from biomed.corpora.documents import (
    Span,
    TaggedText,
    WordSpan,
    flat_spans,
    spans_of,
    tags_of,
)
from biomed.ner.entities import Entity, extents
from biomed.notes.assertion import DRUGS
from domainbert.errors import UserError
from domainbert.statistics.bootstrap import Interval, ratio_interval

if TYPE_CHECKING:
    from biomed.corpora.corpus import Gold
    from biomed.ner.tagger import EntityTagger
    from domainbert.models.manifest import Value

# Names that corpora have for the same types, small letters only.
_SYNONYMS = (
    DRUGS | {"chemicalentity", "compound", "substance"},
    {
        "condition",
        "diagnosis",
        "disease",
        "diseaseorphenotypicfeature",
        "disorder",
        "problem",
        "specificdisease",
    },
)


@dataclass(frozen=True)
class Scores:
    """Scores of entities; one is correct if its type and both its ends are.

    Attributes:
        table: `precision, recall, f1, correct, predicted, gold`; the index is "all" and then each
            type. A score without entities is 0.
        interval: the F1 of "all", and 2.5% to 97.5% of it in 1,000 resamples of the texts.
    """

    table: pd.DataFrame
    interval: Interval

    @property
    def overall(self) -> pd.Series[float]:
        """The row "all" of the table."""
        return self.table.loc["all"]

    def card_row(self) -> dict[str, Value]:
        """The row of the card's table: precision, recall, and F1 with its interval."""
        overall = self.overall.astype(float)
        return {
            "precision": overall["precision"],
            "recall": overall["recall"],
            "f1": self.interval,
        }


def compare_spans(
    gold: Sequence[Iterable[WordSpan]],
    predicted: Sequence[Iterable[WordSpan]],
    *,
    types: Collection[str],
) -> Scores:
    """Scores of exact spans: (start, end, type) of each entity of each text, of these types.

    For a corpus, `types` are those that it annotates and the model can find.
    """
    if len(gold) != len(predicted):
        raise UserError(
            f"{len(gold)} gold texts but {len(predicted)} predicted ones"
        )
    gold_sets = [_of_types(spans, types) for spans in gold]
    predicted_sets = [_of_types(spans, types) for spans in predicted]
    sides = {
        "correct": list(map(set.intersection, gold_sets, predicted_sets)),
        "predicted": predicted_sets,
        "gold": gold_sets,
    }
    counts_by_type = pd.DataFrame(
        {name: _type_counts(spans) for name, spans in sides.items()}
    ).sort_index()
    total = counts_by_type.sum().to_frame("all").T
    counts = pd.concat([total, counts_by_type.fillna(0)]).astype(int)
    sizes = pd.DataFrame(
        {
            "precision": counts["predicted"],
            "recall": counts["gold"],
            "f1": (counts["predicted"] + counts["gold"]) / 2,
        }
    )
    scores = sizes.clip(lower=1).rdiv(counts["correct"], axis="index")
    correct, predicted_count, gold_count = (
        np.array(list(map(len, texts))) for texts in sides.values()
    )
    interval = ratio_interval(2 * correct, predicted_count + gold_count)
    return Scores(scores.join(counts), interval)


def _of_types(
    spans: Iterable[WordSpan], types: Collection[str]
) -> set[WordSpan]:
    return {span for span in spans if span[2] in types}


def _type_counts(texts: Iterable[Iterable[WordSpan]]) -> Counter[str]:
    return Counter(label for spans in texts for _, _, label in spans)


def compare_words(
    texts: Sequence[TaggedText],
    predicted: Sequence[Iterable[WordSpan]],
    *,
    types: Collection[str],
) -> Scores:
    """Scores of word spans by seqeval (strict, IOB2), with our interval.

    Args:
        texts: words with gold tags.
        predicted: first word, one past the last, and type of the entities of each text.
        types: those that count.
    """
    from seqeval.metrics import classification_report
    from seqeval.scheme import IOB2

    gold = [spans_of(text.tags) for text in texts]
    scores = compare_spans(gold, predicted, types=types)
    if not scores.overall["gold"] + scores.overall["predicted"]:
        return scores  # seqeval has no average of nothing
    gold_tags = list(map(_tags, texts, gold, repeat(types)))
    predicted_tags = list(map(_tags, texts, predicted, repeat(types)))
    report = classification_report(
        gold_tags,
        predicted_tags,
        mode="strict",
        scheme=IOB2,
        output_dict=True,
        zero_division=0,
    )
    table = scores.table.copy()
    names = {"micro avg": "all", "f1-score": "f1"}
    table.update(pd.DataFrame(report).T.rename(names).rename(columns=names))
    return replace(scores, table=table)


def _tags(
    text: TaggedText,
    spans: Iterable[WordSpan],
    types: Collection[str],
) -> list[str]:
    return tags_of(_of_types(spans, types), words=len(text.words))


@dataclass(frozen=True)
class Prediction:
    """A text with its gold spans and the entities that a model found in it."""

    text: str = field(repr=False)
    gold: tuple[Span, ...]
    entities: tuple[Entity, ...]


def evaluate_words(model: EntityTagger, gold: Gold) -> Scores:
    """Scores over the corpus' own words, each text on its own."""
    predicted = predicted_words(model, gold)
    types = set(gold.types) & set(model.types)
    return compare_words(gold.texts, predicted, types=types)


def predicted_words(model: EntityTagger, gold: Gold) -> list[list[WordSpan]]:
    """The entities of each text, as first word, one past the last, and type."""
    pieces = (model.word_tokenizer.tokenize(text.words) for text in gold.texts)
    predicted = []
    for entities in model.entities(pieces):
        spans = [(first, end, label) for first, end, label, _ in entities]
        predicted.append(spans)
    return predicted


def predictions_of_words(
    texts: Iterable[TaggedText],
    predicted: Iterable[Iterable[WordSpan]],
) -> list[Prediction]:
    """Texts of words joined by spaces, for `biomed.ner.errors`."""
    predictions = []
    for text, spans in zip(texts, predicted, strict=True):
        joined = " ".join(text.words)
        lengths = [len(word) + 1 for word in text.words]
        starts = list(accumulate(lengths, initial=0))
        gold = [
            Span(starts[first], starts[stop] - 1, label)
            for first, stop, label in spans_of(text.tags)
        ]
        entities = []
        for first, stop, label in spans:
            start = starts[first]
            end = starts[stop] - 1
            entities.append(Entity(start, end, joined[start:end], label, 1.0))
        predictions.append(Prediction(joined, tuple(gold), tuple(entities)))
    return predictions


def look_up_names(texts: Iterable[TaggedText], gold: Gold) -> Scores:
    """Scores of a baseline that finds the names of training texts again, the longest first."""
    names = {}
    for text in texts:
        for start, end, label in spans_of(text.tags):
            if label in gold.types:
                names[text.folded[start:end]] = label
    longest = max(map(len, names), default=0)
    predicted = [
        _looked_up(text.folded, names, longest=longest) for text in gold.texts
    ]
    return compare_words(gold.texts, predicted, types=gold.types)


def _looked_up(
    words: tuple[str, ...],
    names: Mapping[tuple[str, ...], str],
    *,
    longest: int,
) -> list[WordSpan]:
    """The names in a text from its start on, the longest at each word."""
    spans = []
    start = 0
    while start < len(words):
        ends = range(min(start + longest, len(words)), start, -1)
        end = next((end for end in ends if words[start:end] in names), 0)
        if end:
            spans.append((start, end, names[words[start:end]]))
        start = end or start + 1
    return spans


def evaluate_documents(tagger: EntityTagger, gold: Gold) -> Scores:
    """Scores of raw documents by character spans; of overlapping gold spans the longest counts."""
    types = set(gold.types) & set(tagger.types)
    return compare_predictions(predict_documents(tagger, gold), types=types)


def predict_documents(tagger: EntityTagger, gold: Gold) -> list[Prediction]:
    """The gold spans and the entities of each document."""
    tagged = tagger.tag_many(document.text for document in gold.documents)
    return [
        Prediction(document.text, tuple(flat_spans(document)), tuple(entities))
        for document, entities in zip(gold.documents, tagged, strict=True)
    ]


def compare_predictions(
    predictions: Sequence[Prediction],
    *,
    types: Collection[str],
) -> Scores:
    """Scores of entities by exact character spans."""
    gold = [extents(prediction.gold) for prediction in predictions]
    predicted = [extents(prediction.entities) for prediction in predictions]
    return compare_spans(gold, predicted, types=types)


def check_types(model_types: Iterable[str], gold: Gold) -> None:
    """Raise a `UserError` if a corpus has entity types that the model does not know."""
    types = sorted(model_types)
    unknown = [label for label in gold.types if label not in types]
    if unknown:
        names = {label: _similar_type(label, types) for label in unknown}
        raise UserError(
            f"{gold.name} has entities of type {', '.join(unknown)}; the model finds "
            f"{', '.join(types)}. Rename them, or drop them with an empty name: "
            f"`labels={names}`"
        )


def _similar_type(label: str, types: Sequence[str]) -> str:
    """The type that is probably meant: a synonym or one spelled alike; "" if there is none."""
    if label == UNTYPED:
        return types[0] if len(types) == 1 else "NAME"
    plain_types = {_plain(name): name for name in types}
    plain = _plain(label)
    synonyms = (names for names in _SYNONYMS if plain in names)
    candidates = sorted(plain_types.keys() & {plain}.union(*synonyms))
    if not candidates:
        candidates = get_close_matches(
            plain,
            plain_types,
            n=1,
            cutoff=0.8,
        )
    return plain_types[candidates[0]] if candidates else ""


def _plain(name: str) -> str:
    return "".join(filter(str.isalpha, name.casefold()))
