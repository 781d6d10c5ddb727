"""Time and memory of `build_cohort` against the usual pandas way, on a made-up hospital.

    python benchmarks/cohort.py --out cohort.json
    python benchmarks/cohort.py --notes 10000 --rounds 1      # does it run?

Takes 15 minutes on two cores, and 10 GB of disk. Tables in the shape of MIMIC-III are written for
the run (`big_hospital.py`), in a temporary folder, and removed. Each way runs in a process of its
own, which gives its peak memory:

- ours: `build_cohort`, at discharge, from the CSV files to the cohort file;
- early: the same for prediction 48 hours after admission;
- pandas: as the 2019 code does: read everything, sort, merge notes with admissions, group by stay;
- lean pandas: the same from the columns it needs, and of the notes the discharge summaries alone.

How to read the table: a row is one way on one size of the hospital; a cell is the median of the
rounds with the smallest and the largest. Pandas is timed at the largest of the sizes that it
manages within --pandas-memory. The sentences below the table have the ratios of the two, round by
round. Ours and pandas must agree on every label and every text; the exit status is 1 if not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from big_hospital import Hospital, write_hospital
from measuring import print_cost, resident_bytes, say
from reporting import options, rates, ratios, report, spread, versions_of

SIZES = (500_000, 1_000_000, 2_000_000)
GIGABYTE = 1e9
OURS = "ours"
EARLY = "early"
PANDAS = "pandas"
LEAN = "lean pandas"
WITH_PANDAS = (PANDAS, LEAN)


@dataclass(frozen=True)
class Cohort:
    """What a way made.

    Attributes:
        kept: stays of the cohort.
        readmitted: how many of them.
        sha256: of the labels and texts, in any order of the stays.
    """

    kept: int
    readmitted: int
    sha256: str


@dataclass(frozen=True)
class Measured:
    """One way on one hospital; a list holds one value a round.

    Attributes:
        method: "ours", "early", "pandas" or "lean pandas".
        notes: of the hospital.
        stays: of the hospital.
        bytes: of its CSV.
        seconds: from the files to the cohort.
        peaks: bytes, the largest resident memory of the process.
        cohort: what the way made.
    """

    method: str
    notes: int
    stays: int
    bytes: int
    seconds: list[float]
    peaks: list[int]
    cohort: Cohort

    def row(self) -> dict[str, str]:
        """A row of the table."""
        speeds = rates(self.bytes / 1e6, self.seconds)
        peaks = [peak / GIGABYTE for peak in self.peaks]
        kept = f"{self.cohort.kept:,} stays"
        readmitted = f"{self.cohort.readmitted:,} readmitted"
        return {
            "way": self.method,
            "notes": f"{self.notes:,}",
            "stays": f"{self.stays:,}",
            "CSV, GB": f"{self.bytes / GIGABYTE:.2f}",
            "seconds": spread(self.seconds, ".1f"),
            "MB/s": spread(speeds, ".0f"),
            "peak memory, GB": spread(peaks, ".2f"),
            "cohort": f"{kept}, {readmitted}",
        }


def run_way(
    method: str,
    folder: Path,
    out: Path,
) -> None:
    """Build a cohort in one way; imports count, as they do for a user."""
    if method in WITH_PANDAS:
        from pandas_cohort import write_cohort

        write_cohort(folder, out, lean=method == LEAN)
        return
    from clinical.cohort.build import build_cohort

    notes = "early" if method == EARLY else "discharge"
    build_cohort(
        folder,
        notes=notes,
        hours=48,
        out=out,
    )


def measure_once(
    method: str,
    hospital: Hospital,
    out: Path,
    *,
    limit: float,
) -> dict[str, Any] | None:
    """Seconds and peak bytes of one run; None if it needed more memory than `limit` bytes."""
    words = ["--run", method, str(hospital.folder), str(out)]
    command = [sys.executable, __file__, *words]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: S603
    while child.poll() is None:
        if resident_bytes(child.pid) > limit:
            child.kill()
        time.sleep(0.05)
    output = child.communicate()[0]
    if child.returncode < 0:  # killed for memory, by us or by the system
        return None
    if child.returncode:
        sys.exit(f"{method} failed on {hospital.notes:,} notes")
    measured: dict[str, Any] = json.loads(output)
    return measured if measured["peak"] <= limit else None


def describe(path: Path) -> Cohort:
    """Counts of a cohort file, and a hash of its labels and texts that knows no order."""
    kept = 0
    readmitted = 0
    combined = 0
    for stay in _rows(path):
        if stay.get("exclusion") is not None:
            continue
        kept += 1
        readmitted += stay["readmitted"]
        fields = [str(stay["stay_id"]), stay["readmitted"], stay["text"]]
        digest = hashlib.sha256(json.dumps(fields).encode()).digest()
        combined ^= int.from_bytes(digest)
    return Cohort(kept, readmitted, f"{combined:064x}")


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """The stays of a cohort file, with the columns that are compared."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        compared = {"stay_id", "readmitted", "text", "exclusion"}
        columns = sorted(compared & set(file.schema_arrow.names))
        for batch in file.iter_batches(batch_size=1024, columns=columns):
            yield from batch.to_pylist()


def compare(
    notes: int,
    *,
    ways: Sequence[str],
    rounds: int,
    limit: float,
) -> list[Measured]:
    """Each way on a fresh hospital; those that need too much memory are left out.

    Args:
        notes: of the hospital.
        ways: of "ours", "early", "pandas" and "lean pandas".
        rounds: runs of each way, in turn.
        limit: bytes that pandas may use.
    """
    with tempfile.TemporaryDirectory(prefix="cohort-") as name:
        work = Path(name)
        say(f"writing {notes:,} notes")
        hospital = write_hospital(work / "hospital", notes=notes)
        outputs = {method: work / f"{method}.parquet" for method in ways}
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in ways}
        for number in range(1, rounds + 1):
            for method in list(runs):
                allowed = limit if method in WITH_PANDAS else math.inf
                out = outputs[method]
                run = measure_once(method, hospital, out, limit=allowed)
                if run is None:
                    say(f"  {method}: more than {allowed / GIGABYTE:g} GB")
                    del runs[method]
                    continue
                say(f"  {method}, round {number}: {cost_text(run)}")
                runs[method].append(run)
        return [
            summarise(method, hospital, measured, describe(outputs[method]))
            for method, measured in runs.items()
        ]


def cost_text(run: dict[str, Any]) -> str:
    """Seconds and peak memory of a run, for the progress."""
    gigabytes = run["peak"] / GIGABYTE
    return f"{run['seconds']:.1f} s, {gigabytes:.2f} GB"


def summarise(
    method: str,
    hospital: Hospital,
    runs: Sequence[dict[str, Any]],
    cohort: Cohort,
) -> Measured:
    """All runs of a way, and what it made."""
    return Measured(
        method=method,
        notes=hospital.notes,
        stays=hospital.stays,
        bytes=hospital.bytes,
        seconds=[run["seconds"] for run in runs],
        peaks=[run["peak"] for run in runs],
        cohort=cohort,
    )


def conclusions(measured: Sequence[Measured]) -> list[str]:
    """The ratios, in sentences; ends the program where ours and pandas disagree."""
    of_ours = [result for result in measured if result.method == OURS]
    of_pandas = [result for result in measured if result.method in WITH_PANDAS]
    by_size = {result.notes: result for result in of_ours}
    lines = [
        _comparison_line(by_size[other.notes], other) for other in of_pandas
    ]
    small = by_size[min(by_size)]
    large = by_size[max(by_size)]
    if small is not large:
        growth = median(large.seconds) / median(small.seconds)
        bytes_ratio = large.bytes / small.bytes
        lines.append(
            f"From {small.notes:,} to {large.notes:,} notes ({bytes_ratio:.2f} times "
            f"the bytes) ours takes {growth:.2f} times the time."
        )
    return lines


def _comparison_line(ours: Measured, other: Measured) -> str:
    """How much faster and smaller ours is; ends the program where the cohorts differ."""
    if ours.cohort.sha256 != other.cohort.sha256:
        sys.exit(f"ours and {other.method} differ on {other.notes:,} notes")
    speed = spread(ratios(other.seconds, ours.seconds), ".1f")
    memory = median(other.peaks) / median(ours.peaks)
    return (
        f"{other.notes:,} notes: {speed} times as fast as {other.method} in "
        f"1/{memory:.1f} of its memory; labels and texts are the same."
    )


def measure_sizes(
    sizes: Sequence[int],
    *,
    rounds: int,
    limit: float,
) -> list[Measured]:
    """Ours at each size, and every other way at the largest that it manages."""
    measured: list[Measured] = []
    for notes in sorted(sizes, reverse=True):
        methods = {result.method for result in measured}
        missing = [
            name for name in (EARLY, *WITH_PANDAS) if name not in methods
        ]
        ways = [OURS, *missing]
        measured += compare(
            notes,
            ways=ways,
            rounds=rounds,
            limit=limit,
        )
    return measured


def main() -> None:
    """Measure, print the table, write the JSON; exit 1 where the ways disagree."""
    parser = options(__doc__, quick=False)
    parser.add_argument(
        "--notes",
        type=int,
        nargs="+",
        default=SIZES,
        help="sizes of the hospital (500000 1000000 2000000)",
    )
    parser.add_argument(
        "--pandas-memory",
        type=float,
        default=16,
        help="GB; above, pandas is stopped (16)",
    )
    # A process of its own: method, folder of the tables, file of the cohort.
    parser.add_argument(
        "--run",
        nargs=3,
        help=argparse.SUPPRESS,
    )
    asked = parser.parse_args()
    if asked.run:
        method, folder, out = asked.run
        print_cost(lambda: run_way(method, Path(folder), Path(out)))
        return
    limit = asked.pandas_memory * GIGABYTE
    measured = measure_sizes(
        asked.notes,
        rounds=asked.rounds,
        limit=limit,
    )
    lines = conclusions(measured)
    report(
        [result.row() for result in measured],
        setting={"cores": os.cpu_count(), **versions_of("duckdb", "pandas")},
        measured={
            "measured": [asdict(result) for result in measured],
            "conclusions": lines,
        },
        out=asked.out,
    )
    print("", *lines, sep="\n")


if __name__ == "__main__":
    main()
