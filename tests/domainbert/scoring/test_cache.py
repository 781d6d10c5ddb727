"""The window cache: nothing scored twice, nothing readable in it, safe under two processes."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest

from domainbert.errors import UserError
from domainbert.scoring.cache import WindowCache


def windows(*numbers):
    return [np.array([101, n, n + 1, 102]) for n in numbers]


class Scorer:
    def __init__(self):
        self.seen = []

    def __call__(self, some):
        self.seen += [int(w[1]) for w in some]
        return np.array([w[1] / 7 for w in some], dtype=np.float32)


def test_each_window_is_scored_once(tmp_path):
    scorer = Scorer()
    cache = WindowCache(tmp_path / "c.sqlite", model="a")
    first = cache.logits(windows(1, 2, 1, 3), scorer)
    assert scorer.seen == [1, 2, 3]
    again = WindowCache(tmp_path / "c.sqlite", model="a")
    second = again.logits(windows(3, 4, 1), scorer)
    assert scorer.seen == [1, 2, 3, 4]
    np.testing.assert_array_equal(first[[3, 0]], second[[0, 2]])


def test_another_model_has_other_scores(tmp_path):
    scorer = Scorer()
    for model in ("a", "b", "a"):
        WindowCache(tmp_path / "c.sqlite", model=model).logits(
            windows(1), scorer
        )
    assert scorer.seen == [1, 1]


def test_scores_that_are_no_number_are_not_kept(tmp_path):
    cache = WindowCache(tmp_path / "c.sqlite", model="a")
    assert np.isnan(
        cache.logits(windows(1), lambda some: np.array([np.nan]))
    ).all()
    assert cache.logits(windows(1), Scorer()).tolist() == pytest.approx(
        [1 / 7]
    )


def test_the_file_stays_within_its_size(tmp_path):
    path = tmp_path / "c.sqlite"
    for start in range(0, 20_000, 1000):
        cache = WindowCache(path, model="a", max_bytes=200_000)
        cache.logits(windows(*range(start, start + 1000)), Scorer())
    assert path.stat().st_size <= 300_000
    scorer = Scorer()
    cache.logits(windows(*range(19_990, 20_000)), scorer)
    assert cache.logits(windows(19_990), scorer)[0] == pytest.approx(
        19_990 / 7
    )


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "c.sqlite"
    path.write_bytes(b"SQLite format 3\0" + b"and then no database" * 100)
    with pytest.raises(
        UserError,
        match=r"c\.sqlite cannot be opened .*; name a new file, or delete",
    ):
        WindowCache(path, model="a")


def test_damage_that_shows_later_stops_no_run(tmp_path, caplog):
    path = tmp_path / "c.sqlite"
    cache = WindowCache(path, model="a")
    cache.logits(windows(*range(2000)), Scorer())
    content = bytearray(path.read_bytes())
    content[4096:] = b"x" * (
        len(content) - 4096
    )  # the tables, but not the list of them
    path.write_bytes(content)
    for _ in range(2):
        assert cache.logits(windows(7), Scorer()).tolist() == [1.0]
    assert caplog.text.count("cache not used for now") == 1


@pytest.mark.parametrize(
    "mark", ["CREATE TABLE patients (name)", "PRAGMA application_id = 7"]
)
def test_a_database_of_another_program_is_left_alone(tmp_path, mark):
    path = tmp_path / "clinic.db"
    with closing(sqlite3.connect(path)) as con, con:
        con.execute(mark)
    before = path.read_bytes()
    with pytest.raises(
        UserError, match=r"clinic\.db is a database of another program"
    ):
        WindowCache(path, model="a")
    assert path.read_bytes() == before


def test_a_file_that_cannot_be_used_any_more_stops_no_run(tmp_path, caplog):
    (tmp_path / "c").mkdir()
    cache = WindowCache(tmp_path / "c" / "c.sqlite", model="a")
    shutil.rmtree(tmp_path / "c")
    for _ in range(2):
        assert cache.logits(windows(7), Scorer()).tolist() == [1.0]
    assert caplog.text.count("cache not used for now") == 1


def test_nothing_in_the_file_can_be_read_back(tmp_path):
    path = tmp_path / "c.sqlite"
    tokens = [np.arange(start, start + 40) for start in range(0, 4000, 40)]
    WindowCache(path, model="a").logits(
        tokens, lambda some: np.zeros(len(some))
    )
    content = path.read_bytes()
    for window in tokens:
        for kind in (np.int16, np.int32, np.int64):
            assert window[:4].astype(kind).tobytes() not in content


def test_a_file_that_is_no_cache_is_left_alone(tmp_path):
    path = tmp_path / "notes.csv"
    path.write_text("id,text\n" + "1,pain\n" * 100)
    with pytest.raises(
        UserError, match=r"notes\.csv cannot be opened as a window cache"
    ):
        WindowCache(path, model="a")
    assert path.read_text().startswith("id,text\n1,pain")
    assert [file.name for file in tmp_path.iterdir()] == ["notes.csv"]


def test_a_place_that_cannot_be_written(tmp_path):
    with pytest.raises(UserError, match="cannot be opened as a window cache"):
        WindowCache(tmp_path / "no" / "c.sqlite", model="a")


SCRIPT = """
import sys, numpy as np
from domainbert.scoring.cache import WindowCache
cache = WindowCache(sys.argv[1], model="a")
for start in range(0, 2000, 50):
    some = [np.array([101, n, n + 1, 102]) for n in range(start, start + 50)]
    found = cache.logits(some, lambda w: np.array([x[1] / 7 for x in w]))
    assert np.allclose(found, [x[1] / 7 for x in some])
"""


def test_two_processes_at_once(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "c.sqlite")]
    running = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    scorer = Scorer()
    WindowCache(tmp_path / "c.sqlite", model="a").logits(
        windows(*range(2000)), scorer
    )
    assert scorer.seen == []
