"""CDS Hooks: the official models and invariants, cards, faults, feedback, and the FHIR server."""

import base64
import contextvars
import errno
import gzip
import json
import logging
import os
import re
import shutil
import socket
import threading
import time
import uuid
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from pydantic import ValidationError
from starlette.testclient import TestClient

from clinical.bedside.cards import KEPT_SECONDS, risk_statement
from clinical.bedside.hooks import Feedback, read_documents
from domainbert.errors import UserError
from domainbert.service import http as http_module
from domainbert.service.ledger import read_ledger
from domainbert.service.worker import Worker
from tests.clinical.bedside.conftest import (
    NOTES,
    bundle,
    document,
    hook_request,
)
from tests.clinical.bedside.logical import (
    faults,
    read_model,
    request_invariants,
    response_invariants,
)

PATH = "/cds-services/readmission"
TOKEN = {
    "access_token": "t0ken",
    "token_type": "Bearer",
    "expires_in": 300,
    "scope": "user/DocumentReference.read",
    "subject": "cds",
}


def ask(client, **changes):
    return client.post(PATH, json=hook_request(**changes))


def card_of(answer):
    assert answer.status_code == 200, answer.text
    (card,) = answer.json()["cards"]
    return card


def key_of(card):
    (link,) = card["links"]
    return link["url"].removeprefix("http://127.0.0.1:8000/#card=")


def evidence_of(client, key):
    headers = {"x-card-key": str(key).encode()}
    return client.get("/evidence", headers=headers)


def test_discovery_holds_the_official_model(client, standards):
    found = client.get("/cds-services").json()
    assert (
        faults(
            found, read_model(standards / "cds-hooks" / "CDSHooksServices.fsh")
        )
        == []
    )
    assert [each["hook"] for each in found["services"]] == [
        "encounter-discharge",
        "patient-view",
    ]
    assert {each["id"] for each in found["services"]} == {"readmission"}


def test_requests_and_cards_hold_the_official_models(client, standards):
    folder = standards / "cds-hooks"
    for hook in ("encounter-discharge", "patient-view"):
        request = hook_request(hook=hook)
        assert (
            faults(request, read_model(folder / "CDSHooksRequest.fsh")) == []
        )
        answer = client.post(PATH, json=request)
        assert (
            faults(answer.json(), read_model(folder / "CDSHooksResponse.fsh"))
            == []
        )
        assert response_invariants(answer.json()) == set()
        assert request_invariants(request) == set()


def test_every_invariant_is_transcribed(standards):
    there = {file.stem for file in (standards / "cds-hooks").glob("cds-*.fsh")}
    assert there == {f"cds-resp-{n}" for n in range(1, 8)} | {
        *("cds-r-1", "cds-r-2", "cds-fb-1", "cds-fb-2", "cds-fb-3")
    }


@pytest.mark.parametrize(
    ("name", "card"),
    [
        (
            "cds-resp-1",
            {
                "selectionBehavior": "at-most-one",
                "suggestions": [{"isRecommended": True}] * 2,
            },
        ),
        (
            "cds-resp-2",
            {
                "suggestions": [
                    {"actions": [{"type": "delete", "description": "d"}]}
                ]
            },
        ),
        ("cds-resp-3", {"links": [{"type": "absolute", "appContext": "x"}]}),
        ("cds-resp-4", {"overrideReasons": [{"code": "a"}]}),
        ("cds-resp-5", {"suggestions": [{"actions": [{"type": "create"}]}]}),
        ("cds-resp-6", {"suggestions": [{}]}),
        ("cds-resp-7", {"suggestions": [{"actionSelectionBehavior": "some"}]}),
        ("summary", {"summary": "x" * 140}),
    ],
)
def test_a_broken_response_is_noticed(name, card):
    assert name in response_invariants({"cards": [{"summary": "s"} | card]})


def test_the_fixtures_of_inferno(client, start, standards):
    folder = standards / "cds-hooks"
    cards = json.loads((folder / "inferno-valid_cards.json").read_text())
    assert response_invariants({"cards": cards}) == set()
    model = read_model(folder / "CDSHooksResponse.fsh")
    odd = {
        fault
        for fault in faults({"cards": cards}, model)
        if "no UUID" not in fault
    }
    assert odd == set()
    discharge = json.loads(
        (folder / "inferno-encounter_discharge_hook_request.json").read_text()
    )
    assert faults(discharge, read_model(folder / "CDSHooksRequest.fsh")) == []
    answer = client.post(
        PATH, json=discharge
    )  # its FHIR server may not be asked
    assert answer.status_code == 412
    assert answer.json()["resourceType"] == "OperationOutcome"
    notes = [
        document(note, n, subject={}, context={})
        for n, note in enumerate(NOTES)
    ]
    assert card_of(
        client.post(
            PATH, json=discharge | {"prefetch": {"notes": bundle(*notes)}}
        )
    )
    begun = json.loads(
        (folder / "inferno-encounter_start_hook_request.json").read_text()
    )
    answer = client.post(PATH, json=begun)
    assert answer.status_code == 400
    assert "body.hook: " in answer.json()["issue"][0]["diagnostics"]


def test_the_card_says_what_was_read_and_why(client):
    card = card_of(ask(client))
    assert len(card["summary"]) < 140
    assert card["summary"].startswith(
        "Unplanned readmission within 30 days of discharge: "
    )
    assert "of 100 such patients" in card["summary"]
    assert card["indicator"] == "warning"  # the tiny model alerts on everyone
    detail = card["detail"]
    assert "calibrated" in detail
    assert "Of 100 patients" in detail
    assert "of 2 notes were read" in detail
    assert "Nursing note, 2026\\-01\\-0" in detail
    assert "https://reports.example/r" in detail
    assert card["source"]["url"] == "https://reports.example/r"
    assert all(reason["display"] for reason in card["overrideReasons"])
    assert uuid.UUID(card["uuid"]).version == 4
    assert key_of(card)


def test_the_numbers_are_those_of_the_model(client, model_folder):
    from clinical import ReadmissionModel

    model = ReadmissionModel.from_pretrained(model_folder)
    chance = model.predict(list(NOTES)).probability
    assert f"{chance:.3f}" in card_of(ask(client))["detail"]
    rows = client.post(
        "/v1/readmission",
        json={"records": [{"stay_id": "e", "text": list(NOTES)}]},
    ).json()["records"]
    assert rows[0]["probability"] == pytest.approx(chance, abs=1e-5)


def test_the_call_of_the_documentation_is_answered(start):
    page = Path(__file__).parents[3] / "docs" / "howto" / "bedside.md"
    (body,) = re.findall(r"curl .*\n +-d '(.*)'\n", page.read_text())
    client = TestClient(
        start(folder="readmission-demo").app, base_url="http://localhost"
    )
    answer = client.post("/v1/readmission", json=json.loads(body))
    assert answer.status_code == 200, answer.text
    (row,) = answer.json()["records"]
    assert (row["status"], row["reason"]) == ("ok", "")


def test_a_model_of_notes_and_columns_reads_them_in_the_records(
    start, new_network, tokenizer, tmp_path
):
    from clinical import ReadmissionModel, ReadmissionSettings

    age = {"name": "age", "median": 60.0, "weight": 0.05}
    settings = ReadmissionSettings(calibration=(1.0, 0.0), columns=[age])
    model = ReadmissionModel(new_network(), tokenizer, settings=settings)
    model.save_pretrained(tmp_path / "wide")
    app = start(folder=tmp_path / "wide").app
    client = TestClient(
        app, base_url="http://localhost", raise_server_exceptions=False
    )
    record = {"stay_id": "e", "text": list(NOTES)}
    answer = client.post(
        "/v1/readmission", json={"records": [record | {"age": 80}]}
    )
    chance = model.predict(record | {"age": 80}).probability
    assert answer.json()["records"][0]["probability"] == pytest.approx(
        chance, abs=1e-5
    )
    assert chance > model.predict(record | {"age": None}).probability
    refused = client.post("/v1/readmission", json={"records": [record]})
    assert refused.status_code == 400
    assert "no column 'age'" in refused.json()["error"]
    assert ask(client).status_code == 400  # CDS Hooks sends notes only


def test_no_alert_is_an_info(start, new_network, tokenizer, tmp_path):
    from clinical import ReadmissionModel, ReadmissionSettings

    settings = ReadmissionSettings(alert_threshold=0.999)
    folder = tmp_path / "quiet"
    ReadmissionModel(
        new_network(), tokenizer, settings=settings
    ).save_pretrained(folder)
    client = TestClient(start(folder=folder).app, base_url="http://localhost")
    card = card_of(ask(client))
    assert card["indicator"] == "info"
    assert "score" in card["summary"]  # not calibrated, and it says so
    assert "not a calibrated chance" in card["detail"]


def test_text_from_notes_cannot_be_markup(client):
    hostile = "Chest pain. [x](javascript:alert(1)) <img src=x onerror=alert(1)> **He lives alone**"
    detail = card_of(client.post(PATH, json=hook_request(document(hostile))))[
        "detail"
    ]
    assert "](javascript" not in detail
    assert "<img" not in detail.replace("\\<", "")


def test_a_record_opened_outside_of_a_stay_has_no_card(client):
    context = {"userId": "Practitioner/u", "patientId": "p1"}
    assert ask(client, hook="patient-view", context=context).json() == {
        "cards": []
    }
    assert ask(client, context=context).status_code == 400


def at(**disposition):
    return {"hospitalization": {"dischargeDisposition": disposition}}


@pytest.mark.parametrize(
    "encounter",
    [
        at(coding=[{"code": "exp"}]),
        at(coding=[{"code": "20", "display": "Expired"}]),
        {"status": "cancelled"},
        {"status": "entered-in-error"},
        {"hospitalization": {"admitSource": {"coding": [{"code": "born"}]}}},
    ],
)
def test_a_stay_that_can_have_no_risk_has_no_card(client, encounter):
    """A cohort has no such index stay either."""
    request = hook_request()
    request["prefetch"]["encounter"] |= encounter
    answer = client.post(PATH, json=request)
    assert (answer.status_code, answer.json()) == (200, {"cards": []})


@pytest.mark.parametrize(("code", "is_told"), [("EMER", True), ("IMP", False)])
def test_the_card_tells_of_an_encounter_that_is_no_admission(
    client, code, is_told
):
    request = hook_request()
    request["prefetch"]["encounter"] |= {"class": {"code": code}}
    detail = card_of(client.post(PATH, json=request))["detail"]
    is_told_of = f"Documents of an encounter of class {code}, no admission: 2."
    assert (is_told_of in detail) == is_told


@pytest.mark.parametrize("notes", [None, bundle()])
def test_a_record_without_notes_has_no_card_until_discharge(client, notes):
    """CDS Hooks sends null for what does not exist, which is no fault of anybody."""
    call = {"prefetch": {"notes": notes}}
    answer = ask(client, hook="patient-view", **call)
    assert (answer.status_code, answer.json()) == (200, {"cards": []})
    assert ask(client, **call).status_code == 412
    hidden = {"notes": bundle(document("a", status="entered-in-error"))}
    answer = ask(client, hook="patient-view", prefetch=hidden)
    assert answer.status_code == 412


@pytest.mark.parametrize("piece", ["<a ", "<td>", "<!--", "<![x["])
def test_a_note_of_60_kb_of_broken_html_takes_no_minute(client, piece):
    content = {"contentType": "text/html"}
    content["data"] = base64.b64encode(
        f"<p>Chest pain.</p>{piece * (60_000 // len(piece))}".encode()
    ).decode()
    note = document("", content=[{"attachment": content}])
    began = time.process_time()
    assert card_of(client.post(PATH, json=hook_request(note)))
    assert time.process_time() - began < 10


def test_left_out_documents_are_on_the_receipt(client):
    documents = [
        document(NOTES[0], 0),
        document(NOTES[1], 1, status="entered-in-error"),
        document(
            NOTES[1],
            2,
            context={"encounter": [{"reference": "Encounter/other"}]},
        ),
        document(
            NOTES[1],
            3,
            content=[{"attachment": {"contentType": "application/pdf"}}],
        ),
        document(NOTES[1], 4, content=[{"attachment": {"url": "Binary/1"}}]),
        document(NOTES[1], 5, content=[{"attachment": {"data": "***"}}]),
        document(NOTES[0], 0),
        {"resourceType": "Patient", "id": "p1"},
    ]
    detail = card_of(client.post(PATH, json=hook_request(*documents)))[
        "detail"
    ]
    assert "of 1 note were read" in detail
    for why in (
        "entered in error",
        "another encounter",
        "can be read here",
        "copied from another",
    ):
        assert why in detail


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"prefetch": None}, 412, "prefetch.notes is missing"),
        ({"prefetch": {"notes": None}}, 412, "no note"),
        ({"prefetch": {"notes": bundle()}}, 412, "none was sent"),
        ({"prefetch": {"notes": bundle(document(" "))}}, 412, "no risk"),
        (
            {"prefetch": {"notes": {"resourceType": "OperationOutcome"}}},
            412,
            "is an error",
        ),
        (
            {
                "prefetch": {
                    "notes": bundle(link=[{"relation": "next", "url": "?p=2"}])
                }
            },
            412,
            "another page",
        ),
        (
            {"prefetch": {"notes": bundle(document("a")) | {"total": 2}}},
            412,
            "prefetch.notes lacks 1 of its notes",
        ),
        (
            {
                "prefetch": {
                    "notes": bundle(
                        document("a", subject={"reference": "Patient/p2"})
                    )
                }
            },
            400,
            "not of the patient",
        ),
        (
            {
                "prefetch": {
                    "encounter": {"subject": {"reference": "Patient/p2"}}
                }
            },
            400,
            "not of the patient",
        ),
        ({"hook": "order-sign"}, 400, "'encounter-discharge' or"),
        ({"hookInstance": "1"}, 400, "hookInstance"),
        ({"context": None}, 400, "context"),
        ({"context": {"userId": "u"}}, 400, "context.patientId"),
        ({"fhirAuthorization": TOKEN}, 400, "fhirServer"),  # cds-r-1
        (
            {"fhirAuthorization": TOKEN | {"token_type": "MAC"}},
            400,
            "token_type",
        ),
    ],
)
def test_a_request_that_cannot_be_answered(client, changes, status, words):
    answer = ask(client, **changes)
    assert answer.status_code == status, answer.text
    outcome = answer.json()
    assert outcome["resourceType"] == "OperationOutcome"
    assert words in outcome["issue"][0]["diagnostics"]


def test_an_outcome_holds_the_schema_of_r4(client, standards):
    jsonschema = pytest.importorskip("jsonschema")
    with gzip.open(
        standards / "fhir" / "fhir-r4.schema.json.gz", "rt"
    ) as file:
        schema = json.load(file)
    only = {
        "$ref": "#/definitions/OperationOutcome",
        "definitions": schema["definitions"],
    }
    jsonschema.Draft6Validator(only).validate(
        ask(client, prefetch=None).json()
    )


def test_the_evidence_of_a_card_is_there_for_a_while_for_every_worker(
    start, tmp_path
):
    made, client = (
        TestClient(start().app, base_url="http://localhost") for _ in range(2)
    )
    card = card_of(ask(made))
    evidence = evidence_of(client, key_of(card)).json()
    assert [record["text"] for record in evidence["records"]] == list(NOTES)
    assert evidence["risk"]["status"] == "ok"
    for passage in evidence["passages"]:
        text = evidence["records"][passage["note"]]["text"]
        assert text[passage["start"] : passage["end"]] == passage["text"]
    whole = b"".join(
        file.read_bytes() for file in tmp_path.glob("**/*") if file.is_file()
    )
    assert b"lives alone" not in whole  # only the link has the key
    assert key_of(card).encode() not in whole
    for key in (uuid.uuid4(), card["uuid"], "é", key_of(card)[:-2]):
        assert evidence_of(client, key).status_code == 404
    (file,) = (tmp_path / "evidence").iterdir()
    key = key_of(card).encode()
    for age, status in ((KEPT_SECONDS - 60, 200), (KEPT_SECONDS + 1, 404)):
        written_at = int(time.time()) - age
        content = Fernet(key).encrypt_at_time(b"{}", written_at)
        file.write_bytes(content)
        os.utime(file, (written_at, written_at))
        assert evidence_of(client, key_of(card)).status_code == status
    card_of(ask(made))
    assert not file.exists()
    assert len(list((tmp_path / "evidence").iterdir())) == 1


def test_a_full_disk_costs_the_link_and_not_the_card(
    client, monkeypatch, caplog
):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    detail = card_of(ask(client))["detail"]
    monkeypatch.setattr(Path, "write_bytes", full)
    card = card_of(ask(client))
    assert card["detail"] == detail
    assert "links" not in card
    assert "evidence" in caplog.text


def test_a_read_only_folder_costs_the_link_and_not_the_card(
    client, tmp_path, read_only
):
    card_of(ask(client))
    (file,) = (tmp_path / "evidence").iterdir()
    os.utime(file, (0, 0))  # old enough to be removed
    with read_only(tmp_path / "evidence"):
        assert "links" not in card_of(ask(client))
    assert card_of(ask(client))["links"]
    shutil.rmtree(tmp_path / "evidence")  # by a cleaner of old files
    assert card_of(ask(client))["links"]


def test_a_cleaner_of_temporary_files_costs_no_card(client, tmp_path):
    assert card_of(ask(client))["links"]
    shutil.rmtree(tmp_path)
    card = card_of(ask(client))
    assert evidence_of(client, key_of(card)).status_code == 200
    assert tmp_path.stat().st_mode & 0o777 == 0o700
    served, _ = read_ledger(tmp_path / "run.sqlite")
    assert served["card"].tolist() == [card["uuid"]]


def test_the_key_of_the_evidence_is_in_no_path(client):
    key = key_of(card_of(ask(client)))
    assert client.get(f"/evidence/{key}").status_code == 404
    assert client.get("/evidence").status_code == 400
    assert "{" not in " ".join(client.get("/openapi.json").json()["paths"])


def test_notes_are_in_time_order_whatever_order_they_come_in(client):
    documents = [document(note, n) for n, note in enumerate(NOTES)]
    card = card_of(client.post(PATH, json=hook_request(*reversed(documents))))
    evidence = evidence_of(client, key_of(card)).json()
    assert [record["text"] for record in evidence["records"]] == list(NOTES)
    assert card["detail"] == card_of(ask(client))["detail"]


def outcome(*severities):
    issues = [{"severity": each, "code": "processing"} for each in severities]
    return {"resourceType": "OperationOutcome", "issue": issues}


@pytest.mark.parametrize(
    ("severities", "status"),
    [
        (["information"], 200),
        (["warning", "information"], 200),
        (["error"], 412),
        (["warning", "fatal"], 412),
        ([], 412),
    ],
)
def test_an_outcome_beside_the_notes_is_an_error_by_its_severity(
    client, severities, status
):
    notes = [*map(document, NOTES, range(2)), outcome(*severities)]
    answer = client.post(PATH, json=hook_request(*notes))
    assert answer.status_code == status
    if status == 200:
        assert card_of(answer)["detail"] == card_of(ask(client))["detail"]


@pytest.mark.parametrize(
    "context",
    [
        {"patientId": "Patient/p1", "encounterId": "Encounter/e1/_history/3"},
        {
            "patientId": "https://ehr/fhir/Patient/p1",
            "encounterId": "urn:uuid:e1",
        },
    ],
)
def test_ids_of_a_call_may_be_references(client, context):
    card = card_of(ask(client, context={"userId": "Practitioner/u"} | context))
    assert card["detail"] == card_of(ask(client))["detail"]


def test_only_the_current_documents_are_read_and_the_card_tells_of_the_others(
    client,
):
    replaces = [
        {
            "code": "replaces",
            "target": {"reference": "DocumentReference/note-2"},
        }
    ]
    documents = [
        document("He died.", 2),
        document(NOTES[0], 0, relatesTo=replaces),
        document("<p>No fever.", 1, content=[latin_content(NOTES[1])]),
    ]
    card = card_of(client.post(PATH, json=hook_request(*documents)))
    evidence = evidence_of(client, key_of(card)).json()
    assert [record["text"] for record in evidence["records"]] == [
        NOTES[0],
        f"{NOTES[1]} café",
    ]
    assert "Documents replaced by another, not read: 1." in card["detail"]
    assert "read as windows-1252): 1." in card["detail"]


def latin_content(text):
    data = base64.b64encode(f"{text} café".encode("cp1252")).decode()
    return {"attachment": {"contentType": "text/plain", "data": data}}


def test_a_note_of_a_ward_is_of_the_stay_where_the_encounters_tell(client):
    ward = {"encounter": [{"reference": "Encounter/ward"}]}
    note = document(NOTES[0], context=ward)
    answer = client.post(PATH, json=hook_request(note))
    assert answer.status_code == 412
    assert "of another encounter" in answer.text
    part_of = {"partOf": {"reference": "Encounter/e1"}}
    encounter = {"resourceType": "Encounter", "id": "ward"} | part_of
    assert card_of(client.post(PATH, json=hook_request(note, encounter)))


@pytest.mark.parametrize(
    "ids",
    [
        ("n", "n"),
        ("aB", "ab"),
        (None, None),
        ("1", "1.0"),
        (" n", "m "),
        ("n", "n*"),
    ],
)
def test_documents_with_one_id_are_read_and_shown_as_two(client, ids):
    documents = [
        document(note, number, id=id)
        for number, (note, id) in enumerate(zip(NOTES, ids, strict=True))
    ]
    card = card_of(client.post(PATH, json=hook_request(*documents)))
    evidence = evidence_of(client, key_of(card)).json()
    assert [record["text"] for record in evidence["records"]] == list(NOTES)
    assert "not read" not in card["detail"]


def test_notes_are_read_up_to_a_length_and_in_the_time_of_a_call(client):
    """Many documents may have one Binary: what is sent does not bound what is read."""
    data = base64.b64encode(b"pain " * 200_000).decode()
    binary = {"resourceType": "Binary", "id": "b", "data": data}
    binary |= {"contentType": "text/plain"}
    link = [{"attachment": {"url": "Binary/b"}}]
    notes = [document("", n % 20, content=link) for n in range(40)]
    answer = client.post(PATH, json=hook_request(*notes, binary))
    assert answer.status_code == 413
    assert "notes have more than 33,554,432 characters" in answer.text

    def late():
        http_module._deadline.set(0.0)
        read_documents([document("a")], "p1", "e1")

    with pytest.raises(TimeoutError):
        contextvars.copy_context().run(late)


@pytest.mark.parametrize("depth", [300, 900, 960])
@pytest.mark.parametrize(
    "field", ["id", "identifier", "type", "date", "content", "relatesTo"]
)
def test_a_value_of_too_many_levels_is_no_fault_of_the_service(
    client, field, depth
):
    for start, end in ("[]", ('{"a":', "}")):
        body = json.dumps(hook_request(document("a", **{field: "deep"})))
        deep = start * depth + "1" + end * depth
        answer = client.post(
            PATH,
            content=body.replace('"deep"', deep),
            headers={"content-type": "application/json"},
        )
        assert answer.status_code in (200, 400, 412)


# --- feedback


def feedback(**changes):
    entry = {
        "card": str(uuid.uuid4()),
        "outcome": "overridden",
        "outcomeTimestamp": "2026-01-02T03:04:05Z",
    }
    return {"feedback": [entry | changes]}


def test_feedback_is_kept_without_text_and_monitored(
    start, tmp_path, standards, model_folder
):
    from clinical import ReadmissionModel
    from clinical.report.commands import in_service

    file = tmp_path / "ledger.sqlite"
    client = TestClient(
        start(ledger=str(file)).app, base_url="http://localhost"
    )
    card = card_of(ask(client))
    model = read_model(standards / "cds-hooks" / "CDSHooksFeedback.fsh")
    reasons = card["overrideReasons"]
    sent = [
        {
            "overrideReason": {
                "reason": reasons[2],
                "userComment": "a private comment",
            }
        },
        {"overrideReason": {"reason": {"code": "theirs", "system": "urn:x"}}},
        {"overrideReason": {"userComment": "only words"}},
        {},
        {
            "outcome": "accepted",
            "acceptedSuggestions": [{"id": str(uuid.uuid4())}],
        },
    ]
    for changes in sent:
        body = feedback(card=card["uuid"], **changes)
        assert faults(body, model) == []
        answer = client.post(f"{PATH}/feedback", json=body)
        assert (answer.status_code, answer.json()) == (200, {})
    served, kept = read_ledger(file)
    assert served["card"].tolist() == [card["uuid"]]
    assert served["alert"].tolist() == [1]
    assert kept["reason"].tolist() == [reasons[2]["code"], "other", "", "", ""]
    now = ReadmissionModel.from_pretrained(model_folder)
    lines = in_service(file, now)
    assert lines[0] == "Served: 1 risks, 100.0 alerts per 100."
    assert lines[-1] == "Feedback on 1 cards; overridden: 0."
    # The last feedback on a card counts, and none on cards that were never served.
    for uuid_of_card in (card["uuid"], card["uuid"], str(uuid.uuid4())):
        body = feedback(card=uuid_of_card, **sent[0])
        assert client.post(f"{PATH}/feedback", json=body).status_code == 200
    lines = in_service(file, now)
    assert lines[-2:] == [
        "Feedback on 1 cards; overridden: 1.",
        "  disagree: 1",
    ]
    whole = b"".join(each.read_bytes() for each in tmp_path.glob("ledger*"))
    for text in (
        b"private",
        b"only words",
        b"theirs",
        b"lives alone",
        b'"e1"',
    ):
        assert text not in whole


def test_risks_of_a_model_without_a_threshold_are_kept(
    start, new_network, tokenizer, tmp_path
):
    from clinical import ReadmissionModel
    from clinical.report.commands import in_service

    model = ReadmissionModel(new_network(), tokenizer)
    model.save_pretrained(tmp_path / "model")
    file = tmp_path / "ledger.sqlite"
    service = start(folder=tmp_path / "model", ledger=str(file))
    card_of(ask(TestClient(service.app, base_url="http://localhost")))
    said = in_service(file, model)
    assert said[0] == "Served: 1 risks, no alert threshold."


def test_a_card_after_discharge_says_what_is_left_of_the_risk(
    start, new_network, tokenizer, tmp_path
):
    from clinical import ReadmissionModel, ReadmissionSettings

    group = {"above": 0.0, "points": [[10, 0.5, 0.0], [30, 1.0, 0.0]]}
    settings = ReadmissionSettings(
        calibration=(1.0, 0.0), after_discharge=[group]
    )
    model = ReadmissionModel(new_network(), tokenizer, settings=settings)
    model.save_pretrained(tmp_path / "model")
    service = start(folder=tmp_path / "model")
    client = TestClient(service.app, base_url="http://localhost")

    def detail(days):
        period = {}
        if days is not None:
            end = datetime.now(UTC) - timedelta(days=days, minutes=5)
            period = {"end": end.isoformat()}
        call = hook_request(hook="patient-view")
        call["prefetch"]["encounter"]["period"] = period
        return card_of(client.post(PATH, json=call))["detail"]

    probability = model.predict(list(NOTES)).probability
    percent = round(100 * model.predict(list(NOTES)).remaining(10 + 5 / 1440))
    assert percent < round(100 * probability)
    assert (
        "The day of discharge was 10 days ago. If the patient was not readmitted since, the risk "
        f"that is left until day 30 is {percent}%."
    ) in detail(10)
    for other in (None, 0.5, 31, -2):
        assert "days ago" not in detail(other)
    records = [{"stay_id": "s", "text": NOTES[0]}]
    answer = client.post("/v1/readmission", json={"records": records})
    row = answer.json()["records"][0]
    assert 0 < row["remaining_day_10"] < row["probability"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"outcome": "ignored"}, "outcome"),  # cds-fb-1
        ({"outcome": "accepted"}, "acceptedSuggestions"),  # cds-fb-2
        ({"overrideReason": {}}, "overrideReason"),  # cds-fb-3
        ({"card": "x"}, "card"),
        ({"outcomeTimestamp": "yesterday"}, "outcomeTimestamp"),
        ({"outcomeTimestamp": "2026-01-02T03:04:05"}, "outcomeTimestamp"),
    ],
)
def test_feedback_that_breaks_an_invariant(client, changes, words):
    answer = client.post(f"{PATH}/feedback", json=feedback(**changes))
    assert answer.status_code == 400
    assert words in answer.json()["issue"][0]["diagnostics"]


# --- the FHIR server of the client


@pytest.fixture
def fhir_server():
    """A FHIR server with the notes on two pages; `asked` are the calls."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers["authorization"]))
            if "elsewhere" in self.path:
                self.send_response(302)
                self.send_header("location", "/fhir/DocumentReference")
                self.end_headers()
                return
            second = "page=2" in self.path
            link = (
                []
                if second
                else [{"relation": "next", "url": "DocumentReference?page=2"}]
            )
            page = bundle(document(NOTES[second], int(second)), link=link)
            body = b"{" if "broken" in self.path else json.dumps(page).encode()
            self.send_response(500 if "failing" in self.path else 200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    asked = []
    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.asked = asked
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


def root(server):
    return f"http://127.0.0.1:{server.server_port}"


def test_missing_notes_are_fetched_from_an_allowed_server(start, fhir_server):
    app = start(fhir=(root(fhir_server),)).app
    client = TestClient(app, base_url="http://localhost")
    base = f"{root(fhir_server)}/fhir"
    same = {"fhirServer": base, "fhirAuthorization": TOKEN}
    card = card_of(ask(client, prefetch=None, **same))
    assert "of 2 notes were read" in card["detail"]
    first = ("/fhir/DocumentReference?encounter=e1&_count=100", "Bearer t0ken")
    assert fhir_server.asked == [
        first,
        ("/fhir/DocumentReference?page=2", "Bearer t0ken"),
    ]
    # The client sent the first page itself.
    notes = bundle(
        document(NOTES[0]),
        link=[{"relation": "next", "url": "DocumentReference?page=2"}],
    )
    assert (
        "of 2 notes"
        in card_of(ask(client, prefetch={"notes": notes}, **same))["detail"]
    )


def test_notes_that_came_beside_an_error_are_not_read_twice(
    start, fhir_server
):
    app = start(fhir=(root(fhir_server),)).app
    client = TestClient(app, base_url="http://localhost")
    server = {"fhirServer": root(fhir_server), "fhirAuthorization": TOKEN}
    notes = bundle(document(NOTES[0]), outcome("error"))
    card = card_of(ask(client, prefetch={"notes": notes}, **server))
    assert "of 2 notes were read" in card["detail"]


@pytest.mark.parametrize(
    ("path", "words"),
    [("/failing", "500"), ("/broken", "no notes"), ("/elsewhere", "302")],
)
def test_a_server_that_does_not_answer(start, fhir_server, path, words):
    app = start(fhir=(root(fhir_server),)).app
    client = TestClient(app, base_url="http://localhost")
    base = f"{root(fhir_server)}{path}"
    answer = ask(
        client, prefetch=None, fhirServer=base, fhirAuthorization=TOKEN
    )
    assert answer.status_code == 412
    assert words in answer.json()["issue"][0]["diagnostics"]


def test_no_other_server_is_asked(start, fhir_server):
    port = fhir_server.server_port
    notes = bundle(
        link=[{"relation": "next", "url": f"http://127.0.0.1:{port}/steal"}]
    )
    own = TestClient(start().app, base_url="http://localhost")
    other = TestClient(
        start(fhir=("fhir.example",)).app, base_url="http://localhost"
    )
    fhir = (
        f"http://127.0.0.1:{port + 1}",
        "127.0.0.1",
    )  # another port, another scheme
    near = TestClient(start(fhir=fhir).app, base_url="http://localhost")
    for client, server in (
        (own, f"http://127.0.0.1:{port}"),
        (other, f"http://127.0.0.1:{port}"),
        (other, f"http://fhir.example@127.0.0.1:{port}"),
        (other, "http://fhir.example"),
        (other, "file:///etc/passwd"),
        (other, "https://fhir.example:x"),
        (other, "https://fhir.example:8443"),
        (near, f"http://127.0.0.1:{port}"),
        (near, f"http://user:word@127.0.0.1:{port + 1}"),
    ):
        for prefetch in (None, {"notes": notes}):
            answer = ask(
                client,
                prefetch=prefetch,
                fhirServer=server,
                fhirAuthorization=TOKEN,
            )
            assert answer.status_code == 412, server
    assert fhir_server.asked == []


@pytest.mark.parametrize(
    "name",
    ["http://fhir.example", "fhir.example:x", "file:///etc", "", "https://"],
)
def test_a_server_that_cannot_be_named(start, name):
    with pytest.raises(UserError, match="expected HOST, HOST:PORT, or https"):
        start(fhir=(name,))


def test_the_token_goes_through_no_proxy_that_was_not_named(
    start, fhir_server, monkeypatch
):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, root(fhir_server))
        monkeypatch.setenv(name.upper(), root(fhir_server))
    monkeypatch.setenv("no_proxy", "")
    server = "http://127.0.0.1:9"  # nobody listens
    call = {"prefetch": None, "fhirServer": server, "fhirAuthorization": TOKEN}
    app = start(fhir=(server,)).app
    assert (
        ask(TestClient(app, base_url="http://localhost"), **call).status_code
        == 412
    )
    assert fhir_server.asked == []
    app = start(fhir=(server,), fhir_proxy=root(fhir_server)).app
    assert card_of(ask(TestClient(app, base_url="http://localhost"), **call))
    path, token = fhir_server.asked[0]
    assert path.startswith(f"{server}/DocumentReference")
    assert token == "Bearer t0ken"


def test_a_server_that_drips_has_the_time_of_the_call_and_no_more(start):
    ended = threading.Event()

    def drip():
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while not ended.wait(0.05):
                connection.sendall(b"x: y\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        server = f"http://127.0.0.1:{listener.getsockname()[1]}"
        app = start(fhir=(server,), seconds=0.5).app
        client = TestClient(app, base_url="http://localhost")
        began = time.monotonic()
        answer = ask(
            client, prefetch=None, fhirServer=server, fhirAuthorization=TOKEN
        )
        ended.set()
    assert answer.status_code == 503
    assert "not done within 0.5 s" in answer.text
    assert time.monotonic() - began < 3


def test_a_fetch_writes_no_id_into_the_log(start, fhir_server, caplog):
    caplog.set_level(logging.DEBUG)
    app = start(fhir=(root(fhir_server),)).app
    client = TestClient(app, base_url="http://localhost")
    base = f"{root(fhir_server)}/fhir"
    caplog.clear()
    assert card_of(
        ask(client, prefetch=None, fhirServer=base, fhirAuthorization=TOKEN)
    )
    assert "encounter" not in caplog.text
    assert "t0ken" not in caplog.text


# --- the time of a call, the ledger, and texts of the model


def test_a_card_has_the_time_of_one_call(start, monkeypatch):
    score = Worker.score

    def slow(worker, records, seconds):
        limits.append(seconds)
        time.sleep(0.1)
        return score(worker, records, seconds)

    limits = []
    client = TestClient(start(seconds=60.0).app, base_url="http://localhost")
    monkeypatch.setattr(Worker, "score", slow)
    assert card_of(ask(client))
    first, second = limits
    assert second < first - 0.09


def test_every_risk_is_in_the_ledger(start, new_network, tokenizer, tmp_path):
    from clinical import ReadmissionModel, ReadmissionSettings

    ReadmissionModel(
        new_network(), tokenizer, settings=ReadmissionSettings()
    ).save_pretrained(tmp_path / "m")  # without an alert threshold
    file = tmp_path / "ledger.sqlite"
    app = start(folder=tmp_path / "m", ledger=str(file)).app
    client = TestClient(app, base_url="http://localhost")
    for record in ({"hadm_id": "7"}, {}):
        body = {"records": [record | {"text": [NOTES[0]]}]}
        assert client.post("/v1/readmission", json=body).status_code == 200
    served, _ = read_ledger(file)
    assert served["probability"].notna().tolist() == [True, True]
    assert served["alert"].isna().all()
    assert served["subject"].isna().tolist() == [False, True]


def test_feedback_is_bounded(client):
    (entry,) = feedback()["feedback"]
    answer = client.post(
        f"{PATH}/feedback", json={"feedback": [entry] * 10_000}
    )
    assert answer.status_code == 400
    assert "at most 1000 items" in answer.json()["issue"][0]["diagnostics"]
    assert (
        client.post(f"{PATH}/feedback", json={"feedback": []}).status_code
        == 400
    )


def test_a_million_wrong_suggestions_are_one_error():
    (entry,) = feedback(acceptedSuggestions=[1] * 1000)["feedback"]
    with pytest.raises(ValidationError) as caught:
        Feedback.model_validate(entry)
    assert caught.value.error_count() == 1


def test_the_outcome_of_a_model_cannot_be_markup():
    risk = {"calibrated": True, "probability": 0.2}
    event = "[readmission](https://evil.example) <b>" + "x" * 200
    summary, detail = risk_statement(risk, event)
    assert len(summary) < 140
    assert "](" not in detail
    assert "<b>" not in detail.replace("\\<", "")


# --- the next model, in shadow


def test_the_second_model_is_scored_and_kept_and_never_shown(
    start, model_folder, new_network, tokenizer, tmp_path
):
    from clinical import ReadmissionModel, ReadmissionSettings
    from clinical.report.commands import in_service

    settings = ReadmissionSettings(calibration=(1.0, 2.0), alert_threshold=1.0)
    following = ReadmissionModel(new_network(), tokenizer, settings=settings)
    following.save_pretrained(tmp_path / "next")
    file = tmp_path / "ledger.sqlite"
    models = [f"now={model_folder}", f"next={tmp_path / 'next'}"]
    service = start(model=models, ledger=str(file))
    client = TestClient(service.app, base_url="http://localhost")
    alone = TestClient(start().app, base_url="http://localhost")
    card = card_of(ask(client))
    assert card["detail"] == card_of(ask(alone))["detail"]
    assert client.get("/ready").json()["models"] == ["tiny"]
    service._in_shadow.shutdown()
    served, _ = read_ledger(file)
    served = served.set_index("model")
    now = ReadmissionModel.from_pretrained(model_folder)
    mine = served.loc[now.fingerprint()]
    other = served.loc[
        ReadmissionModel.from_pretrained(tmp_path / "next").fingerprint()
    ]
    assert len(served) == 2
    assert (mine["row"], mine["card"]) == (other["row"], other["card"])
    assert other["probability"] > mine["probability"]
    assert other["task"] == "readmission (shadow)"
    shadow = ReadmissionModel.from_pretrained(tmp_path / "next")
    assert in_service(file, shadow) == ["No risk of this model was served."]
    text = client.get("/metrics").text
    assert (
        'domainbert_rows_total{status="ok",task="readmission (shadow)"}'
        in text
    )
    lines = in_service(file, now)
    assert lines[0] == "Served: 1 risks, 100.0 alerts per 100."
    change = 100 * (other["probability"] - mine["probability"])
    points = f"{change:+.1f} points on average, {change:+.1f} to {change:+.1f}"
    assert (
        f"Model {other.name[:12]} on 1 of these risks: {points}; 0 alerts added, 1 missed."
        in lines
    )


def test_a_fault_of_the_next_model_costs_no_call(
    start, model_folder, monkeypatch, caplog
):
    models = [f"now={model_folder}", f"next={model_folder}"]
    service = start(model=models)
    client = TestClient(service.app, base_url="http://localhost")

    def fail(*_):
        raise RuntimeError("a private text")

    _, worker = service._workers["readmission (shadow)"]
    monkeypatch.setattr(worker, "score", fail)
    assert card_of(ask(client))
    service._in_shadow.shutdown()
    assert "shadow" in caplog.text
    assert "private" not in caplog.text


def test_two_models_of_a_task_without_names_are_refused(start, model_folder):
    with pytest.raises(
        UserError, match=r"both do .*--model next=MODEL to score"
    ):
        start(model=[str(model_folder)] * 2)


@pytest.mark.parametrize(
    "path", ["/cds-services/other", "/cds-services/readmission/x", "/v1/other"]
)
def test_an_unknown_service_is_404(client, path):
    answer = client.post(path, json=hook_request())
    assert answer.status_code == 404
    if path.startswith("/cds"):
        assert answer.json()["resourceType"] == "OperationOutcome"
    assert "no such service" in answer.text
