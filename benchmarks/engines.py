"""Throughput of Ray and Spark on two local workers against one process on the same two cores.

    python benchmarks/engines.py --out engines.json
    python benchmarks/engines.py --quick          # does it run?

Takes 20 minutes on two cores. Needs the extras `ray` and `spark`, and Java. Each way scores the
same short stays with `readmission-demo`, a small table and a large one, in a process of its own;
the ways take turns. An engine's start and the loading of the model cost the same for both tables,
so the difference between the two gives the throughput, and what is left of the small one the fixed
cost.

How to read the table: "× one process" is a ratio within a round; a cell is the median of the rounds
with the smallest and the largest. "differ by" is the largest difference of a score to those of one
process; the exit status is 1 if it is above 1e-5.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measuring import say
from reporting import options, report, spread, times, versions_of

from clinical.datasets.hospital import synthesize

ALONE = "one process"
WAYS = (ALONE, "spark", "ray")
COLUMNS = {
    "HADM_ID": "stay_id",
    "CHARTDATE": "chart_time",
    "TEXT": "text",
}
WORKERS = 2
TOLERANCE = 1e-5

Runs = dict[
    str, list[dict[str, Any]]
]  # seconds and scores of each way, one a round


def make_tables(folder: Path, sizes: tuple[int, int]) -> list[Path]:
    """Short stays of a made-up hospital, one a note or a few, as Parquet files of each size."""
    synthesize(
        folder / "hospital",
        stays=max(sizes),
        seed=0,
        brief=True,
    )
    notes = pd.read_csv(folder / "hospital" / "NOTEEVENTS.csv", dtype=str)
    notes = notes.rename(columns=COLUMNS)[[*COLUMNS.values()]]
    stays = notes["stay_id"].drop_duplicates()
    paths = []
    for size in sizes:
        part = notes[notes["stay_id"].isin(stays.iloc[:size])]
        path = folder / f"stays-{size}.parquet"
        part.to_parquet(path, index=False)
        paths.append(path)
    return paths


def score_alone(path: Path, task: Any) -> pd.DataFrame:
    """One process, as many threads as there are workers elsewhere."""
    from domainbert.scoring import score_frame

    return score_frame(task, pd.read_parquet(path))


def score_with_ray(path: Path, task: Any) -> pd.DataFrame:
    """Ray Data with one thread for each worker."""
    import ray

    from domainbert.scoring.engines import score_ray

    stays = ray.data.read_parquet(str(path))
    return score_ray(stays, task, workers=WORKERS).to_pandas()


def score_with_spark(path: Path, task: Any) -> pd.DataFrame:
    """Spark with one thread for each worker."""
    from pyspark.sql import SparkSession

    from domainbert.scoring.engines import score_spark

    session = SparkSession.builder.getOrCreate()
    stays = session.read.parquet(str(path))
    return score_spark(stays, task).toArrow().to_pandas()


def start(engine: str) -> Callable[[Path, Any], pd.DataFrame]:
    """Start the engine, and return how to score with it."""
    if engine == "ray":
        start_ray()
        return score_with_ray
    if engine == "spark":
        start_spark()
        return score_with_spark
    import torch

    torch.set_num_threads(WORKERS)
    return score_alone


def start_ray() -> None:
    """Ray on this machine."""
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # One more than the workers reserve, for the tasks that read and shuffle (docs/scale.md).
    ray.init(
        num_cpus=WORKERS + 1,
        include_dashboard=False,
        logging_level="ERROR",
    )
    ray.data.DataContext.get_current().enable_progress_bars = False


def start_spark() -> None:
    """Spark on this machine."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{WORKERS}]")
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")


def measure(
    engine: str,
    paths: list[Path],
    out: Path,
) -> None:
    """Score each table with one way; write seconds and scores."""
    from clinical import ReadmissionModel
    from clinical.risk.task import ReadmissionTask

    model = ReadmissionModel.from_pretrained("readmission-demo", device="cpu")
    task = ReadmissionTask(model, notes="as-given")
    score = start(engine)
    score(paths[0], task)  # Spark compiles, and Ray starts its workers
    seconds = []
    for path in paths:
        started = time.perf_counter()
        table = score(path, task)
        seconds.append(time.perf_counter() - started)
    scores = table.sort_values("stay_id")["score"].tolist()
    measured = {"seconds": seconds, "scores": scores}
    out.write_text(json.dumps(measured), "utf-8")


def run_ways(sizes: tuple[int, int], *, rounds: int) -> Runs:
    """What `measure` says of each way, round by round."""
    runs: Runs = {engine: [] for engine in WAYS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = make_tables(folder, sizes)
        out = folder / "measured.json"
        for number in range(1, rounds + 1):
            for engine in WAYS:
                say(f"round {number} of {rounds}: {engine}")
                words = ["--measure", engine, *map(str, paths), str(out)]
                # A file, because the engines write to stdout.
                command = [sys.executable, __file__, *words]
                subprocess.run(command, check=True)  # noqa: S603
                run = json.loads(out.read_text("utf-8"))
                say(f"  seconds {run['seconds']}")
                runs[engine].append(run)
    return runs


def throughput(
    seconds: np.ndarray,
    sizes: tuple[int, int],
) -> tuple[np.ndarray, np.ndarray]:
    """Stays a second beyond the small table, and the fixed seconds of a run, round by round.

    Args:
        seconds: of the small and the large table, shape (rounds, 2).
        sizes: stays of the small and the large table.
    """
    small, large = sizes
    stays_a_second = (large - small) / (seconds[:, 1] - seconds[:, 0])
    fixed = seconds[:, 0] - small / stays_a_second
    return stays_a_second, fixed


def table_rows(
    runs: Runs,
    sizes: tuple[int, int],
    differences: dict[str, float],
) -> list[dict[str, str]]:
    """A row for each way."""
    rows = []
    for engine, measured in runs.items():
        seconds = np.array([run["seconds"] for run in measured])
        stays_a_second, fixed = throughput(seconds, sizes)
        if engine == ALONE:
            alone = stays_a_second
        row = {
            "way": engine,
            "stays/s": spread(stays_a_second, ".1f"),
            "× one process": times(stays_a_second, alone),
            "fixed cost of a run, s": spread(fixed, ".0f"),
            "differ by": f"{differences[engine]:.0e}",
        }
        rows.append(row)
    return rows


def differences_to_alone(runs: Runs) -> dict[str, float]:
    """The largest difference of a score of each way to those of one process."""
    expected = np.array(runs[ALONE][0]["scores"])
    differences = {}
    for engine, measured in runs.items():
        scores = np.array(measured[-1]["scores"])
        differences[engine] = float(np.abs(scores - expected).max())
    return differences


def main() -> None:
    """Measure, print the table, write the JSON; exit 1 where the numbers disagree."""
    parser = options(__doc__)
    parser.add_argument(
        "--stays",
        type=int,
        nargs=2,
        default=(100, 2100),
        metavar=("FEW", "MANY"),
        help="of the two tables (100 2100)",
    )
    # A process of its own: way, small table, large table, result.
    parser.add_argument(
        "--measure",
        nargs=4,
        help=argparse.SUPPRESS,
    )
    asked = parser.parse_args()
    if asked.measure:
        engine, *paths, out = asked.measure
        measure(engine, list(map(Path, paths)), Path(out))
        return
    if asked.quick:
        asked.stays = (10, 30)
        asked.rounds = 1
    sizes = tuple(asked.stays)
    runs = run_ways(sizes, rounds=asked.rounds)
    differences = differences_to_alone(runs)
    versions = versions_of("torch", "ray", "pyspark")
    report(
        table_rows(runs, sizes, differences),
        setting={"stays": max(sizes), "workers": WORKERS, **versions},
        measured={"runs": runs},
        out=asked.out,
    )
    worst = max(differences.values())
    if worst > TOLERANCE:
        sys.exit(f"the ways differ by {worst:.1e}, more than {TOLERANCE:.0e}")


if __name__ == "__main__":
    main()
