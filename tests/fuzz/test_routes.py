"""A word in every part of a request to every route is in no log line and no file of the service."""

import io
import json
import logging
import sys
import uuid
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service needs its extra")
pytest.importorskip("joserfc", reason="the service needs its extra")

from starlette.testclient import TestClient

from biomed.served import ANSWERS, ENTITIES, SIMILAR
from biomed.terms.similarity import TermEmbedder
from clinical import ReadmissionModel
from clinical.bedside.served import READMISSION
from domainbert.service.app import Service, ServiceSettings
from domainbert.service.http import JsonLines
from domainbert.service.worker import Worker
from tests.clinical.bedside.conftest import document, hook_request

sys.path.insert(0, str(Path(__file__).parent))
from test_fuzz import random_answerer, random_tagger

CANARY = "zebrafinch"
NOTE = f"{CANARY} has chest pain. He lives alone with {CANARY}."
RECORD = {"stay_id": CANARY, "patient_id": CANARY, "text": NOTE}
QUESTION = {"id": CANARY, "question": f"was {CANARY}?", "context": NOTE}
CONTEXT = {"userId": CANARY, "patientId": CANARY, "encounterId": CANARY}
SUBJECT = {"reference": f"Patient/{CANARY}"}
STAY = {"encounter": [{"reference": f"Encounter/{CANARY}"}]}
CARD = hook_request(
    document(NOTE, id=CANARY, subject=SUBJECT, context=STAY), context=CONTEXT
)
# The notes are asked for, and nobody answers.
FETCH = CARD | {
    "prefetch": {},
    "fhirServer": f"http://127.0.0.1:9/{CANARY}",
    "fhirAuthorization": {"access_token": CANARY, "token_type": "Bearer"},
}
FEEDBACK = {
    "card": str(uuid.uuid4()),
    "outcome": "overridden",
    "outcomeTimestamp": "2026-01-02T03:04:05Z",
    "overrideReason": {"userComment": CANARY, "reason": {"code": CANARY}},
}
# The bodies for each route; those without one are only read.
CALLS = {
    "/health": [],
    "/ready": [],
    "/metrics": [],
    "/evidence": [],
    "/v1": [],
    "/cds-services": [],
    "/v1/readmission": [{"records": [RECORD]}],
    "/v1/passages": [{"records": [RECORD]}],
    "/v1/entities": [{"records": [RECORD]}],
    "/v1/answers": [{"records": [QUESTION]}],
    "/v1/similar": [{"records": [{"id": CANARY, "term": f"{CANARY} pain"}]}],
    "/cds-services/readmission": [CARD, FETCH],
    "/cds-services/readmission/feedback": [{"feedback": [FEEDBACK]}],
}
HEADERS = {
    "content-type": "application/json",
    "authorization": f"Bearer {CANARY}",
    "x-card-key": CANARY,
    "x-request-id": CANARY,
    "origin": f"https://{CANARY}.example",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="module")
def app(folder, new_network, random_network, tokenizer, write_adapter):
    """A service of four tiny models, with a ledger and a FHIR server that is down."""
    models = {
        "risk": ReadmissionModel(new_network(), tokenizer),
        "tagger": random_tagger(random_network, tokenizer),
        "answerer": random_answerer(random_network, tokenizer),
    }
    for name, model in models.items():
        model.save_pretrained(folder / name)
    write_adapter(TermEmbedder, folder / "terms")
    settings = ServiceSettings(
        model=[str(folder / name) for name in (*models, "terms")],
        address="http://localhost",
        cors=["https://ehr.example"],
        fhir=["http://127.0.0.1:9"],
        ledger=str(folder / "ledger.sqlite"),
    )
    work = folder / "work"
    work.mkdir()
    kinds = [READMISSION, ENTITIES, ANSWERS, SIMILAR]
    return Service(settings, work=work, announced_tasks=kinds).app


@pytest.fixture
def log():
    """All that the service and its libraries log at DEBUG, as it writes it."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    # That is the test's own client.
    handler.addFilter(lambda record: not record.name.startswith("httpx"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


def requests(path):
    """Requests to a route with the word in each part: method, address and body."""
    yield "GET", path, None
    yield "GET", f"{path}/{CANARY}", None
    yield "DELETE", f"{path}?format={CANARY}&{CANARY}=1", None
    for body in CALLS[path]:
        content = json.dumps(body)
        for address in (path, f"{path}?format=fhir", f"{path}?{CANARY}"):
            yield "POST", address, content
        yield "POST", path, content[:-1]
        yield "POST", path, f'{{"{CANARY}": "{CANARY}"}}'
        yield "POST", path, content.replace(":", f':"{CANARY}",', 1)
        yield "POST", path, content.replace("[", f'["{CANARY}",', 1)


def test_every_route_is_called(app):
    assert set(app.openapi()["paths"]) == set(CALLS)


@pytest.mark.parametrize("has_bug", [False, True], ids=["sound", "bug"])
def test_the_canary_of_a_request_is_in_no_log(
    app, folder, log, monkeypatch, has_bug
):
    def fail(*_, **__):
        raise RuntimeError(NOTE)

    if has_bug:
        monkeypatch.setattr(Worker, "score", fail)
    client = TestClient(
        app, base_url="http://localhost", raise_server_exceptions=False
    )
    statuses = set()
    for path in CALLS:
        for method, address, body in requests(path):
            answer = client.request(
                method, address, content=body, headers=HEADERS
            )
            statuses.add(answer.status_code)
    assert {400, 404, 412, 500 if has_bug else 200} <= statuses
    lines = log.getvalue().splitlines()
    assert sum("request" in line for line in lines) > 80
    assert [line for line in lines if CANARY in line] == []
    written = [*(folder / "work").rglob("*"), *folder.glob("ledger*")]
    files = [file for file in written if file.is_file()]
    assert files
    assert [f for f in files if CANARY.encode() in f.read_bytes()] == []
