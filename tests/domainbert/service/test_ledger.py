"""The ledger: numbers and hashes, shared by processes, read back as tables."""

import sqlite3

import pytest

from domainbert.errors import UserError
from domainbert.service.ledger import Ledger, read_ledger
from domainbert.tables import TableError

ROWS = [
    {"stay_id": "MRN-4711", "status": "ok", "probability": 0.4, "alert": True},
    {"stay_id": None, "status": "empty", "probability": None, "alert": None},
]


def test_risks_and_feedback_come_back_without_ids(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite")
    ledger.served("readmission", "f" * 64, ROWS, card="c1")
    Ledger(ledger.path).served(
        "readmission", "f" * 64, [ROWS[0] | {"stay_id": " mrn-4711 "}]
    )
    ledger.feedback("readmission", "c1", "overridden", "disagree")
    served, feedback = read_ledger(ledger.path)
    assert served["probability"].tolist()[0] == 0.4
    assert served["alert"].tolist()[0] == 1
    assert served["subject"][0] == served["subject"][2]  # one stay, under one hash
    assert served["subject"].isna().tolist() == [False, True, False]
    assert feedback[["card", "outcome", "reason"]].values.tolist() == [
        ["c1", "overridden", "disagree"]
    ]
    whole = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"4711" not in whole


def test_a_token_is_new_once_until_it_expires(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite")
    assert ledger.use_token("i", "t", 4e9)
    assert not Ledger(ledger.path).use_token("i", "t", 4e9)
    assert ledger.use_token("other", "t", 4e9)
    assert ledger.use_token("i", "old", 1.0)
    assert ledger.use_token("i", "old", 1.0)


def test_other_files_are_refused(tmp_path):
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as con:
        con.execute("PRAGMA application_id = 7")
        con.execute("CREATE TABLE t (x)")
    with pytest.raises(UserError, match="another program"):
        Ledger(other)
    with pytest.raises(TableError, match="serve --ledger"):
        read_ledger(other)
    with pytest.raises(TableError, match="serve --ledger"):
        read_ledger(tmp_path / "none.sqlite")


def test_a_full_disk_does_not_cost_the_answer(tmp_path, caplog):
    ledger = Ledger(tmp_path / "l.sqlite")
    with sqlite3.connect(ledger.path) as con:
        con.execute("DROP TABLE served")
    ledger.served("readmission", "f", ROWS)
    assert "ledger" in caplog.text
