"""The options that all scoring commands share: declared once, and each of them has an effect."""

import json
import sys
from pathlib import Path

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from domainbert.cli import options
from domainbert.cli.console import one_line_errors
from domainbert.cli.options import score_source
from domainbert.tables import read_table, write_table

sys.path.insert(0, str(Path(__file__).parents[1] / "scoring"))
from word_count import WordCount

app = typer.Typer()


@app.command()
@one_line_errors
@options.takes_options
def count(
    source: options.Source,
    out: options.Table,
    *,
    scoring: options.ScoringOptions,
    shown: bool = False,
) -> None:
    """Count words."""
    if shown:
        scoring.refuse("keep", "restart", because="without --out")
    typer.echo(scoring.device)
    score_source(WordCount, source, out, scoring)


@pytest.fixture
def source(tmp_path):
    frame = pd.DataFrame(
        {"Who": ["p"], "Body": ["a b"], "ward": ["7"], "day": ["1"]}
    )
    write_table(frame, tmp_path / "n.tsv")
    return tmp_path / "n.tsv"


def test_every_shared_option_reaches_the_run(source, tmp_path):
    semicolons = tmp_path / "n.csv"
    semicolons.write_bytes(
        source.read_bytes().replace(b"\t", b";").replace(b"a b", b"a \xe4")
    )
    words = [
        str(semicolons),
        "--out",
        str(tmp_path / "o.csv"),
        "--text",
        "Body",
        "--keep",
        "ward",
    ]
    words += [
        "--patient",
        "Who",
        "--time",
        "day",
        "--delimiter",
        ";",
        "--encoding",
        "cp1252",
    ]
    words += ["--device", "cpu", "--restart"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert result.stdout == "cpu\n"
    found = read_table(tmp_path / "o.csv").iloc[0].to_dict()
    # A named column that the task does not read is copied.
    expected = {
        "Who": "p",
        "ward": "7",
        "day": "1",
        "row": "0",
        "words": "2",
        "status": "ok",
    }
    assert {name: found[name] for name in expected} == expected
    assert (
        json.loads((tmp_path / "o.csv.summary.json").read_text())["rows"] == 1
    )


def test_a_named_column_that_is_not_there_is_an_error(source, tmp_path):
    words = [
        str(source),
        "--out",
        str(tmp_path / "o.csv"),
        "--text",
        "Body",
        "--stay",
        "visit",
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert "no column 'visit'" in " ".join(result.output.split())


def test_any_column_can_be_named(source, tmp_path):
    out = tmp_path / "o.csv"
    words = [str(source), "--out", str(out), "--column", "text=Body"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert read_table(out)["words"].tolist() == ["2"]
    result = CliRunner().invoke(app, [*words, "--column", "Kind"])
    assert result.exit_code == 2
    assert "expected our name and the table's name" in " ".join(
        result.output.split()
    )


def test_an_option_without_effect_is_refused(source, tmp_path):
    words = [
        str(source),
        "--out",
        str(tmp_path / "o.csv"),
        "--keep",
        "ward",
        "--restart",
    ]
    result = CliRunner().invoke(app, [*words, "--shown"])
    assert result.exit_code == 2
    assert "--keep, --restart: no effect without --out" in result.output


def test_help_lists_the_shared_options():
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    for name in (
        "--text",
        "--stay",
        "--keep",
        "--delimiter",
        "--query",
        "--device",
    ):
        assert name in shown
    assert "scoring" not in shown
