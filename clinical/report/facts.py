"""What the report knows by itself: facts from the manifest, the cohort and the evaluation."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from clinical.evaluation.groups import group_verdicts
from clinical.report.hospital import Hospital
from domainbert import __version__
from domainbert.statistics.bootstrap import spell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jinja2 import Environment

    from clinical.evaluation.comparison import Comparison
    from clinical.risk.model import RiskModel

Facts = dict[str, str | None]
EVIDENCE = "comprehensiveness 5%"


@dataclass(frozen=True)
class About:
    """What the documents of a report need besides the evaluation: `gather`'s facts, and answers."""

    facts: Facts = field(default_factory=dict)
    hospital: Hospital = field(default_factory=Hospital)

    def namespace(self) -> Facts:
        """Facts and answers by name; this evaluation is external or local as the hospital says."""
        related = dict(self.facts)
        for kind in ("external", "local"):
            if getattr(self.hospital, kind):
                related[f"{kind}_validity"] = self.facts["validity"]
                related[f"{kind}_fairness"] = self.facts["fairness"]
        return related | self.hospital.answers


def gather(
    model: RiskModel | None,
    comparison: Comparison,
    *,
    name: str,
    summary: Mapping[str, Any] | None = None,
) -> Facts:
    """Facts as sentences by name, None where they are unknown.

    The sentences are the blocks of `templates/facts.j2`.

    Args:
        model: the one that was evaluated; None for scores of another origin.
        comparison: its evaluation.
        name: of the model, as the user gave it.
        summary: of the cohort, from `clinical.cohort.Cohort`; None for other tables.
    """
    manifest: Mapping[str, Any] = model.manifest if model else {}
    measures = manifest.get("evidence", {}).get("measures", ())
    template = environment().get_template("facts.j2")
    module = template.make_module(
        {
            "name": name,
            "package": __version__,
            "given": model,
            "manifest": manifest,
            "cohort": summary,
            "own": comparison.model,
            "group_texts": [v.text for v in group_verdicts(comparison.groups)],
            "groups": comparison.groups.groupby("column", sort=False),
            "use": comparison,
            "faithful": {m["method"]: m for m in measures if m["measure"] == EVIDENCE},
            "scores": next(iter(manifest.get("scores", {}).values()), None),
        }
    )
    return {k: " ".join(v.split()) or None for k, v in vars(module).items() if k[0] != "_"}


@cache
def environment() -> Environment:
    """The templates of the report; HTML and XML escape everything."""
    from jinja2 import Environment as Templates
    from jinja2 import PackageLoader, StrictUndefined, select_autoescape

    made = Templates(
        loader=PackageLoader("clinical.report"),
        autoescape=select_autoescape(["html.j2", "xml.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": number,
        "json": lambda value: json.dumps(value, ensure_ascii=False, allow_nan=False),
        "spell": spell,
        "records": lambda frame: frame.to_dict("records"),
    }
    return made


def number(value: float | None, digits: int = 3) -> str:
    """A number with three digits and a true minus sign; a dash for none."""
    missing = value is None or value != value
    return "–" if missing else f"{value:.{digits}f}".replace("-", "−")
