"""What every scoring command does: check the input, load the model, score, print the counts."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from domainbert.console import progress, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from domainbert.scoring.driver import Counts
    from domainbert.scoring.task import Task
    from domainbert.tables import ReadOptions


def run(
    make_task: Callable[[], Task],
    source: str | Path,
    out: Path,
    *,
    named: Mapping[str, str | None] | None = None,
    keep: Iterable[str] = (),
    options: ReadOptions | None = None,
    restart: bool = False,
) -> Counts:
    """Score a source for a command; arguments as for `domainbert.scoring.score_file`.

    `make_task` loads the model, and is called once the input is known to be readable.
    """
    from domainbert.scoring.driver import score_file, store_of
    from domainbert.tables import ReadOptions, table_columns

    options = options or ReadOptions()
    # A mistyped name should not wait for the model.
    table_columns(source, options)
    store_of(source, out)
    done = 0
    with progress("rows") as advance:

        def told(now: int, total: int) -> None:
            nonlocal done
            advance(now - done, total)
            done = now

        try:
            counts = score_file(
                make_task(),
                source,
                out,
                named={k: v for k, v in (named or {}).items() if v},
                keep=keep,
                options=options,
                restart=restart,
                progress=told,
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
