"""Speed and memory of `domainbert serve` against `predict_many`, on the same notes and cores.

    python benchmarks/service.py --out service.json

Takes 25 minutes on two cores. It measures:

- throughput: short stays of a made-up hospital, one a request, from 32 clients, in turn with
  `predict_many`, and how long each of these requests waits;
- waiting: a discharge summary alone, and at a load of 70%, where one comes every two seconds and
  short stays come at the constant rate that makes up the rest of the load;
- memory of the service over many requests (--requests);
- processor time of a short stay in the library, in the service and in its clients, and the share
  of the cores that the service and its clients keep busy.

How to read the table: "share of predict_many" is 1 where the service costs nothing; the clients
share the cores with the service, and the library does not pay for them. A cell with brackets is
the median of the rounds with the smallest and the largest. Memory should not grow from one quarter
of the requests to the next. A calibration before and after each round shows whether other work
slowed the machine; then the round is measured again, at most three times.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count, cycle, islice

import numpy as np
import torch
from clients import (
    CLIENTS,
    Client,
    Service,
    request_bodies,
    send_all,
    with_mark,
)
from made_up_notes import discharge_summaries
from measuring import QuietMachine, say, seconds_of
from reporting import options, rates, ratios, report, spread

from clinical import ReadmissionModel
from domainbert.progress import counted

MODEL = "readmission-demo"
LOAD = 0.7
INTERVAL = 2.0  # seconds between two discharge summaries
QUARTERS = 4  # of the requests, after each of which the memory is read
_MARKS = count()  # no cache has a text that was measured before


@dataclass
class Throughput:
    """Short stays by the library and by the service; lists hold one value a round.

    Attributes:
        stays: how many in each round.
        library: seconds of `predict_many`.
        service: seconds of the service.
        processor: processor seconds of "library", "service" and "clients".
        waits: seconds of every request.
    """

    stays: int
    library: list[float] = field(default_factory=list)
    service: list[float] = field(default_factory=list)
    processor: dict[str, list[float]] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.processor = {"library": [], "service": [], "clients": []}

    def add_library(self, model: ReadmissionModel, texts: list[str]) -> None:
        """Measure one round of `predict_many`."""
        stays = [[text] for text in texts]
        before = time.process_time()
        seconds = seconds_of(lambda: list(model.predict_many(stays)))
        self.processor["library"].append(time.process_time() - before)
        self.library.append(seconds)

    def add_service(self, service: Service, bodies: list[bytes]) -> None:
        """Measure one round of the service and its clients."""
        before = time.process_time()
        served_before = service.processor_seconds()
        start = time.perf_counter()
        self.waits += send_all(service.port, bodies)
        self.service.append(time.perf_counter() - start)
        served = service.processor_seconds() - served_before
        self.processor["clients"].append(time.process_time() - before)
        self.processor["service"].append(served)

    def add(self, other: Throughput) -> None:
        """Add the rounds of another measurement of as many stays."""
        self.library += other.library
        self.service += other.service
        self.waits += other.waits
        for name, seconds in other.processor.items():
            self.processor[name] += seconds

    def stays_a_second(self) -> float:
        """Of the service, the median of the rounds."""
        return float(np.median(rates(self.stays, self.service)))

    def busy_shares(self) -> list[float]:
        """The share of the cores that the service and its clients keep busy."""
        cores = len(os.sched_getaffinity(0))
        served = np.array(self.processor["service"])
        sent = np.array(self.processor["clients"])
        return list((served + sent) / np.array(self.service) / cores)

    def measured(self) -> dict[str, list[float]]:
        """All numbers, for the JSON file."""
        numbers = {
            "library": rates(self.stays, self.library),
            "service": rates(self.stays, self.service),
            "waits": self.waits,
            "busy": self.busy_shares(),
        }
        for name, seconds in self.processor.items():
            numbers[f"processor {name}"] = seconds
        return numbers


def measure_throughput(
    model: ReadmissionModel,
    service: Service,
    notes: list[str],
    *,
    rounds: int,
    machine: QuietMachine,
) -> Throughput:
    """The library and the service in turn; no round repeats the texts of another."""

    def one_round() -> Throughput:
        mark = next(_MARKS)
        measured = Throughput(len(notes))
        measured.add_library(model, with_mark(notes, f"l{mark}x"))
        measured.add_service(service, request_bodies(notes, f"s{mark}x"))
        return measured

    throughput = Throughput(len(notes))
    for number in range(1, rounds + 1):
        name = f"throughput, round {number} of {rounds}"
        say(name)
        throughput.add(machine.measure(name, one_round))
    return throughput


def measure_alone(service: Service, summaries: list[str]) -> list[float]:
    """Seconds of each discharge summary while the service does nothing else."""
    client = Client(service.port)
    bodies = request_bodies(summaries, f"alone{next(_MARKS)}x")
    requests = counted(
        bodies,
        what="summaries alone",
        total=len(bodies),
    )
    return [client.score(body) for body in requests]


def background_rate(alone: Sequence[float], stays_a_second: float) -> float:
    """Short stays a second that, with a summary every `INTERVAL` seconds, make up the load."""
    share_of_summaries = np.mean(alone) / INTERVAL
    rate = float((LOAD - share_of_summaries) * stays_a_second)
    if rate <= 0:
        raise SystemExit(
            "the summaries alone are more than the load; raise INTERVAL"
        )
    return rate


def measure_loaded(
    service: Service,
    summaries: list[str],
    notes: list[str],
    *,
    rate: float,
) -> list[float]:
    """Seconds of each discharge summary while short stays come at a rate."""
    client = Client(service.port)
    n_background = int(rate * INTERVAL * (len(summaries) + 1))
    mark = next(_MARKS)
    background = request_bodies(repeated(notes, n_background), f"b{mark}x")
    sender = threading.Thread(
        target=send_all,
        args=(service.port, background),
        kwargs={"rate": rate},
    )
    sender.start()
    bodies = request_bodies(summaries, f"loaded{mark}x")
    waits: list[float] = []
    for body in counted(
        bodies,
        what="summaries at load",
        total=len(bodies),
    ):
        last_wait = waits[-1] if waits else 0.0
        time.sleep(max(0.0, INTERVAL - last_wait))
        waits.append(client.score(body))
    sender.join()
    return waits


def measure_memory(
    service: Service,
    notes: list[str],
    *,
    requests: int,
) -> list[float]:
    """MiB of the service before and after each quarter of the requests."""
    quarter = repeated(notes, requests // QUARTERS)
    memory = [service.megabytes()]
    for number in counted(
        range(QUARTERS),
        what="memory",
        total=QUARTERS,
    ):
        send_all(service.port, request_bodies(quarter, f"m{number}x"))
        memory.append(service.megabytes())
    return memory


def repeated(notes: Sequence[str], count: int) -> list[str]:
    """So many notes, from the first again after the last."""
    return list(islice(cycle(notes), count))


def percentile_text(waits: Sequence[float]) -> str:
    """The 95th percentile of waits."""
    return f"{np.percentile(waits, 95):.3f} s"


def table_rows(
    throughput: Throughput,
    *,
    alone: Sequence[float],
    loaded: Sequence[float],
    memory: Sequence[float],
    requests: int,
) -> list[dict[str, str]]:
    """What the benchmark prints, a row for each number."""
    stays = throughput.stays
    of_library = rates(stays, throughput.library)
    of_service = rates(stays, throughput.service)
    shares = ratios(of_service, of_library)
    cells = {
        "short stays a second, predict_many": spread(of_library, ".1f"),
        f"the same, {CLIENTS} clients of the service": spread(
            of_service,
            ".1f",
        ),
        "share of predict_many": spread(shares, ".2f"),
    }
    for name, seconds in throughput.processor.items():
        milliseconds = 1000 * np.mean(seconds) / stays
        title = f"processor time of a short stay then: {name}"
        cells[title] = f"{milliseconds:.1f} ms"
    busy = spread(throughput.busy_shares(), ".2f")
    cells["share of the cores in use then, service and clients"] = busy
    waits = percentile_text(throughput.waits)
    cells["wait of a short stay then, 95th percentile"] = waits
    cells["discharge summary alone, 95th percentile"] = percentile_text(alone)
    cells[f"the same at {LOAD:.0%} load"] = percentile_text(loaded)
    title = f"memory before, at each quarter and after {requests:,} scored requests"
    megabytes = ", ".join(f"{reading:.0f}" for reading in memory)
    cells[title] = f"{megabytes} MB"
    return [{"what": title, "measured": cell} for title, cell in cells.items()]


def main() -> None:
    """Measure and report."""
    parser = options(__doc__)
    parser.add_argument(
        "--requests",
        type=int,
        default=10_000,
        help="for the memory (10000)",
    )
    asked = parser.parse_args()
    n_short = 1000
    n_summaries = 50
    if asked.quick:
        n_short = 32
        n_summaries = 4
        asked.rounds = 1
        asked.requests = 64
    notes = discharge_summaries(
        n_short,
        stays=2 * n_short,
        seed=5,
        brief=True,
    )
    summaries = discharge_summaries(
        n_summaries,
        stays=2 * n_summaries,
        seed=5,
    )
    model = ReadmissionModel.from_pretrained(MODEL)
    machine = QuietMachine()
    with Service(MODEL) as service:
        throughput = measure_throughput(
            model,
            service,
            notes,
            rounds=asked.rounds,
            machine=machine,
        )
        alone = machine.measure(
            "summaries alone", lambda: measure_alone(service, summaries)
        )
        rate = background_rate(alone, throughput.stays_a_second())
        loaded = machine.measure(
            "summaries at load",
            lambda: measure_loaded(service, summaries, notes, rate=rate),
        )
        memory = measure_memory(service, notes, requests=asked.requests)
    rows = table_rows(
        throughput,
        alone=alone,
        loaded=loaded,
        memory=memory,
        requests=asked.requests,
    )
    rows.append(
        {"what": "the machine was quiet", "measured": machine.verdict()}
    )
    numbers = {
        "alone": alone,
        "loaded": loaded,
        "memory": memory,
    }
    setting = {
        "model": MODEL,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    report(
        rows,
        setting=setting,
        measured=throughput.measured() | numbers,
        out=asked.out,
    )


if __name__ == "__main__":
    main()
