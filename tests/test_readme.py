"""The README's Python runs as it stands, in order, in one session."""

import importlib
import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.encoder
def test_its_python_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert blocks
    session: dict[str, object] = {}
    for block in blocks:
        exec(block, session)
    assert "tokens" in capsys.readouterr().out


@pytest.mark.parametrize("program", ["clinical", "biomed", "domainbert"])
def test_its_commands_and_options_exist(program):
    import typer.main

    home = "domainbert.__main__" if program == "domainbert" else f"{program}.cli"
    app = importlib.import_module(home).app
    named = re.findall(rf"`{program} ([^`]+)`", README.read_text())
    assert named
    for line in named:
        command, words = typer.main.get_command(app), line.split()
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line
