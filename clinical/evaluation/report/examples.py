"""Examples of right and wrong calls as HTML, for stays whose notes may be shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from clinical.evidence.view import WEAK

if TYPE_CHECKING:
    import pandas as pd

    from clinical.evidence.explain import Passage
    from clinical.risk.model import ReadmissionModel

_TOP = 3  # passages that raise the risk, and as many that lower it by `WEAK` or more
_LONGEST = 300  # characters of a passage
_CALLS = (
    (True, 1, "Right: an alert, and the patient returned"),
    (True, 0, "Wrong: an alert, and the patient did not return"),
    (False, 1, "Wrong: no alert, and the patient returned"),
    (False, 0, "Right: no alert, and the patient did not return"),
)


def example_calls(
    model: ReadmissionModel, stays: pd.DataFrame, *, threshold: float | None
) -> list[str]:
    """One stay for each kind of call, with the passages behind its risk, escaped.

    The fragments hold note text: only for made-up patients, or where the user asked for it. Of
    each kind the clearest stay is shown: the highest risk with an alert, the lowest without, and
    for a missed readmission the lowest risk.

    Args:
        model: the one that scored the stays.
        stays: text, readmitted and probability, one row a stay.
        threshold: an alert is a probability of at least this; without one there are no examples.
    """
    if threshold is None:
        return []
    found = []
    alert = stays["probability"] >= threshold
    for wants_alert, outcome, heading in _CALLS:
        rows = stays[(alert == wants_alert) & (stays["readmitted"] == outcome)]
        if len(rows):
            order = rows["probability"].sort_values(ascending=not wants_alert, kind="stable")
            found.append(_fragment(model, list(stays.loc[order.index[0], "text"]), heading))
    return found


def _fragment(model: ReadmissionModel, notes: list[str], heading: str) -> str:
    found = model.explain(notes, top=_TOP)
    read = f"Risk {found.risk.probability:.1%}, from {len(found.risk.windows)} windows."
    if found.without_raising is not None:
        read += f" Without the passages that raise it, it would be {found.without_raising:.1%}."
    risk = found.risk.probability
    shown = [p for p in found.passages if p.value > 0 or -p.probability_contribution >= WEAK]
    passages = Markup("").join(_item(passage, risk) for passage in shown)
    return Markup(
        '<article class="example"><h3>{}</h3><p>{}</p><ul class="passages">{}</ul></article>'
    ).format(heading, read, passages)


def _item(passage: Passage, risk: float) -> Markup:
    raises = passage.value > 0
    shown = " ".join(passage.text.split())
    cut = shown[:_LONGEST] + (" …" if len(shown) > _LONGEST else "")
    place = f"note {passage.note + 1}, characters {passage.start:,} to {passage.end:,}"
    without = f"without it the risk is {risk - passage.probability_contribution:.1%}"
    return Markup('<li class="{}">{} <q>{}</q> <small>({}; {})</small></li>').format(
        "raises" if raises else "lowers",
        "▲ Raises the risk:" if raises else "▼ Lowers the risk:",
        cut,
        place,
        without,
    )
