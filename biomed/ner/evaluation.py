"""Entity-level scores: strict IOB2 over words, or exact character spans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from biomed.corpora.documents import flat_spans, spans_of
from biomed.corpora.schemes import UNTYPED
from biomed.ner.assertion import DRUGS
from domainbert.errors import UserError
from domainbert.statistics.bootstrap import Interval, ratio_interval

if TYPE_CHECKING:
    from biomed.corpora.corpus import Gold
    from biomed.corpora.documents import TaggedText
    from biomed.ner.network import WordTagger
    from biomed.ner.tagger import Tagger
    from domainbert.models.manifest import Value


Span = tuple[int, int, str]
# Names that corpora have for the same types, small letters only.
_SYNONYMS = (
    DRUGS | {"chemicalentity", "compound", "substance"},
    frozenset(
        {"condition", "diagnosis", "disease", "diseaseorphenotypicfeature", "disorder"}
        | {"problem", "specificdisease"}
    ),
)


@dataclass(frozen=True)
class Scores:
    """Scores of entities; one is correct if its type and both its ends are.

    Attributes:
        table: `precision, recall, f1, correct, predicted, gold` of "all" and then of each type,
            which are the index. A score without entities is 0.
        interval: of the F1 of all: 2.5% to 97.5% of 1,000 resamples of the texts.
    """

    table: pd.DataFrame
    interval: tuple[float, float]

    @property
    def overall(self) -> pd.Series[float]:
        """The row "all" of the table."""
        return self.table.loc["all"]

    def card_row(self) -> dict[str, Value]:
        """The row of the card's table: precision, recall, and F1 with its interval."""
        values: dict[str, Value] = {
            name: float(self.overall[name]) for name in ("precision", "recall")
        }
        values["f1"] = Interval(float(self.overall["f1"]), *self.interval)
        return values


def score_spans(
    gold: Sequence[Iterable[Span]],
    predicted: Sequence[Iterable[Span]],
    *,
    types: Collection[str],
) -> Scores:
    """Scores of exact spans: (start, end, type) of each entity of each text, of these types.

    Of a corpus, these are the types that it annotates and the model finds.
    """
    if len(gold) != len(predicted):
        raise UserError(f"{len(gold)} gold texts but {len(predicted)} predicted ones")
    right, found = (
        [{span for span in spans if span[2] in types} for spans in side]
        for side in (gold, predicted)
    )
    both = [one & other for one, other in zip(right, found, strict=True)]
    sides = {"correct": both, "predicted": found, "gold": right}
    counts = pd.DataFrame(
        {
            name: Counter(span[2] for spans in side for span in spans)
            for name, side in sides.items()
        }
    ).sort_index()
    counts = pd.concat([counts.sum().to_frame("all").T, counts.fillna(0)]).astype(int)
    mean = (counts["predicted"] + counts["gold"]) / 2
    sizes = pd.DataFrame(
        {"precision": counts["predicted"], "recall": counts["gold"], "f1": mean}
    )
    scores = sizes.clip(lower=1).rdiv(counts["correct"], axis="index")
    correct, *others = (np.array(list(map(len, side))) for side in sides.values())
    return Scores(scores.join(counts), ratio_interval(2 * correct, np.add(*others)))


def evaluate_words(model: WordTagger, gold: Gold, **options: Any) -> Scores:
    """Scores over the corpus' own words, each text on its own; `options` are for `entities`."""
    entities = model.entities(
        (model.reader.read(text.words) for text in gold.texts), **options
    )
    found = [[span[:3] for span in each] for each in entities]
    right = [spans_of(text.tags) for text in gold.texts]
    return score_spans(right, found, types={*gold.types} & {*model.types})


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
    return score_spans(
        [spans_of(text.tags) for text in gold.texts], found, types=gold.types
    )


def evaluate_documents(tagger: Tagger, gold: Gold) -> Scores:
    """Scores of raw documents by character spans; of overlapping gold spans the longest counts."""
    right = map(flat_spans, gold.documents)
    entities = tagger.tag_many(document.text for document in gold.documents)
    spans, found = (
        [[(s.start, s.end, s.label) for s in each] for each in side]
        for side in (right, entities)
    )
    return score_spans(spans, found, types={*gold.types} & {*tagger.labels})


def check_types(known: Iterable[str], gold: Gold) -> None:
    """Raise a `UserError` if a corpus has entity types that the model does not know."""
    types = sorted(known)
    unknown = [kind for kind in gold.types if kind not in types]
    if unknown:
        options = [f"--label {kind}={_similar_type(kind, types)}" for kind in unknown]
        raise UserError(
            f"{gold.name} has entities of type {', '.join(unknown)}; the model finds "
            f"{', '.join(types)}. Rename them, or drop them with an empty name: "
            f"{' '.join(options)}"
        )


def _similar_type(kind: str, types: Sequence[str]) -> str:
    """The type that is probably meant: one spelled alike or a synonym; "" if there is none."""
    if kind == UNTYPED:
        return types[0] if len(types) == 1 else "NAME"
    plain_types = {_plain(name): name for name in types}
    names = {_plain(kind)}
    for synonyms in _SYNONYMS:
        if names & synonyms:
            names |= synonyms
    spelled_alike = get_close_matches(_plain(kind), plain_types, n=1, cutoff=0.8)
    candidates = sorted(names & plain_types.keys()) or spelled_alike
    return plain_types[candidates[0]] if candidates else ""


def _plain(name: str) -> str:
    return "".join(filter(str.isalpha, name.casefold()))
