"""What the report knows by itself: facts from the manifest, the cohort and the evaluation."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from clinical.evaluation.groups import group_verdicts
from clinical.evidence.explain import explain
from clinical.report.hospital import Hospital
from domainbert import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from jinja2 import Environment

    from clinical.evaluation.comparison import Comparison
    from clinical.evidence.view import Explanation
    from clinical.risk.model import RiskModel

Facts = dict[str, str | None]
EVIDENCE = "comprehensiveness 5%"
_TOP = 3  # passages that raise the risk, and as many that lower it
_CALLS = (
    (True, 1, "Right: an alert, and the patient returned"),
    (True, 0, "Wrong: an alert, and the patient did not return"),
    (False, 1, "Wrong: no alert, and the patient returned"),
    (False, 0, "Right: no alert, and the patient did not return"),
)


@dataclass(frozen=True)
class About:
    """What the documents of a report need besides the evaluation.

    `facts` are from `gather`, `hospital` holds the hospital's answers, and `examples` are headings
    and explanations of single stays: the only place of a report that may hold note text.
    """

    facts: Facts = field(default_factory=dict)
    hospital: Hospital = field(default_factory=Hospital)
    examples: tuple[tuple[str, Explanation], ...] = field(default=(), repr=False)

    def namespace(self) -> Facts:
        """Facts and answers by name; this evaluation is external or local as the hospital says."""
        related = dict(self.facts)
        for kind in ("external", "local"):
            if getattr(self.hospital, kind):
                related[f"{kind}_validity"] = self.facts["validity"]
                related[f"{kind}_fairness"] = self.facts["fairness"]
        return related | self.hospital.answers


def describe(
    model: RiskModel | None,
    comparison: Comparison,
    *,
    name: str,
    summary: Mapping[str, Any] | None = None,
    hospital: Hospital | None = None,
    include_notes: bool = False,
) -> About:
    """What the report's documents need, from a model and its evaluation.

    Args:
        model: the one that was evaluated; None for scores of another origin.
        comparison: its evaluation.
        name: of the model, as the user gave it.
        summary: of the cohort, from `clinical.cohort.Cohort`; None for other tables.
        hospital: its answers; none by default.
        include_notes: show parts of the notes of up to four stays. Only for made-up patients, or
            where whoever reads the report may read the notes.
    """
    level = comparison.use.threshold if comparison.use else None
    shown = model is not None and include_notes and "text" in comparison.stays.columns
    examples = example_calls(model, comparison.stays, threshold=level) if model and shown else ()
    facts = gather(model, comparison, name=name, summary=summary)
    return About(facts, hospital or Hospital(), tuple(examples))


def gather(
    model: RiskModel | None,
    comparison: Comparison,
    *,
    name: str,
    summary: Mapping[str, Any] | None = None,
) -> Facts:
    """Facts as sentences by name, None where they are unknown; arguments as for `describe`.

    The sentences are the blocks of `templates/facts.j2`.
    """
    manifest: Mapping[str, Any] = model.manifest if model else {}
    measures = manifest.get("evidence", {}).get("measures", ())
    module = (
        environment()
        .get_template("facts.j2")
        .make_module(
            {
                "name": name,
                "package": __version__,
                "given": model,
                "manifest": manifest,
                "cohort": summary,
                "own": comparison.model,
                "verdict_texts": [v.text for v in comparison.verdicts()],
                "group_texts": [v.text for v in group_verdicts(comparison.groups)],
                "groups": comparison.groups.groupby("column", sort=False),
                "use": comparison.use,
                "same_source": comparison.same_source,
                "faithful": {m["method"]: m for m in measures if m["measure"] == EVIDENCE},
                "scores": next(iter(manifest.get("scores", {}).values()), None),
            }
        )
    )
    facts = {k: " ".join(v.split()) or None for k, v in vars(module).items() if k[0] != "_"}
    if comparison.same_source:
        facts |= {"own_validity": facts["validity"], "own_fairness": facts["fairness"]}
    return facts


@cache
def environment() -> Environment:
    """The templates of the report; those that end in `.html.j2` escape everything."""
    from jinja2 import Environment as Templates
    from jinja2 import PackageLoader, StrictUndefined, select_autoescape

    from domainbert.statistics.bootstrap import spell

    made = Templates(
        loader=PackageLoader("clinical.report"),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": number,
        "toml": lambda text: json.dumps(text, ensure_ascii=False),
        "spell": spell,
        "records": lambda frame: frame.to_dict("records"),
    }
    return made


def number(value: float | None, digits: int = 3) -> str:
    """A number with three digits and a true minus sign; a dash for none."""
    missing = value is None or value != value
    return "–" if missing else f"{value:.{digits}f}".replace("-", "−")


def example_calls(
    model: RiskModel, stays: pd.DataFrame, *, threshold: float | None
) -> list[tuple[str, Explanation]]:
    """One stay for each kind of call: a heading, and the explanation of its risk.

    They hold note text: only for made-up patients, or where the user asked for it. Of each kind
    the clearest stay is taken: the highest risk with an alert, the lowest without, and for a
    missed readmission the lowest risk.

    Args:
        model: the one that scored the stays.
        stays: text, readmitted and probability, one row a stay.
        threshold: an alert is a probability of at least this; without one there are no examples.
    """
    if threshold is None:
        return []
    examples = []
    alert = stays["probability"] >= threshold
    for wants_alert, outcome, heading in _CALLS:
        rows = stays[(alert == wants_alert) & (stays["readmitted"] == outcome)]
        if len(rows):
            order = rows["probability"].sort_values(ascending=not wants_alert, kind="stable")
            notes = list(stays.loc[order.index[0], "text"])
            examples.append((heading, explain(model, notes, top=_TOP)))
    return examples
