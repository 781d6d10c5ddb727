"""What the report knows: facts from manifest, cohort and evaluation, and the hospital's answers."""

from __future__ import annotations

import json
import string
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, create_model

from clinical.evaluation.verdicts import group_verdicts
from domainbert import __version__
from domainbert.settings import Settings
from domainbert.statistics.bootstrap import Interval

if TYPE_CHECKING:
    from jinja2 import Environment

    from clinical.evaluation.comparison import Comparison
    from clinical.risk.model import RiskModel

Facts = dict[str, str | None]
EVIDENCE = "comprehensiveness 5%"


def read_data(name: str) -> Any:
    """A TOML file of this package."""
    return tomllib.loads((resources.files(__package__) / name).read_text("utf-8"))


ASKED: dict[str, dict[str, str]] = read_data("questions.toml")
"""What only the hospital can answer, by key: numbers, flags (true or false), and texts."""

QUESTIONS = ASKED["texts"]
_KINDS: dict[str, Any] = {
    "numbers": (Annotated[float, Field(ge=0)], 0.0),
    "flags": (bool, False),
    "texts": (str, ""),
}
_FIELDS: dict[str, Any] = {
    key: _KINDS[kind] for kind, part in ASKED.items() for key in part
}
Hospital = create_model("Hospital", __base__=Settings, **_FIELDS)
"""The hospital's file, made from `hospital-template.toml`; empty answers are open."""


def answered(facts: Facts, hospital: Settings) -> Facts:
    """Facts with the hospital's answers; the evaluation is external or local as it says."""
    given = hospital.model_dump()
    answers = {key: text for key in QUESTIONS if (text := given[key].strip())}
    kinds = [kind for kind in ASKED["flags"] if given[kind]]
    own = {
        f"{kind}_{what}": facts[what]
        for kind in kinds
        for what in ("validity", "fairness")
    }
    return facts | own | answers


def gather(
    model: RiskModel | None,
    comparison: Comparison,
    *,
    name: str,
    summary: Mapping[str, Any] | None = None,
    hospital: Settings | None = None,
) -> Facts:
    """Facts as sentences by name, the blocks of `templates/facts.j2`; None where they are unknown.

    Args:
        model: None for scores of another origin.
        comparison: its evaluation.
        name: of the model, as the user gave it.
        summary: of the cohort, from `clinical.Cohort`; None for other tables.
        hospital: its answers.
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
        }
    )
    facts = {
        k: " ".join(v.split()) or None for k, v in vars(module).items() if k[0] != "_"
    }
    return answered(facts, hospital or Hospital())


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
        "spell": lambda found: str(
            Interval(found["value"], found["low"], found["high"])
        ),
        "records": lambda frame: frame.to_dict("records"),
    }
    return made


def number(value: float | None, digits: int = 3) -> str:
    """A number with three digits and a true minus sign; a dash for none."""
    missing = value is None or value != value
    return "–" if missing else f"{value:.{digits}f}".replace("-", "−")


def fill(parts: Sequence[str], facts: Facts) -> dict[str, Any]:
    """The parts of an answer that are known, the names that have no value, and the status."""
    answer, missing = [], []
    for part in parts:
        names = [name for _, name, _, _ in string.Formatter().parse(part) if name]
        lacking = [name for name in names if not facts.get(name)]
        missing += lacking
        if not lacking:
            answer.append(part.format_map(facts))
    status = ("in part" if answer else "open") if missing else "answered"
    return {"answer": answer, "missing": list(dict.fromkeys(missing)), "status": status}


def checklist(name: str, facts: Facts) -> list[dict[str, Any]]:
    """The items of a TOML file, in order: which is answered, by what, and which is open.

    "attributes.toml" has the 31 source attributes of a predictive intervention in certified health
    IT, "tripod.toml" the 52 items of TRIPOD+AI.
    """
    items = read_data(name).items()
    return [{"key": key, **item} | fill(item["answer"], facts) for key, item in items]
