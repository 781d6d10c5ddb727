import os
import sys
from functools import partial

import pytest

from domainbert.training.seeds import train_seeds


def new_fake():
    """A function within another one travels to a worker whole, not by its module's name."""

    def fake(scale, *, seed, checkpoints):
        """Picklable; says which process it ran in and which folder it was given."""
        sys.stderr.write("progress")
        return seed * scale, checkpoints, os.getpid()

    return fake


@pytest.mark.parametrize("jobs", [1, 2])
def test_seeds_come_back_in_their_order(jobs, tmp_path, capfd):
    done = list(train_seeds(partial(new_fake(), 10), [3, 1], checkpoints=tmp_path, jobs=jobs))
    assert [(seed, result[:2]) for seed, result in done] == [
        (3, (30, tmp_path / "seed-3")),
        (1, (10, tmp_path / "seed-1")),
    ]
    assert (done[0][1][2] == os.getpid()) == (jobs == 1)
    # Progress bars of runs side by side would overwrite each other.
    assert ("progress" in capfd.readouterr().err) == (jobs == 1)


def test_one_after_the_other_as_they_are_asked_for():
    started = []

    def one(*, seed, checkpoints):
        started.append(seed)
        return checkpoints

    runs = train_seeds(one, [5, 6, 7])
    assert next(runs) == (5, None)
    assert 7 not in started
