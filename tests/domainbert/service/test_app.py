"""The service over HTTP: records in and out, limits, errors, logs, metrics."""

import asyncio
import http.client
import io
import json
import logging
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import pytest
import uvicorn
from pydantic import ValidationError
from starlette.testclient import TestClient
from typer.testing import CliRunner

from domainbert.__main__ import app as command_line
from domainbert.errors import UserError
from domainbert.files import folder_beside
from domainbert.models.storage import shipped_models
from domainbert.service import app as app_module
from domainbert.service import http as http_module
from domainbert.service import served
from domainbert.service.app import Records
from domainbert.service.http import (
    AsciiResponse,
    JsonLines,
    read_json,
    seconds_left,
)
from domainbert.service.served import find_task
from domainbert.service.worker import LONG_CHARACTERS
from tests.domainbert.service.conftest import (
    LengthTask,
    announce,
    connect,
    listening,
)


def post(client, records, **options):
    return client.post("/v1/lengths", json={"records": records}, **options)


def test_records_have_ids_results_statuses_and_reasons(client):
    records = [
        {"stay_id": 7, "text": "abc"},
        {"stay_id": "B", "text": ""},
        {"stay_id": None, "text": {"a": 1}},
        {"text": "nan"},
    ]
    answer = post(client, records).json()
    assert (answer["task"], answer["model"], len(answer["fingerprint"])) == (
        "lengths",
        "x",
        64,
    )
    rows = answer["records"]
    assert [row["stay_id"] for row in rows] == ["7", "B", None, None]
    assert [row["status"] for row in rows] == ["ok", "empty", "error", "ok"]
    assert [row["reason"] for row in rows] == [
        "",
        "no text",
        "text is dict",
        "",
    ]
    assert rows[0]["length"] == 3
    assert rows[3]["length"] is None


def test_the_rows_are_those_of_score_frame(client):
    import pandas as pd

    from domainbert.scoring import score_frame

    records = [{"hadm_id": f"{n % 3}.0", "text": "x" * n} for n in range(6)]
    found = post(client, records).json()["records"]
    wanted = score_frame(client.task, pd.DataFrame(records).replace("", None))
    lengths = [None if n != n else n for n in wanted["length"]]
    assert [row["length"] for row in found] == lengths
    assert [row["hadm_id"] for row in found] == wanted["hadm_id"].tolist()
    assert [row["status"] for row in found] == wanted["status"].tolist()


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "JSON decode error"),
        (b"\xff", 400, "parsing the body"),
        (b"[]", 400, "valid dictionary"),
        (b"{}", 400, "records"),
        (b'{"records": [{"text": "a", "text": "b"}]}', 400, "a key twice"),
        (b'{"records": []}', 400, "at least 1 item"),
        (b'{"records": [1]}', 400, "records"),
        (
            b'{"records": [{"text": "a"}], "secret words": 1}',
            400,
            "not permitted",
        ),
        (b"[" * 100_000, 400, "body"),
        (b'{"records": [{"txt": "a"}]}', 400, "no column 'text'"),
        (
            b'{"records": [{"text": "a", "\\ud800_id": 1}]}',
            400,
            "surrogates not allowed",
        ),
        (
            json.dumps({"records": [{"text": "a"}] * 1001}).encode(),
            413,
            "1,001 records",
        ),
        (
            json.dumps({"records": [{"text": ["a"] * 1001}]}).encode(),
            413,
            "1,001 records",
        ),
        (
            json.dumps({"records": [{"text": "a" * 500_001}]}).encode(),
            413,
            "500,001 characters",
        ),
        (b" " * 7_100_000, 413, "7,100,000 bytes; expected at most 7,048,576"),
        (
            json.dumps(
                {"records": [{"text": "a", f"{n}_id": 1} for n in range(1000)]}
            ).encode(),
            413,
            "1,001 columns",
        ),
    ],
)
def test_a_bad_body_is_refused_in_words(client, body, status, words):
    answer = client.post(
        "/v1/lengths",
        content=body,
        headers={"content-type": "application/json"},
    )
    assert answer.status_code == status
    assert words in answer.json()["error"]


def test_a_million_wrong_records_are_one_error():
    body = {"records": [1] * 1000}
    with pytest.raises(ValidationError) as caught:
        Records.model_validate(body)
    assert caught.value.error_count() == 1


def test_a_value_of_too_many_levels_is_refused(client):
    for depth in (700, 900, 990, 1500, 3000, 20_000, 90_000):
        deep = "[" * depth + "]" * depth
        body = f'{{"records": [{{"stay_id": {deep}, "text": "a"}}]}}'
        headers = {"content-type": "application/json"}
        answer = client.post("/v1/lengths", content=body, headers=headers)
        assert answer.status_code in (200, 400), depth
    assert answer.status_code == 400


def test_other_faults_have_their_own_status(client):
    assert client.post("/v1/lengths", content="a=1").status_code == 415
    assert client.get("/v1/lengths").status_code == 405
    assert client.post("/v1/other", json={}).status_code == 404
    assert (
        post(client, [{"text": "a"}], params={"format": "xml"}).status_code
        == 400
    )
    assert (
        post(
            client, [{"text": "a"}], headers={"host": "evil.example"}
        ).status_code
        == 400
    )
    late = post(client, [{"text": "sleep 4"}])
    assert late.status_code == 503
    assert late.headers["retry-after"] == "5"


def test_another_form_of_the_answer(client):
    answer = post(client, [{"text": "a"}], params={"format": "short"})
    assert answer.text == "1"


def test_a_bug_is_one_request_s_and_its_message_is_in_no_log(client):
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    handler.setFormatter(JsonLines())
    handler.addFilter(
        lambda record: not record.name.startswith("httpx")
    )  # that is the client
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    answers = {}
    try:
        threads = [
            threading.Thread(
                target=lambda t=t: answers.update(
                    {t: post(client, [{"text": t}])}
                )
            )
            for t in ("bug", "secret words", "abc")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.get("/v1/a-patient-s-name")
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
    assert answers["bug"].status_code == 500
    assert (
        answers["bug"].headers["x-request-id"]
        in answers["bug"].json()["error"]
    )
    assert answers["abc"].json()["records"][0]["length"] == 3
    written = log.getvalue()
    lines = [json.loads(line) for line in written.splitlines()]
    assert any(line.get("error") == "RuntimeError" for line in lines)
    requests = [line for line in lines if line["event"] == "request"]
    assert {line["route"] for line in requests} == {"/v1/lengths", "none"}
    assert {line["status"] for line in requests} == {200, 404, 500}
    for text in ("quotes", "secret", "patient-s"):
        assert text not in written


def test_requests_at_the_same_time_share_a_batch(client):
    threads = [
        threading.Thread(target=post, args=(client, [{"text": "sleep 0.05"}]))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(client.task.batches[1:]) == 12  # the first was the self-test
    assert max(client.task.batches) > 1


def send_in_turn(client, texts):
    """Send requests from threads of their own, each after the one before has long arrived."""
    threads = []
    for text in texts:
        threads.append(
            threading.Thread(target=post, args=(client, [{"text": text}]))
        )
        threads[-1].start()
        time.sleep(0.3)
    for thread in threads:
        thread.join()


def test_two_batches_of_short_requests_run_side_by_side(patient_client):
    texts = [f"sleep 3 {n}" for n in range(3)]
    send_in_turn(patient_client, texts)
    beside = patient_client.task.beside
    assert set(beside) == set(texts)
    assert set(beside.values()) <= {1, 2}
    assert beside[texts[0]] == 2


def test_a_long_request_has_the_machine_to_itself_and_is_not_overtaken(
    patient_client,
):
    long = "sleep 0.3 " + "x" * LONG_CHARACTERS
    texts = ["sleep 3 a", long, "sleep 0.1 b"]
    send_in_turn(patient_client, texts)
    assert (
        list(patient_client.task.beside) == texts
    )  # in the order in which they ended
    assert patient_client.task.beside[long] == 1


def test_a_panic_of_a_library_costs_its_own_request_alone(client):
    assert post(client, [{"text": "panic"}]).status_code == 500
    long = "x" * (LONG_CHARACTERS + 1)  # needs all cores
    assert post(client, [{"text": long}]).json()["records"][0][
        "length"
    ] == len(long)


def test_ids_of_requests(client):
    name = str(uuid.uuid4())
    answer = post(client, [{"text": "a"}], headers={"x-request-id": name})
    assert answer.headers["x-request-id"] == name
    other = post(
        client, [{"text": "a"}], headers={"x-request-id": "MRN 12345"}
    )
    assert uuid.UUID(other.headers["x-request-id"])


def items(client):
    """How many texts were scored in this process, says `/metrics`."""
    counter = r'^domainbert_rows_total{status="ok",task="lengths"} (\S+)$'
    numbers = re.findall(counter, client.get("/metrics").text, re.MULTILINE)
    return sum(map(float, numbers))


def test_health_readiness_metrics_and_the_page_of_the_interface(client, start):
    before = items(client)
    post(client, [{"text": "abc"}])
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json() == {
        "ready": True,
        "models": ["x"],
        "why": "",
    }
    assert items(client) == before + 1
    assert client.get("/v1").json()["tasks"]["lengths"]["reads"] == [
        "stay_id",
        "note_id",
        "text",
    ]
    assert "/v1/lengths" in client.get("/openapi.json").json()["paths"]
    for path in ("/docs/", "/docs/docs.js"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert "//" not in answer.text.replace(
            "// ", ""
        )  # nothing from elsewhere
        assert (
            "default-src 'self'" in answer.headers["content-security-policy"]
        )


def test_the_metrics_tell_rows_the_queue_and_the_model_and_no_id(client):
    record = {"stay_id": "MRN-4711", "text": "abc"}
    post(client, [record, record | {"text": ""}])
    client.get("/v1/MRN-4711")
    text = client.get("/metrics").text
    for line in (
        'domainbert_rows_total{status="ok",task="lengths"}',
        'domainbert_rows_total{status="empty",task="lengths"}',
        'domainbert_queue_length{task="lengths"} 0.0',
        f'domainbert_model_info{{fingerprint="{"0" * 64}",model="x",task="lengths"}} 1.0',
        'domainbert_request_seconds_count{route="/v1/lengths",status="200"}',
        'domainbert_request_seconds_count{route="none",status="404"}',
    ):
        assert line in text
    assert "MRN" not in text


LIVE = """
import os, sys, time
from prometheus_client import Gauge
Gauge("domainbert_calls", "", multiprocess_mode="livesum").inc(int(sys.argv[1]))
print("ready", flush=True)
time.sleep(600)
"""


def test_the_metrics_leave_out_killed_processes(monkeypatch, tmp_path):
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", LIVE, number], stdout=subprocess.PIPE
        )
        for number in ("3", "5")
    ]

    def calls():
        text = asyncio.run(app_module._metrics()).body.decode()
        return re.findall(r"^domainbert_calls (\S+)$", text, re.MULTILINE)

    try:
        for worker in workers:
            assert worker.stdout.readline() == b"ready\n"
        assert calls() == ["8.0"]
        workers[0].kill()
        workers[0].wait()
        assert calls() == ["5.0"]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
            worker.stdout.close()


# --- connections


def ask(port, path="/health", connection=None):
    connection = connection or http.client.HTTPConnection(
        "127.0.0.1", port, timeout=60
    )
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_a_client_that_hangs_up_is_499_in_the_log_and_the_metrics(client):
    head = b"POST /v1/lengths HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n"
    head += b"content-type: application/json\r\n\r\n{"

    def hang_up():
        with socket.create_connection(("127.0.0.1", server.port)) as caller:
            caller.sendall(head)
            assert wait_until(lambda: server.server_state.tasks)
        assert wait_until(lambda: not server.server_state.tasks)

    with listening(client.app) as server:
        lines = log_of(hang_up, level=logging.INFO).splitlines()
        numbers = ask(server.port, "/metrics")[1].decode()
        assert ask(server.port)[0] == 200
    (line,) = map(json.loads, lines)
    assert (line["event"], line["status"]) == ("request", 499)
    assert "error" not in line
    assert 'route="none",status="499"' in numbers


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def test_health_answers_while_all_threads_wait_for_the_model(start):
    client = connect(start(seconds=60.0))
    with listening(client.app) as server:
        body = json.dumps({"records": [{"text": "wait"}]})
        head = "POST /v1/lengths HTTP/1.1\r\nhost: localhost\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        waiting = [
            socket.create_connection(("127.0.0.1", server.port))
            for _ in range(50)
        ]
        for one in waiting:
            one.sendall((head + body).encode())
        assert wait_until(lambda: len(server.server_state.tasks) == 50)
        assert ask(server.port)[0] == 200
        assert len(server.server_state.tasks) >= 50  # none was answered
        client.task.release.set()
    for one in waiting:
        one.close()


MANY_LISTS = b"[" + b"[]," * 2_000_000 + b"[]]"


@pytest.mark.parametrize(
    "body",
    [
        b'{"records": ' + MANY_LISTS + b"}",
        b'{"records": [{"text": "a", "x": ' + MANY_LISTS + b"}]}",
        MANY_LISTS.replace(b"[]", b"{}"),
    ],
    ids=["records", "a value", "objects"],
)
def test_health_answers_while_bodies_of_many_values_come(client, body):
    statuses = []
    with listening(client.app) as server:

        def post_body():
            caller = http.client.HTTPConnection(
                "127.0.0.1", server.port, timeout=60
            )
            headers = {"content-type": "application/json"}
            caller.request("POST", "/v1/lengths", body, headers)
            statuses.append(caller.getresponse().status)
            caller.close()

        threads = [threading.Thread(target=post_body) for _ in range(16)]
        for thread in threads:
            thread.start()
        waits = []
        while any(thread.is_alive() for thread in threads):
            began = time.monotonic()
            assert ask(server.port)[0] == 200
            waits.append(time.monotonic() - began)
            time.sleep(0.05)
    assert statuses == [413] * 16
    assert max(waits) < 5, waits


def test_a_body_is_read_once_and_not_in_the_event_loop(client, monkeypatch):
    threads = []

    def read(body):
        threads.append(threading.current_thread())
        return read_json(body)

    monkeypatch.setattr(http_module, "read_json", read)
    assert post(client, [{"text": "abc"}]).status_code == 200
    (thread,) = threads
    assert thread in http_module._JSON_THREAD._threads


def test_the_name_of_a_column_is_bounded(client):
    began = time.process_time()
    for name in ("x" * 6_900_000, "stay" * 1_000_000, "n" * 201):
        answer = post(client, [{"text": "abc", name: 1}])
        assert answer.status_code == 413
        assert "characters in the name of a column" in answer.json()["error"]
    assert time.process_time() - began < 10
    assert post(client, [{"text": "abc", "n" * 200: 1}]).status_code == 200


def test_the_time_of_a_call_counts_from_its_start(client):
    left = []

    async def slow_app(scope, receive, send):
        await asyncio.sleep(0.1)
        left.append(seconds_left())
        await AsciiResponse({})(scope, receive, send)

    app = http_module.shell(slow_app, client.service)
    TestClient(app, base_url="http://localhost").get("/")
    assert 0 < left[0] < client.service.settings.seconds - 0.09
    assert seconds_left() == float("inf")  # outside of a call


def test_every_log_line_of_a_call_has_its_request_id(client):
    line = json.loads(
        log_of(lambda: post(client, [{"text": "bug"}])).splitlines()[0]
    )
    assert line["event"] == "internal error"
    assert uuid.UUID(line["request"])


def log_of(action, level=logging.WARNING):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("domainbert")
    logger.addHandler(handler)
    before = logger.level
    logger.setLevel(level)
    try:
        action()
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
    return stream.getvalue()


def test_a_model_that_fails_its_example_is_not_ready(start):
    found = start(known=5.1)
    answer = TestClient(found.service.app, base_url="http://localhost").get(
        "/ready"
    )
    assert answer.status_code == 503
    assert "x: length of its card's example differs" in answer.json()["why"]


def test_pages_of_other_origins_only_by_list(start):
    client = TestClient(
        start(cors=("https://ehr.example",)).service.app,
        base_url="http://localhost",
    )
    asked = {"access-control-request-method": "POST"}
    for origin, allowed in {
        "https://ehr.example": True,
        "https://evil.example": False,
    }.items():
        answer = client.options(
            "/v1/lengths", headers={"origin": origin, **asked}
        )
        assert (
            answer.headers.get("access-control-allow-origin") == origin
        ) is allowed


def test_a_wrong_name_is_refused_without_loading_torch():
    code = "import sys, domainbert.service.served as s; s.announced(); "
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_models_are_found_by_name():
    from biomed.served import ENTITIES
    from clinical.bedside.served import READMISSION

    kinds = [READMISSION, ENTITIES]
    assert find_task("readmission-demo", kinds) == (
        READMISSION,
        "readmission-demo",
    )
    assert find_task("disease-drug", kinds) == (ENTITIES, "disease-drug")
    assert find_task("entities=hub:x/y", kinds) == (ENTITIES, "hub:x/y")
    with pytest.raises(
        UserError, match=r"no model 'nothing'.*readmission-demo.*TASK=NAME"
    ):
        find_task("nothing", kinds)
    with pytest.raises(UserError, match="TASK=NAME"):
        find_task("all-MiniLM-L6-v2", kinds)


def test_a_model_may_have_a_label(tmp_path, monkeypatch):
    from clinical.bedside.served import READMISSION

    shipped = shipped_models("clinical")["readmission-demo"]
    (tmp_path / "a=b").symlink_to(shipped)
    monkeypatch.chdir(tmp_path)
    for name, model in {
        "now=readmission-demo": "readmission-demo",
        "readmission=x": "x",
        "next=readmission=x": "x",
        "a=b": "a=b",
    }.items():
        assert find_task(name, [READMISSION]) == (READMISSION, model)


def serve(monkeypatch, *words, run=lambda *_, **__: None):
    """Runs `domainbert serve` up to uvicorn: the exit code, stderr, and the options of uvicorn."""
    started = []
    start = lambda *_, **options: run() or started.append(options)  # noqa: E731
    monkeypatch.setattr(uvicorn, "run", start)
    monkeypatch.setattr(served, "announced", lambda: [announce(LengthTask())])
    monkeypatch.setattr(
        app_module, "announced", lambda: [announce(LengthTask())]
    )
    result = CliRunner().invoke(
        command_line, ["serve", "--model", "lengths=x", *words]
    )
    return result.exit_code, result.stderr, started


def test_without_a_proxy_only_this_machine_is_answered(monkeypatch, tmp_path):
    clients = trust_file(tmp_path)
    for words, fault in (
        (["--host", "0.0.0.0"], "through a proxy (--behind-proxy) or by TLS"),
        (["--host", "::"], "through a proxy (--behind-proxy) or by TLS"),
        (["--host", "0.0.0.0", "--trust", clients], "--behind-proxy"),
        (["--host", "0.0.0.0", "--behind-proxy"], "name its clients"),
        (["--behind-proxy"], "name its clients"),
        (["--host", "0.0.0.0", "--certificate", "a.pem"], "name its clients"),
    ):
        code, errors, started = serve(monkeypatch, *words)
        assert (code, started) == (1, []), words
        assert fault in errors
    _, errors, _ = serve(monkeypatch)
    assert "http://127.0.0.1:8000, which only this machine can reach" in errors
    for words in (
        ["--host", "0.0.0.0", "--behind-proxy", "--trust", clients],
        ["--host", "0.0.0.0", "--certificate", "a.pem", "--trust", clients],
        ["--behind-proxy", "--trust", clients],
    ):
        code, errors, (_,) = serve(monkeypatch, *words)
        assert code == 0, errors
        assert "only this machine" not in errors


def trust_file(folder):
    (folder / "k.json").write_text("{}")
    file = folder / "clients.toml"
    table = '[[client]]\nissuer = "i"\njwks = "k.json"\naudience = "a"\n'
    file.write_text(table)
    return str(file)


def test_an_ipv6_address_is_in_brackets(monkeypatch):
    code, errors, (options,) = serve(monkeypatch, "--host", "::1")
    assert code == 0
    assert "open http://[::1]:8000" in errors
    assert options["host"] == "::1"
    assert options["ws"] == "none"  # a handshake would put its path in the log


def test_the_service_answers_under_its_ipv6_address(client):
    answer = client.get("/health", headers={"host": "[::1]:8000"})
    assert answer.status_code == 200


def test_the_folder_of_a_killed_service_is_removed_at_the_next_start(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with folder_beside(tmp_path / "domainbert") as mine:
        name = mine.name.replace(f"-{os.getpid()}-", "-999999999-")
    leftover = tmp_path / name
    leftover.mkdir()
    (leftover / "windows.sqlite").touch()
    modes = []

    def run(*_, **__):
        modes.extend(
            path.stat().st_mode & 0o777 for path in tmp_path.iterdir()
        )

    assert serve(monkeypatch, run=run)[0] == 0
    assert modes == [0o700]
    assert list(tmp_path.iterdir()) == []


def test_systemd_s_cleaner_skips_the_folder_of_a_running_service(
    monkeypatch, tmp_path
):
    """It leaves alone what it cannot lock (tmpfiles.d)."""
    fcntl = pytest.importorskip("fcntl", reason="no file locks of POSIX")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def run(*_, **__):
        (work,) = tmp_path.iterdir()
        folder = os.open(work, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(folder)

    assert serve(monkeypatch, run=run)[0] == 0


def test_few_compiled_kernels_are_kept_unless_the_operator_says_more(
    monkeypatch,
):
    name = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
    capacities = []

    def run(*_, **__):
        capacities.append(os.environ[name])

    monkeypatch.setenv(name, "100")
    assert serve(monkeypatch, run=run)[0] == 0
    monkeypatch.delenv(name)
    assert serve(monkeypatch, run=run)[0] == 0
    assert capacities == ["100", "8"]


def test_check_starts_nothing_and_names_what_is_wrong(monkeypatch, tmp_path):
    code, errors, started = serve(monkeypatch, "--check")
    assert (code, started) == (0, [])
    assert errors.splitlines()[-1] == "ready: lengths=x"
    clients = trust_file(tmp_path)
    certificate = tmp_path / "cert.pem"
    certificate.write_text("no certificate")
    for words, fault in (
        (["--trust", clients], "i: k.json gives no key for ES384 or RS384"),
        (
            ["--certificate", str(certificate), "--key", str(certificate)],
            "cert.pem",
        ),
    ):
        code, errors, started = serve(monkeypatch, "--check", *words)
        assert (code, started) == (1, [])
        assert fault in errors
