"""Files and folders that are complete or not there, whatever ends the process that writes them."""

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from domainbert import files
from domainbert.errors import UserError
from domainbert.files import (
    atomic_path,
    check_output,
    expanded,
    folder_beside,
    remove_abandoned,
    replace_folder,
    write_json,
)

PRELUDE = "import sys, time\nfrom pathlib import Path\nfrom domainbert import files\n"


def test_a_name_that_begins_with_a_tilde_is_a_name(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expanded("~/a.csv") == tmp_path / "a.csv"
    assert expanded("~.csv") == Path("~.csv")
    check_output("~.csv", ["~other.csv"])
    with pytest.raises(UserError, match=r"~\.csv is an input of this command"):
        check_output("~.csv", ["~.csv"])


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def killed_while(code, *, name):
    """Run code that prints a line and waits, and kill it there without a chance to clean up."""
    process = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code, str(name)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGKILL)
    process.wait()


HOLD_FILE = """
with files.atomic_path(sys.argv[1]) as temporary:
    temporary.write_text("half")
    print("here", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize(
    "name", ["risks.csv", "risks.csv.gz", "no-ending", ".hidden", "a.b c.csv"]
)
def test_what_a_killed_process_left_is_removed_when_the_folder_is_written_again(
    tmp_path, name
):
    killed_while(HOLD_FILE, name=tmp_path / name)
    assert len(names_in(tmp_path)) == 1
    (tmp_path / "other.csv").touch()
    with atomic_path(tmp_path / "whole.csv") as temporary:
        assert names_in(tmp_path) == sorted([temporary.name, "other.csv"])


def test_a_work_folder_of_a_killed_process_is_removed_also_from_folders_below(
    tmp_path,
):
    code = """
with files.folder_beside(Path(sys.argv[1]), private=True) as work:
    (work / "rows").write_text("a note")
    print("here", flush=True)
    time.sleep(60)
"""
    (tmp_path / "out.csv.parts").mkdir()
    killed_while(code, name=tmp_path / "out.csv.parts" / "rows")
    with folder_beside(
        tmp_path / "out.csv.parts" / "rows", private=True
    ) as ours:
        killed = [
            path
            for path in (tmp_path / "out.csv.parts").iterdir()
            if path != ours
        ]
        assert killed == []
        assert remove_abandoned(tmp_path, deep=True) == []
    killed_while(code, name=tmp_path / "out.csv.parts" / "rows")
    assert len(remove_abandoned(tmp_path, deep=True)) == 1
    assert list((tmp_path / "out.csv.parts").iterdir()) == []


def test_a_temporary_of_a_living_process_is_left_alone(tmp_path):
    path = tmp_path / "risks.csv"
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time\nfrom domainbert import files\n" + HOLD_FILE,
            path,
        ],
        stdout=subprocess.PIPE,
    )
    try:
        child.stdout.readline()
        write_json(1, path)
        with atomic_path(path) as ours:
            write_json(2, path)
            assert ours.exists()
            ours.write_text("3")
        assert path.read_text() == "3"
        assert len(names_in(tmp_path)) == 2
    finally:
        child.kill()
        child.wait()


def test_a_process_number_that_was_given_out_again_is_not_the_writer(tmp_path):
    path = tmp_path / "risks.csv"
    with atomic_path(path) as temporary:
        started = files._started(os.getpid())
        earlier = tmp_path / temporary.name.replace(f"-{started}-", "-1-")
        earlier.touch()
        with atomic_path(path):
            assert temporary.exists()
            assert not earlier.exists()


def test_another_hosts_temporary_is_removed_after_a_day(tmp_path):
    path = tmp_path / "risks.csv"
    theirs = tmp_path / ".risks.partial-0123abcd-1-5-aaaa.csv"
    theirs.touch()
    write_json(1, path)
    assert theirs.exists()
    day_ago = time.time() - 25 * 3600
    os.utime(theirs, (day_ago, day_ago))
    write_json(1, path)
    assert names_in(tmp_path) == ["risks.csv"]


def test_a_folder_that_was_being_replaced_when_the_process_was_killed_comes_back(
    tmp_path,
):
    model = tmp_path / "model"
    model.mkdir()
    (model / "weights").write_text("old")
    (tmp_path / "model2").mkdir()
    code = """
folder = Path(sys.argv[1])
with files.folder_beside(folder) as new:
    (new / "weights").write_text("new")
    replace = Path.replace
    def stop(source, target):
        if target == folder:
            print("here", flush=True)
            time.sleep(60)
        return replace(source, target)
    Path.replace = stop
    files.replace_folder(new, folder)
"""
    killed_while(code, name=model)
    assert not model.exists()
    with folder_beside(tmp_path / "model3"):
        assert not (tmp_path / "model3").exists()
    with folder_beside(model):
        assert (model / "weights").read_text() == "old"
    assert names_in(tmp_path) == ["model", "model2"]


def test_data_and_names_are_on_disk_before_and_after_the_rename(
    tmp_path, monkeypatch
):
    done = []
    fsync, replace = os.fsync, Path.replace

    def watched_fsync(handle):
        done.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        fsync(handle)

    def watched_replace(source, target):
        done.append("rename")
        return replace(source, target)

    monkeypatch.setattr("os.fsync", watched_fsync)
    monkeypatch.setattr("pathlib.Path.replace", watched_replace)
    with atomic_path(tmp_path / "a.txt") as temporary:
        name = temporary.name
    assert done == [name, "rename", tmp_path.name]
    done.clear()
    with folder_beside(tmp_path / "model") as new:
        (new / "deep").mkdir()
        (new / "deep" / "weights").touch()
        replace_folder(new, tmp_path / "model")
    assert {*done[: done.index("rename")]} == {"weights", "deep", new.name}
    assert done[done.index("rename") :] == ["rename", tmp_path.name]


def test_a_system_that_flushes_only_what_is_open_for_writing_is_served(
    tmp_path, monkeypatch
):
    """As Windows does; and there a folder cannot be opened at all."""
    fsync, open_file = os.fsync, os.open
    flushed = []

    def strict_fsync(handle):
        mode = fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE
        if mode == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        flushed.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        fsync(handle)

    def strict_open(path, *options, **named):
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return open_file(path, *options, **named)

    monkeypatch.setattr("os.fsync", strict_fsync)
    monkeypatch.setattr("os.open", strict_open)
    write_json([1], tmp_path / "a.json")
    with folder_beside(tmp_path / "model") as new:
        (new / "weights").write_text("new")
        replace_folder(new, tmp_path / "model")
    assert names_in(tmp_path) == ["a.json", "model"]
    assert flushed[1:] == ["weights"]


def test_a_file_without_permission_to_write_is_flushed(tmp_path):
    with folder_beside(tmp_path / "model") as new:
        (new / "weights").write_text("new")
        (new / "weights").chmod(0o444)
        replace_folder(new, tmp_path / "model")
    assert (tmp_path / "model" / "weights").read_text() == "new"


def test_the_umask_of_the_process_is_never_changed(tmp_path, monkeypatch):
    before = os.umask(0o027)
    monkeypatch.setattr(
        "os.umask", lambda _: pytest.fail("changed for every thread")
    )
    try:
        write_json([], tmp_path / "a.json")
        with folder_beside(tmp_path / "model") as new:
            replace_folder(new, tmp_path / "model")
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == 0o750


def test_threads_that_write_one_name_leave_one_whole_file(tmp_path):
    path, errors = tmp_path / "x.json", []

    def write(number):
        try:
            for _ in range(20):
                write_json([number] * 1000, path)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert errors == []
    assert names_in(tmp_path) == ["x.json"]


def test_a_long_name_fits(tmp_path):
    path = tmp_path / ("n" * 250 + ".csv")
    with atomic_path(path) as temporary:
        temporary.write_text("whole")
    assert names_in(tmp_path) == [path.name]


# --- an output is none of the inputs


@pytest.fixture
def notes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.csv").write_text("text\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "link.csv").symlink_to("notes.csv")
    (tmp_path / "hard.csv").hardlink_to(tmp_path / "notes.csv")
    (tmp_path / "around").symlink_to(tmp_path)
    return tmp_path / "notes.csv"


@pytest.mark.parametrize(
    "spelling",
    [
        "notes.csv",
        "./notes.csv",
        "deep/../notes.csv",
        "link.csv",
        "hard.csv",
        "around/notes.csv",
    ],
)
def test_an_output_that_is_an_input_is_refused_in_every_spelling(
    notes, spelling
):
    for out, source in ((spelling, notes), (notes, spelling)):
        with pytest.raises(
            UserError,
            match=r"is an input of this command; write to another file$",
        ):
            check_output(
                out, ["postgresql://host/db", "elsewhere.csv", source]
            )
    assert notes.read_text() == "text\n"


def test_an_input_in_the_home_folder_is_known(notes, monkeypatch):
    monkeypatch.setenv("HOME", str(notes.parent))
    with pytest.raises(UserError, match="is an input"):
        check_output("~/notes.csv", [notes])


@pytest.mark.parametrize(
    "out", ["risks.csv", "deep/notes.csv", "notes.csv.gz", "nowhere/x.csv"]
)
def test_any_other_output_is_accepted(notes, out):
    check_output(
        out,
        [notes, "gone.csv", "postgresql://host/db", "sqlite:///" + "x" * 5000],
    )


def test_locks_and_signals_need_nothing_that_only_unix_has(tmp_path):
    code = """
import os, signal, sys
from pathlib import Path
sys.modules["fcntl"] = sys.modules["resource"] = None  # importing them fails
del signal.SIGHUP, os.getuid
from domainbert.cli.console import one_line_errors
from domainbert.files import atomic_path, locked
import domainbert.scoring.driver
out = Path(sys.argv[1])

@one_line_errors
def command():
    with atomic_path(out / "table.csv") as path:
        path.write_text("a")

with domainbert.scoring.driver._stop_requests(10.0) as asked:
    assert asked == []
command()
"""
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True)
    assert names_in(tmp_path) == ["table.csv"]
