"""What every scoring command does: check the input, load the model, score, print the counts."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from domainbert.console import progress, say
from domainbert.errors import UserError

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
    metrics: Path | None = None,
) -> Counts:
    """Score a source for a command; arguments as for `domainbert.scoring.score_file`.

    `make_task` loads the model, and is called once the input is known to be readable. A summary
    of the run is written beside the output, and to `metrics` for Prometheus.
    """
    from domainbert.meter import metered, stage
    from domainbert.scoring.driver import score_file, store_of
    from domainbert.scoring.summary import summarise, summary_path
    from domainbert.tables import ReadOptions, table_columns

    options = options or ReadOptions()
    # A mistyped name should not wait for the model.
    table_columns(source, options)
    store_of(source, out)
    _check_metrics(metrics)
    done = 0
    with progress("rows") as advance, metered() as meter:

        def told(now: int, total: int) -> None:
            nonlocal done
            advance(now - done, total)
            done = now

        with stage("load"):
            task = make_task()
        try:
            counts = score_file(
                task,
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
    summary = summarise(task.name, counts, meter)
    if counts.done < counts.rows or not counts.rows:  # else an earlier run wrote it
        summary.save(summary_path(out))
    if metrics:
        summary.save_metrics(metrics)
    say(f"{counts}; written to {out}")
    return counts


def _command() -> str:
    """The command that resumes this one; a database's address may hold a password."""
    words = [word for word in sys.argv[1:] if word != "--restart"]
    if any("://" in word for word in words):
        return "the same command, without --restart"
    return shlex.join([Path(sys.argv[0]).name, *words])


def _check_metrics(path: Path | None) -> None:
    """Refuse a file that Prometheus would not read before the model is loaded."""
    if path is not None and path.suffix != ".prom":
        msg = f"--metrics {path}: expected a name that ends in .prom, as Prometheus' collector does"
        raise UserError(msg)
    if path is not None and not path.parent.is_dir():
        raise UserError(f"--metrics {path}: no folder {path.parent}; make it first")
