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
from domainbert.errors import UserError
from domainbert.files import atomic_path, write_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from domainbert.scoring.driver import AnyTask, Counts
    from domainbert.text.meter import Meter

_DEFAULTS = ScoringOptions()
_GAUGES = {
    "finished_timestamp_seconds": "When it finished.",
    "rows": "Rows of the input.",
    "rows_done_earlier": "Rows that an earlier run did.",
    "rows_out": "Rows written.",
    "windows": "Windows through the network.",
    "tokens": "Tokens through the network.",
    "padding_ratio": "Share of padding in what the network computed.",
    "cache_hits": "Windows found in the cache.",
    "peak_memory_bytes": "Resident memory.",
    "items": "Texts or stays, by status.",
    "seconds_by_stage": "Duration, by stage.",
}


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

    A summary of the run is written beside the output, and to `scoring.metrics` for Prometheus.

    Args:
        make_task: loads the model; called once the input is known to be readable.
        source: see `domainbert.scoring.score_file`.
        out: the table or folder to write.
        scoring: the command's options.
        text: our name of the column that --text names.
        lines: read each line of a .txt file as a text.
    """
    from domainbert.scoring.driver import score_file
    from domainbert.text.meter import metered

    _check_metrics(scoring.metrics)
    done, name = 0, ""
    with progress("rows") as advance, metered() as meter:

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
                progress=report,
            )
        except KeyboardInterrupt:
            say(f"stopped after {done:,} rows; resume with: {_command()}")
            raise
    summary = _summary(name, counts, meter)
    beside = out.with_name(f"{out.name}.summary.json")
    if not (counts.was_complete and beside.exists()):
        write_json(summary, beside)
    if scoring.metrics:
        _save_metrics(summary, scoring.metrics)
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


def _summary(task: str, counts: Counts, meter: Meter) -> dict[str, Any]:
    """What a run did, numbers and names only; docs/scale.md says what each key means."""
    return {
        "task": task,
        "version": __version__,
        "finished": time.time(),
        "rows": counts.rows,
        "rows_done_earlier": counts.done,
        "rows_out": counts.made,
        "items": dict(counts.items),
        "windows": meter.windows,
        "tokens": meter.tokens,
        "padding_share": 1 - meter.tokens / meter.cells if meter.cells else 0.0,
        "cache_hits": meter.cache_hits,
        "seconds": sum(meter.seconds.values()),
        "seconds_by_stage": dict(meter.seconds),
        "peak_memory_bytes": _peak_memory(),
    }


def _save_metrics(summary: dict[str, Any], path: Path) -> None:
    """Write a summary for Prometheus' textfile collector."""
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry()
    values = {**summary, "padding_ratio": summary["padding_share"]}
    values["finished_timestamp_seconds"] = summary["finished"]
    labels = {"items": "status", "seconds_by_stage": "stage"}
    for name, about in _GAUGES.items():
        key = f"domainbert_scoring_{name.removesuffix('_by_stage')}"
        names = ["task", labels[name]] if name in labels else ["task"]
        gauge = Gauge(key, about, names, registry=registry)
        if name in labels:
            for label, value in values[name].items():
                gauge.labels(summary["task"], label).set(value)
        else:
            gauge.labels(summary["task"]).set(values[name])
    with atomic_path(path) as temporary:
        temporary.write_bytes(generate_latest(registry))
        temporary.chmod(0o644)  # the collector is another user


def _peak_memory() -> int:
    """The largest resident memory of this process so far, in bytes; 0 on Windows."""
    try:
        import resource
    except ImportError:
        return 0
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024
