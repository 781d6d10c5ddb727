"""What every scoring command does: score a source, print the counts, write a summary."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert import __version__
from domainbert.cli.console import progress, say
from domainbert.cli.options import ScoringOptions
from domainbert.files import write_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from domainbert.scoring.driver import AnyTask, Counts

_DEFAULTS = ScoringOptions()


def score_source(
    make_task: Callable[[], AnyTask],
    source: str | Path,
    out: Path,
    scoring: ScoringOptions = _DEFAULTS,
    *,
    text: str = "text",
    lines: bool = False,
) -> Counts:
    """Score a source with the options of a scoring command, and print the counts.

    A summary of the run is written beside the output.

    Args:
        make_task: loads the model; called once the input is known to be readable.
        source: see `domainbert.scoring.score_file`.
        out: the table or folder to write.
        scoring: the command's options.
        text: our name of the column that --text names.
        lines: read each line of a .txt file as a text.
    """
    from domainbert.scoring.driver import score_file

    done, name, began = 0, "", time.monotonic()
    with progress("rows") as advance:

        def report(now: int, total: int) -> None:
            nonlocal done
            advance(now - done, total)
            done = now

        def load() -> AnyTask:
            nonlocal name
            task = make_task()
            name = task.name
            return task

        try:
            counts = score_file(
                load,
                source,
                out,
                named=scoring.named(text=text),
                keep=scoring.keep or (),
                options=scoring.reading(lines=lines),
                restart=scoring.restart,
                raw=scoring.raw,
                progress=report,
            )
        except KeyboardInterrupt:
            say(f"stopped after {done:,} rows; resume with: {_command()}")
            raise
    summary = _summary(name, counts, seconds=time.monotonic() - began)
    beside = out.with_name(f"{out.name}.summary.json")
    if not (counts.was_complete and beside.exists()):
        write_json(summary, beside)
    say(f"{counts}; written to {out}")
    return counts


def _command() -> str:
    """The command that resumes this one; a database's address may hold a password."""
    words = [word for word in sys.argv[1:] if word != "--restart"]
    if any("://" in word for word in words):
        return "the same command, without --restart"
    return shlex.join([Path(sys.argv[0]).name, *words])


def _summary(task: str, counts: Counts, *, seconds: float) -> dict[str, Any]:
    """What a run did, numbers and names only; docs/scale.md says what each key means."""
    return {
        "task": task,
        "version": __version__,
        "finished": time.time(),
        "rows": counts.rows,
        "rows_done_earlier": counts.done,
        "rows_out": counts.made,
        "items": dict(counts.items),
        "seconds": seconds,
        "peak_memory_bytes": _peak_memory(),
    }


def _peak_memory() -> int:
    """The largest resident memory of this process so far, in bytes; 0 on Windows."""
    try:
        import resource
    except ImportError:
        return 0
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024
