"""The groups of a made-up study: how many there are, and what they are called."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from recipes.contrast.wording import abbreviation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recipes.contrast.wording import Draws

ARM_TYPES = {
    "drug": 10,
    "procedure": 4,
    "group": 6,
    "people": 2,
}  # with weights
SIZES = range(12, 400)


@dataclass
class Arm:
    """A group of a study.

    Attributes:
        name: what the text calls it: its treatment, or "group A".
        arm_type: the list of `[mentions]` that has its wording.
        short: an abbreviation of the name; empty without one.
        treatment, treatment_kind: of a group with a label.
        size: how many are in it.
        unit: of doses.
        values: the numbers of the latest fact, by slot.
    """

    name: str
    arm_type: str
    short: str = ""
    treatment: str = ""
    treatment_type: str = ""
    size: str = ""
    unit: str = "mg"
    values: dict[str, str] = field(default_factory=dict)


def draw_arms(draws: Draws) -> list[Arm]:
    """Two or three groups that differ in one way: in treatment, in label, or in who they are."""
    chooser = draws.chooser
    count = chooser.choice((2, 2, 2, 3))
    (arm_type,) = chooser.choices([*ARM_TYPES], weights=[*ARM_TYPES.values()])
    if arm_type == "people":
        names = draws.line("words", "people").split("|")
        chooser.shuffle(names)
        arms = [Arm(name, arm_type) for name in names]
    elif arm_type == "group":
        arms = _labelled_arms(draws, count)
    else:
        arms = _treated_arms(draws, arm_type, count)
    sizes = chooser.sample(SIZES, len(arms))
    for arm, size in zip(arms, sizes, strict=True):
        arm.size = str(size)
        arm.unit = draws.line("words", "units")
    return arms


def _treated_arms(draws: Draws, arm_type: str, count: int) -> list[Arm]:
    names = draws.wording.drugs
    if arm_type == "procedure":
        names = draws.wording.lines("words", "procedures")
    arms = [Arm(name, arm_type) for name in draws.chooser.sample(names, count)]
    if draws.chooser.random() < 0.3:
        arms[-1] = Arm(draws.line("words", "controls"), "control")
    if draws.chooser.random() < 0.2:
        _abbreviate(arms)
    return arms


def _abbreviate(arms: Sequence[Arm]) -> None:
    """Give each group an abbreviation, unless two groups would have the same one."""
    abbreviations = [abbreviation(arm.name) for arm in arms]
    if len(set(abbreviations)) < len(arms):
        return
    for arm, short in zip(arms, abbreviations, strict=True):
        arm.short = short


def _labelled_arms(draws: Draws, count: int) -> list[Arm]:
    """Groups with labels such as "group A", each with a treatment."""
    arm_type = draws.chooser.choice(("drug", "drug", "procedure"))
    labels = draws.line("words", "labels").split("|")
    treated = _treated_arms(draws, arm_type, count)
    return [
        Arm(label, "group", treatment=arm.name, treatment_type=arm.arm_type)
        for label, arm in zip(labels, treated, strict=False)
    ]


def draw_stranger(draws: Draws, arms: Sequence[Arm]) -> Arm | None:
    """A group that is not in the study; None if there is no such name."""
    first = arms[0]
    wording = draws.wording
    if first.arm_type == "people":
        return None
    names = wording.drugs
    if first.arm_type == "procedure":
        names = wording.lines("words", "procedures")
    if first.arm_type == "group":
        labels = [line.split("|") for line in wording.lines("words", "labels")]
        names = next(row for row in labels if first.name in row)
    in_study = {arm.name for arm in arms}
    free_names = [name for name in names if name not in in_study]
    if not free_names:
        return None
    return Arm(
        draws.chooser.choice(free_names), first.arm_type, unit=first.unit
    )
