"""What every scoring command does: score a source, print the counts, write a summary."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from domainbert.cli.console import progress, say
from domainbert.cli.options import ScoringOptions

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

    done = 0
    with progress("rows") as advance:

        def report(now: int, total: int) -> None:
            nonlocal done
            advance(now - done, total)
            done = now

        try:
            counts = score_file(
                make_task,
                source,
                out,
                named=scoring.named(text=text),
                keep=scoring.keep or (),
                options=scoring.reading(lines=lines),
                restart=scoring.restart,
                raw=scoring.raw,
                summary=out.with_name(f"{out.name}.summary.json"),
                progress=report,
            )
        except KeyboardInterrupt:
            say(f"stopped after {done:,} rows; resume with: {_command()}")
            raise
    say(f"{counts}; written to {out}")
    return counts


def _command() -> str:
    """The command that resumes this one; a database's address may hold a password."""
    words = [word for word in sys.argv[1:] if word != "--restart"]
    if any("://" in word for word in words):
        return "the same command, without --restart"
    return shlex.join([Path(sys.argv[0]).name, *words])
