"""What the numbers show, what they speak against, and what they cannot show.

`verdicts.j2` has the sentences, and says when each of them is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

from clinical.evaluation.measures import GROUP_MEASURES

if TYPE_CHECKING:
    import pandas as pd

    from clinical.evaluation.intervals import Evaluation

Status = Literal["shown", "against", "not shown"]

LEVEL = (0.9, 1.1)
"""An interval of observed / expected inside these shows that the level of the risks is right."""

SLOPE = (0.8, 1.2)
"""Likewise for the calibration slope."""

NEAR_CHANCE = 0.6
"""A model whose AUROC lies below this with its interval is hardly better than chance."""

FEW_EVENTS = 100
"""With fewer readmissions (or others), the report says what the sample can show."""


@dataclass(frozen=True)
class Verdict:
    """A sentence about one question, written from a measurement.

    `status` is "shown" where the interval excludes the unfavourable values, "against" where it
    excludes the favourable ones, and "not shown" where it contains both: what was not found to be
    wrong is not thereby right.
    """

    status: Status
    text: str


def verdicts(evaluations: Mapping[str, Evaluation]) -> list[Verdict]:
    """The first set of risks by level, spread and ranking, and against the others, in this order.

    The others are compared by paired differences, so all must be of the same stays.
    """
    (model, own), *baselines = evaluations.items()
    measured = [
        (name, other) for name, other in baselines if other.auroc.value is not None
    ]
    return _said(
        "measured", model, own, {n: own.minus(other)["auroc"] for n, other in measured}
    )


def monitoring_verdicts(
    now: Evaluation | None, manifest: Mapping[str, Any]
) -> list[Verdict]:
    """A model in use, against the scores of its test side; None without outcomes."""
    return _said(
        "monitored", now, next(iter(manifest.get("scores", {}).values()), None)
    )


def benefit_verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Where the net benefit is above, or below, that of alerting everybody or nobody.

    `table` is `clinical.evaluation.decision.benefit_table`.
    """
    sides = table[table["gain_low"] > 0], table[table["gain_high"] < 0]
    return _said("benefit", *(side.to_dict("records") for side in sides))


def group_verdicts(groups: pd.DataFrame) -> list[Verdict]:
    """What the table of `by_group` says: how many differences were tested, which remain, the rest.

    A difference is named if its p-value, corrected for all of the table, is below 0.05.
    """
    names = [measure.field for measure in GROUP_MEASURES]
    low, high = (
        groups[[f"{n}_difference_{end}" for n in names]] for end in ("low", "high")
    )
    excludes = (low > 0).to_numpy() | (high < 0).to_numpy()
    tested, chance = int(low.notna().to_numpy().sum()), int(excludes.sum())
    return _said("groups", groups.to_dict("records"), GROUP_MEASURES, tested, chance)


def _said(macro: str, *given: Any) -> list[Verdict]:
    """The sentences that a macro of `verdicts.j2` writes about what is given."""
    lines = filter(None, getattr(_sentences(), macro)(*given).split("\n"))
    said: list[Any] = [line.split(": ", 1) for line in lines]
    return [Verdict(status, text) for status, text in said]


@cache
def _sentences() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=False,  # noqa: S701 - plain text
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    limits = {
        "LEVEL": LEVEL,
        "SLOPE": SLOPE,
        "NEAR_CHANCE": NEAR_CHANCE,
        "FEW_EVENTS": FEW_EVENTS,
    }
    environment.globals |= {**limits, "exp": math.exp, "log": math.log}
    template = (resources.files(__package__) / "verdicts.j2").read_text("utf-8")
    return environment.from_string(template).module
