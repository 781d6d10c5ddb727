"""Slow, silent and many clients of `deploy/nginx.conf`, in front of a service."""

import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import time
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from tests.domainbert.service.conftest import connect, listening

CONFIGURATION = Path(__file__).parents[3] / "deploy" / "nginx.conf"
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
HOST = "127.0.0.1"
OTHER_ADDRESS = "127.0.0.2"
HEAD = b"POST /v1/lengths HTTP/1.1\r\nhost: localhost\r\n"
HEAD += b"content-type: application/json\r\n"

pytestmark = pytest.mark.skipif(
    NGINX is None, reason="no nginx here: apt-get install nginx-light"
)


def write_certificate(folder):
    """A certificate that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")]
    )
    now = datetime.now(UTC)
    certificate = x509.CertificateBuilder(
        name,
        name,
        key.public_key(),
        x509.random_serial_number(),
        now,
        now.replace(year=2999),
    ).sign(key, SHA256())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "key.pem").write_bytes(pem)
    pem = certificate.public_bytes(Encoding.PEM)
    (folder / "cert.pem").write_bytes(pem)


def free_port():
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return listener.getsockname()[1]


@contextmanager
def proxied(folder, port, changes=None):
    """nginx with our configuration, changed in these texts, in front of this port."""
    write_certificate(folder)
    own_port = free_port()
    text = CONFIGURATION.read_text()
    replacements = {
        "/etc/domainbert": str(folder),
        "/var/log/nginx": str(folder),
        "listen 443": f"listen {HOST}:{own_port}",
        f"{HOST}:8000": f"{HOST}:{port}",
    }
    for old, new in (replacements | (changes or {})).items():
        assert old in text
        text = text.replace(old, new)
    start = f"pid {folder}/pid;\ndaemon off;\n"
    if os.geteuid() == 0:
        start += "user root;\n"
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = [f"{kind}_temp_path {folder}/{kind};" for kind in kinds]
    text = text.replace("http {", "http {\n" + "\n".join(paths), 1)
    file = folder / "nginx.conf"
    file.write_text(start + text)
    command = [NGINX, "-p", str(folder), "-e", "stderr", "-c", str(file)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    proxy = SimpleNamespace(port=own_port, folder=folder)
    try:
        wait_until(lambda: process.poll() is not None or is_open(own_port))
        assert process.poll() is None, process.stderr.read()
        yield proxy
    finally:
        process.terminate()
        process.communicate()


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def is_open(port):
    with suppress(OSError), socket.create_connection((HOST, port)):
        return True
    return False


def connection(proxy, *, address=HOST, tls=True):
    """A connection from an address of this machine."""
    plain = socket.create_connection(
        (HOST, proxy.port), timeout=60, source_address=(address, 0)
    )
    if not tls:
        return plain
    context = ssl.create_default_context(cafile=proxy.folder / "cert.pem")
    return context.wrap_socket(plain, server_hostname="localhost")


def is_closed(client):
    """Whether the proxy closes a connection, after what it still sends."""
    with suppress(ConnectionError):
        while client.recv(4096):
            pass
    return True


def call(proxy, method="GET", path="/health", body=None, *, address=HOST):
    """The status, the headers and the JSON of a response."""
    client = http.client.HTTPSConnection("localhost", timeout=60)
    client.sock = connection(proxy, address=address)
    headers = {"content-type": "application/json"}
    client.request(method, path, body, headers)
    answer = client.getresponse()
    content = json.loads(answer.read())
    client.close()
    return answer.status, answer.headers, content


def records(text, n=1):
    return json.dumps({"records": [{"text": text}] * n}).encode()


def test_a_call_goes_through_with_its_headers(client, tmp_path):
    with (
        listening(client.app) as server,
        proxied(tmp_path, server.port) as proxy,
    ):
        status, headers, answer = call(
            proxy, "POST", "/v1/lengths", records("abc")
        )
        assert (status, answer["records"][0]["length"]) == (200, 3)
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-request-id"]
        moved = http.client.HTTPSConnection("localhost", timeout=60)
        moved.sock = connection(proxy)
        moved.request("GET", "/docs", headers={"host": "localhost:4"})
        location = moved.getresponse().headers["location"]
        moved.close()
    assert location == "https://localhost:4/docs/"


def test_slow_and_silent_connections_are_closed(client, tmp_path):
    with (
        listening(client.app) as server,
        proxied(
            tmp_path,
            server.port,
            {
                "header_timeout 10s": "header_timeout 1s",
                "body_timeout 10s": "body_timeout 1s",
            },
        ) as proxy,
    ):
        without_handshake = connection(proxy, tls=False)
        silent = connection(proxy)
        slow = connection(proxy)
        half_body = connection(proxy)
        half_body.sendall(HEAD + b"content-length: 10\r\n\r\n{")
        with suppress(OSError):
            for _ in range(30):  # a byte at a time does not help
                slow.sendall(b"G")
                time.sleep(0.1)
        for one in (without_handshake, silent, slow, half_body):
            assert is_closed(one)
            one.close()
        assert server.server_state.total_requests == 0
        assert call(proxy)[0] == 200


def test_silent_connections_keep_nobody_out(client, tmp_path):
    """They are more than nginx has: it closes the oldest of them."""
    with (
        ExitStack() as stack,
        listening(client.app) as server,
        proxied(
            tmp_path,
            server.port,
            {
                "worker_connections 4096": "worker_connections 128",
                "worker_processes auto": "worker_processes 1",
            },
        ) as proxy,
    ):
        silent = [
            stack.enter_context(connection(proxy, tls=False))
            for _ in range(300)
        ]
        assert call(proxy)[0] == 200
        assert call(proxy, "POST", "/v1/lengths", records("a"))[0] == 200
        assert is_closed(silent[0])


def test_the_129th_connection_of_an_address_is_answered_503(client, tmp_path):
    with (
        ExitStack() as stack,
        listening(client.app) as server,
        proxied(tmp_path, server.port) as proxy,
    ):
        for _ in range(128):
            one = stack.enter_context(connection(proxy))
            one.sendall(HEAD + b"content-length: 10\r\n\r\n{")

        def post(address):
            return call(
                proxy, "POST", "/v1/lengths", records("abc"), address=address
            )

        assert wait_until(lambda: post(HOST)[0] == 503)
        _, headers, answer = post(HOST)
        assert headers["retry-after"] == "5"
        assert answer["status"] == 503
        assert "too many calls" in answer["error"]
        assert post(OTHER_ADDRESS)[0] == 200
        assert call(proxy)[0] == 200  # /health


def test_calls_beyond_those_of_the_service_are_answered_503(start, tmp_path):
    client = connect(start(seconds=60.0))
    with (
        ExitStack() as stack,
        listening(client.app) as server,
        proxied(
            tmp_path,
            server.port,
            {"max_conns=500": "max_conns=5"},
        ) as proxy,
    ):
        body = records("wait")
        head = HEAD + b"content-length: %d\r\n\r\n" % len(body)
        busy = [stack.enter_context(connection(proxy)) for _ in range(5)]
        for one in busy:
            one.sendall(head + body)
        assert wait_until(lambda: len(server.server_state.tasks) == 5)
        status, headers, _ = call(proxy, "POST", "/v1/lengths", records("a"))
        assert (status, headers["retry-after"]) == (503, "5")
        assert call(proxy)[0] == 200
        client.task.release.set()
        for one in busy:
            assert one.recv(100).startswith(b"HTTP/1.1 200")


def test_a_long_body_is_refused_in_words(client, tmp_path):
    with (
        listening(client.app) as server,
        proxied(tmp_path, server.port) as proxy,
    ):
        # By the service, which knows --max-characters, and by nginx.
        for n_bytes, words in (
            (7_500_000, "7,500,000 bytes; expected at most 7,048,576"),
            (50_000_000, "more bytes than this server reads"),
        ):
            status, headers, answer = call(
                proxy, "POST", "/v1/lengths", b" " * n_bytes
            )
            assert (status, answer["status"]) == (413, 413)
            assert headers["content-type"] == "application/json"
            assert words in answer["error"]


def test_a_body_stays_in_memory(client, tmp_path):
    body = records("x" * 400_000)
    with (
        listening(client.app) as server,
        proxied(tmp_path, server.port) as proxy,
        connection(proxy) as one,
    ):
        one.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(body))
        one.sendall(body[:-1])
        time.sleep(0.5)
        assert not [
            file
            for file in (tmp_path / "client_body").rglob("*")
            if file.is_file()
        ]
        one.sendall(body[-1:])
        assert one.recv(100).startswith(b"HTTP/1.1 200")


def test_a_body_with_two_lengths_is_refused(client, tmp_path):
    """What one server takes for the body of a request may hold a second one."""
    second = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
    lengths = b"content-length: %d\r\ntransfer-encoding: chunked\r\n\r\n"
    with (
        listening(client.app) as server,
        proxied(tmp_path, server.port) as proxy,
        connection(proxy) as one,
    ):
        one.sendall(HEAD + lengths % (5 + len(second)) + b"0\r\n\r\n" + second)
        answers = b"".join(iter(lambda: one.recv(4096), b""))
    assert answers.startswith(b"HTTP/1.1 400")
    assert answers.count(b"HTTP/1.1") == 1


def test_a_client_that_does_not_read_is_closed(start, tmp_path):
    client = connect(start(max_characters=10_000_000))
    body = json.dumps(
        {"records": [{"stay_id": "s" * 50_000, "text": "a"}] * 150}
    ).encode()
    with (
        listening(client.app) as server,
        proxied(
            tmp_path,
            server.port,
            {
                "send_timeout 30s": "send_timeout 1s",
                "max_body_size 8m": "max_body_size 20m",
            },
        ) as proxy,
        connection(proxy) as one,
    ):
        one.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)
        assert wait_until(lambda: server.server_state.connections)
        assert wait_until(lambda: not server.server_state.connections)


def test_a_service_that_is_not_there_is_503_in_json(tmp_path):
    with proxied(tmp_path, free_port()) as proxy:
        for path in ("/v1/lengths", "/health"):
            status, headers, answer = call(proxy, path=path)
            assert (status, answer["status"]) == (503, 503)
            assert headers["retry-after"] == "5"


def test_a_stop_answers_the_calls_that_were_begun(start, tmp_path):
    client = connect(start(seconds=60.0))
    body = records("wait")
    head = HEAD + b"content-length: %d\r\n\r\n" % len(body)
    with (
        ExitStack() as stack,
        listening(client.app) as server,
        proxied(tmp_path, server.port) as proxy,
    ):
        busy = [stack.enter_context(connection(proxy)) for _ in range(8)]
        for one in busy:
            one.sendall(head + body)
        assert wait_until(lambda: len(server.server_state.tasks) == 8)
        server.should_exit = True
        client.task.release.set()
        for one in busy:
            assert one.recv(100).startswith(b"HTTP/1.1 200")
        assert call(proxy, "POST", "/v1/lengths", body)[0] == 503
