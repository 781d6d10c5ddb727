"""Time and memory of `build_cohort` against the usual pandas way, on a made-up hospital.

Tables in the shape of MIMIC-III are written for the run, in a temporary folder, and removed: every
stay has 40 notes in no order, a long discharge summary and shorter notes, about 2 kB on average.
Each way runs in a process of its own, so that its peak memory is its own:

- ours: `build_cohort`, at discharge, from the CSV files to the cohort file;
- early: the same for prediction 48 hours after admission;
- pandas: as the 2019 code does: read everything, sort, merge notes with admissions, group by stay;
- lean pandas: the same from the columns it needs, and of the notes the discharge summaries alone.

Ours and pandas must agree on every label and every text. Pandas is timed at the largest of the
sizes that it manages within `--pandas-memory`.

    python benchmarks/cohort.py --out cohort.json
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from reporting import options, report, say, spread, versions_of

NOTES_A_STAY = 40
SIZES = (500_000, 1_000_000, 2_000_000)
SUMMARY_BYTES = 10_000
NOTE_BYTES = 1_800
WORDS = (
    'admitted afebrile alert "baseline" blood breath, chest chronic clinic compliance, creatinine '
    "denies discharge disease dyspnea edema failure fever for from furosemide had has history home "
    "insulin kidney left medication missed no not of on pain patient pneumonia pulmonary renal "
    "right stable the to treated was weeks with without 1.2 98.6 120/80 [**2101-3-4**] mg po bid"
)
PANDAS = ("pandas", "lean pandas")
CATEGORIES = (
    "Nursing",
    "Radiology",
    "Physician ",
    "Nursing/other",
    "ECG",
    "Respiratory ",
)


@dataclass(frozen=True)
class Hospital:
    """What was written: `notes` of `stays`, with `bytes` of CSV."""

    folder: Path
    stays: int
    notes: int
    bytes: int


@dataclass(frozen=True)
class Measured:
    """One way on one hospital; a list holds one value a round.

    Attributes:
        way: "ours", "early", "pandas" or "lean pandas".
        notes: of the hospital.
        stays: of the hospital.
        bytes: of its CSV.
        seconds: from the files to the cohort.
        peaks: bytes, the largest resident memory of the process.
        kept: stays of the cohort.
        readmitted: how many of them.
        sha256: of the labels and texts, stay by stay.
    """

    method: str
    notes: int
    stays: int
    bytes: int
    seconds: list[float]
    peaks: list[int]
    kept: int
    readmitted: int
    sha256: str

    def row(self) -> dict[str, str]:
        """A line of the table."""
        rate = [self.bytes / 1e6 / seconds for seconds in self.seconds]
        return {
            "way": self.method,
            "notes": f"{self.notes:,}",
            "stays": f"{self.stays:,}",
            "CSV, GB": f"{self.bytes / 1e9:.2f}",
            "seconds": spread(self.seconds, ".1f"),
            "MB/s": spread(rate, ".0f"),
            "peak memory, GB": spread(
                [peak / 1e9 for peak in self.peaks], ".2f"
            ),
            "cohort": f"{self.kept:,} stays, {self.readmitted:,} readmitted",
        }


def write_hospital(folder: Path, *, notes: int, seed: int = 0) -> Hospital:
    """Write ADMISSIONS, PATIENTS and NOTEEVENTS with so many notes, in streams."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    stays = max(1, notes // NOTES_A_STAY)
    patient = np.sort(rng.integers(0, max(1, stays * 2 // 3), stays))
    first = np.concatenate([[True], patient[1:] != patient[:-1]])
    # A patient's stays follow one another: minutes since the first day, whatever came before.
    length = rng.integers(12 * 60, 15 * 24 * 60, stays)
    away = (60 + rng.exponential(90 * 24 * 60, stays)).astype(int)
    elapsed = np.cumsum(length + away)
    start = (
        elapsed
        - length
        - np.maximum.accumulate(np.where(first, elapsed - length, 0))
    )
    admit = np.datetime64("2100-01-01T00:00") + start.astype("timedelta64[m]")
    leave = admit + length.astype("timedelta64[m]")
    kind = rng.choice(
        ["EMERGENCY", "URGENT", "ELECTIVE", "NEWBORN"],
        stays,
        p=[0.7, 0.1, 0.15, 0.05],
    )
    died = rng.random(stays) < 0.05
    with (folder / "ADMISSIONS.csv").open("w") as file:
        file.write(
            "SUBJECT_ID,HADM_ID,ADMITTIME,DISCHTIME,ADMISSION_TYPE,HOSPITAL_EXPIRE_FLAG\n"
        )
        for n in range(stays):
            times = f"{_clock(admit[n])},{_clock(leave[n])}"
            file.write(
                f"{patient[n]},{100000 + n},{times},{kind[n]},{int(died[n])}\n"
            )
    with (folder / "PATIENTS.csv").open("w") as file:
        file.write("SUBJECT_ID,GENDER,DOB\n")
        file.writelines(
            f"{p},{'FM'[p % 2]},2040-01-01 00:00:00\n"
            for p in np.unique(patient)
        )
    with (folder / "NOTEEVENTS.csv").open("wb", buffering=2**20) as raw:
        raw.write(
            b"ROW_ID,SUBJECT_ID,HADM_ID,CHARTDATE,CHARTTIME,STORETIME,CATEGORY,DESCRIPTION,"
        )
        raw.write(b"CGID,ISERROR,TEXT\n")
        raw.writelines(
            _note_lines(rng, stays * NOTES_A_STAY, patient, admit, leave)
        )
    size = sum(path.stat().st_size for path in folder.iterdir())
    return Hospital(folder, stays, stays * NOTES_A_STAY, size)


def _note_lines(
    rng: np.random.Generator,
    notes: int,
    patient: np.ndarray,
    admit: np.ndarray,
    leave: np.ndarray,
) -> Iterator[bytes]:
    """The rows of NOTEEVENTS in a random order; each text is a run of lines from a long one."""
    words = WORDS.replace('"', '""').split()
    picked = rng.integers(0, len(words), 4_000_000)
    breaks = "\n".join(
        " ".join(words[i] for i in picked[n : n + 11])
        for n in range(0, len(picked), 11)
    ).encode()
    starts = (
        np.flatnonzero(np.frombuffer(breaks, dtype=np.uint8) == ord("\n")) + 1
    )
    order = rng.permutation(notes)
    for number, position in enumerate(order, start=1):
        stay = position // NOTES_A_STAY
        is_summary = position % NOTES_A_STAY == 0
        byte_count = int(
            (SUMMARY_BYTES if is_summary else NOTE_BYTES)
            * (0.5 + rng.random())
        )
        begin = int(
            starts[
                rng.integers(
                    0, np.searchsorted(starts, len(breaks) - 2 * byte_count)
                )
            ]
        )
        text = breaks[begin : breaks.index(b"\n", begin + byte_count)]
        charted = admit[stay] + (leave[stay] - admit[stay]) * rng.random()
        category = (
            "Discharge summary"
            if is_summary
            else CATEGORIES[position % len(CATEGORIES)]
        )
        day = str(leave[stay] if is_summary else charted)[:10]
        clock = "" if is_summary else _clock(charted)
        head = f'{number},{patient[stay]},{100000 + stay},"{day}",{clock},,"{category}",Report,,,"'
        yield b"".join(
            (
                head.encode(),
                b"[**Note ",
                str(position).encode(),
                b"**]\n",
                text,
                b'"\n',
            )
        )


def _clock(moment: np.datetime64) -> str:
    return str(moment).replace("T", " ") + ":00"


def run_ours(folder: Path, out: Path, *, notes: str) -> None:
    """Our way."""
    from clinical.cohort.build import build_cohort

    build_cohort(folder, notes=notes, hours=48, out=out)


def run_pandas(folder: Path, out: Path, *, lean: bool) -> None:
    """The usual way, step by step as in the 2019 code, with the labels of our definition.

    Lean, it reads no column that it does not need and keeps no note but the summaries. Either way
    it is right only where tables are as clean as these.
    """
    import pandas as pd

    stays = label_with_pandas(folder)
    needed = ["SUBJECT_ID", "HADM_ID", "CHARTDATE", "CATEGORY", "TEXT"]
    notes = pd.read_csv(
        folder / "NOTEEVENTS.csv", usecols=needed if lean else None
    )
    if lean:
        notes = notes[notes["CATEGORY"] == "Discharge summary"]
    notes = notes.sort_values(["SUBJECT_ID", "HADM_ID", "CHARTDATE"])
    merged = stays.merge(
        notes[needed], on=["SUBJECT_ID", "HADM_ID"], how="left"
    )
    if not lean:
        day = merged["ADMITTIME"].apply(lambda time: str(time).split(" ")[0])
        merged["ADMITTIME_C"] = pd.to_datetime(
            day, format="%Y-%m-%d", errors="coerce"
        )
    merged["CHARTDATE"] = pd.to_datetime(
        merged["CHARTDATE"], format="%Y-%m-%d", errors="coerce"
    )
    summaries = merged[merged["CATEGORY"] == "Discharge summary"]
    texts = summaries.groupby("HADM_ID")["TEXT"].agg(list)
    cohort = stays.merge(
        texts.rename("text"), left_on="HADM_ID", right_index=True
    )
    names = {"SUBJECT_ID": "patient_id", "HADM_ID": "stay_id"}
    cohort.rename(columns=names).to_parquet(out, index=False)


def label_with_pandas(folder: Path) -> Any:
    """The stays with their labels."""
    import pandas as pd

    stays = pd.read_csv(
        folder / "ADMISSIONS.csv", parse_dates=["ADMITTIME", "DISCHTIME"]
    )
    patients = pd.read_csv(folder / "PATIENTS.csv", parse_dates=["DOB"])
    stays = stays.merge(patients, on="SUBJECT_ID", how="left")
    stays = stays.sort_values(["SUBJECT_ID", "ADMITTIME"])
    unplanned = stays["ADMITTIME"].where(stays["ADMISSION_TYPE"] != "ELECTIVE")
    stays["NEXT"] = unplanned.groupby(stays["SUBJECT_ID"]).shift(-1)
    stays["NEXT"] = stays.groupby("SUBJECT_ID")["NEXT"].bfill()
    days = (stays["NEXT"] - stays["DISCHTIME"]).dt.total_seconds() / 86400
    stays["readmitted"] = ((days > 0) & (days < 30)).astype(int)
    return stays[
        (stays["ADMISSION_TYPE"] != "NEWBORN")
        & (stays["HOSPITAL_EXPIRE_FLAG"] == 0)
    ]


def run_way(method: str, folder: Path, out: Path) -> None:
    """In a process of its own: build, and say on stdout how long it took and what memory."""
    started = time.perf_counter()
    if method in PANDAS:
        run_pandas(folder, out, lean=method == "lean pandas")
    else:
        run_ours(
            folder, out, notes="early" if method == "early" else "discharge"
        )
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "peak": peak}))


def measure_once(
    method: str, hospital: Hospital, out: Path, *, limit: float
) -> dict[str, Any] | None:
    """Seconds and peak bytes of one run; None if it needed more memory than `limit` bytes."""
    command = [
        sys.executable,
        __file__,
        "--run",
        method,
        str(hospital.folder),
        str(out),
    ]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: S603
    status = Path(f"/proc/{child.pid}/statm")
    while child.poll() is None:
        resident = int(status.read_text().split()[1]) * resource.getpagesize()
        if resident > limit:
            child.kill()
        time.sleep(0.05)
    output = child.communicate()[0]
    if (
        child.returncode < 0
    ):  # killed, by us or by the system, for want of memory
        return None
    if child.returncode:
        sys.exit(f"{method} failed on {hospital.notes:,} notes")
    measured: dict[str, Any] = json.loads(output)
    return measured if measured["peak"] <= limit else None


def describe(path: Path) -> tuple[int, int, str]:
    """Kept stays, readmitted stays, and a hash of labels and texts that knows no order."""
    import pyarrow.parquet as pq

    kept = readmitted = total = 0
    with pq.ParquetFile(path) as file:
        columns = {"stay_id", "readmitted", "text", "exclusion"} & set(
            file.schema_arrow.names
        )
        for batch in file.iter_batches(
            batch_size=1024, columns=sorted(columns)
        ):
            for row in batch.to_pylist():
                if row.get("exclusion") is not None:
                    continue
                kept += 1
                readmitted += row["readmitted"]
                line = json.dumps(
                    [str(row["stay_id"]), row["readmitted"], row["text"]]
                )
                total ^= int.from_bytes(hashlib.sha256(line.encode()).digest())
    return kept, readmitted, f"{total:064x}"


def compare(
    notes: int, *, ways: Sequence[str], rounds: int, limit: float
) -> dict[str, Measured]:
    """Each way on a fresh hospital; those that need too much memory are not in the answer.

    Args:
        notes: of the hospital.
        ways: of "ours", "early", "pandas" and "lean pandas".
        rounds: runs of each way, in turn.
        limit: bytes that pandas may use.
    """
    with tempfile.TemporaryDirectory(prefix="cohort-") as work:
        say(f"writing {notes:,} notes")
        hospital = write_hospital(Path(work) / "hospital", notes=notes)
        runs: dict[str, list[dict[str, Any]]] = {method: [] for method in ways}
        for number in range(1, rounds + 1):
            for method in list(runs):
                allowed = limit if method in PANDAS else math.inf
                run = measure_once(
                    method,
                    hospital,
                    Path(work) / f"{method}.parquet",
                    limit=allowed,
                )
                if run is None:
                    say(f"  {method}: more than {allowed / 1e9:g} GB")
                    del runs[method]
                    continue
                gigabytes = run["peak"] / 1e9
                seconds = f"{run['seconds']:.1f} s"
                say(
                    f"  {method}, round {number}: {seconds}, {gigabytes:.2f} GB"
                )
                runs[method].append(run)
        return {
            method: summarise(
                method, hospital, measured, Path(work) / f"{method}.parquet"
            )
            for method, measured in runs.items()
        }


def summarise(
    method: str, hospital: Hospital, runs: list[dict[str, Any]], out: Path
) -> Measured:
    """All runs of a way, and what it made."""
    kept, readmitted, sha256 = describe(out)
    return Measured(
        method=method,
        notes=hospital.notes,
        stays=hospital.stays,
        bytes=hospital.bytes,
        seconds=[run["seconds"] for run in runs],
        peaks=[run["peak"] for run in runs],
        kept=kept,
        readmitted=readmitted,
        sha256=sha256,
    )


def conclusions(measured: Sequence[Measured]) -> list[str]:
    """The ratios, in sentences; ends the program where ours and pandas disagree."""
    lines = []
    ours = sorted(
        (m for m in measured if m.method == "ours"), key=lambda m: m.notes
    )
    for other in (m for m in measured if m.method in PANDAS):
        same = next(m for m in ours if m.notes == other.notes)
        if same.sha256 != other.sha256:
            sys.exit(
                f"ours and {other.method} differ on {other.notes:,} notes"
            )
        ratios = [
            theirs / mine
            for theirs, mine in zip(other.seconds, same.seconds, strict=True)
        ]
        memory = statistics.median(other.peaks) / statistics.median(same.peaks)
        lines.append(
            f"{other.notes:,} notes: {spread(ratios, '.1f')} times as fast as {other.method} in "
            f"1/{memory:.1f} of its memory; labels and texts are the same."
        )
    small = ours[0]
    large = ours[-1]
    growth = statistics.median(large.seconds) / statistics.median(
        small.seconds
    )
    if small is not large:
        lines.append(
            f"From {small.notes:,} to {large.notes:,} notes ({large.bytes / small.bytes:.2f} times "
            f"the bytes) ours takes {growth:.2f} times the time."
        )
    return lines


def main() -> None:
    """Measure, print the table, write the JSON; exit 1 where the ways disagree."""
    parser = options("Time build_cohort against pandas.", quick=False)
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
    parser.add_argument(
        "--run", nargs=3, help=argparse.SUPPRESS
    )  # a child: method, folder, result
    asked = parser.parse_args()
    if asked.run:
        method, folder, out = asked.run
        run_way(method, Path(folder), Path(out))
        return
    measured: list[Measured] = []
    for notes in sorted(asked.notes, reverse=True):
        measured_methods = {m.method for m in measured}
        ways = [
            "ours",
            *(
                method
                for method in ("early", *PANDAS)
                if method not in measured_methods
            ),
        ]
        comparison = compare(
            notes,
            ways=ways,
            rounds=asked.rounds,
            limit=asked.pandas_memory * 1e9,
        )
        measured += comparison.values()
    lines = conclusions(measured)
    report(
        [m.row() for m in measured],
        setting={"cores": os.cpu_count(), **versions_of("duckdb", "pandas")},
        measured={
            "measured": [asdict(m) for m in measured],
            "conclusions": lines,
        },
        out=asked.out,
    )
    print("", *lines, sep="\n")


if __name__ == "__main__":
    main()
