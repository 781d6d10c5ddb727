"""What the report knows: facts from manifest, cohort and evaluation, and the hospital's answers."""

import json
import string
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from xml.etree import ElementTree

from pydantic import Field, create_model

from clinical.evaluation.comparison import Comparison
from clinical.evaluation.intervals import Evaluation
from clinical.evaluation.measures import MEASURES
from clinical.report.sentences import (
    cohort_sentences,
    evaluation_sentences,
    model_sentences,
    name_sentences,
    training_sentences,
)
from clinical.risk.manifest import RiskManifest
from clinical.risk.model import ReadmissionModel
from domainbert.files import JsonObject, read_toml
from domainbert.settings import Settings

Facts = Mapping[str, str | None]
ASKED: dict[str, dict[str, str]] = read_toml(__file__, "questions.toml")
"""What only the hospital can answer, by key: numbers, flags (true or false), and texts."""

QUESTIONS = ASKED["texts"]
_TYPES: dict[str, Any] = {
    "numbers": (Annotated[float, Field(ge=0)], 0.0),
    "flags": (bool, False),
    "texts": (str, ""),
}
_FIELDS: dict[str, Any] = {
    key: _TYPES[part_name] for part_name, part in ASKED.items() for key in part
}
Hospital = create_model("Hospital", __base__=Settings, **_FIELDS)
"""The hospital's file, made from `hospital-template.toml`; empty answers are open."""


def answered(facts: Facts, hospital: Settings) -> Facts:
    """Facts with the hospital's answers, which say whether the evaluation is external or local."""
    fields = hospital.model_dump()
    answers = {}
    for key in QUESTIONS:
        text = fields[key].strip()
        if text:
            answers[key] = text
    results = {
        f"{part_name}_{result}": facts[result]
        for part_name in ASKED["flags"]
        for result in ("validity", "fairness")
        if fields[part_name]
    }
    return {**facts, **results, **answers}


def gather(
    model: ReadmissionModel | None,
    comparison: Comparison,
    *,
    name: str,
    summary: Mapping[str, object] | None = None,
    hospital: Settings | None = None,
) -> Facts:
    """Facts as sentences by name (see `sentences.py`); None, or no entry, where they are unknown.

    Args:
        model: None for scores of another origin.
        comparison: its evaluation.
        name: the name of the model, as the user gave it.
        summary: the cohort's summary, from `clinical.Cohort`; None for other tables.
        hospital: its answers.
    """
    sentences = name_sentences(model, name)
    manifest = RiskManifest()
    if model:
        manifest = model.manifest
        sentences |= model_sentences(model)
    sentences |= training_sentences(manifest)
    if summary:
        sentences |= cohort_sentences(summary, model)
    event = sentences.get("event", "had the outcome")
    sentences |= evaluation_sentences(comparison, event)
    outcome = sentences.setdefault(
        "outcome", "the outcome that the evaluated table labels"
    )
    sentences["heading"] = (
        f"Evaluation of a prediction model: {outcome}, from the notes of hospital stays"
    )
    facts = {
        key: " ".join(text.split()) or None for key, text in sentences.items()
    }
    return answered(facts, hospital or Hospital())


def fill(parts: Sequence[str], facts: Facts) -> JsonObject:
    """The parts of an answer that are known, the names that have no value, and the status."""
    answer = []
    missing = []
    for part in parts:
        names = [
            name for _, name, _, _ in string.Formatter().parse(part) if name
        ]
        unknown = [name for name in names if not facts.get(name)]
        missing += unknown
        if not unknown:
            answer.append(part.format_map(facts))
    status = "answered"
    if missing:
        status = "open"
        if answer:
            status = "in part"
    return {
        "answer": answer,
        "missing": list(dict.fromkeys(missing)),
        "status": status,
    }


def checklist(name: str, facts: Facts) -> list[JsonObject]:
    """The items of a TOML file, in order: which is answered, by what, and which is open.

    "attributes.toml" has the 31 source attributes of a predictive intervention in certified health
    IT, "tripod.toml" the 52 items of TRIPOD+AI.
    """
    items = read_toml(__file__, name).items()
    return [
        {"key": key, **item} | fill(item["answer"], facts)
        for key, item in items
    ]


_CHAI = "https://mc.chai.org/v0.2/schema.xsd"
# The schema's last element; the other elements come in the order of the file.
_LAST = "Bibliography"


def model_card_xml(facts: Facts, evaluation: Evaluation) -> str:
    """CHAI's Applied Model Card as XML; an element without a known answer says that it is open.

    Source: "chai.toml"; the schema is version 0.2, a draft.
    """
    root = ElementTree.Element("AppliedModelCard", xmlns=_CHAI)
    content = read_toml(__file__, "chai.toml")
    last = content.pop(_LAST)
    _add_elements(root, {**content, _LAST: last}, facts, evaluation)
    ElementTree.indent(root)
    return ElementTree.tostring(root, "unicode", xml_declaration=True)


def _add_elements(
    parent: ElementTree.Element,
    content: JsonObject,
    facts: Facts,
    evaluation: Evaluation,
) -> None:
    """Elements with their answers, in order."""
    for name, parts in content.items():
        element = ElementTree.SubElement(parent, name)
        if isinstance(parts, dict):
            _add_elements(element, parts, facts, evaluation)
        elif name == "Results":
            _add_results(element, parts, evaluation)
        else:
            element.text = _answer(parts, facts)


def _answer(parts: Sequence[str], facts: Facts) -> str:
    """What is known, and what is asked for the rest."""
    filled = fill(parts, facts)
    sentences = list(filled["answer"])
    if filled["missing"] or not parts:
        asked = [QUESTIONS.get(name, "") for name in filled["missing"]]
        sentences.append(" ".join(filter(None, ["Open.", *asked])))
    text = " ".join(sentences)
    return "".join(x for x in text if x.isprintable() or x.isspace())


def _add_results(
    parent: ElementTree.Element,
    names: Sequence[str],
    evaluation: Evaluation,
) -> None:
    """The value and the interval of each measure, as JSON."""
    labels = {measure.field: measure.name for measure in MEASURES}
    for name in names:
        result = ElementTree.SubElement(parent, "MetricResult")
        ElementTree.SubElement(result, "Label").text = labels[name]
        value = json.dumps(vars(evaluation.intervals[name]))
        ElementTree.SubElement(result, "ValueJson").text = value
