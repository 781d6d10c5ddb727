"""`domainbert doctor`: the installation, its models' numbers, and what killed runs left."""

import sys

from typer.testing import CliRunner

from clinical.bedside.served import READMISSION
from domainbert import __main__ as command
from domainbert import files
from domainbert.service import served

RUN = CliRunner()
WIDE = {"COLUMNS": "200"}


def test_it_shows_versions_threads_encoders_and_right_numbers(monkeypatch):
    monkeypatch.setattr(served, "announced", lambda: [READMISSION])
    result = RUN.invoke(command.app, ["doctor"], env=WIDE)
    assert result.exit_code == 0, result.output
    for shown in (
        "domainbert",
        "extra service",
        "cores, threads",
        "all-MiniLM-L6-v2",
    ):
        assert shown in result.output
    (row,) = [
        line
        for line in result.output.splitlines()
        if "readmission-demo" in line
    ]
    assert command.SAME in row


def test_the_numbers_need_no_extra(monkeypatch):
    for name in ("cryptography", "fastapi", "starlette"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in [
        name for name in sys.modules if name.startswith("clinical.bedside.")
    ]:
        monkeypatch.delitem(sys.modules, name)
    _, _, numbers = command._self_test(READMISSION, "readmission-demo")
    assert numbers == command.SAME


def test_other_numbers_than_those_of_the_card_are_a_failure(monkeypatch):
    monkeypatch.setattr(served, "announced", lambda: [READMISSION])
    monkeypatch.setattr(served, "TOLERANCE", -1.0)
    result = RUN.invoke(command.app, ["doctor"], env=WIDE)
    assert result.exit_code == 1
    assert (
        "other numbers than in the card; install the package again"
        in result.output
    )


def test_clean_removes_work_of_dead_processes_alone(tmp_path):
    (tmp_path / "out.csv.parts").mkdir()
    dead = (
        tmp_path
        / "out.csv.parts"
        / f".rows.partial-{files._host()}-1-0-abcd1234"
    )
    dead.mkdir()
    (dead / "rows.jsonl").write_text("a note")
    mine = tmp_path / ".rows-mine"
    mine.mkdir()
    with files.folder_beside(tmp_path / "rows") as alive:
        assert (
            RUN.invoke(
                command.app, ["doctor", "--clean", str(tmp_path)]
            ).exit_code
            == 0
        )
        assert (alive.exists(), mine.exists(), dead.exists()) == (
            True,
            True,
            False,
        )
