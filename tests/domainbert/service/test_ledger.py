"""The ledger: numbers and hashes, shared by processes, read back as tables."""

import errno
import shutil
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from domainbert.errors import UserError
from domainbert.service.ledger import KEY_VARIABLE, Ledger, read_ledger
from domainbert.tables import TableError

ROWS = [
    {"stay_id": "MRN-4711", "status": "ok", "probability": 0.4, "alert": True},
    {"stay_id": None, "status": "empty", "probability": None, "alert": None},
]


def open_ledger(path, **options):
    return Ledger(path, key_file=path.with_name("key"), **options)


def test_risks_and_feedback_come_back_without_ids(tmp_path):
    ledger = open_ledger(tmp_path / "l.sqlite")
    ledger.served("readmission", "f" * 64, ROWS)
    open_ledger(ledger.path).served(
        "readmission", "f" * 64, [ROWS[0] | {"stay_id": " mrn-4711 "}]
    )
    ledger.feedback("readmission", [("c1", "overridden", "disagree")])
    served, feedback = read_ledger(ledger.path)
    assert served["probability"].tolist()[0] == 0.4
    assert served["alert"].tolist()[0] == 1
    assert (
        served["subject"][0] == served["subject"][2]
    )  # one stay, under one hash
    assert served["subject"].isna().tolist() == [False, True, False]
    assert feedback[["card", "outcome", "reason"]].values.tolist() == [
        ["c1", "overridden", "disagree"]
    ]
    whole = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"4711" not in whole


def test_a_token_is_new_once_until_it_expires(tmp_path):
    ledger = open_ledger(tmp_path / "l.sqlite")
    assert ledger.use_token("i", "t", 4e9)
    assert not open_ledger(ledger.path).use_token("i", "t", 4e9)
    assert ledger.use_token("other", "t", 4e9)
    assert ledger.use_token("i", "old", 1.0)
    assert ledger.use_token("i", "old", 1.0)


def test_the_key_of_the_hashes_is_not_in_the_ledger(tmp_path, monkeypatch):
    def subject(folder, **environment):
        folder.mkdir(exist_ok=True)
        monkeypatch.delenv(KEY_VARIABLE, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        ledger = open_ledger(folder / "l.sqlite")
        ledger.served("readmission", "f", ROWS[:1])
        return read_ledger(ledger.path)[0]["subject"].iloc[-1]

    first = subject(tmp_path / "a")
    key = (tmp_path / "a" / "key").read_bytes()
    files = [file for file in (tmp_path / "a").iterdir() if file.name != "key"]
    assert all(key not in file.read_bytes() for file in files)
    for file in (tmp_path / "a").iterdir():
        assert file.stat().st_mode & 0o077 == 0, file.name
    assert subject(tmp_path / "a") == first
    assert subject(tmp_path / "b") != first  # with a key of its own
    values = {KEY_VARIABLE: "x" * 32}
    assert subject(tmp_path / "c", **values) == subject(
        tmp_path / "d", **values
    )
    assert not (tmp_path / "c" / "key").exists()


def test_a_ledger_that_others_could_read_becomes_private(tmp_path):
    file = tmp_path / "l.sqlite"
    open_ledger(file)
    file.chmod(0o644)
    open_ledger(file)
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "refusal", [PermissionError(1, "x"), OSError(95, "x"), None]
)
def test_a_file_system_without_links_gets_one_key(
    refusal, tmp_path, monkeypatch
):
    """FAT and some network drives have none; a Python for such a system may have no function."""
    monkeypatch.delenv(KEY_VARIABLE, raising=False)

    def no_links(source, target):
        raise refusal

    if refusal:
        monkeypatch.setattr("os.link", no_links)
    else:
        monkeypatch.delattr("os.link")
    path = tmp_path / "l.sqlite"
    with ThreadPoolExecutor(8) as pool:
        ledgers = list(
            pool.map(lambda _: open_ledger(path, wait_seconds=60), range(8))
        )
    assert len({ledger._key for ledger in ledgers}) == 1
    assert len(path.with_name("key").read_text()) == 64


def test_a_key_that_cannot_be_used(tmp_path, monkeypatch):
    key = tmp_path / "key"
    key.write_text("k" * 64)
    key.chmod(0o640)
    with pytest.raises(UserError, match="chmod 600"):
        open_ledger(tmp_path / "l.sqlite")
    key.chmod(0o600)
    key.write_text("short")
    with pytest.raises(
        UserError, match=r"has 5 characters; expected .* at least 32"
    ):
        open_ledger(tmp_path / "l.sqlite")
    with pytest.raises(UserError, match=f"No such file.*{KEY_VARIABLE}"):
        Ledger(tmp_path / "l.sqlite", key_file=tmp_path / "no" / "key")
    monkeypatch.setenv(KEY_VARIABLE, "secret")
    with pytest.raises(
        UserError, match=f"{KEY_VARIABLE} .*has 6 characters"
    ) as caught:
        open_ledger(tmp_path / "l.sqlite")
    assert "secret" not in str(caught.value)


def test_ids_of_cards_are_compared_as_they_are_written(tmp_path):
    ledger = open_ledger(tmp_path / "l.sqlite")
    for stay in ("aB", "ab"):
        ledger.served(
            "readmission", "f", [{"visit": stay}], stay="visit", card="c"
        )
        ledger.served("readmission", "f", [{"visit": stay}], stay="visit")
    subjects = read_ledger(ledger.path)[0]["subject"].tolist()
    assert subjects[0] != subjects[2]
    assert subjects[1] == subjects[3]


def test_other_files_are_refused(tmp_path):
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as con:
        con.execute("PRAGMA application_id = 7")
        con.execute("CREATE TABLE t (x)")
    other.chmod(0o644)
    with pytest.raises(UserError, match="another program"):
        open_ledger(other)
    assert other.stat().st_mode & 0o777 == 0o644  # it stays as it was
    with pytest.raises(TableError, match="serve --ledger"):
        read_ledger(other)
    with sqlite3.connect(other) as con:  # the same tables with other columns
        con.execute("CREATE TABLE served (x)")
        con.execute("CREATE TABLE feedback (x)")
    with pytest.raises(TableError, match="serve --ledger"):
        read_ledger(other)
    with pytest.raises(TableError, match="serve --ledger"):
        read_ledger(tmp_path / "none.sqlite")


def test_a_ledger_that_is_in_use_delays_a_call_for_seconds(tmp_path, caplog):
    ledger = open_ledger(tmp_path / "l.sqlite", wait_seconds=0.1)
    with sqlite3.connect(ledger.path) as con:
        con.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        ledger.served("readmission", "f", ROWS)
        assert 0.1 <= time.monotonic() - began < 3  # the default
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            ledger.use_token("i", "t", 4e9)
    assert "ledger" in caplog.text
    ledger.served("readmission", "f", ROWS)
    assert len(read_ledger(ledger.path)[0]) == 2


def test_a_ledger_that_a_cleaner_removes_is_made_again(tmp_path, caplog):
    (tmp_path / "folder").mkdir()
    ledger = open_ledger(tmp_path / "folder" / "l.sqlite")
    ledger.served("readmission", "f", ROWS)
    shutil.rmtree(ledger.path.parent)
    ledger.served("readmission", "f", ROWS[:1])
    assert "the ledger was removed; a new one is made" in caplog.text
    assert len(read_ledger(ledger.path)[0]) == 1
    ledger.path.unlink()
    assert ledger.use_token("i", "t", 4e9)
    assert not ledger.use_token("i", "t", 4e9)
    assert ledger.path.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_is_read_only(tmp_path, read_only, caplog):
    """A new ledger is refused in a line; one in use costs its record, not the answer."""
    ledger = open_ledger(tmp_path / "l.sqlite")
    with read_only(tmp_path):
        with pytest.raises(UserError, match="make the ledger and its key in"):
            open_ledger(tmp_path / "new.sqlite")
        ledger.served("readmission", "f", ROWS)
        assert "ledger" in caplog.text
        with pytest.raises(sqlite3.Error):
            ledger.use_token("i", "t", 4e9)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "key",
        "l.sqlite",
    ]


def test_a_full_disk_does_not_cost_the_answer(tmp_path, caplog):
    ledger = open_ledger(tmp_path / "l.sqlite")
    with sqlite3.connect(ledger.path) as con:
        con.execute("DROP TABLE served")
    ledger.served("readmission", "f", ROWS)
    assert "ledger" in caplog.text


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def fill(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fill)
    with pytest.raises(UserError, match=r"l\.sqlite: No space left"):
        open_ledger(tmp_path / "l.sqlite")
