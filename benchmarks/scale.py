"""Scoring at scale: memory and time over the number of stays, what a cache saves, and overhead.

    python benchmarks/scale.py --page docs/lab/benchmarks.md             # all but the million stays
    python benchmarks/scale.py --stays 1000 10000 100000 1000000 --only growth
    python benchmarks/scale.py --stays 1000 --only growth                # does it run?

Takes 30 minutes on two cores. It measures:

- growth: scoring 1,000 to 1,000,000 stays of one short note with a stub encoder (the shipped
  tokenizer and a network that computes nothing), each number in a process of its own;
- daily: the windows that are computed when stays grow by a note a day and are scored every day;
- overhead: parts, manifest and cache against reading a table, `predict_many` and writing a table.

How to read the tables: seconds are of the CPU (user and system, all threads), so that other
programs disturb them little. "peak memory" should hardly grow with the stays, and "µs a stay"
should stay as it is. In the second table, "ratio" is computed windows over those of the last day.
--page replaces the sections scale-growth, scale-daily and scale-overhead of a page.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from measuring import in_new_process, resident_bytes, say
from reporting import command_line, markdown, spread, write_section

from domainbert.progress import counted

STAYS = (1_000, 10_000, 100_000)
NOTE = "Pt. {number} admitted with dyspnea, diuresed, discharged home on day {day}."
DAYS = 10
GROWING = 20
CACHE_BYTES = 20_000_000
OVERHEAD_STAYS = 1000
ROUNDS = 3
SEED = 2029


def cpu_seconds_of(action: Callable[[], object]) -> float:
    """The processor seconds of a call, all threads together."""
    start = time.process_time()
    action()
    return time.process_time() - start


def stub_model() -> Any:
    """A readmission model with the shipped tokenizer, whose network gives one number a window."""
    import torch
    from transformers import BertConfig

    from clinical import ReadmissionModel
    from domainbert.encoders.loading import find_encoder, load_tokenizer

    class Stub(torch.nn.Module):
        config = BertConfig(num_labels=1)
        device = torch.device("cpu")

        def forward(self, input_ids: torch.Tensor, **_: Any) -> Any:
            return SimpleNamespace(
                logits=input_ids[:, :3].sum(1, keepdim=True) % 7 - 3.0
            )

    return ReadmissionModel(
        Stub(),
        load_tokenizer(find_encoder()),
        device="cpu",
    )


def growth_of(stays: int) -> dict[str, float]:
    """Score so many stays of one short note; in a process of its own, for its peak memory."""
    from clinical.risk.task import ReadmissionTask
    from domainbert.scoring import score_file
    from domainbert.scoring.cache import WindowCache

    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        source = work / "notes.csv"
        write_short_notes(source, stays)
        cache = work / "cache"
        model = stub_model()
        model.cache = WindowCache(
            cache,
            model="stub",
            max_bytes=CACHE_BYTES,
        )
        loaded = resident_bytes(peak=True)
        started = time.process_time()
        task = ReadmissionTask(model)
        counts = score_file(task, source, work / "out.parquet")
        seconds = time.process_time() - started
        assert counts.made == stays  # noqa: S101
        cache_size = cache.stat().st_size
    return {
        "cpu": seconds,
        "loaded": loaded / 2**20,
        "peak": resident_bytes(peak=True) / 2**20,
        "cache": cache_size / 1e6,
    }


def write_short_notes(path: Path, stays: int) -> None:
    """A table of stays with one short note each."""
    with path.open("w", encoding="utf-8") as file:
        file.write("stay_id,text\n")
        for number in range(stays):
            note = NOTE.format(number=number, day=number % 9)
            file.write(f'{number},"{note}"\n')


def growth(numbers: list[int]) -> list[dict[str, str]]:
    """Memory and time for several numbers of stays."""
    rows = []
    for stays in numbers:
        say(f"{stays:,} stays through a stub encoder")
        measured = in_new_process(__file__, "--one", stays)
        microseconds = 1e6 * measured["cpu"] / stays
        row = {
            "stays": f"{stays:,}",
            "peak memory, MiB": f"{measured['peak']:.0f}",
            "before scoring": f"{measured['loaded']:.0f}",
            "CPU seconds": f"{measured['cpu']:.1f}",
            "µs a stay": f"{microseconds:.0f}",
            "cache file, MB": f"{measured['cache']:.1f}",
        }
        say(str(row))
        rows.append(row)
    return rows


def daily() -> list[dict[str, str]]:
    """Windows that are computed when stays grow by a note a day and are scored every day."""
    notes = growing_notes()
    rows = []
    for is_cached in (False, True):
        n_computed, n_last = windows_of_days(notes, is_cached=is_cached)
        row = {
            "way": "with a cache" if is_cached else "without",
            "windows computed in ten days": f"{n_computed:,}",
            "windows of the last day": f"{n_last:,}",
            "ratio": f"{n_computed / n_last:.2f}",
        }
        rows.append(row)
    return rows


def growing_notes() -> pd.DataFrame:
    """The notes of stays, one a day, of different lengths."""
    generator = np.random.default_rng(0)
    rows = []
    for stay in range(GROWING):
        for day in range(DAYS):
            routine = "stable on room air. " * generator.integers(5, 400)
            row = {
                "stay_id": f"s{stay}",
                "chart_time": date_of(day),
                "text": f"Day {day} of stay {stay}. {routine}",
            }
            rows.append(row)
    return pd.DataFrame(rows)


def date_of(day: int) -> str:
    """The date of a day, from 0."""
    return f"2030-01-{day + 1:02d}"


def windows_of_days(
    notes: pd.DataFrame,
    *,
    is_cached: bool,
) -> tuple[int, int]:
    """How many windows are computed on all days, and how many the last day has."""
    from clinical.risk.task import ReadmissionTask
    from domainbert.scoring import score_frame
    from domainbert.scoring.cache import WindowCache

    model = stub_model()
    plain_logits = model.runner.logits
    n_computed = 0

    def counting_logits(windows: Any) -> Any:
        nonlocal n_computed
        n_computed += len(windows)
        return plain_logits(windows)

    model.runner.logits = counting_logits
    with tempfile.TemporaryDirectory() as work:
        cache = Path(work) / "cache"
        for day in counted(range(DAYS), what="days", total=DAYS):
            if is_cached:  # opened anew, as by a nightly job
                model.cache = WindowCache(cache, model="stub")
            so_far = notes[notes["chart_time"] <= date_of(day)]
            result = score_frame(ReadmissionTask(model), so_far)
    return n_computed, int(result["n_windows"].sum())


def hospital_stays(count: int) -> list[list[str]]:
    """The notes of stays of a new made-up hospital, with short discharge summaries."""
    from clinical.cohort.build import build_cohort
    from clinical.datasets.hospital import synthesize

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "hospital"
        synthesize(
            folder,
            stays=count,
            seed=SEED,
            brief=True,
        )
        out = Path(name) / "hospital.parquet"
        cohort = build_cohort(folder, out=out).to_frame()
    is_kept = cohort["exclusion"].isna()
    return [list(notes) for notes in cohort.loc[is_kept, "text"]]


def score_plainly(
    model: Any,
    source: Path,
    out: Path,
) -> None:
    """Read a table, score it with `predict_many`, and write a table."""
    model.cache = None
    stays = pd.read_parquet(source)
    risks = model.predict_many(list(map(list, stays["text"])))
    result = [
        (risk.probability, risk.score, risk.p_max, risk.p_mean)
        for risk in risks
    ]
    table = pd.DataFrame(result).assign(stay_id=stays["stay_id"])
    table.to_parquet(out)


def score_in_parts(
    model: Any,
    source: Path,
    out: Path,
) -> None:
    """Score a table with parts, a manifest and a new cache."""
    from clinical.risk.task import ReadmissionTask
    from domainbert.scoring import score_file
    from domainbert.scoring.cache import WindowCache

    model.cache = WindowCache(out.with_suffix(".cache"), model="a")
    score_file(ReadmissionTask(model), source, out)


def overhead(stays: list[list[str]]) -> list[dict[str, str]]:
    """Parts, manifest and cache against reading a table, `predict_many` and writing a table.

    What they add is measured with the stub, because a network's own time varies by more; the share
    is that of the time with readmission-demo.
    """
    from clinical import ReadmissionModel

    ids = map(str, range(len(stays)))
    added: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        source = work / "stays.parquet"
        pd.DataFrame({"stay_id": ids, "text": stays}).to_parquet(source)
        plain = partial(
            score_plainly,
            source=source,
            out=work / "plain.parquet",
        )
        stub = stub_model()
        plain(stub)
        for number in range(2 * ROUNDS):
            say(f"overhead, round {number + 1} of {2 * ROUNDS}")
            out = work / f"{number}.parquet"
            slow = cpu_seconds_of(partial(score_in_parts, stub, source, out))
            fast = cpu_seconds_of(partial(plain, stub))
            added.append(slow - fast)
        say("readmission-demo")
        model = ReadmissionModel.from_pretrained(
            "readmission-demo",
            device="cpu",
        )
        alone = cpu_seconds_of(partial(plain, model))
    microseconds = [1e6 * seconds / len(stays) for seconds in added]
    shares = [100 * seconds / alone for seconds in added]
    row = {
        "stays": str(len(stays)),
        "added, µs a stay": spread(microseconds, ".0f"),
        "readmission-demo, µs a stay": f"{1e6 * alone / len(stays):.0f}",
        "overhead": f"{spread(shares, '.1f')} %",
    }
    return [row]


PARTS = ("growth", "daily", "overhead")


def measure(part: str, stays: list[int]) -> list[dict[str, str]]:
    """The rows of one part."""
    if part == "growth":
        return growth(stays)
    if part == "daily":
        return daily()
    return overhead(hospital_stays(OVERHEAD_STAYS))


def main() -> None:
    """Measure what was asked for; print the tables, or write them into a page."""
    parser = command_line(__doc__)
    parser.add_argument(
        "--stays",
        type=int,
        nargs="+",
        default=list(STAYS),
    )
    parser.add_argument(
        "--only",
        choices=PARTS,
        help="one of the parts",
    )
    # A process of its own, for its peak memory.
    parser.add_argument(
        "--one",
        type=int,
        help=argparse.SUPPRESS,
    )
    parser.add_argument(
        "--page",
        type=Path,
        help="file whose sections scale-PART are replaced",
    )
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(growth_of(asked.one)))
        return
    parts = [asked.only] if asked.only else PARTS
    for part in parts:
        text = markdown(measure(part, asked.stays))
        print(text, flush=True)
        if asked.page:
            write_section(asked.page, f"scale-{part}", text)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
