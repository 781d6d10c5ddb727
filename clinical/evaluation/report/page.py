"""The evaluation as one self-contained HTML page, and as JSON."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import groupby
from mimetypes import guess_type
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinical.evaluation.measures import MEASURES
from clinical.evaluation.report import tables
from clinical.evaluation.report.captions import CAPTIONS, WIDE, alternative
from clinical.evaluation.report.chai import chai_card, chai_xml
from clinical.evaluation.report.documents import (
    CHECKLIST,
    RULE,
    open_questions,
    source_attributes,
    tripod,
    uses,
)
from clinical.evaluation.report.facts import relate
from clinical.evaluation.report.hospital import Hospital, template
from clinical.evaluation.report.summary import summarise
from clinical.evaluation.subgroups import SMALLEST_GROUP, disparities
from domainbert.errors import UserError
from domainbert.tables import atomic_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from clinical.evaluation.comparison import Comparison
    from clinical.evaluation.report.facts import Facts

_IMAGES = (".png", ".svg", ".jpg", ".jpeg")
_METRICS_VERSION = 3


@dataclass(frozen=True)
class About:
    """What the documents of a report need besides the evaluation.

    `facts` are from `clinical.evaluation.report.facts.gather`, `hospital` holds the hospital's
    answers, and `examples` are ready HTML fragments, escaped by whoever made them; they are the
    only place of a report that may hold note text.
    """

    facts: Facts = field(default_factory=dict)
    hospital: Hospital = field(default_factory=Hospital)
    examples: tuple[str, ...] = field(default=(), repr=False)

    def namespace(self) -> Facts:
        """Facts and answers by name."""
        local, external = self.hospital.local, self.hospital.external
        return relate(self.facts, external=external, local=local) | self.hospital.answers


def write_report(
    folder: str | Path,
    comparison: Comparison,
    *,
    title: str,
    figures: Sequence[str | Path] = (),
    flow: pd.DataFrame | None = None,
    facts: Mapping[str, Any] | None = None,
    about: About | None = None,
) -> Path:
    """Write `report.html`: one file with its figures and style inside, which loads nothing.

    With `about`, the page also has the source attributes, TRIPOD+AI and the open questions, and
    beside it are `source_attributes.json`, `tripod_ai.json`, `chai_card.xml`, `chai_card.json` and
    `hospital-template.toml`.

    Args:
        folder: made if it does not exist.
        comparison: what was measured.
        title: heading of the page.
        figures: PNG, SVG or JPEG files; those with names of `captions.CAPTIONS` are put into their
            section, in this order.
        flow: how the cohort was selected, one row a step.
        facts: short facts about the model for a list: name, data, c, seed.
        about: what the documents need.

    Raises:
        UserError: a table contains what may be note text (a column `text`, lists, long strings),
            or a figure of another kind.
    """
    groups, use = comparison.groups, comparison.use
    shown: dict[str, Any] = {}
    if len(groups):
        tables.plain_table(groups, name="groups")  # refuses what may hold notes
    if len(groups) and groups["n"].max() >= SMALLEST_GROUP:
        shown["groups"] = tables.group_rows(groups)
    if flow is not None and len(flow):
        shown["flow"] = tables.flow_rows(flow)
    if use is not None:
        day = about.hospital.discharges_per_day if about else 0.0
        shown |= {"benefit": tables.benefit_rows(use)}
        if len(use.burden):
            shown["burden"] = tables.burden_rows(use, discharges_per_day=day)
        if use.periods is not None and len(use.periods):
            shown["periods"] = tables.period_rows(use.periods)
        if len(use.inputs):
            shown["drift"] = tables.drift_rows(use.inputs)
    documents = _documents(about, comparison)
    page = (
        _environment()
        .get_template("report/page.html.j2")
        .render(
            title=title,
            evaluation=next(iter(comparison.evaluations.values())),
            columns=comparison.evaluations,
            measures=MEASURES,
            figures=_by_section([_inline(Path(path), comparison) for path in figures]),
            facts=dict(facts or {}),
            about=defaultdict(lambda: None, documents.pop("facts")),
            tables=shown,
            use=use,
            too_small=len(groups) > 0 and "groups" not in shown,
            disparities=disparities(groups) if "groups" in shown else [],
            caveats=comparison.caveats,
            verdicts=comparison.verdicts,
            **documents,
        )
    )
    if about is not None:
        _write_documents(folder, about, comparison, documents)
    return _write(folder, "report.html", page)


def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("clinical"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": tables.number,
        "range": tables.interval_range,
        "cell": tables.cell,
    }
    return environment


def _documents(about: About | None, comparison: Comparison) -> dict[str, Any]:
    """Source attributes, checklist, open questions and summary; empty without `about`."""
    known = about.namespace() if about else {}
    attributes, checklist = (source_attributes(known), tripod(known)) if about else ([], [])
    waiting = open_questions(known) if about else []
    return {
        "facts": known,
        "attributes": attributes,
        "attribute_groups": [(k, list(v)) for k, v in groupby(attributes, lambda i: i.group)],
        "checklist": checklist,
        "questions": waiting,
        "examples": about.examples if about else (),
        "rule": RULE,
        "checklist_name": CHECKLIST,
        "summary": summarise(
            comparison,
            attributes=attributes,
            checklist=checklist,
            open_count=len(waiting),
            limits=known.get("limits"),
        ),
    }


def _write_documents(
    folder: str | Path, about: About, comparison: Comparison, documents: Mapping[str, Any]
) -> None:
    card = chai_card(about.namespace(), comparison)
    lists = {
        "source_attributes.json": {"rule": RULE, "items": documents["attributes"]},
        "tripod_ai.json": {"checklist": CHECKLIST, "items": documents["checklist"]},
    }
    for name, content in lists.items():
        items = [item.to_dict() for item in content["items"]]
        _write(folder, name, _json({**content, "items": items}))
    _write(folder, "chai_card.json", _json(card))
    _write(folder, "chai_card.xml", chai_xml(card))
    _write(folder, "hospital-template.toml", template(about.hospital, uses()))


def write_metrics(
    folder: str | Path, comparison: Comparison, *, facts: Mapping[str, Any] | None = None
) -> Path:
    """Write `metrics.json`, always with the same keys, in full precision; gaps are null."""
    model, *others = comparison.evaluations.items()
    use = comparison.use
    content = {
        "version": _METRICS_VERSION,
        "model": model[1].to_dict(),
        "baselines": {name: other.to_dict() for name, other in others},
        "groups": _records(comparison.groups),
        "disparities": disparities(comparison.groups),
        "decision_curve": _records(use.curve if use else None),
        "net_benefit": _records(use.benefit if use else None),
        "alerts": _records(use.burden if use else None),
        "periods": _records(use.periods if use else None),
        "drift": _records(use.inputs if use else None),
        "facts": dict(facts or {}),
        "verdicts": comparison.verdicts,
        "caveats": comparison.caveats,
    }
    return _write(folder, "metrics.json", _json(content))


def _records(frame: pd.DataFrame | None) -> list[dict[str, Any]]:
    if frame is None:
        return []
    return [dict(zip(frame.columns, row, strict=True)) for row in tables.gapless(frame)]


def _json(content: Any) -> str:
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False, default=_plain)
    return text + "\n"


def _write(folder: str | Path, name: str, text: str) -> Path:
    path = Path(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _plain(value: Any) -> Any:
    """NumPy numbers as numbers, anything else that JSON does not know as a string."""
    return value.item() if hasattr(value, "item") else str(value)


def _inline(path: Path, comparison: Comparison) -> dict[str, Any]:
    if path.suffix.lower() not in _IMAGES:
        raise UserError(f"{path.name} is not a figure; expected {', '.join(_IMAGES)}")
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    section, caption = CAPTIONS.get(path.stem, ("results", path.stem.replace("_", " ")))
    return {
        "section": section,
        "source": f"data:{guess_type(path.name)[0]};base64,{data}",
        "caption": caption,
        "alternative": alternative(path.stem, comparison) or caption,
        "wide": path.stem in WIDE,
    }


def _by_section(figures: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    names = {section for section, _ in CAPTIONS.values()}
    return {name: [each for each in figures if each["section"] == name] for name in names}
