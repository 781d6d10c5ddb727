"""Examples of right and wrong calls as HTML, for stays whose notes may be shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup, escape

if TYPE_CHECKING:
    import pandas as pd

    from clinical.risk.model import ReadmissionModel

_LONGEST = 700  # characters of a passage
_CALLS = (
    (True, 1, "Right: an alert, and the patient returned"),
    (True, 0, "Wrong: an alert, and the patient did not return"),
    (False, 1, "Wrong: no alert, and the patient returned"),
    (False, 0, "Right: no alert, and the patient did not return"),
)


def example_calls(
    model: ReadmissionModel, stays: pd.DataFrame, *, threshold: float | None
) -> list[str]:
    """One stay for each kind of call, with the window of the highest probability, escaped.

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
            found.append(_fragment(model, stays.loc[order.index[0]], heading))
    return found


def _fragment(model: ReadmissionModel, stay: pd.Series, heading: str) -> str:
    notes = list(stay["text"])
    risk = model.predict(notes)
    top = max(risk.windows, key=lambda window: window.probability)
    passage = notes[top.note][top.start : top.end].strip() if not model.settings.join_notes else ""
    cut = passage[:_LONGEST] + (" …" if len(passage) > _LONGEST else "")
    return Markup(
        '<article class="example"><h3>{heading}</h3>'
        "<p>Risk {risk:.0%}. Highest of {n} windows: {top:.0%}, characters {start:,} to {end:,} of "
        "note {note}:</p><blockquote><p>{cut}</p></blockquote></article>"
    ).format(
        heading=heading,
        risk=risk.probability,
        n=len(risk.windows),
        top=top.probability,
        start=top.start,
        end=top.end,
        note=top.note + 1,
        cut=escape(cut),
    )
