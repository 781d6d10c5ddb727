"""Run summary: what a scoring run did, as JSON and for Prometheus' textfile collector."""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from domainbert import __version__
from domainbert.files import atomic_path, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from domainbert.meter import Meter
    from domainbert.scoring.driver import Counts

PREFIX = "domainbert_scoring"


@dataclass(frozen=True)
class Summary:
    """What a run did. It holds numbers and names only, nothing of the input.

    Attributes:
        task: its name.
        version: of domainbert.
        finished: seconds since 1970, UTC.
        rows: of the input.
        rows_done_earlier: of these, scored by an earlier run that this one resumed.
        rows_out: written by this run.
        items: texts, or stays, of this run, by status.
        windows: that went through a network; windows found in a cache did not.
        tokens: of these windows, special ones included and padding not.
        padding_share: of the positions that the network computed, in [0, 1].
        cache_hits: windows found in the cache.
        seconds: of the run.
        seconds_by_stage: `load` (the model), `survey` (first pass over the input), `read`
            (waiting for rows), `prepare` (tokens, windows, output rows), `model`, `write` (parts),
            `assemble` (the final table) and `other`; they add up to `seconds`.
        peak_memory_bytes: of the process, resident.
    """

    task: str
    version: str
    finished: float
    rows: int
    rows_done_earlier: int
    rows_out: int
    items: dict[str, int]
    windows: int
    tokens: int
    padding_share: float
    cache_hits: int
    seconds: float
    seconds_by_stage: dict[str, float]
    peak_memory_bytes: int

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        write_json(asdict(self), path)

    def save_metrics(self, path: Path) -> None:
        """Write it for Prometheus' textfile collector, which wants the ending .prom."""
        with atomic_path(path) as temporary:
            temporary.write_text(self.metrics(), encoding="utf-8")
            temporary.chmod(0o644)  # the collector is another user

    def metrics(self) -> str:
        """The summary in Prometheus' text format; all values are of the last run."""
        task, earlier = {"task": self.task}, self.rows_done_earlier
        by_status = [({**task, "status": name}, n) for name, n in sorted(self.items.items())]
        by_stage = [({**task, "stage": name}, n) for name, n in self.seconds_by_stage.items()]
        gauges: dict[str, tuple[str, Sequence[tuple[dict[str, str], float]]]] = {
            "finished_timestamp_seconds": ("When it finished.", [(task, self.finished)]),
            "rows": ("Rows of the input.", [(task, self.rows)]),
            "rows_done_earlier": (
                "Rows that an earlier run did.",
                [(task, earlier)],
            ),
            "rows_out": ("Rows written.", [(task, self.rows_out)]),
            "items": ("Texts or stays, by status.", by_status),
            "windows": ("Windows through the network.", [(task, self.windows)]),
            "tokens": ("Tokens through the network.", [(task, self.tokens)]),
            "padding_ratio": ("Share of padding.", [(task, self.padding_share)]),
            "cache_hits": ("Windows found in the cache.", [(task, self.cache_hits)]),
            "seconds": ("Duration, by stage.", by_stage),
            "peak_memory_bytes": ("Resident memory.", [(task, self.peak_memory_bytes)]),
        }
        lines = []
        for name, (about, samples) in gauges.items():
            lines += [f"# HELP {PREFIX}_{name} {about}", f"# TYPE {PREFIX}_{name} gauge"]
            for labels, value in samples:
                spelled = ",".join(f'{key}="{text}"' for key, text in labels.items())
                lines.append(f"{PREFIX}_{name}{{{spelled}}} {value!r}")
        return "\n".join(lines) + "\n"


def summarise(task: str, counts: Counts, meter: Meter) -> Summary:
    """The summary of a run that is over."""
    return Summary(
        task=task,
        version=__version__,
        finished=time.time(),
        rows=counts.rows,
        rows_done_earlier=counts.done,
        rows_out=counts.made,
        items=dict(counts.items),
        windows=meter.windows,
        tokens=meter.tokens,
        padding_share=1 - meter.tokens / meter.cells if meter.cells else 0.0,
        cache_hits=meter.cache_hits,
        seconds=sum(meter.seconds.values()),
        seconds_by_stage=dict(meter.seconds),
        peak_memory_bytes=peak_memory(),
    )


def peak_memory() -> int:
    """The largest resident memory of this process so far, in bytes."""
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


def summary_path(out: Path) -> Path:
    """The summary's file, beside the output."""
    return out.with_name(f"{out.name}.summary.json")
