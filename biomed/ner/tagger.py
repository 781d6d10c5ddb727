"""`Tagger`: finds entities with exact positions in text of any length."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from biomed.corpora.words import split_words, starts_after_breaks
from biomed.ner.abbreviations import expanded, find_abbreviations
from biomed.ner.assertion import assert_spans, is_allergy_cue
from biomed.ner.cues import AssertionRules
from biomed.ner.decoding import tidy_span
from biomed.ner.entities import MIN_SCORE, Entity
from biomed.ner.medications import read_medications
from biomed.ner.network import WordTagger
from biomed.ner.readable import clean, is_multilingual, joined, masked, name_of
from biomed.ner.sections import SectionChoice, sections_of
from biomed.ner.slips import framed_words, is_never_entity
from domainbert.errors import UserError
from domainbert.streams import chunked, read_ahead

if TYPE_CHECKING:
    import numpy as np
    import torch

    from biomed.ner.abbreviations import Abbreviation
    from biomed.ner.cues import RuleSource
    from biomed.ner.dictionaries import Link
    from biomed.ner.linking import EntityLinker
    from biomed.ner.network import Pieces, WordSpan


@dataclass(frozen=True, eq=False, repr=False)
class _ReadText:
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


class Tagger:
    """Finds entities in raw text.

    The text is split into words as the training corpora are (`biomed.corpora.split_words`). Each
    word is read in the window where it has the most context, and the tags are the best IOB2
    sequence over the whole text, so results do not depend on where windows end. Entities are whole
    words (see `tidy_span`) and do not continue over a blank line or into the next list item.

    Make one with `from_pretrained`. Threads may share it.
    """

    def __init__(
        self,
        network: WordTagger,
        *,
        min_score: float = MIN_SCORE,
        linker: EntityLinker | None = None,
        assertion_rules: RuleSource | None = None,
        sections: Sequence[str] = (),
    ) -> None:
        if not 0 <= min_score <= 1:
            raise UserError(
                f"min_score: expected a number from 0 to 1, got {min_score!r}"
            )
        self.network = network
        self.min_score = min_score
        self.linker = linker
        self._reads_foreign = is_multilingual(network.tokenizer.get_vocab())
        self._rules = AssertionRules.read(assertion_rules)
        self._sections = SectionChoice.read(sections)

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path = "disease-drug",
        *,
        min_score: float = MIN_SCORE,
        linker: EntityLinker | None = None,
        assertion_rules: RuleSource | None = None,
        sections: Sequence[str] = (),
        device: str | torch.device | None = None,
        batch_tokens: int | None = None,
    ) -> Self:
        """Load a shipped model by name, a model folder, or hub:owner/name.

        Hugging Face checkpoints for token classification load too, of any encoder family that has
        a fast tokenizer; see `biomed.ner.decoding.Outputs`. Entities with a score below
        `min_score` are left out; `linker` gives them ids. `assertion_rules` are cues of your own,
        as a TOML file or a list; see docs/assertions.md. `sections` names those whose entities
        are kept, or with a minus sign, as in "-family_history", left out. For `device` and
        `batch_tokens` see `Model`.

        Raises:
            EncoderError: no such model, or an encoder without a trained head.
            UserError: outputs whose names are no tags of entities, or no such section or rule.
        """
        network = WordTagger.from_pretrained(
            name, device=device, batch_tokens=batch_tokens
        )
        return cls(
            network,
            min_score=min_score,
            linker=linker,
            assertion_rules=assertion_rules,
            sections=sections,
        )

    @property
    def context_facts(self) -> dict[str, object]:
        """The user's rules and the chosen sections, for fingerprints; empty by default."""
        facts = {
            "assertion_rules": list(self._rules.source),
            "sections": sorted(self._sections.kept),
            "left_out_sections": sorted(self._sections.left_out),
        }
        return {name: value for name, value in facts.items() if value}

    @property
    def score_kind(self) -> str:
        """What tables call the scores: "calibrated" if those of all entity types are."""
        calibration = self.network.settings.calibration
        if calibration.keys() >= set(self.labels):
            return "calibrated"
        return "span_probability"

    @property
    def labels(self) -> tuple[str, ...]:
        """The entity types that it finds."""
        return self.network.types

    def __repr__(self) -> str:
        """The entity types."""
        return f"{type(self).__name__}({', '.join(self.labels)})"

    def tag(self, text: str) -> list[Entity]:
        """The entities of a text, in order; `text[e.start:e.end] == e.text`; none overlap."""
        return next(self.tag_many([text]))

    def tag_many(self, texts: Iterable[str]) -> Iterator[list[Entity]]:
        """The entities of each text, in the order given, in constant memory.

        Raises:
            UserError: one text instead of several, a table, or an item that is not a string.
        """
        if isinstance(texts, str | bytes | dict) or hasattr(
            texts, "columns"
        ):  # items are names
            kind = type(texts).__name__
            fix = "use tag for one text, and tag_frame for a DataFrame"
            raise UserError(f"tag_many: expected a list of texts, got {kind}; {fix}")
        read = (self._read(text, number) for number, text in enumerate(texts))
        limit = self.network.runner.buffer_tokens
        for chunk in read_ahead(
            chunked(read, size=lambda text: len(text.pieces), limit=limit)
        ):
            spans = self.network.entities(text.pieces for text in chunk)
            yield from self._linked(chunk, list(map(self._finished, chunk, spans)))

    def _finished(self, read: _ReadText, spans: Iterable[WordSpan]) -> list[Entity]:
        """The entities with a sufficient score, with their assertions."""
        entities = [e for e in _kept(read, spans) if e.score >= self.min_score]
        entities = _with_short_forms(read.text, entities, read.abbreviations)
        return self._with_context(read.plain, entities)

    def _with_context(self, text: str, entities: list[Entity]) -> list[Entity]:
        """The entities of the chosen sections with assertions, sections and medications."""
        sections = sections_of(text, _spans(entities))
        placed = [
            replace(entity, section=getattr(section, "name", None))
            for entity, section in zip(entities, sections, strict=True)
            if self._sections.holds(section)
            and not is_allergy_cue(text, entity.start, entity.end, section)
        ]
        assertions = assert_spans(text, _spans(placed), rules=self._rules)
        medications = read_medications(text, _spans(placed), assertions)
        by_start = {drug.start: drug for drug in medications}
        return [
            replace(entity, assertion=assertion, medication=by_start.get(entity.start))
            for entity, assertion in zip(placed, assertions, strict=True)
        ]

    def _linked(
        self, texts: list[_ReadText], tagged: list[list[Entity]]
    ) -> list[list[Entity]]:
        """The entities of each text with the concepts of their names, abbreviations resolved."""
        if self.linker is None:
            return tagged
        names = [
            expanded(name_of(read.shown[entity.start : entity.end]), read.abbreviations)
            for read, entities in zip(texts, tagged, strict=True)
            for entity in entities
        ]
        links = iter(self.linker.link(names))
        # Each text takes as many links as it has entities.
        return [list(map(_linked_to, entities, links)) for entities in tagged]

    def _read(self, text: object, number: int) -> _ReadText:
        """A text with its words and pieces."""
        if not isinstance(text, str):
            raise UserError(
                f"text number {number} is {type(text).__name__}, not a string"
            )
        plain = clean(text)
        shown = joined(plain, self.network.reader.pieces_saved)
        shown = masked(shown, reads_foreign=self._reads_foreign)
        words = split_words(shown)
        strings = [name_of(shown[start:end]) for start, end in words.tolist()]
        starts = words[:, 0].tolist()
        spaced = [start > 0 and shown[start - 1].isspace() for start in starts]
        breaks = starts_after_breaks(plain, words)
        pieces = self.network.reader.read(
            strings, spaced=spaced, breaks=breaks, framed=framed_words(shown, words)
        )
        return _ReadText(text, plain, shown, words, pieces, find_abbreviations(plain))


def _spans(entities: Iterable[Entity]) -> list[tuple[int, int, str]]:
    return [(entity.start, entity.end, entity.label) for entity in entities]


def _kept(read: _ReadText, spans: Iterable[WordSpan]) -> Iterator[Entity]:
    """The entities that have a letter, tidied; one that reaches into the one before joins it."""
    last: Entity | None = None
    for first, stop, kind, score in spans:
        begin, end = tidy_span(read.shown, read.words, first, stop)
        if begin == end:
            continue
        start = int(read.words[begin, 0])
        end = int(read.words[end - 1, 1])
        if last and start < last.end:
            start = last.start
            kind = last.label
            score = max(score, last.score)
        elif last:
            yield last
        last = None
        text = read.text[start:end]
        if any(map(str.isalpha, text)) and not is_never_entity(text, kind):
            last = Entity(start, end, text, kind, score)
    if last:
        yield last


def _with_short_forms(
    text: str, entities: list[Entity], abbreviations: dict[str, Abbreviation]
) -> list[Entity]:
    """An abbreviation that the text defines is what its long form is, wherever it stands."""
    added: list[Entity] = []
    for short, definition in abbreviations.items():
        long = next((e for e in entities if e.end == definition.end), None)
        if long is None:
            continue
        for match in re.finditer(rf"(?<!\w){re.escape(short)}(?!\w)", text):
            start, end = match.span()
            if not any(e.start < end and start < e.end for e in (*entities, *added)):
                added.append(Entity(start, end, short, long.label, long.score))
    return sorted([*entities, *added], key=lambda e: e.start)


def _linked_to(entity: Entity, link: Link | None) -> Entity:
    if link is None:
        return entity
    return replace(
        entity, id=link.id, name=link.name, link_score=link.score, codes=link.codes
    )
