"""Time and memory of `build_cohort` on OMOP and FHIR against MIMIC-III, with the same stays.

    python benchmarks/forms.py --out forms.json
    python benchmarks/forms.py --forms omop fhir
    python benchmarks/forms.py --quick                        # does it run?

Takes 10 minutes on two cores, and 10 GB of disk. A made-up hospital of a million notes
(`big_hospital.py`) is written as MIMIC-III and, from that, in the other forms. The tables of
MIMIC-III and OMOP are CSV, those of FHIR NDJSON with base64. Cohorts are built in turn, each in a
process of its own, which gives its peak memory.

How to read the table: a row is a form; "time × MIMIC" and "memory × MIMIC" are ratios within a
round, the median with the smallest and the largest. All cohorts must have the same labels and
texts; the exit status is 1 if not.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from big_hospital import write_hospital
from cohort import GIGABYTE, cost_text, describe
from measuring import in_new_process, print_cost, say
from reporting import options, report, spread, times, versions_of

MIMIC = "mimic3"
FORMS = ("omop", "fhir")
# Columns of MIMIC-III that the hospital lacks.
LACKING = {
    "ADMISSIONS": "'' AS ETHNICITY, 'CLINIC' AS ADMISSION_LOCATION, '' AS DISCHARGE_LOCATION",
    "PATIENTS": "'' AS DOD",
    "NOTEEVENTS": "NULL AS unused",
}
NO_CODES = "CREATE TABLE codes (subject TEXT, hadm TEXT, seq TEXT, icd10 TEXT, icd9 TEXT)"

Runs = dict[str, list[dict[str, float]]]  # seconds and peak bytes of each form


def translate(
    mimic: Path,
    folder: Path,
    form: str,
) -> None:
    """Write the tables in another form, as `clinical synthesize` does."""
    import duckdb

    from clinical.datasets.hospital import SUBFOLDERS

    for name in ("", *SUBFOLDERS.get(form, ())):
        (folder / name).mkdir()
    script = resources.files("clinical.datasets") / "forms" / f"{form}.sql"
    statements = script.read_text("utf-8").replace("{folder}", str(folder))
    with duckdb.connect(config={"temp_directory": str(folder)}) as con:
        con.execute("SET preserve_insertion_order = false")
        for name, columns in LACKING.items():
            path = str(mimic / f"{name}.csv")
            con.execute(
                f"CREATE VIEW {name} AS SELECT *, {columns} "  # noqa: S608
                f"FROM read_csv('{path}', all_varchar = true, parallel = false)"
            )
        con.execute(NO_CODES)
        con.execute(statements)


def write_forms(
    work: Path,
    forms: Sequence[str],
    *,
    notes: int,
) -> dict[str, Path]:
    """Write the hospital as MIMIC-III and in other forms; the folder of each."""
    folders = {name: work / name for name in (MIMIC, *forms)}
    say(f"writing {notes:,} notes")
    write_hospital(folders[MIMIC], notes=notes)
    for form in forms:
        say(f"translating them to {form}")
        translate(folders[MIMIC], folders[form], form)
    return folders


def build(folder: Path, out: Path) -> None:
    """Build a cohort and print what it cost."""
    from clinical.cohort.build import build_cohort

    print_cost(lambda: build_cohort(folder, data_end="none", out=out))


def measure(
    folders: Mapping[str, Path],
    out: Path,
    *,
    rounds: int,
) -> Runs:
    """What each form costs, round by round; ends the program where cohorts differ."""
    runs: Runs = {form: [] for form in folders}
    cohorts = {}
    for number in range(1, rounds + 1):
        for form, folder in folders.items():
            run = in_new_process(__file__, "--run", folder, out)
            say(f"  {form}, round {number}: {cost_text(run)}")
            runs[form].append(run)
            cohorts[form] = describe(out)
    if len(set(cohorts.values())) > 1:
        sys.exit(f"the cohorts differ: {cohorts}")
    return runs


def table_row(
    form: str,
    folder: Path,
    runs: Runs,
) -> dict[str, str]:
    """What a form costs, also as ratios to MIMIC-III, without the number of notes."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    seconds = [run["seconds"] for run in runs[form]]
    peaks = [run["peak"] for run in runs[form]]
    mimic_seconds = [run["seconds"] for run in runs[MIMIC]]
    mimic_peaks = [run["peak"] for run in runs[MIMIC]]
    return {
        "GB": f"{size / GIGABYTE:.2f}",
        "seconds": spread(seconds, ".1f"),
        "peak memory, GB": spread([p / GIGABYTE for p in peaks], ".2f"),
        "time × MIMIC": times(seconds, mimic_seconds),
        "memory × MIMIC": times(peaks, mimic_peaks),
    }


def main() -> None:
    """Measure, print the table, write the JSON."""
    parser = options(__doc__)
    parser.add_argument(
        "--notes",
        type=int,
        default=1_000_000,
        help="of the hospital (1000000)",
    )
    parser.add_argument(
        "--forms",
        nargs="+",
        default=["omop"],
        choices=FORMS,
        help="(omop)",
    )
    # A process of its own: folder of the tables, file of the cohort.
    parser.add_argument(
        "--run",
        nargs=2,
        help=argparse.SUPPRESS,
    )
    asked = parser.parse_args()
    if asked.run:
        folder, out = asked.run
        build(Path(folder), Path(out))
        return
    if asked.quick:
        asked.notes = 10_000
        asked.rounds = 1
    rows = []
    with tempfile.TemporaryDirectory(prefix="forms-") as name:
        work = Path(name)
        folders = write_forms(work, asked.forms, notes=asked.notes)
        runs = measure(folders, work / "cohort.parquet", rounds=asked.rounds)
        for form, folder in folders.items():
            head = {"form": form, "notes": f"{asked.notes:,}"}
            rows.append(head | table_row(form, folder, runs))
    setting = {"cores": os.cpu_count(), **versions_of("duckdb")}
    report(
        rows,
        setting=setting,
        measured={"runs": runs},
        out=asked.out,
    )


if __name__ == "__main__":
    main()
