"""The text of a made-up study, and where the numbers of its groups are in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from domainbert.text.sentences import sentence_spans
from recipes.contrast.groups import Arm, draw_arms
from recipes.contrast.numbers import Numbers
from recipes.contrast.wording import SLOT, in_words, with_capital

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recipes.contrast.wording import Draws

Span = tuple[int, int]
# By slot and position of the group, the characters of its number.
Spans = dict[tuple[str, int], Span]

MEASURE = ("measure", "unit", "low", "high", "decimals", "other measure")
# The list in contrast.toml with a family's topics, and what the parts of a line are.
TOPICS = {
    "event": ("events", ("past", "noun", "other past", "other noun")),
    "change": ("measures", MEASURE),
    "course": ("measures", MEASURE),
    "level": ("measures", MEASURE),
    "time": ("times", ("time", "unit", "low", "high", "other time")),
}
RESULTS = ("event", "change", "level", "time")
_GROUP = re.compile(r"\b(group|arm)\b")


@dataclass
class Fact:
    """A number, or several, of each group.

    Attributes:
        family: what kind of fact it is.
        words: what it is about.
        spans: the characters of its numbers; first those in the sentence, then those in the text.
    """

    family: str
    words: dict[str, str]
    spans: Spans

    def shift(self, offset: int) -> None:
        """Move the spans to the right."""
        self.spans = {
            key: (start + offset, end + offset)
            for key, (start, end) in self.spans.items()
        }


Sentence = tuple[str, list[Fact]]


class Study:
    """One made-up text.

    Attributes:
        draws: the wording, and the random choices from it.
        words: what fills slots in every sentence, such as `{patients}`.
        arms: the groups.
        facts: the numbers in the text.
        text: the text.
    """

    def __init__(self, draws: Draws) -> None:
        self.draws = draws
        self._chooser = draws.chooser
        self._numbers = Numbers(draws)
        self.words = self._setting()
        self.arms = draw_arms(draws)
        self._topics: set[str] = set()
        self.facts: list[Fact] = []
        self.text = self._write()

    def _setting(self) -> dict[str, str]:
        """Who was studied, where and when."""
        year = self._chooser.randint(1985, 2019)
        return {
            "patients": self.draws.line("words", "patients"),
            "disease": self._chooser.choice(self.draws.wording.diseases),
            "place": self.draws.line("words", "places"),
            "route": self.draws.line("words", "routes"),
            "total": str(self._chooser.randint(20, 2500)),
            "year": str(year),
            "year2": str(year + self._chooser.randint(1, 6)),
        }

    def mention(self, arm: Arm, *, by_treatment: bool = False) -> str:
        """A group in words, such as "in the aspirin group"."""
        name = arm.name
        arm_type = arm.arm_type
        if by_treatment:
            name = arm.treatment
            arm_type = arm.treatment_type
        elif arm.short and "study" in self._topics:
            name = self._chooser.choice((arm.short, arm.short, name))
        return in_words(self.draws.line("mentions", arm_type), name)

    def new_topic(self, family: str) -> dict[str, str] | None:
        """What a fact of this family is about; None if the text already has it."""
        words: dict[str, str] = {}
        name = "dose" if family == "adjustment" else family
        if family in TOPICS:
            list_name, keys = TOPICS[family]
            parts = self.draws.line("words", list_name).split("|")
            words = dict(zip(keys, parts, strict=False))
            name = parts[0]
        if name in self._topics:
            return None
        self._topics.add(name)
        return words

    # The text.

    def _write(self) -> str:
        """The design, then facts and other sentences in random order."""
        arm_types = {arm.arm_type for arm in self.arms}
        is_note = arm_types == {"drug"} and self._chooser.random() < 0.15
        introduction = [] if is_note else self._introduction()
        results = self._results(arm_types, is_note=is_note)
        background: list[Sentence] = [
            (text, []) for text in self._background()
        ]
        cut = self._chooser.randint(0, len(background))
        return self._joined(
            [*background[:cut], *introduction, *results, *background[cut:]]
        )

    def _joined(self, sentences: Sequence[Sentence]) -> str:
        text = ""
        for sentence, facts in sentences:
            if not sentence:
                continue
            if text:
                text += self._chooser.choice((" ", " ", " ", " ", "\n"))
            for fact in facts:
                fact.shift(len(text))
            self.facts += facts
            text += sentence
        return text

    def _background(self) -> list[str]:
        """A few sentences of a real abstract, for a third of the texts."""
        if self._chooser.random() > 0.35:
            return []
        abstract = self._chooser.choice(self.draws.wording.abstracts)
        spans = sentence_spans(abstract)
        first = self._chooser.randrange(len(spans))
        last = first + self._chooser.randint(1, 4)
        return [abstract[start:end] for start, end in spans[first:last]]

    def _introduction(self) -> list[Sentence]:
        """Sentences on the design of the study and on what its groups get."""
        sentences: list[Sentence] = []
        size = _size_name(self.arms)
        if self._chooser.random() < 0.75:
            words = {
                f"x{number}": f"{arm.name} ({arm.short})"
                for number, arm in enumerate(self.arms, start=1)
                if arm.short
            }
            line = self.draws.line("design", size)
            text, spans = self._filled(line, self.arms, words)
            self._topics.add("study")
            sentences.append((text, [Fact("study", {}, spans)]))
        if self.arms[0].treatment:
            line = self.draws.line("design", f"labelled_{size}")
            text, _ = self._filled(line, self.arms, {})
            sentences.append((text, []))
        return sentences

    def _results(
        self, arm_types: set[str], *, is_note: bool
    ) -> list[Sentence]:
        """Sentences with facts, and some without, in random order."""
        families = self.draws.wording.families(arm_types) + ["event"] * 3
        count = self._chooser.randint(2, 5)
        if is_note:
            families = ["dose", "adjustment", "course"]
            count = 2
        elif arm_types == {"drug"}:
            families += ["dose"] * 2
        drawn_families = self._chooser.choices(families, k=count)
        sentences = [self._stated(family) for family in drawn_families]
        for _ in range(self._chooser.choice((0, 1, 1, 2, 3))):
            line = self.draws.line("design", "fillers")
            text, _ = self._filled(line, self.arms, {})
            sentences.append((text, []))
        self._chooser.shuffle(sentences)
        return sentences

    # Its sentences.

    def _stated(self, family: str) -> Sentence:
        """A sentence and its facts; an empty one if the text already has its topic."""
        words = self.new_topic(family)
        if words is None:
            return "", []
        arms = list(self.arms)
        if family == "adjustment":
            arms = arms[:2]
        self._numbers.fill(family, arms, words)
        size = _size_name(arms)
        in_order = "study" in self._topics and family in RESULTS
        if in_order and self._chooser.random() < 0.2:
            # The groups are in the order of the study's design, and not named again.
            size = f"ordered_{size}"
        else:
            self._chooser.shuffle(arms)
        line = self.draws.line("families", family, size)
        text, spans = self._filled(line, arms, words)
        return text, self._facts_of(family, words, arms, spans)

    def _facts_of(
        self,
        family: str,
        words: dict[str, str],
        arms: Sequence[Arm],
        spans: Spans,
    ) -> list[Fact]:
        """The fact of a sentence, and the sizes of the groups if it is the first with them."""
        numbers: Spans = {}
        sizes: Spans = {}
        for (slot, position), span in spans.items():
            number = self.arms.index(arms[position])
            if slot in arms[0].values:
                numbers[slot, number] = span
            elif slot == "t":
                sizes["n", number] = span
        facts = [Fact(family, words, numbers)]
        if sizes and "size" not in self._topics:
            self._topics.add("size")
            facts.append(Fact("size", {}, sizes))
        return facts

    def _filled(
        self, line: str, arms: Sequence[Arm], words: dict[str, str]
    ) -> tuple[str, Spans]:
        """A sentence, and the characters of the numbers of its groups."""
        form = ""
        if self._chooser.random() < 0.5:
            form = self.draws.line("mentions", arms[0].arm_type)
        text = ""
        spans: Spans = {}
        end = 0
        for match in SLOT.finditer(line):
            slot = match[1].lower()
            number = match[2]
            filler = self._filler(slot, number, arms, words, form)
            text += line[end : match.start()]
            if match[1][0].isupper() or not text:
                filler = with_capital(filler)
            span = (len(text), len(text) + len(filler))
            position = int(number or 1) - 1
            is_of_arm = slot == "t" or slot in arms[position].values
            if (number and is_of_arm) or slot == "total":
                spans[slot, position] = span
            text += filler
            end = match.end()
        return text + line[end:], spans

    def _filler(
        self,
        slot: str,
        number: str,
        arms: Sequence[Arm],
        words: dict[str, str],
        form: str,
    ) -> str:
        """What a slot is filled with; `form` is how all groups of the sentence are named."""
        for texts in (words, self.words):
            if slot + number in texts:
                return texts[slot + number]
        if slot == "both":
            return self._all_mentioned(arms)
        if not number:
            return self._numbers.unrelated(slot)
        arm = arms[int(number) - 1]
        if slot in arm.values:
            return arm.values[slot]
        if slot == "in" and form and arm.arm_type == arms[0].arm_type:
            return in_words(form, arm.name)
        if slot == "in":
            return self.mention(arm)
        return {"y": arm.treatment, "t": arm.size}.get(slot, arm.name)

    def _all_mentioned(self, arms: Sequence[Arm]) -> str:
        """All groups in words, such as "in the aspirin and placebo groups"."""
        *names, last = (arm.name for arm in arms)
        form = self.draws.line("mentions", arms[0].arm_type)
        plural_form = _GROUP.sub(r"\1s", form)
        return in_words(plural_form, f"{', '.join(names)} and {last}")


def _size_name(arms: Sequence[Arm]) -> str:
    """What lists of contrast.toml are called for so many groups."""
    return "two" if len(arms) == 2 else "three"
