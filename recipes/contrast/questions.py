"""Questions on a made-up study: the same one of each group, and some without an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recipes.contrast.groups import draw_stranger
from recipes.contrast.study import RESULTS, Fact
from recipes.contrast.wording import SLOT, WITHOUT_GROUPS, with_capital

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Sequence

    from recipes.contrast.groups import Arm
    from recipes.contrast.study import Span, Study

    # The question, and the characters of its answer; None without one.
    Question = tuple[str, Span | None]


def questions_on(study: Study) -> list[Question]:
    """Different questions, each with the characters of its answer, None where there is none.

    Up to two questions are asked of every group. Then come some that are harder or have no answer.
    """
    topics = [(fact, slot) for fact in study.facts for slot in _slots_of(fact)]
    n_topics = min(len(topics), 2)
    answers: dict[str, Span | None] = {}
    for fact, slot in study.draws.chooser.sample(topics, n_topics):
        line = _line(study, fact, slot)
        for name, number in sorted(fact.spans):
            if name == slot:
                question = _question(study, line, fact, study.arms[number])
                answers[question] = fact.spans[slot, number]
    for question, span in (*_negated(study), *_unanswerable(study)):
        answers.setdefault(question, span)
    return list(answers.items())


def _slots_of(fact: Fact) -> list[str]:
    """The slots of a fact's numbers in the text."""
    return sorted({slot for slot, _ in fact.spans})


def _line(study: Study, fact: Fact, slot: str) -> str:
    return study.draws.line("families", fact.family, "questions", slot)


def _question(
    study: Study, line: str, fact: Fact, arm: Arm, *, mention: str = ""
) -> str:
    """A question on a group, which may be named by its treatment or in other words."""
    chooser = study.draws.chooser
    topic = dict(fact.words)
    if chooser.random() < 0.35:
        topic |= {
            key.removeprefix("other "): text
            for key, text in topic.items()
            if key.startswith("other ")
        }
    by_treatment = bool(arm.treatment) and chooser.random() < 0.35
    name = arm.treatment if by_treatment else arm.name
    if not mention:
        mention = study.mention(arm, by_treatment=by_treatment)
    words = {"unit": arm.unit} | study.words | topic
    words["in"] = mention
    words["x"] = name

    def filler(match: re.Match[str]) -> str:
        text = words[match[1].lower()]
        if match[1][0].isupper():
            return with_capital(text)
        return text

    return SLOT.sub(filler, line)


def _negated(study: Study) -> Iterator[Question]:
    """A question that names one of two groups by what it did not get."""
    chooser = study.draws.chooser
    facts = [fact for fact in study.facts if fact.family in RESULTS]
    is_people = study.arms[0].arm_type == "people"
    if len(study.arms) > 2 or not facts or is_people:
        return
    if chooser.random() < 0.5:
        return
    fact = chooser.choice(facts)
    slot, number = chooser.choice(sorted(fact.spans))
    other = study.arms[1 - number]
    line = _line(study, fact, slot)
    is_control = "control" in (other.arm_type, other.treatment_type)
    if is_control or "{in}" not in line.lower():
        return
    absent = study.draws.line("mentions", "absent")
    mention = absent.format(x=other.treatment or other.name)
    arm = study.arms[number]
    question = _question(study, line, fact, arm, mention=mention)
    yield question, fact.spans[slot, number]


def _unanswerable(study: Study) -> Iterator[Question]:
    """Questions on a group, a number or a topic that the text does not have."""
    facts = [fact for fact in study.facts if fact.family not in WITHOUT_GROUPS]
    if facts:
        yield from _on_absent_group(study, facts)
        yield from _on_absent_number(study, facts)
        yield from _on_absent_topic(study)


def _on_absent_group(
    study: Study, facts: Sequence[Fact]
) -> Iterator[Question]:
    chooser = study.draws.chooser
    fact = chooser.choice(facts)
    stranger = draw_stranger(study.draws, study.arms)
    if stranger and chooser.random() < 0.5:
        slot, _ = chooser.choice(sorted(fact.spans))
        line = _line(study, fact, slot)
        yield _question(study, line, fact, stranger), None


def _on_absent_number(
    study: Study, facts: Sequence[Fact]
) -> Iterator[Question]:
    chooser = study.draws.chooser
    fact = chooser.choice(facts)
    slots = set(study.draws.wording.slots(fact.family))
    absent_slots = slots.difference(_slots_of(fact))
    if absent_slots and chooser.random() < 0.6:
        slot = chooser.choice(sorted(absent_slots))
        line = _line(study, fact, slot)
        arm = chooser.choice(study.arms)
        yield _question(study, line, fact, arm), None


def _on_absent_topic(study: Study) -> Iterator[Question]:
    chooser = study.draws.chooser
    family = chooser.choice(RESULTS)
    words = study.new_topic(family)
    if words and chooser.random() < 0.4:
        fact = Fact(family, words, {})
        slot = chooser.choice(study.draws.wording.slots(family))
        line = _line(study, fact, slot)
        arm = chooser.choice(study.arms)
        yield _question(study, line, fact, arm), None
