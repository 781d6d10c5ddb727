"""Source attributes and TRIPOD+AI: complete, honest about gaps."""

import csv
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from clinical import ReadmissionModel
from clinical.report import facts as documents
from clinical.report.facts import (
    QUESTIONS,
    Hospital,
    answered,
    checklist,
    fill,
    gather,
    model_card_xml,
)
from clinical.report.page import hospital_template, write_report
from clinical.risk.manifest import Evidence, StayCounts
from domainbert.training.recipes import read_recipe


def filled_in():
    answers = dict.fromkeys(QUESTIONS, "An answer.")
    return Hospital(
        **answers, discharges_per_day=20.0, external=True, local=True
    )


def test_all_31_attributes_are_there_in_the_words_of_the_rule(
    about, data_folder
):
    with (data_folder / "hti1" / "source_attributes.csv").open() as file:
        theirs = list(csv.DictReader(file))
    ours = checklist("attributes.toml", about)
    assert len(ours) == 31
    found = [(item["key"], item["group"], item["topic"]) for item in ours]
    assert found == [tuple(row.values()) for row in theirs]


def test_what_only_the_hospital_can_say_is_open_and_listed(about):
    items = {item["key"]: item for item in checklist("attributes.toml", about)}
    assert items["2"]["status"] == "open"
    assert items["2"]["missing"] == ["funding"]
    assert items["3"]["status"] == "answered"
    assert "30 days" in items["3"]["answer"][0]
    assert items["6"]["status"] == "in part"
    flow = {item["key"]: item for item in checklist("tripod.toml", about)}[
        "20a"
    ]["answer"][0]
    assert "2.0% died before they could" in flow
    assert items["23"]["status"] == "open"


def test_a_hospital_that_answers_leaves_only_what_was_not_measured(about):
    full = answered(about, filled_in())
    left = [
        item
        for item in checklist("attributes.toml", full)
        if item["status"] != "answered"
    ]
    missing = {name for item in left for name in item["missing"]}
    # The tiny model has no card and was not evaluated on its own test side.
    assert missing == {
        "limits",
        "training_data",
        "own_validity",
        "own_fairness",
    }
    items = {item["key"]: item for item in checklist("attributes.toml", full)}
    assert "AUROC" in items["23"]["answer"][0]
    assert "differences between a subgroup" in items["29"]["answer"][0]


def test_the_checklist_has_52_items_that_point_to_sections_of_the_page(about):
    items = checklist("tripod.toml", about)
    assert len(items) == 52
    assert len({item["key"] for item in items}) == 52
    sections = {
        "title",
        "summary",
        "use",
        "methods",
        "results",
        "alerts",
        "groups",
        "time",
    }
    assert {item["where"] for item in items} <= sections | {"open", "limits"}


def test_updating_characteristics_and_evidence_come_from_the_model_and_the_groups(
    new_network, tokenizer, comparison
):
    model = ReadmissionModel(new_network(), tokenizer)
    bare = gather(model, comparison, name="tiny")
    assert bare["updating"] == "The model was not updated in this evaluation."
    assert bare["evidence"] is None
    women = int((comparison.stays["sex"] == "F").sum())
    assert f"sex: F {women}, M {900 - women}" in bare["characteristics"]
    counts = StayCounts(stays=400, readmitted=50)
    model.manifest.calibration.recalibrated = counts
    measure = {"measure": "comprehensiveness 5%", "low": None, "high": None}
    model.manifest.evidence = Evidence(
        stays=9,
        patients=8,
        cohort="new.parquet",
        table=[],
        verdicts=[],
        measures=[
            {"method": "occlusion", "value": 0.25, **measure},
            {"method": "random", "value": 0.0, **measure},
        ],
    )
    facts = gather(model, comparison, name="tiny")
    assert (
        "fitted on 400 other stays (50 with the outcome)" in facts["updating"]
    )
    assert "its risk falls by 0.250 on average" in facts["evidence"]
    items = {item["key"]: item for item in checklist("tripod.toml", facts)}
    assert (
        items["12f"]["answer"] == items["24"]["answer"] == [facts["updating"]]
    )
    assert facts["characteristics"] in items["20b"]["answer"]


def test_the_definition_is_named_with_its_changes_and_its_hash(
    comparison, cohort_summary
):
    label = "readmission-30d 1.0.0, changed: died_locations, planned_types"
    definition = cohort_summary["definition"] | {
        "label": label,
        "sha256": "0123456789abcdef",
    }
    cut = {
        "step": "censored",
        "reason": "follow-up cut short",
        "removed": 30,
        "left": 870,
    }
    summary = cohort_summary | {
        "definition": definition,
        "steps": [*cohort_summary["steps"], cut],
    }
    facts = gather(None, comparison, name="scores.csv", summary=summary)
    assert facts["definition"] == f"{label} (SHA-256 0123456789ab…)"
    items = {item["key"]: item for item in checklist("attributes.toml", facts)}
    assert "follow-up cut short (30)" in items["11"]["answer"][0]
    # Patients whose follow-up is cut are the ones that are scored every night.
    assert "leaves out: newborn (100)." in items["9"]["answer"][0]


def test_every_name_in_the_documents_is_a_fact_or_a_question(about):
    texts = tomllib.loads(
        Path(documents.__file__).with_name("sentences.toml").read_text("utf-8")
    )
    known = set(answered(about, filled_in())) | set(texts["stage"])
    folder = Path(documents.__file__).parent
    names = ("attributes.toml", "tripod.toml", "chai.toml")
    texts = [folder / name for name in names]
    named = {
        n
        for text in texts
        for n in re.findall(r"[^{]{(\w+)}", text.read_text("utf-8"))
    }
    assert (
        named - {"name"} <= known
    )  # {name} is explained at the top of the file
    assert set(QUESTIONS) <= named  # and no question is asked for nothing


XSD = "{http://www.w3.org/2001/XMLSchema}"


def test_the_card_of_chai_has_the_form_of_its_schema(
    about, comparison, data_folder, tmp_path
):
    """The draft's schema, without signatures, which it fetches from the network."""
    etree = pytest.importorskip("lxml.etree")
    schema = etree.parse(data_folder / "chai" / "schema.xsd").getroot()
    for name in (f"{XSD}import", f"{XSD}element[@ref]"):
        for node in schema.findall(f".//{name}"):
            node.getparent().remove(node)
    is_valid = etree.XMLSchema(schema)
    for facts in (about, answered(about, filled_in()), {}):
        card = etree.fromstring(
            model_card_xml(facts, comparison.model).encode()
        )
        is_valid.assertValid(card)


def test_the_card_of_chai_says_what_is_open(about, comparison):
    card = ElementTree.fromstring(model_card_xml(about, comparison.model))

    def text(name):
        return card.find(f".//{{*}}{name}").text

    assert text("FundingSource") == f"Open. {QUESTIONS['funding']}"
    assert text("ClinicalRiskLevel") == "Open."
    assert text("Summary").startswith("The probability, 0 to 1, of unplan")
    labels = [node.text for node in card.findall(".//{*}Label")]
    assert labels[0] == "AUROC"
    value = json.loads(text("ValueJson"))
    assert value["value"] == comparison.model.auroc.value
    answers = {**about, "funding": "Us & <them>\x01"}
    card = ElementTree.fromstring(model_card_xml(answers, comparison.model))
    assert text("FundingSource") == "Us & <them>"


def test_a_part_with_a_gap_is_not_shown():
    found = fill(["a {x}", "b {y}"], {"x": "1", "y": None})
    assert found == {"answer": ["a 1"], "missing": ["y"], "status": "in part"}


def test_the_hospitals_file_is_read_back_and_mistakes_are_named(tmp_path):
    path = tmp_path / "hospital.toml"
    path.write_text(hospital_template(Hospital()))
    assert read_recipe(Hospital, path) == Hospital()
    assert set(tomllib.loads(path.read_text())) > set(QUESTIONS)
    path.write_text(hospital_template(filled_in()))
    assert read_recipe(Hospital, path) == filled_in()
    for line, message in (
        ('fundin = "x"', "fundin: no such setting"),
        ("funding = 3", "funding: expected text, got 3"),
        ("local = 1", "local: expected true or false, got 1"),
        ("discharges_per_day = -1", "expected a number of at least 0, got -1"),
        ("funding", "is not TOML"),
    ):
        path.write_text(line)
        with pytest.raises(ValueError, match=message):
            read_recipe(Hospital, path)


def test_the_documents_lie_beside_the_page(about, comparison, tmp_path):
    hospital = Hospital(funding="The <b>state</b>.", discharges_per_day=20.0)
    full = {"about": answered(about, hospital), "hospital": hospital}
    report = write_report(
        comparison, tmp_path, title="T", facts={"model": "m"}, **full
    )
    page = report.read_text()
    assert "The &lt;b&gt;state&lt;/b&gt;." in page
    assert "Alerts a day" in page
    assert (
        read_recipe(Hospital, tmp_path / "hospital-template.toml") == hospital
    )
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert len(metrics["decision_curve"]) == 99
    assert metrics["alerts"][0]["point"] == "5 alerts per 100"
    assert metrics["periods"]
    assert metrics["drift"][0]["finding"] == "act"


def test_no_sentence_is_written_without_a_measurement(comparison):
    alone = {
        name: e
        for name, e in comparison.evaluations.items()
        if name == "model"
    }
    bare = replace(
        comparison,
        evaluations=alone,
        inputs=comparison.inputs.head(0),
        findings=[],
    )
    facts = gather(None, bare, name="risks.csv")
    assert facts["differences"] is None  # drift was not measured
    said = " ".join(
        part
        for item in checklist("tripod.toml", facts)
        for part in item["answer"]
    )
    assert "TF-IDF" not in said
    assert "No difference of the notes" not in said


def test_without_a_cohort_no_time_horizon_is_claimed(comparison):
    facts = gather(None, comparison, name="risks.csv")
    said = " ".join(
        part
        for item in checklist("attributes.toml", facts)
        for part in item["answer"]
    )
    said += " ".join(
        part
        for item in checklist("tripod.toml", facts)
        for part in item["answer"]
    )
    assert "30 days" not in said + facts["heading"]
    assert "the outcome that the evaluated table labels" in said
