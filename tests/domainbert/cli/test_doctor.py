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
        "the numbers differ from those in the card; reinstall the package"
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


def identifiers(folder, *texts, options=()):
    table = folder / "notes.csv"
    table.write_text("note\n" + "".join(f'"{text}"\n' for text in texts))
    arguments = ["doctor", "--identifiers", str(table), "--text", "note"]
    return RUN.invoke(command.app, [*arguments, *options], env=WIDE)


def test_identifiers_are_counted_and_placed_but_never_shown(tmp_path):
    notes = ["Stable.", "Dr. Zebrafinch on 3/15/2021, then ___."]
    result = identifiers(tmp_path, *notes)
    assert result.exit_code == 0, result.output
    assert "Zebrafinch" not in result.output
    assert "3/15/2021" not in result.output
    cells = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in result.output.splitlines()
    ]
    assert [
        "1",
        "notes.csv line 3",
        "0",
        "name_after_title",
        "0",
        "14",
    ] in cells
    assert ["1", "notes.csv line 3", "0", "date", "18", "27"] in cells
    assert ["date", "1", "1"] in cells
    assert "2 places that look like an identifier, in 2 rows" in result.output
    assert "no de-identification" in result.output


def test_all_places_are_a_table(tmp_path):
    out = tmp_path / "places.csv"
    notes = ["On 3/15/2021." for _ in range(30)]
    result = identifiers(tmp_path, *notes, options=["--out", str(out)])
    assert result.exit_code == 0, result.output
    lines = out.read_text().splitlines()
    assert len(lines) == 31
    assert lines[0] == "row,place,note,kind,start,end"
    assert lines[-1] == "29,notes.csv line 31,0,date,3,12"
    assert "3/15" not in out.read_text()


def test_a_clean_table_is_said_to_be_no_proof(tmp_path):
    result = identifiers(tmp_path, "Stable, seen on ___.")
    assert result.exit_code == 0, result.output
    assert "0 places that look like an identifier, in 1 rows" in result.output
    assert "a clean result is no proof" in result.output


def test_its_options_need_a_table():
    result = RUN.invoke(command.app, ["doctor", "--text", "note"])
    assert result.exit_code == 1
    assert "--text and --out need --identifiers TABLE" in result.output
