import io
import os
import re
import runpy
import signal
import subprocess
import sys
import threading

import pytest
import typer
from typer.testing import CliRunner

from domainbert import __version__
from domainbert.cli import console
from domainbert.cli.console import command_line, one_line_errors, say
from domainbert.errors import UserError
from domainbert.progress import counted, progress

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


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_what_an_encoding_does_not_have_is_replaced(encoding):
    """Also in a help text, a message on stderr, and a table."""
    code = """
from domainbert.cli.console import command_line, one_line_errors, print_table, say, stdout

app = command_line("program", "About ≥ 5.")

@app.command()
@one_line_errors
def only() -> None:
    \"\"\"From A → B.\"\"\"
    stdout.print("risk ≥ 0.5")
    print_table([["λ", "1"]], ["∑", "n"])
    say("Müller → done")

app()
"""
    environment = os.environ | {"PYTHONIOENCODING": f"{encoding}:strict"}
    for words in (["--help"], ["only", "--help"], ["only"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            env=environment, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert b"risk ? 0.5" in done.stdout
    assert "Müller ? done".encode(encoding, "replace") in done.stderr


@pytest.mark.parametrize("error", [UserError(LONG), FileNotFoundError(LONG)])
def test_a_foreseen_error_is_one_line_on_stderr(error):
    result = CliRunner().invoke(command(error))
    assert result.exit_code == 1
    assert result.stderr == f"error: {LONG}\n"
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("resume=True", "--resume"),
        ("scale=5", "--scale"),
        ("encoding='cp1252'", "--encoding cp1252"),
        ("delimiter=';'", "--delimiter ';'"),
        ("query='SELECT …'", "--query 'SELECT …'"),
        ("text=['title', 'abstract']", "--text title --text abstract"),
        ("died_locations=['A B']", "--died-locations 'A B'"),
        ("labels={'CHEM': 'Drug', 'X': ''}", "--label CHEM=Drug --label X="),
        ("named={'stay_id': 'hadm_idx'}", "--stay hadm_idx"),
        ("named={'category': 'NAME'}", "--column category=NAME"),
        ("patient_id='subject'", "--patient subject"),
        ("form='omop'", "--format omop"),
    ],
)
def test_a_command_names_options_where_python_names_arguments(
    argument, options
):
    error = UserError(f"use `{argument}`, or `text`")
    result = CliRunner().invoke(command(error))
    assert result.stderr == f"error: use {options}, or `text`\n"


def test_the_module_runs_as_the_command_does(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["domainbert", "--version"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("domainbert", run_name="__main__")
    assert end.value.code == 0
    assert f"domainbert {__version__}" in capsys.readouterr().out


def test_a_file_that_is_not_there_is_named_without_a_number():
    error = FileNotFoundError(2, "No such file or directory", "notes.txt")
    result = CliRunner().invoke(command(error))
    assert result.stderr == "error: notes.txt: no such file or directory\n"


def test_an_interruption_is_no_error():
    result = CliRunner().invoke(command(KeyboardInterrupt()))
    assert (result.exit_code, result.stderr) == (130, "stopped\n")


NOTE = "Pt Smith was admitted"


def nested(error):
    """Raise an error that was caused by another, both of which quote a note."""

    def inner():
        note = NOTE
        raise KeyError(note)

    try:
        inner()
    except KeyError as cause:
        raise error from cause


def test_a_bug_shows_where_it_is_and_never_what_it_says():
    app = command_line("tool", "A tool.")

    @app.command()
    @one_line_errors
    def fail() -> None:
        nested(RuntimeError(NOTE))

    result = CliRunner().invoke(app, ["fail"])
    assert result.exit_code == 70
    last = result.stderr.splitlines()[-1]
    assert re.match(
        r"error: internal error, RuntimeError at test_\w+\.py:\d+; please report",
        last,
    )
    for part in (
        "KeyError\n",
        "in inner\n",
        "which led to",
        "RuntimeError\n",
        "in nested\n",
        __file__,
    ):
        assert part in result.stderr
    assert "Smith" not in result.output


def test_an_application_has_a_version_and_usage_errors_exit_2():
    app = command_line("tool", "A tool.")

    @app.command()
    @one_line_errors
    def only(number: int) -> None:
        raise (
            typer.BadParameter("must be even") if number % 2 else typer.Exit(3)
        )

    run = CliRunner().invoke
    assert run(app, ["--version"]).stdout == f"tool {__version__}\n"
    assert "A tool." in run(app, ["--help"]).stdout
    assert run(app, ["only", "x"]).exit_code == 2
    assert run(app, ["only", "1"]).exit_code == 2
    assert run(app, ["only", "2"]).exit_code == 3
    assert run(app, ["nothing"]).exit_code == 2


def test_a_message_of_several_lines_becomes_one():
    result = CliRunner().invoke(command(UserError("first\nsecond")))
    assert result.stderr == "error: first second\n"


STOPPED = """
import signal, sys, time
import typer
from domainbert.cli.console import command_line, one_line_errors
from domainbert.files import atomic_path
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where the tests run under nohup
app = command_line("tool", "A tool.")

@app.command()
@one_line_errors
def write(path: str) -> None:
    with atomic_path(path):
        print("here", flush=True)
        time.sleep(60)

@app.command()
def other() -> None: ...

app()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_a_command_as_ctrl_c_does(tmp_path, name):
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED, "write", tmp_path / "risks.csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell starts jobs in the background with this signal ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout.readline() == "here\n"
    assert len(list(tmp_path.iterdir())) == 1
    process.send_signal(getattr(signal, name))
    _, messages = process.communicate(timeout=30)
    assert messages == "stopped\n"
    assert process.returncode == 128 + getattr(signal, name)
    assert list(tmp_path.iterdir()) == []


SHOWN = """
from domainbert.cli.console import command_line, one_line_errors, print_table, stdout

app = command_line("tool", "A tool.")

@app.command()
@one_line_errors
def lines() -> None:
    for number in range(20_000):
        stdout.print(f"line {number}")

@app.command()
@one_line_errors
def table() -> None:
    print_table([("a", "b")], ["one", "two"])

app()
"""


@pytest.mark.parametrize("command", ["lines", "table"])
def test_a_reader_that_goes_away_ends_a_command_without_a_word(command):
    """As `tool lines | head -1` does; nothing of what was shown is in a traceback."""
    here, there = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", SHOWN, command],
        stdout=there,
        stderr=subprocess.PIPE,
    )
    os.close(there)
    os.close(here)
    assert process.communicate(timeout=60) == (None, b"")
    assert process.returncode == 1


def test_an_ignored_hangup_stays_ignored_and_handlers_are_put_back():
    seen = []

    @one_line_errors
    def look() -> None:
        seen.extend(
            [signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGTERM)]
        )

    # Another test's library may have a handler of its own.
    terminated = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        look()
        threading.Thread(target=look).start()
    finally:
        signal.signal(signal.SIGHUP, before)
        after = signal.signal(signal.SIGTERM, terminated)
    assert seen[0] == signal.SIG_IGN
    assert seen[1] not in (signal.SIG_DFL, signal.SIG_IGN)
    assert after == signal.SIG_DFL


def test_a_command_keeps_its_options_and_help():
    result = CliRunner().invoke(command(), ["--number", "3"])
    assert (result.exit_code, result.stdout) == (0, "number 3\n")
    assert CliRunner().invoke(command(), ["--number", "x"]).exit_code == 2
    assert "What it does." in CliRunner().invoke(command(), ["--help"]).stdout


def test_messages_go_to_stderr_as_they_are(capsys):
    say(LONG)
    assert capsys.readouterr() == ("", f"{LONG}\n")


def test_a_message_is_never_markup_nor_orders_for_the_terminal(capsys):
    say("read as [/x] [left] \x1b[31mred")
    assert capsys.readouterr().err == "read as [/x] [left]  [31mred\n"
    result = CliRunner().invoke(command(UserError("no column '[/x]\x1b[31m'")))
    assert result.stderr == "error: no column '[/x] [31m'\n"


def test_counting_changes_nothing_and_is_silent_without_a_terminal(capsys):
    assert list(counted(iter("abc"), what="letters", total=3)) == [
        "a",
        "b",
        "c",
    ]
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


def test_text_of_users_is_never_markup_nor_a_control_sequence(capsys):
    text = "BP [left] [/x] [bold]high[/bold] :smile: \x1b[2J\x07 end"
    shown = "BP [left] [/x] [bold]high[/bold] :smile:  [2J  end"
    console.say(text)
    console.stdout.print(text, soft_wrap=True)
    console.print_table([[text]], [text], title=text)
    captured = capsys.readouterr()
    assert captured.err == f"{shown}\n"
    assert captured.out.startswith(f"{shown}\n")
    assert captured.out.count(":smile:") == 4
    assert "\x1b" not in captured.out
    assert "\x07" not in captured.out
