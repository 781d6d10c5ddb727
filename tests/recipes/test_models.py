"""How the shipped models are made: every command of `make models` and of the cards exists."""

import importlib
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from itertools import chain
from pathlib import Path

import click
import pytest
import typer

import biomed.cli
import clinical.cli
import domainbert.__main__
from domainbert.models.storage import shipped_models

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "recipes"
COMMANDS = {
    "biomed": biomed.cli.app,
    "clinical": clinical.cli.app,
    "domainbert": domainbert.__main__.app,
}
MODELS = [*shipped_models("biomed"), *shipped_models("clinical")]


def made(target, folder=ROOT):
    """The lines that `make` would run for a target; in this tree, as if nothing were there."""
    if not shutil.which("make"):
        pytest.skip("make is not installed")
    outer = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    environment = {k: v for k, v in os.environ.items() if k not in outer}
    words = ["make", "-n", target, "BIN=bin", "INSTALLED="]
    if folder == ROOT:
        words.append("-B")
    result = subprocess.run(
        words,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.replace("\\\n", " ").splitlines()


def parsed(line):
    """The values of a command's arguments and options, by name; an unknown one is an error."""
    program, *words = shlex.split(line.removeprefix("bin/"))
    app = COMMANDS.get(program)
    if program == "python":
        name = words.pop(0)
        name = words.pop(0) if name == "-m" else name[:-3].replace("/", ".")
        if (ROOT / name.replace(".", "/")).is_dir():
            name += ".__main__"
        app = typer.Typer()
        app.command()(importlib.import_module(name).main)
    command = typer.main.get_command(app)
    context = click.Context(command)
    while hasattr(command, "get_command"):  # a group
        command = command.get_command(context, words.pop(0))
        context = click.Context(command)
    values, unread, _ = command.make_parser(context).parse_args(words)
    assert not unread, line
    required = {option.name for option in command.params if option.required}
    assert required <= values.keys(), line
    return values


def paths(values):
    """The paths in runs/ or recipes/ among a command's values."""
    words = [
        str(word)
        for value in values
        for word in (value if isinstance(value, (list, tuple)) else [value])
    ]
    return [w for w in words if w.startswith(("runs/", "recipes/"))]


def starts(recipe):
    """The folders in runs/ that a recipe names."""
    model = tomllib.loads((ROOT / recipe).read_text("utf-8"))["model"]
    return paths([model["encoder"], model.get("start")])


@pytest.mark.parametrize("name", MODELS)
def test_every_step_of_a_model_can_run_after_those_before_it(name):
    """Commands and options exist, and what a step reads is in the tree or was written."""
    written = {"runs/all-mpnet-base-v2"}  # it is downloaded
    steps = [line for line in made(f"models/{name}") if line.startswith("bin")]
    for line in steps:
        values = parsed(line)
        out = values.pop("out", None) or paths(values.values())[0]
        read = [path for path in paths(values.values()) if path != out]
        for recipe in paths([values.get("recipe")]):
            read += starts(recipe)
        for path in read:
            known = any(f"{path}/".startswith(f"{w}/") for w in written)
            assert known or (ROOT / path).exists(), line
        written.add(str(out))
    assert f"runs/models/{name}" in written


def test_make_models_makes_all_shipped_models():
    lines = made("models")
    copied = {line.split()[-1] for line in lines if line.startswith("cp ")}
    assert copied == {
        f"{package}/models/{name}"
        for package in ("biomed", "clinical")
        for name in shipped_models(package)
    }
    page = lines[-1].removeprefix("bin/python ").split()[0]
    assert (ROOT / page).is_file()


def test_a_stopped_training_resumes(tmp_path):
    checkpoints = tmp_path / "runs" / "qa-checkpoints"
    checkpoints.mkdir(parents=True)
    (tmp_path / "runs" / "contrast").mkdir()
    (tmp_path / "runs" / "contrast" / "test.json").touch()
    target = "runs/qa/config.json"
    for name in ("recipes", "Makefile"):
        (tmp_path / name).symlink_to(ROOT / name)
    (line,) = made(target, folder=tmp_path)
    assert line.split()[-1] == "--resume"
    checkpoints.rmdir()
    (line,) = made(target, folder=tmp_path)
    assert line.split()[-1] == "runs/qa"


def test_cards_name_commands_that_exist():
    commands = {}
    for file in RECIPES.glob("*.toml"):
        table = tomllib.loads(file.read_text("utf-8"))
        command = table.get("card", {}).get("rebuild", "")
        commands[file.stem] = command.strip().replace("\\\n", " ").splitlines()
    assert all(commands[name] for name in MODELS)
    for line in chain(*commands.values()):
        if line.startswith("make "):
            assert made(line.removeprefix("make "))
        else:
            parsed(line)


def test_the_overview_names_every_file():
    overview = (RECIPES / "README.md").read_text("utf-8")
    names = {
        path.name
        for path in RECIPES.iterdir()
        if path.suffix in (".toml", ".py", ".mk") and path.stem != "__init__"
    }
    names |= {file.parent.name for file in RECIPES.glob("*/__main__.py")}
    # `calibrate_answers.py` does not name `answers.py`.
    words = set(re.findall(r"[\w.-]*\w", overview))
    assert names - words == set()
