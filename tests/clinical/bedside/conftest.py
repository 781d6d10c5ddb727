"""A service of a tiny readmission model, and requests to it."""

import base64
import os
import uuid
from pathlib import Path

import pytest

for name in ("fastapi", "joserfc"):
    pytest.importorskip(
        name, reason="the service needs the extra: pip install .[service]"
    )

from clinical.bedside.served import READMISSION  # noqa: E402
from domainbert.service.app import Service, ServiceSettings  # noqa: E402

NOTES = (
    "He lives alone. Chest pain. Heart failure.",
    "No fever. He was discharged home.",
)
ADDRESS = "http://127.0.0.1:8000"
DATA = Path(
    os.environ.get(
        "DOMAINBERT_DATA", Path(__file__).parents[4] / "shared" / "data"
    )
)


@pytest.fixture(scope="session")
def standards():
    folder = DATA / "standards"
    if not folder.is_dir():
        pytest.skip(
            "needs the public data: ../shared/data or $DOMAINBERT_DATA"
        )
    return folder


@pytest.fixture(scope="session")
def model_folder(new_network, tokenizer, tmp_path_factory):
    from clinical import ReadmissionModel, ReadmissionSettings

    settings = ReadmissionSettings(
        calibration=(1.0, 0.0), alert_threshold=0.01
    )
    folder = tmp_path_factory.mktemp("models") / "tiny"
    ReadmissionModel(
        new_network(), tokenizer, settings=settings
    ).save_pretrained(folder)
    return folder


@pytest.fixture
def start(model_folder, tmp_path):
    """Starts a service; the settings are those of `ServiceSettings`."""

    def make(*, folder=model_folder, model=(), **settings):
        models = list(model) or [str(folder)]
        asked = ServiceSettings(model=models, address=ADDRESS, **settings)
        return Service(asked, work=tmp_path, announced_tasks=[READMISSION])

    return make


@pytest.fixture
def client(start):
    from starlette.testclient import TestClient

    return TestClient(
        start(report="https://reports.example/r").app,
        base_url="http://localhost",
        raise_server_exceptions=False,
    )


def document(text, number=0, **changes):
    data = base64.b64encode(text.encode()).decode()
    return {
        "resourceType": "DocumentReference",
        "id": f"note-{number}",
        "status": "current",
        "type": {"text": "Nursing note"},
        "subject": {"reference": "Patient/p1"},
        "date": f"2026-01-{number + 1:02}T08:00:00Z",
        "content": [
            {
                "attachment": {
                    "contentType": "text/plain; charset=utf-8",
                    "data": data,
                }
            }
        ],
        "context": {"encounter": [{"reference": "Encounter/e1"}]},
    } | changes


def bundle(*documents, **changes):
    entries = [{"resource": each} for each in documents]
    return {
        "resourceType": "Bundle",
        "type": "searchset",
        "entry": entries,
    } | changes


def hook_request(*documents, hook="encounter-discharge", **changes):
    return {
        "hook": hook,
        "hookInstance": str(uuid.uuid4()),
        "context": {
            "userId": "Practitioner/u",
            "patientId": "p1",
            "encounterId": "e1",
        },
        "prefetch": {
            "encounter": {"resourceType": "Encounter", "id": "e1"},
            "notes": bundle(*(documents or map(document, NOTES, range(2)))),
        },
    } | changes
