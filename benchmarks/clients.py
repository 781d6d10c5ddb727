"""`domainbert serve` in a process of its own, and clients that send it notes."""

from __future__ import annotations

import http.client
import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from measuring import resident_bytes, seconds_of

CLIENTS = 32
TIMEOUT = 600  # seconds for a request; on a busy machine it waits


class Service:
    """`domainbert serve` with one model, until the end of a `with` block.

    Attributes:
        port: where it listens on this machine.
    """

    def __init__(self, model: str) -> None:
        self.port = free_port()
        program = Path(sys.executable).with_name("domainbert")
        command = [
            str(program),
            "serve",
            f"--model={model}",
            f"--port={self.port}",
            f"--seconds={TIMEOUT}",
            "--log-level=warning",
        ]
        self.process = subprocess.Popen(  # noqa: S603
            command,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"MALLOC_ARENA_MAX": "2"},  # as in deploy/
        )

    def __enter__(self) -> Self:
        while not self.is_up():
            if self.process.poll() is not None:
                sys.exit("domainbert serve ended before it answered")
            time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()

    def is_up(self) -> bool:
        """Whether it answers."""
        try:
            status = Client(self.port).call("GET", "/health")
        except OSError:
            return False
        return status == http.client.OK

    def megabytes(self) -> float:
        """Its resident memory in MiB."""
        return resident_bytes(self.process.pid) / 2**20

    def processor_seconds(self) -> float:
        """Its processor time so far."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text("utf-8")
        # The name of the program, in brackets, may have spaces.
        _, _, fields = stat.rpartition(")")
        user, system = fields.split()[11:13]
        ticks = int(user) + int(system)
        return ticks / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Client:
    """One connection that stays open."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection(
            "127.0.0.1",
            port,
            timeout=TIMEOUT,
        )

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
    ) -> int:
        """Send one request, read its answer, and return the status."""
        headers = {"content-type": "application/json"}
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        answer.read()
        return answer.status

    def score(self, body: bytes) -> float:
        """Seconds until the risk is there."""
        return seconds_of(lambda: self._post(body))

    def _post(self, body: bytes) -> None:
        status = self.call("POST", "/v1/readmission", body)
        if status != http.client.OK:
            raise RuntimeError(f"expected the status 200, got {status}")


def with_mark(notes: Sequence[str], mark: str) -> list[str]:
    """The notes with a mark in every sentence, so that no cache has one of their windows."""
    return [
        note.replace(".", f" {mark}{number}.")
        for number, note in enumerate(notes)
    ]


def request_bodies(notes: Sequence[str], mark: str) -> list[bytes]:
    """A request for each note, with a mark in its sentences."""
    texts = with_mark(notes, mark)
    records = [{"records": [{"text": [text]}]} for text in texts]
    return [json.dumps(record).encode() for record in records]


def send_all(
    port: int,
    bodies: Sequence[bytes],
    *,
    rate: float | None = None,
) -> list[float]:
    """Seconds of each request, by `CLIENTS` clients, as fast as they can or so many a second."""
    waits: list[float] = []
    pending: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def work() -> None:
        client = Client(port)
        while (body := pending.get()) is not None:
            waits.append(client.score(body))

    threads = [threading.Thread(target=work) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    start = time.perf_counter()
    for number, body in enumerate(bodies):
        if rate:
            due = start + number / rate
            time.sleep(max(0.0, due - time.perf_counter()))
        pending.put(body)
    for _ in threads:
        pending.put(None)
    for thread in threads:
        thread.join()
    if len(waits) != len(bodies):  # a client that fails ends its thread
        raise RuntimeError(
            f"{len(waits)} of {len(bodies)} requests were answered"
        )
    return waits
