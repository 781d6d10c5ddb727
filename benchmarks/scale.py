"""Scoring at scale: memory and time over the number of stays, cache, overhead.

Seconds are of the CPU (user and system, all threads), so that other programs disturb them little.

    python benchmarks/scale.py --page docs/lab/benchmarks.md             # all but the million stays
    python benchmarks/scale.py --stays 1000 10000 100000 1000000 --only growth
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from reporting import markdown, say, spread

STAYS = (1_000, 10_000, 100_000)
NOTE = "Pt. {number} admitted with dyspnea, diuresed, discharged home on day {day}."
DAYS = 10
GROWING = 20
WORDS = [
    "pain",
    "dyspnea",
    "stable",
    "furosemide",
    "home",
    "denies",
    "fever",
    "edema",
    "renal",
]
OVERHEAD_STAYS = 1000
ROUNDS = 3
SEED = 2029


def cpu_seconds() -> float:
    """Of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def timed(action: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and its CPU seconds."""
    start = cpu_seconds()
    result = action()
    return result, cpu_seconds() - start


def stub_model() -> Any:
    """A readmission model with the shipped tokenizer, whose network gives one number a window."""
    import torch
    from transformers import BertConfig

    from clinical import ReadmissionModel
    from domainbert.encoders.loading import find_encoder, load_tokenizer

    class Stub(torch.nn.Module):
        config = BertConfig(num_labels=1)

        def forward(self, input_ids: torch.Tensor, **_: Any) -> Any:
            return SimpleNamespace(
                logits=input_ids[:, :3].sum(1, keepdim=True) % 7 - 3.0
            )

    return ReadmissionModel(
        Stub(), load_tokenizer(find_encoder()), device="cpu"
    )


def growth_of(stays: int) -> dict[str, float]:
    """Score so many stays of one short note; in a process of its own, for its peak memory."""
    from clinical.risk.task import ReadmissionTask
    from domainbert.scoring import score_file
    from domainbert.scoring.cache import WindowCache

    with tempfile.TemporaryDirectory() as work:
        source = Path(work) / "notes.csv"
        with source.open("w") as file:
            file.write("stay_id,text\n")
            for number in range(stays):
                file.write(
                    f'{number},"{NOTE.format(number=number, day=number % 9)}"\n'
                )
        model = stub_model()
        model.cache = WindowCache(
            Path(work) / "cache", model="stub", max_bytes=20_000_000
        )
        warm = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        started = time.perf_counter()
        counts, seconds = timed(
            lambda: score_file(
                ReadmissionTask(model), source, Path(work) / "out.parquet"
            )
        )
        wall = time.perf_counter() - started
        assert counts.made == stays  # noqa: S101
        size = (Path(work) / "cache").stat().st_size / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "stays": stays,
        "cpu": seconds,
        "wall": wall,
        "loaded": warm,
        "peak": peak,
        "cache": size,
    }


def growth(numbers: list[int]) -> list[dict[str, str]]:
    """Memory and time for several numbers of stays."""
    rows = []
    for stays in numbers:
        say(f"{stays:,} stays through a stub encoder")
        command = [sys.executable, __file__, "--one", str(stays)]
        child = subprocess.run(  # noqa: S603
            command, check=True, stdout=subprocess.PIPE
        )
        measured = json.loads(child.stdout)
        rows.append(
            {
                "stays": f"{stays:,}",
                "peak memory, MiB": f"{measured['peak']:.0f}",
                "before scoring": f"{measured['loaded']:.0f}",
                "CPU seconds": f"{measured['cpu']:.1f}",
                "µs a stay": f"{measured['cpu'] / stays * 1e6:.0f}",
                "cache file, MB": f"{measured['cache']:.1f}",
            }
        )
        say(str(rows[-1]))
    return rows


def daily() -> list[dict[str, str]]:
    """Windows that are computed when stays grow by a note a day and are scored every day."""
    from clinical.risk.task import ReadmissionTask
    from domainbert.scoring import score_frame
    from domainbert.scoring.cache import WindowCache

    rng = np.random.default_rng(0)
    notes = pd.DataFrame(
        [
            {
                "stay_id": f"s{stay}",
                "chart_time": f"2030-01-{day + 1:02d}",
                "text": f"Day {day} of stay {stay}. "
                + "stable on room air. " * rng.integers(5, 400),
            }
            for stay in range(GROWING)
            for day in range(DAYS)
        ]
    )
    rows = []
    with tempfile.TemporaryDirectory() as work:
        for cached in (False, True):
            model = stub_model()
            computed = 0
            plain = model.runner.logits

            def counting(windows: Any, plain: Any = plain) -> Any:
                nonlocal computed
                computed += len(windows)
                return plain(windows)

            model.runner.logits = counting
            for day in range(DAYS):
                if cached:  # opened anew, as by a nightly job
                    model.cache = WindowCache(
                        Path(work) / "cache", model="stub"
                    )
                so_far = notes[notes["chart_time"] <= f"2030-01-{day + 1:02d}"]
                result = score_frame(ReadmissionTask(model), so_far)
            once = int(result["n_windows"].sum())
            rows.append(
                {
                    "way": "with a cache" if cached else "without",
                    "windows computed in ten days": f"{computed:,}",
                    "windows of the last day": f"{once:,}",
                    "ratio": f"{computed / once:.2f}",
                }
            )
    return rows


def hospital(work: Path, *, stays: int) -> pd.DataFrame:
    """Labelled stays of a new made-up hospital, with short discharge summaries."""
    from clinical.cohort.build import build_cohort
    from clinical.datasets.hospital import synthesize

    synthesize(work / "hospital", stays=stays, seed=SEED, brief=True)
    cohort = build_cohort(
        work / "hospital", out=work / "hospital.parquet"
    ).to_frame()
    return cohort[cohort["exclusion"].isna()].reset_index(drop=True)


def overhead(stays: list[list[str]]) -> list[dict[str, str]]:
    """Parts, manifest and cache against reading a table, `predict_many` and writing a table.

    What they add is measured with the stub, because a network's own time varies by more; the share
    is that of the time with readmission-demo.
    """
    from clinical import ReadmissionModel
    from clinical.risk.task import ReadmissionTask
    from domainbert.scoring import score_file
    from domainbert.scoring.cache import WindowCache

    added: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        table = pd.DataFrame(
            {"stay_id": map(str, range(len(stays))), "text": stays}
        )
        table.to_parquet(work / "stays.parquet")

        def plain(model: Any) -> None:
            model.cache = None
            stays = pd.read_parquet(work / "stays.parquet")
            risks = model.predict_many(list(map(list, stays["text"])))
            result = [
                (risk.probability, risk.score, risk.p_max, risk.p_mean)
                for risk in risks
            ]
            pd.DataFrame(result).assign(stay_id=stays["stay_id"]).to_parquet(
                work / "plain.parquet"
            )

        def ours(model: Any, number: int) -> None:
            model.cache = WindowCache(work / f"cache{number}", model="a")
            score_file(
                ReadmissionTask(model),
                work / "stays.parquet",
                work / f"{number}.parquet",
            )

        stub = stub_model()
        plain(stub)
        for number in range(2 * ROUNDS):
            say(f"overhead, round {number + 1} of {2 * ROUNDS}")
            _, slow = timed(lambda number=number: ours(stub, number))
            _, fast = timed(lambda: plain(stub))
            added.append((slow - fast) / len(stays))
        model = ReadmissionModel.from_pretrained(
            "readmission-demo", device="cpu"
        )
        _, alone = timed(lambda: plain(model))
    share = [100 * seconds * len(stays) / alone for seconds in added]
    return [
        {
            "stays": str(len(stays)),
            "added, µs a stay": spread(
                [1e6 * seconds for seconds in added], ".0f"
            ),
            "readmission-demo, µs a stay": f"{1e6 * alone / len(stays):.0f}",
            "overhead": spread(share, ".1f") + " %",
        }
    ]


def main() -> None:
    """Measure what was asked for; print the tables, or write them into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stays", type=int, nargs="+", default=list(STAYS))
    parser.add_argument("--only", choices=["growth", "daily", "overhead"])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument(
        "--page", type=Path, help="file whose sections scale-NAME are replaced"
    )
    options = parser.parse_args()
    if options.one:
        print(json.dumps(growth_of(options.one)))
        return
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        parts: dict[str, Callable[[], list[dict[str, str]]]] = {
            "growth": lambda: growth(options.stays),
            "daily": daily,
            "overhead": lambda: overhead(
                [list(s) for s in hospital(work, stays=OVERHEAD_STAYS)["text"]]
            ),
        }
        for name in [options.only] if options.only else parts:
            text = markdown(parts[name]())
            print(text, flush=True)
            if options.page:
                from quality import write_section

                write_section(options.page, f"scale-{name}", text)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
