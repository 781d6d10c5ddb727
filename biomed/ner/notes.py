"""Scores on the notes corpus: entities, assertions, and the lists of names."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from biomed.corpora.notes import note_names, notes_gold
from biomed.ner.assertion import ASSERTIONS, assert_spans
from biomed.ner.evaluation import Scores, evaluate_documents
from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from biomed.corpora.corpus import Gold
    from biomed.corpora.notes import Side
    from biomed.ner.tagger import EntityTagger


@dataclass(frozen=True)
class AssertionScore:
    """How often the rules give gold entities their assertion.

    Attributes:
        counts: entities by (right assertion, given assertion).
    """

    counts: Mapping[tuple[str, str], int]

    @property
    def accuracy(self) -> float:
        """Share of entities with the right assertion."""
        right = sum(count for (gold, given), count in self.counts.items() if gold == given)
        return right / max(sum(self.counts.values()), 1)

    def to_dict(self) -> dict[str, Any]:
        """Accuracy, and for each assertion its entities and those that got it, for JSON."""
        each = {}
        for name in ASSERTIONS:
            rows = {given: n for (gold, given), n in self.counts.items() if gold == name}
            each[name] = {
                "gold": sum(rows.values()),
                "given": sum(n for (_, given), n in self.counts.items() if given == name),
                "correct": rows.get(name, 0),
            }
        return {"accuracy": self.accuracy, **each}


@dataclass(frozen=True)
class NoteScores:
    """Scores of one side, and how many names of each list are found, of how many."""

    side: str
    entities: Scores
    assertions: AssertionScore
    names: Mapping[str, tuple[int, int]]


def evaluate_assertions(gold: Gold) -> AssertionScore:
    """The rules of `biomed.ner.assertion` on the gold entities of a corpus with assertions."""
    counts: Counter[tuple[str, str]] = Counter()
    for document in gold.documents:
        given = assert_spans(document.text, [(s.start, s.end, s.label) for s in document.spans])
        right = (span.assertion for span in document.spans)
        counts.update((r, g) for r, g in zip(right, given, strict=True) if r)
    return AssertionScore(counts)


def evaluate_notes(
    tagger: EntityTagger, side: Side, *, labels: dict[str, str] | None = None
) -> NoteScores:
    """Scores on one side of the notes corpus, of the entity types that the tagger finds.

    `labels` renames the corpus' types, Disease and Chemical.

    Raises:
        UserError: the tagger finds none of them.
    """
    gold = notes_gold(side, labels=labels)
    known = [kind for kind in gold.types if kind in tagger.labels]
    if not known:
        found = ", ".join(tagger.labels)
        msg = (
            f"the notes have {', '.join(gold.types)}; the model finds {found}. "
            "Map them: --label OLD=NEW"
        )
        raise UserError(msg)
    scores = evaluate_documents(tagger, gold)
    names = _names_found(tagger, known, labels or {})
    return NoteScores(side, scores, evaluate_assertions(gold), names)


def _names_found(
    tagger: EntityTagger, known: Sequence[str], labels: Mapping[str, str]
) -> dict[str, tuple[int, int]]:
    """For each list, the names that are found exactly, and all of them."""
    names = [name for name in note_names() if labels.get(name.label, name.label) in known]
    texts = [f"{name.context} {name.name}" for name in names]
    found: Counter[str] = Counter()
    for name, entities in zip(names, tagger.tag_many(texts), strict=True):
        wanted = (len(name.context) + 1, labels.get(name.label, name.label))
        found[name.kind] += any(
            (e.start, e.label) == wanted and e.text == name.name for e in entities
        )
    total = Counter(name.kind for name in names)
    return {kind: (found[kind], count) for kind, count in total.items()}
