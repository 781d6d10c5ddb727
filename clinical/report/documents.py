"""Source attributes, TRIPOD+AI and the CHAI card: texts filled with facts, and what stays open."""

from __future__ import annotations

import csv
import io
import json
import string
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET  # only written here, never parsed

from clinical.evaluation.decision import SHOWN
from clinical.evaluation.group_measures import GROUP_MEASURES
from clinical.evaluation.groups import READINGS
from clinical.report.hospital import questions, read_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from clinical.evaluation.comparison import Comparison
    from clinical.report.facts import Facts

RULE = "45 CFR 170.315(b)(11)(iv)(B)"
CHECKLIST = "TRIPOD+AI (Collins et al. 2024, BMJ 385:e078378)"
NAMESPACE = "https://mc.chai.org/v0.2/schema.xsd"
KEYWORDS = ("readmission", "clinical notes", "BERT", "prediction")
BIBLIOGRAPHY = (
    "Huang, Altosaar and Ranganath 2019, ClinicalBERT, arXiv 1904.05342. "
    "Vickers and Elkin 2006, Decision curve analysis, Medical Decision Making 26:565. "
    "Collins et al. 2024, TRIPOD+AI, BMJ 385:e078378."
)


@dataclass(frozen=True)
class Item:
    """One item of a document.

    `key` is its number, `group` and `topic` what it asks, `answer` the parts that are known, and
    `missing` the names of facts or questions without a value. `where` is the report's section.
    """

    key: str
    group: str
    topic: str
    answer: tuple[str, ...]
    missing: tuple[str, ...]
    where: str = ""

    @property
    def status(self) -> str:
        """Whether it is "answered", "in part" or "open"."""
        if not self.missing:
            return "answered"
        return "in part" if self.answer else "open"

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
        where = {"where": self.where} if self.where else {}
        kept = {name: getattr(self, name) for name in ("key", "group", "topic", "status")}
        return {**kept, "answer": list(self.answer), "missing": list(self.missing), **where}


def fill(parts: Sequence[str], facts: Facts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The parts of an answer that are known, and the names that have no value."""
    answer, missing = [], []
    for part in parts:
        lacking = [name for name in names_in(part) if not facts.get(name)]
        missing += lacking
        if not lacking:
            answer.append(part.format_map(facts))
    return tuple(answer), tuple(dict.fromkeys(missing))


def names_in(part: str) -> list[str]:
    """The names in braces."""
    return [name for _, name, _, _ in string.Formatter().parse(part) if name]


@cache
def _attributes() -> list[dict[str, str]]:
    file = resources.files(__package__) / "source_attributes.csv"
    return list(csv.DictReader(io.StringIO(file.read_text("utf-8"))))


def source_attributes(facts: Facts) -> list[Item]:
    """The 31 source attributes of a predictive intervention in certified health IT, in order."""
    answers = read_data("attributes.toml")
    return [
        Item(row["number"], row["group"], row["attribute"], *fill(answers[row["number"]], facts))
        for row in _attributes()
    ]


def tripod(facts: Facts) -> list[Item]:
    """The 52 items of TRIPOD+AI: which is answered where, and which is open."""
    return [
        Item(key, "", item["topic"], *fill(item["answer"], facts), where=item["where"])
        for key, item in read_data("tripod.toml").items()
    ]


def uses() -> dict[str, list[str]]:
    """The documents and items that need each of the hospital's answers."""
    parts = [
        (f"source attribute {number}", answer)
        for number, answer in read_data("attributes.toml").items()
    ]
    parts += [
        (f"TRIPOD+AI {number}", item["answer"]) for number, item in read_data("tripod.toml").items()
    ]
    parts += [(f"CHAI {element}", answer) for element, answer in _elements(read_data("chai.toml"))]
    places: dict[str, list[str]] = defaultdict(list)
    for place, answer in parts:
        for name in {name for part in answer for name in names_in(part)} & questions().keys():
            places[name].append(place)
    return places


def _elements(table: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str]]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _elements(value)
        else:
            yield name, value


def open_questions(answers: Mapping[str, str | None]) -> list[dict[str, str]]:
    """The questions without an answer: `key`, `question` and what `needs` it."""
    needs = uses()
    return [
        {"key": key, "question": question, "needs": "; ".join(needs.get(key, []))}
        for key, question in questions().items()
        if not answers.get(key)
    ]


def chai_card(facts: Facts, comparison: Comparison) -> dict[str, Any]:
    """The Applied Model Card of the Coalition for Health AI, v0.2, as nested dictionaries.

    In the order of the schema; results are {label: value}.
    """
    card = _filled(read_data("chai.toml"), facts)
    card["ModelSummary"]["Keywords"] = list(KEYWORDS)
    for name, results in _results(comparison).items():
        metric = card["KeyMetrics"][name]
        card["KeyMetrics"][name] = {
            "MetricGoal": metric.pop("MetricGoal"),
            "Results": results or {"not measured": None},
            **metric,
        }
    return {**card, "Bibliography": BIBLIOGRAPHY}


def _filled(table: dict[str, Any], facts: Facts) -> dict[str, Any]:
    texts: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            texts[name] = _filled(value, facts)
            continue
        answer, missing = fill(value, facts)
        gaps = [f"Open: {', '.join(missing)}."] if missing else []
        texts[name] = " ".join([*answer, *gaps])
    return texts


def _results(comparison: Comparison) -> dict[str, dict[str, Any]]:
    """The numbers of the three key metrics, by label; None for NaN."""

    def of(*names: str) -> dict[str, Any]:
        return {name: vars(comparison.model.intervals[name]) for name in names}

    def ends(row: Mapping[str, Any], name: str) -> dict[str, Any]:
        values = {end or "value": row[f"{name}{end}"] for end in ("", "_low", "_high")}
        return {end: None if value != value else value for end, value in values.items()}

    useful = of("auroc", "auprc", "recall_at_threshold", "precision_at_threshold")
    safe = of("observed_expected", "calibration_in_the_large", "calibration_slope", "ece", "brier")
    if use := comparison.use:
        for row in use.benefit.to_dict("records"):
            if row["threshold"] in SHOWN[1::2]:
                useful[f"net benefit at {row['threshold']:g}"] = ends(row, "net_benefit")
        for row in use.inputs.to_dict("records"):
            safe[f"{row['quantity']} {row['side']} psi"] = row["psi"]
    fair = {
        f"{READINGS[name]}, {row['column']} {row['group']}": ends(row, f"{name}_difference")
        for row in comparison.groups.to_dict("records")
        if row["reason"] == ""
        for name in GROUP_MEASURES
    }
    return {
        "UsefulnessUsabilityEfficacy": useful,
        "FairnessEquity": fair,
        "SafetyReliability": safe,
    }


def chai_xml(card: dict[str, Any]) -> str:
    """The card as XML that validates against CHAI's schema v0.2."""
    ET.register_namespace("", NAMESPACE)
    root = ET.Element(f"{{{NAMESPACE}}}AppliedModelCard")
    _append(root, card)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _append(parent: ET.Element, content: dict[str, Any]) -> None:
    for name, value in content.items():
        element = ET.SubElement(parent, f"{{{NAMESPACE}}}{name}")
        if name == "Results":
            for label, number in value.items():
                result = ET.SubElement(element, f"{{{NAMESPACE}}}MetricResult")
                _append(result, {"Label": label, "ValueJson": json.dumps(number, allow_nan=False)})
        elif isinstance(value, list):
            for word in value:
                ET.SubElement(element, f"{{{NAMESPACE}}}Keyword").text = word
        elif isinstance(value, dict):
            _append(element, value)
        else:
            element.text = str(value)
