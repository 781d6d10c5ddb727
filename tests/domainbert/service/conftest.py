"""A service of a task that needs no model: the length of a text."""

import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pyarrow as pa
import pytest
import uvicorn

pytest.importorskip(
    "fastapi", reason="the service needs the extra: pip install .[service]"
)
pytest.importorskip(
    "joserfc", reason="the service needs the extra: pip install .[service]"
)

from domainbert.models.manifest import Manifest
from domainbert.scoring import Fault, Task
from domainbert.service.app import Service, ServiceSettings
from domainbert.service.http import AsciiResponse
from domainbert.service.served import Announced, Served
from domainbert.tables import NOTE, STAY, TEXT


class Panic(BaseException):
    """What a tokenizer written in Rust raises: no `Exception`."""


class LengthTask(Task):
    """Characters of each text."""

    name = "lengths"
    columns = (STAY, NOTE, TEXT)

    def __init__(self):
        self.batches, self.running, self.beside = (
            [],
            0,
            {},
        )  # text -> batches while it ran
        self.release = threading.Event()  # ends the texts "wait"

    @property
    def output(self):
        return pa.schema([("length", pa.float64())])

    def read(self, rows):
        text = rows[0].cells.get("text")
        if text is None:
            return Fault("no text", "empty")
        return (
            text
            if isinstance(text, str)
            else Fault(f"text is {type(text).__name__}")
        )

    def run(self, items):
        items = list(items)
        self.batches.append(len(items))
        self.running += 1
        try:
            yield from self._lengths(items)
        finally:
            self.running -= 1

    def _lengths(self, items):
        for text in items:
            if text == "bug":
                raise RuntimeError(f"this message quotes {text}")
            if text == "panic":
                raise Panic
            if text == "stop":
                raise StopIteration
            if text == "wait":
                self.release.wait(60)
            if text.startswith("sleep "):
                end, most = time.monotonic() + float(text.split()[1]), 0
                while time.monotonic() < end:
                    most = max(most, self.running)
                    time.sleep(0.01)
                self.beside[text] = most
            yield len(text)

    def rows(self, item, result):
        return [{"length": float("nan") if item == "nan" else float(result)}]

    def facts(self):
        return {}


def announce(task, *, known=5.0):
    def load(name, *, cache, dtype="float32"):
        model = SimpleNamespace(
            name=name,
            precision=dtype,
            manifest=Manifest(
                example={"record": {"text": "hello"}, "row": {"length": known}}
            ),
            fingerprint=lambda: "0" * 64,
        )
        forms = {
            ("lengths", "short"): lambda records: AsciiResponse(len(records))
        }
        return Served(
            model,
            {"lengths": task},
            lambda service, _: service.forms.update(forms),
        )

    return Announced("lengths", "domainbert.pretraining", load)


@pytest.fixture
def start(tmp_path):
    """Starts a service; the settings are those of `ServiceSettings`."""

    def make(*, known=5.0, model=("lengths=x",), **settings):
        task = LengthTask()
        asked = ServiceSettings(model=list(model), **settings)
        service = Service(
            asked, work=tmp_path, announced_tasks=[announce(task, known=known)]
        )
        return SimpleNamespace(service=service, task=task)

    return make


@pytest.fixture
def client(start):
    return connect(start(seconds=2.0))


@pytest.fixture
def patient_client(start):
    return connect(start(seconds=60.0))


@contextmanager
def listening(app, **options):
    """A server with this application in a thread; its `port`."""
    options = {"ws": "none", "lifespan": "off", "log_config": None} | options
    config = uvicorn.Config(app, port=0, timeout_keep_alive=60, **options)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    server.port = server.servers[0].sockets[0].getsockname()[1]
    yield server
    server.should_exit = server.force_exit = True
    thread.join()


def connect(found):
    from starlette.testclient import TestClient

    client = TestClient(
        found.service.app,
        base_url="http://localhost",
        raise_server_exceptions=False,
    )
    client.task, client.service = found.task, found.service
    return client
