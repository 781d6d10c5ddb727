"""Train one model per seed, one after the other or side by side."""

from __future__ import annotations

import os
from contextlib import nullcontext, redirect_stderr
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

T = TypeVar("T")


def train_seeds(
    train_one: Callable[..., T],
    seeds: Sequence[int],
    *,
    checkpoints: Path | None = None,
    jobs: int = 1,
) -> Iterator[tuple[int, T]]:
    """Train once for each seed; yields (seed, model) in the order of the seeds, when ready.

    Args:
        train_one: called with the keywords `seed` and `checkpoints` (a folder or None); returns
            the trained model. It must be picklable if `jobs` is above 1.
        seeds: one run each.
        checkpoints: parent folder of the checkpoints of all seeds, if they are kept.
        jobs: runs side by side, in processes that share the cores. With small batches, two runs of
            one thread process more tokens per second than one run of two threads.
    """
    from joblib import Parallel, delayed, parallel_config

    threads = {"inner_max_num_threads": max(1, (os.cpu_count() or 1) // jobs)} if jobs > 1 else {}
    run = partial(_run, train_one, quiet=jobs > 1)
    with parallel_config("loky", n_jobs=jobs, **threads):
        models = Parallel(return_as="generator")(
            delayed(run)(
                seed=seed, checkpoints=checkpoints / f"seed-{seed}" if checkpoints else None
            )
            for seed in seeds
        )
    yield from zip(seeds, models, strict=True)


def _run(train_one: Callable[..., T], *, quiet: bool, **keywords: Any) -> T:
    # Several progress bars would overwrite each other.
    with redirect_stderr(StringIO()) if quiet else nullcontext():
        return train_one(**keywords)
