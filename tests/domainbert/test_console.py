import io
import sys

import pytest
import typer
from typer.testing import CliRunner

from domainbert.console import counted, one_line_errors, progress, say

LONG = "the folder [model] is " + "long " * 40


def command(error=None):
    """A command line of one command, which raises."""
    app = typer.Typer()

    @app.command()
    @one_line_errors
    def only(number: int = 0) -> None:
        """What it does."""
        if error is not None:
            raise error
        sys.stdout.write(f"number {number}\n")

    return app


@pytest.mark.parametrize("error", [ValueError(LONG), FileNotFoundError(LONG)])
def test_a_foreseen_error_is_one_line_on_stderr(error):
    result = CliRunner().invoke(command(error))
    assert result.exit_code == 1
    assert result.stderr == f"error: {LONG}\n"
    assert result.stdout == ""


def test_a_file_that_is_not_there_is_named_without_a_number():
    error = FileNotFoundError(2, "No such file or directory", "notes.txt")
    result = CliRunner().invoke(command(error))
    assert result.stderr == "error: notes.txt: no such file or directory\n"


def test_an_interruption_is_no_error():
    result = CliRunner().invoke(command(KeyboardInterrupt()))
    assert (result.exit_code, result.stderr) == (130, "stopped\n")


def test_a_fault_of_ours_keeps_its_traceback():
    result = CliRunner().invoke(command(RuntimeError("ours")))
    assert isinstance(result.exception, RuntimeError)


def test_a_command_keeps_its_options_and_help():
    result = CliRunner().invoke(command(), ["--number", "3"])
    assert (result.exit_code, result.stdout) == (0, "number 3\n")
    assert CliRunner().invoke(command(), ["--number", "x"]).exit_code == 2
    assert "What it does." in CliRunner().invoke(command(), ["--help"]).stdout


def test_messages_go_to_stderr_as_they_are(capsys):
    say(LONG)
    assert capsys.readouterr() == ("", f"{LONG}\n")


def test_counting_changes_nothing_and_is_silent_without_a_terminal(capsys):
    assert list(counted(iter("abc"), what="letters", total=3)) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_the_bar_is_on_stderr(capsys, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)
    with progress("reading", total=4) as advance:
        advance(3)
        advance(1)
    assert "reading" in terminal.getvalue()
    assert "4/4" in terminal.getvalue()
    assert capsys.readouterr().out == ""
