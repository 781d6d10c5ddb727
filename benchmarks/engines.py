"""Throughput of Ray and Spark on two local workers against one process on the same two cores.

Each way scores the same short stays with `readmission-demo`, a small table and a large one, in a
process of its own; the ways take turns. An engine's start and the loading of the model cost the
same for both tables, so the difference between the two gives the throughput, and what is left of
the small one the fixed cost.

    python benchmarks/engines.py --out engines.json
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from reporting import options, report, say, spread, versions_of

from clinical.datasets.hospital import synthesize

WAYS = ("one process", "spark", "ray")
WORKERS = 2
TOLERANCE = 1e-5


def make_tables(folder: Path, sizes: tuple[int, int]) -> list[Path]:
    """Short stays of a made-up hospital, one a note or a few, as Parquet files of each size."""
    synthesize(folder / "hospital", stays=max(sizes), seed=0, brief=True)
    notes = pd.read_csv(folder / "hospital" / "NOTEEVENTS.csv", dtype=str)
    notes = notes.rename(
        columns={
            "HADM_ID": "stay_id",
            "TEXT": "text",
            "CHARTDATE": "chart_time",
        }
    )
    stays = notes["stay_id"].drop_duplicates()
    paths = []
    for size in sizes:
        part = notes[notes["stay_id"].isin(stays.iloc[:size])]
        paths.append(folder / f"stays-{size}.parquet")
        part[["stay_id", "chart_time", "text"]].to_parquet(
            paths[-1], index=False
        )
    return paths


def score_alone(path: Path, task: Any) -> pd.DataFrame:
    """One process, as many threads as there are workers elsewhere."""
    from domainbert.scoring import score_frame

    return score_frame(task, pd.read_parquet(path))


def score_with_ray(path: Path, task: Any) -> pd.DataFrame:
    """Ray Data with one thread for each worker."""
    import ray

    from domainbert.scoring.engines import score_ray

    return score_ray(
        ray.data.read_parquet(str(path)), task, workers=WORKERS
    ).to_pandas()


def score_with_spark(path: Path, task: Any) -> pd.DataFrame:
    """Spark with one thread for each worker."""
    from pyspark.sql import SparkSession

    from domainbert.scoring.engines import score_spark

    session = SparkSession.builder.getOrCreate()
    return (
        score_spark(session.read.parquet(str(path)), task)
        .toArrow()
        .to_pandas()
    )


def start(engine: str) -> Any:
    """Start the engine, and return how to score with it."""
    if engine == "ray":
        import ray

        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        # One more than the workers reserve, for the tasks that read and shuffle (docs/scale.md).
        ray.init(
            num_cpus=WORKERS + 1,
            include_dashboard=False,
            logging_level="ERROR",
        )
        ray.data.DataContext.get_current().enable_progress_bars = False
        return score_with_ray
    if engine == "spark":
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master(f"local[{WORKERS}]")
        builder.config(
            "spark.ui.enabled", "false"
        ).getOrCreate().sparkContext.setLogLevel("OFF")
        return score_with_spark
    import torch

    torch.set_num_threads(WORKERS)
    return score_alone


def measure(engine: str, paths: list[Path], out: Path) -> None:
    """Score each table with one way; write seconds and scores."""
    from clinical import ReadmissionModel
    from clinical.risk.task import ReadmissionTask

    model = ReadmissionModel.from_pretrained("readmission-demo", device="cpu")
    task = ReadmissionTask(model, notes="as-given")
    score = start(engine)
    score(
        paths[0], task
    )  # the first time, Spark compiles and Ray starts its workers
    measured: dict[str, Any] = {"seconds": []}
    for path in paths:
        clock = time.perf_counter()
        table = score(path, task)
        measured["seconds"].append(time.perf_counter() - clock)
    measured["scores"] = table.sort_values("stay_id")["score"].tolist()
    out.write_text(json.dumps(measured))


def main() -> None:
    """Measure, print the table, write the JSON; exit 1 where the numbers disagree."""
    parser = options("Time Ray and Spark against one process.")
    parser.add_argument(
        "--stays",
        type=int,
        nargs=2,
        default=(100, 2100),
        metavar=("FEW", "MANY"),
    )
    parser.add_argument(
        "--measure", nargs=4, help="(used by the script itself)"
    )
    asked = parser.parse_args()
    if asked.measure:
        engine, short_run, long_run, out = asked.measure
        measure(engine, [Path(short_run), Path(long_run)], Path(out))
        return
    sizes = (10, 30) if asked.quick else tuple(asked.stays)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = make_tables(folder, sizes)
        runs: dict[str, list[dict[str, Any]]] = {engine: [] for engine in WAYS}
        for number in range(1, (1 if asked.quick else asked.rounds) + 1):
            for engine in WAYS:
                say(f"round {number}: {engine}")
                out = folder / "found.json"
                words = [engine, *map(str, paths), str(out)]
                command = [sys.executable, __file__, "--measure", *words]
                subprocess.run(command, check=True)  # noqa: S603
                runs[engine].append(json.loads(out.read_text()))
                say(f"  seconds {runs[engine][-1]['seconds']}")
    rates = {}
    fixed = {}
    for engine, measured in runs.items():
        seconds = np.array([f["seconds"] for f in measured])
        rates[engine] = (sizes[1] - sizes[0]) / (seconds[:, 1] - seconds[:, 0])
        fixed[engine] = seconds[:, 0] - sizes[0] / rates[engine]
    expected = np.array(runs[WAYS[0]][0]["scores"])
    worst = {engine: float(np.abs(np.array(measured[-1]["scores"]) - expected).max())
             for engine, measured in runs.items()}  # fmt: skip
    report(
        [
            {
                "way": engine,
                "stays/s": spread(rates[engine], ".1f"),
                "× one process": spread(rates[engine] / rates[WAYS[0]], ".2f"),
                "fixed cost of a run, s": spread(fixed[engine], ".0f"),
                "differ by": f"{worst[engine]:.0e}",
            }
            for engine in WAYS
        ],
        setting={
            "stays": sizes[1],
            "workers": WORKERS,
            **versions_of("torch", "ray", "pyspark"),
        },
        measured={"runs": runs},
        out=asked.out,
    )
    if max(worst.values()) > TOLERANCE:
        sys.exit(
            f"the ways differ by {max(worst.values()):.1e}, more than {TOLERANCE:.0e}"
        )


if __name__ == "__main__":
    main()
