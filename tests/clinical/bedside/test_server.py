"""`domainbert serve` as a process: hostile clients, fuzzed requests, logs, a graceful stop."""

import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from typer.testing import CliRunner

from domainbert.__main__ import app
from tests.clinical.bedside.conftest import NOTES, hook_request

SECRET = "Zanzibar-4711"  # in every text and id that is sent, and in no log
COMMAND = str(Path(sys.executable).with_name("domainbert"))
HOOK = "/cds-services/readmission"
FUZZ = int(os.environ.get("FUZZ", "400"))

pytestmark = pytest.mark.skipif(
    not entry_points(group="domainbert.tasks"),
    reason="this installation announces no tasks: install the package again",
)


class Running:
    """A service in a process of its own."""

    def __init__(self, model_folder, log, *options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [COMMAND, "serve", "--model", str(model_folder)]
        command += ["--port", str(self.port), "--log-level", "debug", *options]
        self.log = log
        with log.open("w") as file:
            self.process = subprocess.Popen(command, stderr=file)
        end = time.monotonic() + 120
        while not self.answers():
            assert self.process.poll() is None, log.read_text()
            assert time.monotonic() < end
            time.sleep(0.2)

    def answers(self):
        try:
            return self.call("GET", "/health")[0] == 200
        except OSError:
            return False

    def call(self, method, path, body=None, headers=None, *, timeout=60):
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=timeout
        )
        try:
            connection.request(
                method,
                path,
                body,
                headers or {"content-type": "application/json"},
            )
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.fixture(scope="module")
def server(model_folder, tmp_path_factory):
    running = Running(
        model_folder, tmp_path_factory.mktemp("logs") / "log", "--seconds", "3"
    )
    yield running
    if running.process.poll() is None:
        running.stop()


def risk_body(text="He lives alone. Chest pain."):
    return json.dumps(
        {"records": [{"stay_id": f"s {SECRET}", "text": f"{text} {SECRET}"}]}
    )


def test_clients_that_hang_up_or_send_half_lose_no_worker(server):
    def half(number):
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            head = b"POST /v1/readmission HTTP/1.1\r\nhost: localhost\r\n"
            head += b"content-type: application/json\r\ncontent-length: 1000\r\n\r\n"
            client.sendall(head + b'{"records": [' * (number % 3))
            if number % 2:
                client.shutdown(socket.SHUT_WR)
            time.sleep(0.1 * (number % 5))

    threads = [threading.Thread(target=half, args=(n,)) for n in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.call("POST", "/v1/readmission", risk_body())[0] == 200


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b" " * 50_000_000, 413, "50,000,000 bytes"),
        (b'{"records": [{"text": "' + b"x" * 100, 400, "JSON decode error"),
        (
            json.dumps({"records": [{"text": "a"}] * 10_000}).encode(),
            413,
            "10,000 records",
        ),
    ],
)
def test_hopeless_bodies_are_refused_in_words(server, body, status, words):
    answers = []
    call = lambda: answers.append(server.call("POST", "/v1/readmission", body))  # noqa: E731
    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer[0] for answer in answers] == [status] * 8
    assert all(words in json.loads(answer[1])["error"] for answer in answers)


def test_a_body_that_never_comes_is_given_up(server):
    with socket.create_connection(
        ("127.0.0.1", server.port), timeout=30
    ) as client:
        head = b"POST /v1/readmission HTTP/1.1\r\nhost: localhost\r\n"
        client.sendall(
            head
            + b"content-type: application/json\r\ncontent-length: 10\r\n\r\n{"
        )
        assert b" 408 " in client.recv(4096)


def fuzzed(rng):
    """A request with something odd: (method, path, body, headers)."""
    paths = ["/v1/readmission", "/v1/passages", HOOK, f"{HOOK}/feedback"]
    number = rng.randrange(4)
    path = paths[number if rng.random() < 0.8 else rng.randrange(4)]
    path += rng.choice(
        ["", "", "", "", "", "?format=fhir", "?format=x", f"/{SECRET}"]
    )
    odd = [
        None,
        True,
        -1,
        1e308,
        10**30,
        "",
        SECRET,
        "\ud800",
        "\0",
        [],
        {},
        [[]],
        {"a": {}},
    ]
    odd += [
        f"{SECRET} " * 50,
        [SECRET, None, 3],
        "é🙂\u202e",
        "p1",
        "e1",
        "2026-13-40T99",
    ]

    def change(value, depth=0):
        if rng.random() < 0.05 or depth > 6:
            return rng.choice(odd)
        if isinstance(value, dict):
            kept = {
                k: change(v, depth + 1)
                for k, v in value.items()
                if rng.random() > 0.03
            }
            return kept | (
                {rng.choice(["", SECRET, "text"]): rng.choice(odd)}
                if not depth
                else {}
            )
        if isinstance(value, list):
            return [change(each, depth + 1) for each in value] * rng.choice(
                [1, 1, 1, 2]
            )
        return value

    entry = {
        "card": "4e0a3a1e-3283-4575-ab82-028d55fe2719",
        "outcome": "overridden",
    }
    entry |= {
        "outcomeTimestamp": "2026-01-02T03:04:05Z",
        "overrideReason": {"userComment": SECRET},
    }
    bodies = [
        {
            "records": [
                {"stay_id": "e1", "patient_id": "p1", "text": t}
                for t in (*NOTES, SECRET)
            ]
        },
        hook_request(),
        {"feedback": [entry]},
    ]
    body = json.dumps(change(bodies[max(0, number - 1)])).encode()
    if rng.random() < 0.1:
        at = rng.randrange(len(body) + 1)
        body = rng.choice(
            [body[:at], body[:at] + bytes([rng.randrange(256)]) + body[at:]]
        )
    kinds = ["application/json"] * 30 + [
        "text/plain",
        "",
        SECRET,
        "application/json; charset=x",
    ]
    tokens = [None] * 5 + ["Bearer x.y.z", f"Bearer {SECRET}", "Basic \u00e9"]
    headers = {
        "content-type": rng.choice(kinds),
        "authorization": rng.choice(tokens),
    }
    headers["x-request-id"] = rng.choice(
        [SECRET, "", "9368d37b-283f-44a0-93ea-547cebab93ed"]
    )
    method = rng.choice(
        ["POST"] * 40 + ["GET", "PUT", "DELETE", "OPTIONS", "PATCH"]
    )
    return (
        method,
        path,
        body,
        {k: v for k, v in headers.items() if v is not None},
    )


def test_no_fuzzed_request_is_a_server_error(server):
    found = {}

    def send(seed):
        rng = random.Random(seed)
        connection = http.client.HTTPConnection(
            "127.0.0.1", server.port, timeout=60
        )
        for _ in range(FUZZ // 4):
            method, path, body, headers = fuzzed(rng)
            try:
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                text = answer.read()
            except (http.client.HTTPException, OSError) as error:
                found[type(error).__name__] = (
                    found.get(type(error).__name__, 0) + 1
                )
                connection.close()
                continue
            found[answer.status] = found.get(answer.status, 0) + 1
            if answer.status >= 500:
                found["example"] = (method, path, body[:2000], headers, text)

    threads = [
        threading.Thread(target=send, args=(seed,)) for seed in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(found)  # noqa: T201
    assert "example" not in found, found["example"]
    assert all(isinstance(status, int) for status in found), found
    assert found[200] > FUZZ // 50
    assert SECRET not in server.log.read_text()
    assert server.answers()


def test_no_text_and_no_id_is_in_the_log(server):
    for body in (risk_body(), json.dumps(hook_request()), f"{{{SECRET}"):
        for path in ("/v1/readmission", HOOK, f"/v1/{SECRET}"):
            server.call("POST", path, body)
    log = server.log.read_text()
    lines = [
        json.loads(line) for line in log.splitlines() if line.startswith("{")
    ]
    assert sum(line["event"] == "request" for line in lines) > 9
    assert SECRET not in log
    for text in ("lives alone", "Chest", "discharged home", "p1", "note-0"):
        assert re.search(rf"\b{text}\b", log) is None, text


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_stop_under_load_answers_all_that_was_begun(
    model_folder, tmp_path, workers
):
    server = Running(model_folder, tmp_path / "log", "--workers", workers)
    answered, stopped = [], threading.Event()

    def load():
        while not stopped.is_set():
            try:
                answered.append(
                    server.call("POST", "/v1/readmission", risk_body())[0]
                )
            except (OSError, http.client.HTTPException):
                return  # it was not read before the stop

    threads = [threading.Thread(target=load) for _ in range(32)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 60
    while len(answered) <= 64 and time.monotonic() < deadline:
        time.sleep(0.02)
    code = server.stop()
    stopped.set()
    for thread in threads:
        thread.join()
    assert code == 0, server.log.read_text()
    assert set(answered) == {200}
    assert len(answered) > 32
    with contextlib.suppress(OSError):
        assert not server.answers()


def test_bad_options_are_one_line(model_folder):
    def refused(*options):
        result = CliRunner().invoke(app, ["serve", *options])
        assert result.exit_code == 1
        assert len(result.stderr.splitlines()) == 1
        return result.stderr

    assert "through a proxy (--behind-proxy)" in refused(
        "--model", str(model_folder), "--host", "::"
    )
    assert "no model 'nothing'" in refused("--model", "nothing")
