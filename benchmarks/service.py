"""`domainbert serve` against `predict_many`, side by side on the same notes and threads.

- throughput: short stays of a made-up hospital, one a request, from 32 clients, and how long each
  of these waits;
- waiting: a discharge summary alone, and at a load of 70%: one comes every two seconds, and short
  stays come at the constant rate that makes up the rest of the load;
- memory: of the service over many requests;
- processor time: of a short stay in the library, in the service and in its clients, and the share
  of the cores that the service and its clients keep busy.

The clients share the processors with the service, and the library does not pay for them.

    python benchmarks/service.py --out service.json
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from reporting import options, report, say, seconds_of, spread

from clinical import ReadmissionModel
from clinical.datasets.hospital import synthesize

MODEL, CLIENTS, LOAD = "readmission-demo", 32, 0.7
EVERY = 2.0  # seconds between two discharge summaries
TIMEOUT = 600  # seconds for a request; on a busy machine it waits


class Service:
    """`domainbert serve` in a process of its own."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [
            str(Path(sys.executable).with_name("domainbert")),
            "serve",
            "--model",
            MODEL,
        ]
        command += [
            "--port",
            str(self.port),
            "--log-level",
            "warning",
            "--seconds",
            str(TIMEOUT),
        ]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)  # noqa: S603
        while not self.answers():
            time.sleep(0.2)

    def answers(self) -> bool:
        """Whether it is up."""
        try:
            return Client(self.port).call("GET", "/health") == 200
        except OSError:
            return False

    def megabytes(self) -> float:
        """Its resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def processor_seconds(self) -> float:
        """Its processor time so far."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


class Client:
    """One connection that stays open."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection(
            "127.0.0.1", port, timeout=TIMEOUT
        )

    def call(self, method: str, path: str, body: bytes | None = None) -> int:
        """Send one request and read its answer."""
        self.connection.request(
            method, path, body, {"content-type": "application/json"}
        )
        answer = self.connection.getresponse()
        answer.read()
        return answer.status

    def score(self, body: bytes) -> float:
        """Seconds until the risk is there."""
        start = time.perf_counter()
        if (status := self.call("POST", "/v1/readmission", body)) != 200:
            raise RuntimeError(f"expected the status 200, got {status}")
        return time.perf_counter() - start


def marked(notes: list[str], mark: str) -> list[str]:
    """Notes with a mark of their own in every sentence: none of their windows is in a cache."""
    return [
        note.replace(".", f" {mark}{number}.")
        for number, note in enumerate(notes)
    ]


def bodies(notes: list[str], mark: str) -> list[bytes]:
    """A request for each note."""
    texts = marked(notes, mark)
    return [
        json.dumps({"records": [{"text": [text]}]}).encode() for text in texts
    ]


def together(
    port: int, requests: list[bytes], rate: float | None = None
) -> list[float]:
    """Seconds for each request from `CLIENTS` clients, as fast as they can or at a rate."""
    waits: list[float] = []
    left: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def work() -> None:
        client = Client(port)
        while (body := left.get()) is not None:
            waits.append(client.score(body))

    threads = [threading.Thread(target=work) for _ in range(CLIENTS)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for number, body in enumerate(requests):
        if rate:
            time.sleep(max(0.0, start + number / rate - time.perf_counter()))
        left.put(body)
    for _ in threads:
        left.put(None)
    for thread in threads:
        thread.join()
    assert len(waits) == len(requests)  # noqa: S101  (a client that fails ends its thread)
    return waits


def made_up(brief: bool, count: int) -> list[str]:  # noqa: FBT001
    """Discharge summaries of a made-up hospital."""
    with tempfile.TemporaryDirectory() as folder:
        synthesize(folder, stays=2 * count, seed=5, brief=brief)
        table = pd.read_csv(
            Path(folder) / "NOTEEVENTS.csv", usecols=["CATEGORY", "TEXT"]
        )
    return table.loc[
        table["CATEGORY"] == "Discharge summary", "TEXT"
    ].tolist()[:count]


def main() -> None:
    """Measure and report."""
    parser = options(__doc__ or "")
    parser.add_argument(
        "--requests", type=int, default=10_000, help="for the memory (10000)"
    )
    asked = parser.parse_args()
    count, longer = (32, 4) if asked.quick else (1000, 50)
    short, long = (
        made_up(brief=True, count=count),
        made_up(brief=False, count=longer),
    )
    model, service = ReadmissionModel.from_pretrained(MODEL), Service()
    client, rounds = Client(service.port), 1 if asked.quick else asked.rounds
    ours, library, waits = [], [], []
    work: dict[str, list[float]] = {
        "library": [],
        "service": [],
        "clients": [],
    }
    busy_shares = []
    for turn in range(rounds):
        say(f"throughput, round {turn + 1} of {rounds}")
        texts = [[text] for text in marked(short, f"l{turn}x")]
        before = time.process_time()
        seconds = seconds_of(lambda: list(model.predict_many(texts)))  # noqa: B023
        work["library"].append(time.process_time() - before)
        library.append(len(short) / seconds)
        requests = bodies(short, f"s{turn}x")
        before = time.process_time()
        served = service.processor_seconds()
        seconds = seconds_of(
            lambda: waits.extend(together(service.port, requests))  # noqa: B023
        )
        work["clients"].append(time.process_time() - before)
        work["service"].append(service.processor_seconds() - served)
        ours.append(len(short) / seconds)
        cores = seconds * len(os.sched_getaffinity(0))
        busy_shares.append((work["clients"][-1] + work["service"][-1]) / cores)
    shares = [a / b for a, b in zip(ours, library, strict=True)]
    say(
        f"{spread(ours, '.1f')} a second, {spread(shares, '.2f')} of predict_many; waiting"
    )
    alone = [client.score(body) for body in bodies(long, "alone")]
    rate = float((LOAD - np.mean(alone) / EVERY) * np.median(ours))
    if rate <= 0:
        raise SystemExit(
            "the summaries alone are more than the load; raise EVERY"
        )
    needed = int(rate * EVERY * (len(long) + 1))
    background = bodies((short * (1 + needed // len(short)))[:needed], "b")
    busy = threading.Thread(
        target=together, args=(service.port, background, rate)
    )
    busy.start()
    loaded = []
    for body in bodies(long, "loaded"):
        time.sleep(max(0.0, EVERY - (loaded[-1] if loaded else 0.0)))
        loaded.append(client.score(body))
    busy.join()
    both = [float(np.percentile(times, 95)) for times in (alone, loaded)]
    say(f"95th percentiles {both[0]:.3f} and {both[1]:.3f} s; memory")
    count, memory = (
        64 if asked.quick else asked.requests,
        [service.megabytes()],
    )
    for part in range(4):  # flat, or does it grow?
        quarter = (short * (1 + count // len(short)))[: count // 4]
        together(service.port, bodies(quarter, f"m{part}x"))
        memory.append(service.megabytes())
    service.process.terminate()
    p95 = [float(np.percentile(times, 95)) for times in (alone, loaded, waits)]
    rows = [
        {
            "what": "short stays a second, predict_many",
            "measured": spread(library, ".1f"),
        },
        {
            "what": f"the same, {CLIENTS} clients of the service",
            "measured": spread(ours, ".1f"),
        },
        {"what": "share of predict_many", "measured": spread(shares, ".2f")},
        *(
            {
                "what": f"processor time of a short stay then: {name}",
                "measured": f"{1000 * np.mean(seconds) / len(short):.1f} ms",
            }
            for name, seconds in work.items()
        ),
        {
            "what": "share of the cores in use then, service and clients",
            "measured": spread(busy_shares, ".2f"),
        },
        {
            "what": "wait of a short stay then, 95th percentile",
            "measured": f"{p95[2]:.3f} s",
        },
        {
            "what": "discharge summary alone, 95th percentile",
            "measured": f"{p95[0]:.3f} s",
        },
        {
            "what": f"the same at {LOAD:.0%} load",
            "measured": f"{p95[1]:.3f} s",
        },
        {
            "what": f"memory before, at each quarter and after {count:,} scored requests",
            "measured": f"{', '.join(f'{each:.0f}' for each in memory)} MB",
        },
    ]
    setting = {
        "model": MODEL,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    measured = {
        "library": library,
        "service": ours,
        "alone": alone,
        "loaded": loaded,
    }
    measured["waits"] = waits
    measured["busy"] = busy_shares
    measured |= {f"processor {name}": times for name, times in work.items()}
    report(
        rows,
        setting=setting,
        measured=measured | {"memory": memory},
        out=asked.out,
    )


if __name__ == "__main__":
    main()
