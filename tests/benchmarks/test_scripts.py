"""Every benchmark runs as far as its options, and the overview agrees with its docstring."""

import ast
import re
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = [
    path
    for path in sorted(FOLDER.glob("*.py"))
    if "__main__" in path.read_text("utf-8")
]
BENCHMARKS = [path for path in SCRIPTS if path.stem != "peer"]  # a part
OVERVIEW = (FOLDER / "README.md").read_text("utf-8")


def docstring(path):
    return ast.get_docstring(ast.parse(path.read_text("utf-8")))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_its_help_is_its_docstring(path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr(sys, "argv", [path.name, "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(path), run_name="__main__")
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert f"usage: {path.name}" in text
    assert docstring(path) in text


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_it_says_how_to_run_it_and_how_long_that_takes(path):
    """The last column of the overview has the time of the docstring."""
    text = docstring(path)
    assert f"python benchmarks/{path.name}" in text
    assert "How to read the" in text
    (time,) = re.findall(r"^Takes (.+?) on two cores", text, re.MULTILINE)
    row = rf"^\| `{path.name}` \|.*\| ([^|]+) \|$"
    (column,) = re.findall(row, OVERVIEW, re.MULTILINE)
    assert column.startswith(time)
