"""The Applied Model Card of the Coalition for Health AI (CHAI), v0.2, as XML and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET  # only written here, never parsed

from clinical.evaluation.decision import SHOWN
from clinical.evaluation.group_measures import GROUP_MEASURES
from clinical.evaluation.report.documents import fill
from clinical.evaluation.report.hospital import read_data
from clinical.evaluation.subgroups import READINGS

if TYPE_CHECKING:
    from clinical.evaluation.comparison import Comparison
    from clinical.evaluation.report.facts import Facts

NAMESPACE = "https://mc.chai.org/v0.2/schema.xsd"
KEYWORDS = ("readmission", "clinical notes", "BERT", "prediction")
BIBLIOGRAPHY = (
    "Huang, Altosaar and Ranganath 2019, ClinicalBERT, arXiv 1904.05342. "
    "Vickers and Elkin 2006, Decision curve analysis, Medical Decision Making 26:565. "
    "Collins et al. 2024, TRIPOD+AI, BMJ 385:e078378."
)


def chai_card(facts: Facts, comparison: Comparison) -> dict[str, Any]:
    """The card as nested dictionaries in the order of the schema; results are (label, value)."""
    card = _filled(read_data("chai.toml"), facts)
    card["ModelSummary"]["Keywords"] = [("Keyword", word) for word in KEYWORDS]
    for name, results in _results(comparison).items():
        metric = card["KeyMetrics"][name]
        card["KeyMetrics"][name] = {
            "MetricGoal": metric.pop("MetricGoal"),
            "Results": results or {"not measured": None},
            **metric,
        }
    return {**card, "Bibliography": BIBLIOGRAPHY}


def _filled(table: dict[str, Any], facts: Facts) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            found[name] = _filled(value, facts)
            continue
        answer, missing = fill(value, facts)
        gaps = [f"Open: {', '.join(missing)}."] if missing else []
        found[name] = " ".join([*answer, *gaps])
    return found


def _results(comparison: Comparison) -> dict[str, dict[str, Any]]:
    """The numbers of the three key metrics, by label."""
    found = next(iter(comparison.evaluations.values()))

    def of(*names: str) -> dict[str, Any]:
        return {name: vars(getattr(found, name)) for name in names}

    useful = of("auroc", "auprc", "recall_at_threshold", "precision_at_threshold")
    safe = of("calibration_slope", "calibration_intercept", "ece", "brier")
    if use := comparison.use:
        for row in use.benefit.to_dict("records"):
            if row["threshold"] in SHOWN[1::2]:
                parts = {end or "value": row[f"net_benefit{end}"] for end in ("", "_low", "_high")}
                useful[f"net benefit at {row['threshold']:g}"] = parts
        for row in use.inputs.to_dict("records"):
            safe[f"{row['quantity']} {row['side']} psi"] = row["psi"]
    fair = {
        f"{READINGS[name]}, {row['column']} {row['group']}": {
            end or "value": row[f"{name}_difference{end}"] for end in ("", "_low", "_high")
        }
        for row in comparison.groups.to_dict("records")
        if row["reason"] == ""
        for name in GROUP_MEASURES
    }
    names = ("UsefulnessUsabilityEfficacy", "FairnessEquity", "SafetyReliability")
    return dict(zip(names, map(_without_nan, (useful, fair, safe)), strict=True))


def _without_nan(value: Any) -> Any:
    """The same nested numbers, None for NaN."""
    if isinstance(value, dict):
        return {key: _without_nan(number) for key, number in value.items()}
    return None if value != value else value


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
        elif name == "Keywords":
            for tag, word in value:
                ET.SubElement(element, f"{{{NAMESPACE}}}{tag}").text = word
        elif isinstance(value, dict):
            _append(element, value)
        else:
            element.text = str(value)
