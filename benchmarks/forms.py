"""Time and memory of `build_cohort` on other forms of the tables against those of MIMIC-III.

The hospital of `cohort.py` is written as MIMIC-III and, from that, in the other forms; cohorts of
them are built in turn, each in a process of its own, and must have the same labels and texts.
The tables of MIMIC-III and OMOP are CSV, those of FHIR NDJSON with base64.

    python benchmarks/forms.py --out forms.json
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import resources
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from cohort import describe, write_hospital
from reporting import options, report, say, spread, versions_of

FORMS = ("omop", "fhir")
# Columns of MIMIC-III that the hospital of `cohort.py` lacks.
LACKING = {
    "ADMISSIONS": "'' AS ETHNICITY, 'CLINIC' AS ADMISSION_LOCATION, '' AS DISCHARGE_LOCATION",
    "PATIENTS": "'' AS DOD",
    "NOTEEVENTS": "NULL AS unused",
}


def translate(mimic: Path, folder: Path, form: str) -> Path:
    """Write the tables in another form, as `clinical synthesize` does."""
    import duckdb

    folder.mkdir()
    script = resources.files("clinical.datasets") / "forms" / f"{form}.sql"
    with duckdb.connect(config={"temp_directory": str(folder)}) as con:
        con.execute("SET preserve_insertion_order = false")
        for name, columns in LACKING.items():
            path = str(mimic / f"{name}.csv")
            con.execute(
                f"CREATE VIEW {name} AS SELECT *, {columns} "  # noqa: S608
                f"FROM read_csv('{path}', all_varchar = true, parallel = false)"
            )
        con.execute(script.read_text("utf-8").replace("{folder}", str(folder)))
    return folder


def write_forms(
    work: Path, forms: Sequence[str], *, notes: int
) -> dict[str, Path]:
    """Write the hospital as MIMIC-III and in other forms; the folder of each."""
    folders = {"mimic3": write_hospital(work / "mimic3", notes=notes).folder}
    for form in forms:
        folders[form] = translate(folders["mimic3"], work / form, form)
    return folders


def build(folder: Path, out: Path) -> None:
    """In a process of its own: build, and say on stdout how long it took and what memory."""
    from clinical.cohort.build import build_cohort

    started = time.perf_counter()
    build_cohort(folder, data_end="none", out=out)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "peak": peak}))


def measure(
    folders: dict[str, Path], out: Path, *, rounds: int
) -> dict[str, list[dict[str, Any]]]:
    """What `build` says of each form, round by round; ends the program where cohorts differ."""
    runs: dict[str, list[dict[str, Any]]] = {form: [] for form in folders}
    measured = {}
    for number in range(1, rounds + 1):
        for form, folder in folders.items():
            command = [
                sys.executable,
                __file__,
                "--run",
                str(folder),
                str(out),
            ]
            child = subprocess.run(  # noqa: S603
                command, stdout=subprocess.PIPE, check=True
            )
            runs[form].append(run := json.loads(child.stdout))
            say(
                f"  {form}, round {number}: {run['seconds']:.1f} s, {run['peak'] / 1e9:.2f} GB"
            )
            measured[form] = describe(out)
    if len(set(measured.values())) > 1:
        sys.exit(f"the cohorts differ: {measured}")
    return runs


def main() -> None:
    """Measure, print the table, write the JSON."""
    parser = options("Time build_cohort on OMOP and FHIR against MIMIC-III.")
    parser.add_argument(
        "--notes",
        type=int,
        default=1_000_000,
        help="of the hospital (1000000)",
    )
    parser.add_argument(
        "--forms", nargs="+", default=["omop"], choices=FORMS, help="(omop)"
    )
    parser.add_argument(
        "--run", nargs=2, help=argparse.SUPPRESS
    )  # a child: folder, result
    asked = parser.parse_args()
    if asked.run:
        build(*map(Path, asked.run))
        return
    notes, rounds = (10_000, 1) if asked.quick else (asked.notes, asked.rounds)
    with tempfile.TemporaryDirectory(prefix="forms-") as name:
        work = Path(name)
        say(f"writing {notes:,} notes")
        # In another process: a child's peak memory is never below that of its parent.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as writer:
            folders = writer.submit(
                write_forms, work, asked.forms, notes=notes
            ).result()
        runs = measure(folders, work / "cohort.parquet", rounds=rounds)
        rows = []
        for form, theirs in runs.items():
            ratios = {
                key: spread(
                    [
                        a[key] / b[key]
                        for a, b in zip(theirs, runs["mimic3"], strict=True)
                    ],
                    ".2f",
                )
                for key in ("seconds", "peak")
            }
            size = sum(
                path.stat().st_size
                for path in folders[form].rglob("*")
                if path.is_file()
            )
            rows.append(
                {
                    "form": form,
                    "notes": f"{notes:,}",
                    "GB": f"{size / 1e9:.2f}",
                    "seconds": spread([run["seconds"] for run in theirs], ".1f"),
                    "peak memory, GB": spread([run["peak"] / 1e9 for run in theirs], ".2f"),
                    "time × MIMIC": ratios["seconds"],
                    "memory × MIMIC": ratios["peak"],
                }
            )  # fmt: skip
    setting = {"cores": os.cpu_count(), **versions_of("duckdb")}
    report(rows, setting=setting, measured={"runs": runs}, out=asked.out)


if __name__ == "__main__":
    main()
