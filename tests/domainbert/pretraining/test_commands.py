import subprocess
import sys

import pytest
from typer.testing import CliRunner

from domainbert.__main__ import app
from domainbert.tables import write_table

RECIPE = """
[corpus]
held_out = 0.2
[training]
evaluations = 1
evaluation_tokens = 500
length = 32
steps = 1000
batch_tokens = 256
"""


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(
        app, ["pretrain", *map(str, arguments)]
    )


def test_help_waits_for_no_torch():
    code = "import sys; import domainbert.__main__; sys.exit('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], check=False).returncode
        == 0
    )


def test_it_has_help(run):
    result = run("--help")
    assert result.exit_code == 0
    assert "--exclude" in result.output


def test_a_short_run(run, notes, notes_file, tiny_encoder, tmp_path):
    (tmp_path / "recipe.toml").write_text(RECIPE)
    write_table(
        notes.iloc[:4].assign(split=["train", "train", "test", "test"]),
        tmp_path / "c.csv",
    )
    result = run(
        *(
            notes_file,
            "--out",
            tmp_path / "encoder",
            "--recipe",
            tmp_path / "recipe.toml",
        ),
        *("--exclude", tmp_path / "c.csv", "--work", tmp_path / "work"),
        *("--max-steps", 2, "--seed", 3, "--encoder", tiny_encoder),
    )
    assert result.exit_code == 0, result.output
    assert "after, 32 tokens" in result.output
    assert "2 documents excluded by patient_id" in result.output
    assert f"--encoder {tmp_path / 'encoder'}" in result.output
    assert (tmp_path / "encoder" / "config.json").is_file()
    assert not list((tmp_path / "work").glob("run-*"))


def test_what_fails_says_why_in_one_line(run, tmp_path):
    result = run(tmp_path / "none.txt", "--out", tmp_path / "encoder")
    assert result.exit_code == 1
    assert (
        result.output.strip()
        .partition(";")[0]
        .endswith("none.txt: no such file")
    )
    assert len(result.output.strip().splitlines()) == 1
    assert (
        run(
            tmp_path, "--out", tmp_path / "encoder", "--max-steps", 0
        ).exit_code
        == 2
    )
