"""The numbers of a made-up study: doses, percentages, levels and durations, with their units."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recipes.contrast.groups import Arm
    from recipes.contrast.wording import Draws

TRIES = 20  # to draw different numbers for the groups
_FROM_TWO = "two three four five six seven eight nine ten eleven twelve"
IN_WORDS = _FROM_TWO.split()
SMALL_DOSES = (
    0.5,
    1,
    2,
    2.5,
    4,
    5,
    7.5,
    8,
    10,
    12,
    15,
    20,
    25,
    30,
    40,
    50,
    60,
    75,
)
LARGE_DOSES = (80, 100, 120, 150, 200, 250, 300, 400, 500, 600, 750, 800, 1000)
DOSES = (*SMALL_DOSES, *LARGE_DOSES)
SPANS = ("days", "days", "weeks", "weeks", "months", "hours")
PERCENT = (*["{}%"] * 8, "{} %", "{} percent")
Words = dict[str, str]  # what a fact is about: its topic's name, unit, range
Values = dict[str, str]  # numbers with their units, by slot


class Numbers:
    """Draws the numbers of each family of facts."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws
        self._chooser = draws.chooser
        self._percent = self._chooser.choice(PERCENT)
        self._families = {
            "size": self._size,
            "dose": self._dose,
            "schedule": self._schedule,
            "adjustment": self._adjustment,
            "event": self._event,
            "time": self._time,
            "level": self._level,
            "change": self._change,
            "course": self._course,
        }

    def fill(self, family: str, arms: Sequence[Arm], words: Words) -> None:
        """Set `values` of each group, with different numbers where that is possible."""
        draw = self._families[family]
        for _ in range(TRIES):
            for arm in arms:
                arm.values = draw(arm, words)
            if _all_differ(arms):
                return

    def count(self, low: int, high: int) -> str:
        """A whole number, a small one often in words."""
        number = self._chooser.randint(low, high)
        if 2 <= number <= 12 and self._chooser.random() < 0.4:
            return IN_WORDS[number - 2]
        return str(number)

    def unrelated(self, slot: str) -> str:
        """A number of no group, such as a p-value."""
        chooser = self._chooser
        # All are drawn, so the draws after this one do not depend on the slot.
        numbers = {
            "small": f"{chooser.uniform(0.001, 0.9):.2g}",
            "ratio": f"{chooser.uniform(0.2, 4):.2f}",
            "weeks": str(chooser.randint(2, 60)),
            "age": str(chooser.randint(18, 90)),
            "percent": f"{chooser.randint(2, 98)}%",
            "sd": f"{chooser.uniform(0.5, 20):.1f}",
        }
        return numbers[slot]

    def _size(self, arm: Arm, _: Words) -> Values:
        return {"n": arm.size}

    def _dose_of(self, arm: Arm) -> str:
        return f"{self._chooser.choice(DOSES):g} {arm.unit}"

    def _dose(self, arm: Arm, _: Words) -> Values:
        dose = self._dose_of(arm)
        frequency = self._draws.line("words", "frequencies")
        n_doses = self.count(2, 9)
        length = self.count(2, 14)
        unit = self._chooser.choice(SPANS)
        return {
            "d": dose,
            "f": frequency,
            "k": n_doses,
            "l": f"{length} {unit}",
        }

    def _schedule(self, arm: Arm, words: Words) -> Values:
        dose = self._dose(arm, words)
        return {slot: dose[slot] for slot in ("d", "f", "k")}

    def _adjustment(self, arm: Arm, _: Words) -> Values:
        before = self._dose_of(arm)
        after = self._dose_of(arm)
        return {"b": before, "e": after}

    def _event(self, arm: Arm, _: Words) -> Values:
        decimals = self._chooser.choice((0, 0, 1))
        share = self._chooser.uniform(1, 97)
        percent = self._percent.format(f"{share:.{decimals}f}")
        count = self.count(1, int(arm.size))
        return {"p": percent, "c": count}

    def _time(self, _: Arm, words: Words) -> Values:
        duration = self._chooser.uniform(int(words["low"]), int(words["high"]))
        decimals = self._chooser.choice((0, 0, 1))
        return {"t": f"{duration:.{decimals}f} {words['unit']}"}

    def _level(self, arm: Arm, words: Words) -> Values:
        levels = self._change(arm, words)
        return {"m": levels["b"]}

    def _course(self, arm: Arm, words: Words) -> Values:
        levels = self._change(arm, words)
        return {"b": levels["b"], "e": levels["e"]}

    def _change(self, _: Arm, words: Words) -> Values:
        """A level before and one after a fall, and the fall."""
        low = float(words["low"])
        width = float(words["high"]) - low
        decimals = int(words["decimals"])
        unit = words["unit"]
        if unit != "%":
            unit = f" {unit}"
        before = low + width * self._chooser.uniform(0.4, 1)
        before = round(before, decimals)
        fall = round(width * self._chooser.uniform(0.03, 0.35), decimals)
        levels = {"b": before, "d": fall, "e": before - fall}
        return {
            slot: f"{level:.{decimals}f}{unit}"
            for slot, level in levels.items()
        }


def _all_differ(arms: Sequence[Arm]) -> bool:
    """Whether no two groups share a number of the same slot."""
    for slot in arms[0].values:
        numbers = {arm.values[slot] for arm in arms}
        if len(numbers) < len(arms):
            return False
    return True
