"""Killed runs, full disks and folders that cannot be written: the table is always the same."""

import json
import os
import random
import resource
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from domainbert.errors import UserError
from domainbert.scoring import score_file
from domainbert.tables import read_table, write_table

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from word_count import PatientWords, WordList  # noqa: E402

KILLS = 6  # in each of three phases, of two tasks


def hospital(stays):
    """Stays of one note, every fourth of two that lie apart."""
    texts = [
        " ".join(f"w{i * j % 13}" for j in range(1, 3 + i % 9))
        for i in range(stays)
    ]
    ids = [f"s{i}" for i in range(stays)]
    first = pd.DataFrame({"stay_id": ids, "text": texts})
    return pd.concat([first, first.iloc[::4]])


@pytest.fixture
def runs():
    """Start a run in a warm process: job -> exit code and moments seen."""
    command = [sys.executable, str(HERE / "killing.py")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:

        def start(**job):
            process.stdin.write(
                json.dumps({"phase": None, "after": None, **job}) + "\n"
            )
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield start
        process.stdin.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "kind", "ending"),
    [("stays", ".csv", ".parquet"), ("words", ".parquet", ".csv")],
)
def test_a_run_killed_at_any_moment_ends_with_the_same_table(
    tmp_path, runs, task, kind, ending, pytestconfig
):
    most = KILLS * min(4, pytestconfig.getoption("--fuzz"))
    source = tmp_path / f"n{kind}"
    write_table(hospital(600), source)
    job = {"source": str(source), "task": task}
    code, moments = runs(**job, out=str(tmp_path / f"whole{ending}"))
    assert code == 0
    whole = read_table(tmp_path / f"whole{ending}")
    assert len(whole) >= 600
    chooser, kills, finished = (
        random.Random(task),
        dict.fromkeys(moments, 0),
        0,
    )
    out = tmp_path / f"out{ending}"
    while min(kills.values()) < most:
        phase = min(kills, key=kills.get)
        code, _ = runs(
            **job,
            out=str(out),
            phase=phase,
            after=1 + chooser.randrange(moments[phase]),
        )
        if code == 0:
            pd.testing.assert_frame_equal(read_table(out), whole)
            finished, out = finished + 1, tmp_path / f"out{finished}{ending}"
            continue
        assert code == -9
        kills[phase] += 1
    assert runs(**job, out=str(out))[0] == 0
    pd.testing.assert_frame_equal(read_table(out), whole)
    assert not list(tmp_path.glob("*.parts"))


def remount(folder, options):
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    return (
        subprocess.run(command, capture_output=True, check=False).returncode
        == 0
    )


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 100 kB, and a way to mount it otherwise."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.getuid() != 0 or not remount(folder, "size=100k"):
        pytest.skip("this user cannot mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def in_small_parts(task_class):
    task = task_class()
    task.part_characters = 50_000  # 200 items
    return task


TASKS = [(PatientWords, "out.csv"), (WordList, "out.parquet")]


@pytest.mark.parametrize(("task", "out"), TASKS)
def test_a_full_disk_and_a_read_only_one(tmp_path, small_disk, task, out):
    task = partial(in_small_parts, task)
    source = tmp_path / "n.csv"
    write_table(hospital(2000), source)
    score_file(task(), source, tmp_path / f"whole{Path(out).suffix}")
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * 50_000)
    full = r"cannot be written \(no space left on device\); correct this and repeat the command"
    with pytest.raises(UserError, match=full):
        score_file(task(), source, small_disk / out)
    assert not (small_disk / out).is_file()
    assert remount(small_disk, "remount,ro")
    with pytest.raises(
        UserError, match=r"cannot be written \(read-only file system\)"
    ):
        score_file(task(), source, small_disk / out)
    assert remount(small_disk, "remount,rw,size=10m")
    counts = score_file(task(), source, small_disk / out)
    assert counts.rows == 2500
    found, whole = (
        read_table(small_disk / out),
        read_table(tmp_path / f"whole{Path(out).suffix}"),
    )
    pd.testing.assert_frame_equal(found, whole)
    assert not list(small_disk.glob("*.parts"))


@contextmanager
def files_of_at_most(size):
    """Writing more bytes to a file fails, as with a quota."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_size_limit_keeps_what_is_done(tmp_path):
    task = in_small_parts(WordList)
    source = tmp_path / "n.csv"
    write_table(hospital(2000), source)
    score_file(task, source, tmp_path / "whole.csv")
    # The parts fit, the table does not.
    with (
        files_of_at_most(60_000),
        pytest.raises(
            UserError, match=r"cannot be written \(file too large\)"
        ),
    ):
        score_file(task, source, tmp_path / "out.csv")
    counts = score_file(task, source, tmp_path / "out.csv")
    assert (counts.done, counts.made) == (2500, 0)
    assert (tmp_path / "out.csv").read_bytes() == (
        tmp_path / "whole.csv"
    ).read_bytes()


def test_a_folder_without_permission(tmp_path):
    if os.getuid() == 0:
        pytest.skip("root may write everywhere")
    write_table(hospital(10), tmp_path / "n.csv")
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(
        UserError, match=r"cannot be written \(permission denied\)"
    ):
        score_file(
            WordList(), tmp_path / "n.csv", tmp_path / "locked" / "out.csv"
        )


def test_a_file_size_limit_while_scattered_rows_wait(tmp_path):
    source = tmp_path / "n.csv"
    stays = [f"s{number % 100}" for number in range(200)]
    write_table(
        pd.DataFrame({"stay_id": stays, "text": ["w " * 20_000] * 200}), source
    )
    with (
        files_of_at_most(100_000),
        pytest.raises(
            UserError,
            match=r"cannot be written \((file too large|input/output)",
        ),
    ):
        score_file(PatientWords(), source, tmp_path / "out.csv")
    assert score_file(PatientWords(), source, tmp_path / "out.csv").rows == 200
