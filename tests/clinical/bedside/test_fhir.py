"""RiskAssessment and OperationOutcome hold the schema of R4; documents in every odd form."""

import gzip
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from clinical.bedside.cards import escaped, passage_list
from clinical.bedside.hooks import next_page, read_documents
from clinical.cohort.fhir.files import entries
from domainbert.service.ledger import read_ledger
from tests.clinical.bedside.conftest import NOTES, document


@pytest.fixture(scope="module")
def valid(standards):
    """Checks a resource against the schema of its type."""
    jsonschema = pytest.importorskip("jsonschema")
    with gzip.open(
        standards / "fhir" / "fhir-r4.schema.json.gz", "rt"
    ) as file:
        definitions = json.load(file)["definitions"]

    def check(resource):
        only = {
            "$ref": f"#/definitions/{resource['resourceType']}",
            "definitions": definitions,
        }
        jsonschema.Draft6Validator(only).validate(resource)

    return check


def records(stay="e1", patient="p1"):
    same = {"stay_id": stay, "patient_id": patient}
    return [
        {**same, "note_id": f"n{n}", "text": text}
        for n, text in enumerate(NOTES)
    ]


def ask(client, given):
    return client.post("/v1/readmission?format=fhir", json={"records": given})


def test_a_risk_assessment_holds_the_schema_and_the_risk(client, valid):
    answer = ask(client, records())
    resource = answer.json()
    valid(resource)
    assert answer.headers["content-type"] == "application/fhir+json"
    risk = client.post("/v1/readmission", json={"records": records()}).json()[
        "records"
    ][0]
    (prediction,) = resource["prediction"]
    assert prediction["probabilityDecimal"] == pytest.approx(
        100 * risk["probability"], abs=1e-4
    )
    assert [each["reference"] for each in resource["basis"]] == [
        "DocumentReference/n0",
        "DocumentReference/n1",
    ]
    assert resource["subject"] == {"reference": "Patient/p1"}
    assert resource["encounter"] == {"reference": "Encounter/e1"}
    assert "tiny" in resource["method"]["text"]
    said = re.findall("“(.*?)”", prediction["rationale"])
    assert all(any(passage in note for note in NOTES) for passage in said)
    assert "tokens of 2 notes were read" in resource["note"][0]["text"]


def test_several_stays_are_a_bundle_with_what_failed(client, valid):
    empty = {"stay_id": "e2", "patient_id": "p2", "text": ""}
    odd = {"stay_id": "e/3 ü", "patient_id": "a b", "text": NOTES[0]}
    bundle = ask(client, [*records(), empty, odd]).json()
    valid(bundle)
    kinds = [entry["resource"]["resourceType"] for entry in bundle["entry"]]
    assert kinds == ["RiskAssessment", "OperationOutcome", "RiskAssessment"]
    assert bundle["entry"][2]["resource"]["encounter"]["identifier"] == {
        "value": "e/3 ü"
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([{"text": NOTES[0]}], "needs patient_id and stay_id"),
        (
            [{"stay_id": "e", "patient_id": "p", "text": " "}],
            "no note of this stay has any text",
        ),
    ],
)
def test_no_risk_is_an_outcome(client, valid, given, words):
    answer = ask(client, given)
    assert answer.status_code == 422
    valid(answer.json())
    assert words in answer.json()["issue"][0]["diagnostics"]


def test_a_risk_assessment_is_in_the_ledger(start, tmp_path):
    file = tmp_path / "ledger.sqlite"
    client = TestClient(
        start(ledger=str(file)).app, base_url="http://localhost"
    )
    assert ask(client, records()).status_code == 200
    served, _ = read_ledger(file)
    assert served[["task", "status", "card"]].values.tolist() == [
        ["readmission", "ok", ""]
    ]


def nested(inner):
    return st.lists(inner, max_size=3) | st.dictionaries(
        st.text(max_size=8), inner, max_size=3
    )


plain = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
json_values = st.recursive(plain, nested, max_leaves=12)


@settings(max_examples=100)
@given(st.sampled_from(sorted(document("a"))), json_values, json_values)
def test_any_json_is_read_or_refused(field, value, other):
    resources = entries(
        {
            "resourceType": "Bundle",
            "entry": [{"resource": document("a")}, other],
        }
    )
    given = [*resources, document("b", 1, **{field: value})]
    if (
        field == "subject"
        and isinstance(value, dict)
        and value.get("reference")
    ):
        return  # of another patient: refused, see the tests of the service
    records, unread = read_documents(given, "p1", "e1")
    assert len(records) in (1, 2)
    assert len(records) + sum(unread.values()) <= 3
    assert isinstance(next_page({"link": value}), str)


@given(st.text())
def test_escaped_text_has_no_markup_left(text):
    plain = escaped(text)
    assert "\n" not in plain
    assert "](" not in plain
    assert "<" not in plain.replace("\\<", "")


def test_a_long_passage_and_a_long_category_are_cut_at_a_word():
    text = "chest pain " * 100
    passages = [{"direction": "raises", "note": 0, "text": text}]
    notes = [{"category": text, "chart_time": "", "text": text}]
    lines = passage_list(passages, notes).splitlines()
    cut = [line for line in lines if line.endswith(("chest …", "pain …"))]
    assert len(cut) == 2
    assert max(map(len, cut)) <= 310
