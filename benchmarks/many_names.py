"""A dictionary of millions of names: what writing it costs, and how fast names are found in it.

    python benchmarks/many_names.py 10000000

Takes 10 minutes on two cores, and 4 GB of disk. Writes a made-up release of UMLS with that many
names and runs `biomed ner dictionary` on it in a process of its own: processor time, time, peak
memory, and the size of the file. Then 10,000 names from all over the release are looked up three
times: after the system was told to forget the file, so that each look-up reads from the disk; once
more; and with the time that the process itself computes instead of the clock's.

How to read the table: look-ups have the median and the 99th percentile in microseconds. The first
look-ups wait for the disk, the second find the pages of the file in memory. Where the clock's times
of the second are far above the processor's, other programs had the processor.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from measuring import resident_bytes, seconds_of
from reporting import command_line

from biomed.ner.dictionaries import Dictionary
from domainbert.models.card import table

if TYPE_CHECKING:
    from collections.abc import Callable

_SYLLABLES = [
    "ar",
    "be",
    "ci",
    "do",
    "ema",
    "fil",
    "gra",
    "hy",
    "io",
    "ju",
    "ka",
    "le",
    "mo",
]
_BLOCK = 100_000


def write_made_up(folder: Path, count: int) -> None:
    """A release of UMLS with made-up names of two to six words, five for two concepts."""
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(_SYLLABLES, 2 + n % 3)) for n in range(20_000)]
    with (
        (folder / "MRCONSO.RRF").open("w") as atoms,
        (folder / "MRSTY.RRF").open("w") as types,
    ):
        last = -1
        for start in range(0, count, _BLOCK):
            numbers = rng.integers(0, len(words), (_BLOCK, 6)).tolist()
            lengths = rng.integers(2, 7, _BLOCK).tolist()
            for row in range(min(_BLOCK, count - start)):
                concept = (start + row) * 2 // 5
                name = " ".join(words[n] for n in numbers[row][: lengths[row]])
                status = "S|L|VO|S|N"
                if concept != last:
                    status = "P|L|PF|S|Y"
                    types.write(f"C{concept:07d}|T047|B2|Disease|AT||\n")
                    last = concept
                source = f"SNOMEDCT_US|PT|{concept}"
                atoms.write(
                    f"C{concept:07d}|ENG|{status}|A||||{source}|{name}|0|N||\n"
                )


def many_names(count: int) -> str:
    """The table of a made-up release: what building costs, and look-ups."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_made_up(folder, count)
        out = folder / "names.sqlite"
        command = [
            sys.executable,
            "-c",
            "from biomed.cli import app; app()",
            "ner",
            "dictionary",
            name,
            "--out",
            str(out),
        ]
        start = time.perf_counter()
        child = subprocess.Popen(command)  # noqa: S603
        peak = 0
        while child.poll() is None:
            peak = max(peak, resident_bytes(child.pid, peak=True))
            time.sleep(0.1)
        seconds = time.perf_counter() - start
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        if child.returncode:
            raise SystemExit(child.returncode)
        opening = seconds_of(lambda: Dictionary.read(out))
        rows = [
            ["names", f"{count:,}"],
            [
                "release, MB",
                f"{(folder / 'MRCONSO.RRF').stat().st_size / 1e6:,.0f}",
            ],
            ["file, MB", f"{out.stat().st_size / 1e6:,.0f}"],
            ["processor seconds", f"{usage.ru_utime + usage.ru_stime:,.0f}"],
            ["seconds", f"{seconds:,.0f}"],
            ["peak memory, MB", f"{peak / 1e6:,.0f}"],
            ["opening, milliseconds", f"{1000 * opening:.1f}"],
            *_look_up_rows(out, folder / "MRCONSO.RRF"),
        ]
    return table(["what", "value"], rows)


def _look_up_rows(out: Path, atoms: Path) -> list[list[str]]:
    """Rows of look-ups of 10,000 names: exact, in another form, and unknown."""
    with atoms.open() as lines:
        every = max(1, sum(1 for _ in lines) // 10_000)
        lines.seek(0)
        names = [line.split("|")[14] for line in islice(lines, 0, None, every)]
    queries = {
        "exact name": names,
        "name in another form": [f"{name}s of the" for name in names],
        "unknown name": [f"{name} zzz" for name in names],
    }
    if not all(map(Dictionary.read(out).find, names)):
        raise SystemExit("a name was not found")
    rows = []
    for title, texts in queries.items():
        with out.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        dictionary = Dictionary.read(out)
        from_disk = _times(dictionary, texts, time.perf_counter)
        again = _times(dictionary, texts, time.perf_counter)
        computed = _times(dictionary, texts, time.process_time)
        rows += [
            [f"{title}, from the disk", from_disk],
            [f"{title}, again", again],
            [f"{title}, again, processor time", computed],
        ]
    return rows


def _times(
    dictionary: Dictionary, names: list[str], clock: Callable[[], float]
) -> str:
    """The median and the 99th percentile of the microseconds of a look-up."""
    seconds = []
    for name in names:
        start = clock()
        dictionary.find(name)
        seconds.append(clock() - start)
    middle, high = np.percentile(seconds, [50, 99]) * 1e6
    return f"{middle:.0f}; {high:.0f}"


def main() -> None:
    """Print the table of a made-up release."""
    parser = command_line(__doc__)
    parser.add_argument("names", type=int)
    print(many_names(parser.parse_args().names))


if __name__ == "__main__":
    main()
