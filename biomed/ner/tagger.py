"""EntityTagger, the model that users hold: entities with exact positions in text of any length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from biomed.corpora.words import split_words, starts_after_breaks
from biomed.ner.abbreviations import (
    Abbreviation,
    expanded,
    find_abbreviations,
    with_short_forms,
)
from biomed.ner.allergies import with_allergens
from biomed.ner.decoding import Outputs, find_entities, tidy_span
from biomed.ner.entities import (
    MIN_SCORE,
    Entity,
    TaggedView,
    extents,
)
from biomed.ner.manifest import EntityManifest, EntitySettings
from biomed.ner.pieces import Pieces, WordTokenizer, best_window
from biomed.ner.readable import clean, is_multilingual, joined, masked, name_of
from biomed.notes.assertion import (
    decide_spans,
    is_allergy_cue,
)
from biomed.notes.cues import AssertionRules, RuleSource
from biomed.notes.medications import read_medications
from biomed.notes.patterns import mended_word
from biomed.notes.sections import ALL_SECTIONS, chosen_sections, sections_of
from biomed.notes.slips import (
    framed_words,
    is_measured,
    is_never_entity,
    phrases,
)
from domainbert.errors import UserError
from domainbert.models.model import Model
from domainbert.statistics.calibration import calibrated
from domainbert.streams import chunked, read_ahead
from domainbert.text.windows import SPECIAL_TOKENS, plan_windows

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from biomed.ner.linking import EntityLinker
    from biomed.notes.attributes import Medication
    from domainbert.text.runner import Device

ScoredSpan = tuple[int, int, str, float]
"""First word, one past the last, type and score of an entity."""

_FRAMED_TYPE = "Disease"


@dataclass(frozen=True, eq=False, repr=False)
class _PreparedText:
    """A text, its words, their pieces, and the abbreviations it defines.

    `plain` is the text without markup, and `shown` what the network reads; see
    `biomed.ner.readable`. Positions are the same in all three.
    """

    text: str
    plain: str
    shown: str
    words: np.ndarray
    pieces: Pieces
    abbreviations: dict[str, Abbreviation]


class EntityTagger(Model[EntitySettings]):
    """Finds entities in raw text: a token-classification network that gives each word one IOB2 tag.

    The text is split into words as the training corpora are (`biomed.corpora.split_words`). Each
    word is read at its first piece, in the window where it has the most context, and the tags are
    the best IOB2 sequence over the whole text, so results do not depend on where windows end.
    Entities are whole words (see `tidy_span`) and do not continue over a blank line or into the
    next list item.

    `from_pretrained` loads one, and `fit` trains one on corpora (see `biomed.ner.training.fit`).
    For tables, `score_frame` has the task "entities"; see `biomed.ner.task.TagTask`. Threads may
    share a tagger.

    Attributes:
        types: the entity types that it finds.
        min_score: entities with a lower score are left out.
        linker: gives entities their ids; None without one.

    Raises:
        UserError: outputs whose names are no tags of entities, or windows beyond the encoder's
            limit.
    """

    package = "biomed"
    task = "entities"
    default = "disease-drug"
    head = "tokens"
    trainer = "biomed.ner.training:fit"
    tasks: ClassVar = {"entities": "biomed.ner.task:TagTask"}
    settings_class = EntitySettings
    manifest_class = EntityManifest
    manifest: EntityManifest
    train_command = "biomed ner train CORPUS --encoder {encoder} --out MODEL"

    def prepare(self) -> None:
        """The labels, the tokenizer of words, and the default options."""
        names = self._network.config.id2label
        self._outputs = Outputs([names[number] for number in sorted(names)])
        self.types = self._outputs.types
        self.labels = self._outputs.names
        abbreviations = self.settings.abbreviations
        unknown = sorted(abbreviations.keys() - set(self.types))
        if unknown:
            raise UserError(
                f"abbreviations of {unknown[0]!r}; expected {', '.join(self.types)}"
            )
        tags = {
            label: 1 + 2 * number for number, label in enumerate(self.types)
        }
        listed: dict[str, int] = {}
        for label, words in abbreviations.items():
            listed |= dict.fromkeys(words, tags[label])
        framed_tag = tags.get(_FRAMED_TYPE, 0)
        self.word_tokenizer = WordTokenizer(
            self._tokenizer, listed, framed_tag=framed_tag
        )
        self.window = self.window_tokens()
        self._reads_foreign = is_multilingual(self._tokenizer.get_vocab())
        self.min_score = MIN_SCORE
        self.linker: EntityLinker | None = None
        self._rules = AssertionRules.read(None)
        self._sections = ALL_SECTIONS

    @classmethod
    def network_class(cls) -> type[PreTrainedModel]:
        """Any encoder for token classification."""
        from transformers import AutoModelForTokenClassification

        return AutoModelForTokenClassification

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path | None = None,
        *,
        min_score: float = MIN_SCORE,
        linker: EntityLinker | None = None,
        assertion_rules: RuleSource | None = None,
        sections: Sequence[str] = (),
        device: Device = None,
        batch_tokens: int | None = None,
        **settings: Any,
    ) -> Self:
        """Load a shipped model by name, a model folder, or hub:owner/name.

        Hugging Face checkpoints for token classification load too, of any encoder family that has
        a fast tokenizer; see `biomed.ner.decoding.Outputs`. For `min_score`, `linker`,
        `assertion_rules` and `sections` see `with_options`; for the other arguments see `Model`.

        Raises:
            EncoderError: no such model, or an encoder without a trained head.
            UserError: outputs whose names are not tags of entities, or an unknown section or rule.
        """
        tagger = super().from_pretrained(
            name, device=device, batch_tokens=batch_tokens, **settings
        )
        return tagger.with_options(
            min_score=min_score,
            linker=linker,
            assertion_rules=assertion_rules,
            sections=sections,
        )

    def with_options(
        self,
        *,
        min_score: float = MIN_SCORE,
        linker: EntityLinker | None = None,
        assertion_rules: RuleSource | None = None,
        sections: Sequence[str] = (),
    ) -> Self:
        """A tagger with the same network and with these options.

        Args:
            min_score: entities with a lower score are left out, 0 to 1.
            linker: gives entities their ids.
            assertion_rules: cues of your own, as a TOML file or a list; see docs/assertions.md.
            sections: those whose entities are kept, or with a minus sign, as in
                "-family_history", left out.

        Raises:
            UserError: another score, or no such section or rule.
        """
        if not 0 <= min_score <= 1:
            raise UserError(
                f"min_score: expected a number from 0 to 1, got {min_score!r}"
            )
        tagger = copy(self)
        tagger.min_score = min_score
        tagger.linker = linker
        tagger._rules = AssertionRules.read(assertion_rules)
        tagger._sections = chosen_sections(sections)
        return tagger

    @property
    def context_facts(self) -> dict[str, object]:
        """The user's rules and the chosen sections, for fingerprints; empty by default."""
        facts: dict[str, object] = {}
        if self._rules.source:
            facts["assertion_rules"] = list(self._rules.source)
        if self._sections != ALL_SECTIONS:
            facts["sections"] = sorted(self._sections)
        return facts

    @property
    def score_kind(self) -> str:
        """What tables call the scores: "calibrated" if those of all entity types are."""
        calibration = self.settings.calibration
        if calibration.keys() >= set(self.types):
            return "calibrated"
        return "span_probability"

    def __repr__(self) -> str:
        """The entity types."""
        return f"{type(self).__name__}({', '.join(self.types)})"

    def show(self, text: str) -> TaggedView:
        """The text with its entities highlighted, for a notebook or a terminal."""
        return TaggedView(text, tuple(self.tag(text)), self.types)

    def tag(self, text: str) -> list[Entity]:
        """The entities of a text, in order; `text[e.start:e.end] == e.text`; none overlap."""
        return next(self.tag_many([text]))

    def tag_many(self, texts: Iterable[str]) -> Iterator[list[Entity]]:
        """The entities of each text, in the order given, in constant memory.

        Raises:
            UserError: one text instead of several, a table, or an item that is not a string.
        """
        # The items of a dictionary or a table are names.
        if isinstance(texts, str | bytes | dict) or hasattr(texts, "columns"):
            type_name = type(texts).__name__
            fix = "use tag for one text, and score_frame for a DataFrame"
            raise UserError(
                f"tag_many: expected a list of texts, got {type_name}; {fix}"
            )
        read = (self._read(text, number) for number, text in enumerate(texts))
        limit = self.runner.buffer_tokens
        for chunk in read_ahead(
            chunked(read, size=lambda text: len(text.pieces), limit=limit)
        ):
            spans = self.entities(text.pieces for text in chunk)
            yield from self._linked(
                chunk, list(map(self._finished, chunk, spans))
            )

    def _finished(
        self, read: _PreparedText, spans: Iterable[ScoredSpan]
    ) -> list[Entity]:
        """The entities with a sufficient score, with their assertions."""
        entities = [
            entity
            for entity in _kept(read, spans)
            if entity.score >= self.min_score
            and not is_measured(
                read.text, entity.start, entity.end, entity.label
            )
        ]
        entities = with_short_forms(read.text, entities, read.abbreviations)
        entities = with_allergens(read.text, entities, self.types)
        if _FRAMED_TYPE in self.types:
            entities = _with_phrases(read.text, entities)
        return self._with_context(read.plain, entities)

    def _with_context(self, text: str, entities: list[Entity]) -> list[Entity]:
        """The entities of the chosen sections with assertions, sections and medications."""
        section_of = {}
        sections = sections_of(text, extents(entities))
        for entity, section in zip(entities, sections, strict=True):
            is_cue = is_allergy_cue(text, entity.start, entity.end, section)
            if section.name in self._sections and not is_cue:
                section_of[entity] = section
        spans = extents(section_of)
        decisions = decide_spans(
            text, spans, rules=self._rules, sections=[*section_of.values()]
        )
        assertions = [decision.assertion for decision in decisions]
        medications = read_medications(text, spans, assertions)
        drugs = {drug.start: drug for drug in medications}
        return [
            replace(
                entity,
                section=section.name or None,
                medication=drugs.get(entity.start),
                **decision.fields(text),
            )
            for (entity, section), decision in zip(
                section_of.items(), decisions, strict=True
            )
        ]

    def _linked(
        self, texts: list[_PreparedText], tagged: list[list[Entity]]
    ) -> list[list[Entity]]:
        """The entities of each text with the concepts of their names, abbreviations resolved."""
        if self.linker is None:
            return tagged
        names = [
            expanded(
                name_of(read.shown[entity.start : entity.end]),
                read.abbreviations,
            )
            for read, entities in zip(texts, tagged, strict=True)
            for entity in entities
        ]
        labels = [entity.label for entities in tagged for entity in entities]
        links = iter(self.linker.link(names, labels=labels))
        # Each text takes as many links as it has entities.
        return [
            list(map(Entity.linked_to, entities, links)) for entities in tagged
        ]

    def _read(self, text: object, number: int) -> _PreparedText:
        """A text with its words and pieces."""
        if not isinstance(text, str):
            type_name = type(text).__name__
            raise UserError(
                f"text number {number} is {type_name}, not a string; use tag_many for several texts"
            )
        plain = clean(text)
        shown = joined(plain, self.word_tokenizer.pieces_saved)
        shown = masked(shown, reads_foreign=self._reads_foreign)
        words = split_words(shown)
        strings = [
            mended_word(name_of(shown[start:end]))
            for start, end in words.tolist()
        ]
        starts = words[:, 0].tolist()
        spaced = [start > 0 and shown[start - 1].isspace() for start in starts]
        breaks = starts_after_breaks(plain, words)
        pieces = self.word_tokenizer.tokenize(
            strings,
            spaced=spaced,
            breaks=breaks,
            framed=framed_words(shown, words),
        )
        return _PreparedText(
            text, plain, shown, words, pieces, find_abbreviations(plain)
        )

    def log_probabilities(self, texts: Sequence[Pieces]) -> list[np.ndarray]:
        """Log-probability of each tag for each word of each text, shape (words, tags), float32.

        Listed abbreviations are counted in. O and I of a word without a piece have 0.
        """
        capacity = self.window - SPECIAL_TOKENS
        windows = []
        plans = []
        for text in texts:
            ranges = plan_windows(
                len(text.ids),
                capacity=capacity,
                overlap=self.window // 8,
            )
            plans.append(ranges)
            windows += [
                self.word_tokenizer.window(text.ids[start:end])
                for start, end in ranges
            ]
        rows = self.runner.run(
            windows,
            read=lambda output, _: output.logits.float().log_softmax(dim=-1),
        )
        outputs = iter(rows)
        return [
            self._tag_scores(text, ranges, outputs)
            for text, ranges in zip(texts, plans, strict=True)
        ]

    def _tag_scores(
        self,
        text: Pieces,
        ranges: Sequence[tuple[int, int]],
        outputs: Iterator[np.ndarray],
    ) -> np.ndarray:
        """The log-probabilities of a text's words, from the outputs of its windows."""
        first = text.first[text.is_read]
        window_numbers = best_window(first, ranges)
        word_outputs = np.zeros(
            (len(first), len(self.labels)), dtype=np.float32
        )
        for number, (start, _) in enumerate(ranges):
            is_inside = window_numbers == number
            word_outputs[is_inside] = next(outputs)[
                1 + first[is_inside] - start
            ]
        tag_count = 1 + 2 * len(self.types)
        scores = np.zeros((len(text.first), tag_count), dtype=np.float32)
        scores[~text.is_read, 1::2] = -np.inf  # O or, within an entity, I
        scores[text.is_read] = self._outputs.tags(word_outputs)
        text.raise_listed(scores)
        return scores

    def entities(
        self,
        texts: Iterable[Pieces],
    ) -> Iterator[list[ScoredSpan]]:
        """The entities of each text, in constant memory."""
        for chunk in chunked(
            texts,
            size=len,
            limit=self.runner.buffer_tokens,
        ):
            scores = self.log_probabilities(chunk)
            for text, text_scores in zip(chunk, scores, strict=True):
                spans = find_entities(text_scores, starts=text.starts)
                yield [self._named(*span) for span in spans]

    def _named(
        self,
        first: int,
        end: int,
        number: int,
        score: float,
    ) -> ScoredSpan:
        """An entity with its type and the calibrated score."""
        label = self.types[number]
        calibration = self.settings.calibration.get(label)
        if calibration:
            score = float(calibrated(score, *calibration))
        return first, end, label, score


def _kept(
    read: _PreparedText, spans: Iterable[ScoredSpan]
) -> Iterator[Entity]:
    """The entities that have a letter, tidied; one that reaches into the one before joins it."""
    last: Entity | None = None
    for first, stop, label, score in spans:
        begin, end = tidy_span(read.shown, read.words, first, stop)
        if begin == end:
            continue
        start = int(read.words[begin, 0])
        end = int(read.words[end - 1, 1])
        if last and start < last.end:
            start = last.start
            label = last.label
            score = max(score, last.score)
        elif last:
            yield last
        last = None
        text = read.text[start:end]
        if any(map(str.isalpha, text)) and not is_never_entity(text, label):
            last = Entity(start, end, text, label, score)
    if last:
        yield last


def _with_phrases(text: str, entities: list[Entity]) -> list[Entity]:
    """The entities with the diseases that are found by name alone."""
    for start, end in phrases(text):
        apart = [e for e in entities if e.end <= start or end <= e.start]
        disease = Entity(start, end, text[start:end], _FRAMED_TYPE, 1.0)
        entities = sorted([*apart, disease], key=lambda e: e.start)
    return entities


@cache
def _shipped_tagger() -> EntityTagger:
    return EntityTagger.from_pretrained()


def medications(
    text: str, *, tagger: EntityTagger | None = None
) -> list[Medication]:
    """The drugs of a text with their dose, route, frequency and so on, in order.

    Args:
        text: a note, or a part of one.
        tagger: finds the drugs and diseases; the shipped model if None.
    """
    entities = (tagger or _shipped_tagger()).tag(text)
    return [e.medication for e in entities if e.medication is not None]
