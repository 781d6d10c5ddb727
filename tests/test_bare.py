"""The package works where nothing but its required dependencies is installed."""

import importlib
import json
import subprocess

import pytest
import typer.main

from tests.bare import ROOT, make_environment, of_extra

# What is written for one extra may import what that extra installs.
HOMES = {
    "domainbert.service": "service",
    "clinical.bedside": "service",
    "biomed.ner.spacy": "spacy",
}
IMPORTS = """
import importlib, json, pkgutil

missing = {}
for name in ("domainbert", "clinical", "biomed"):
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, f"{name}."):
        try:
            importlib.import_module(module.name)
        except ImportError as error:
            missing[module.name] = error.name
print(json.dumps(missing))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs Python in the environment; returns what it wrote to stdout and to stderr."""
    folder = tmp_path_factory.mktemp("bare")
    python, packages = make_environment(folder / "environment")
    (packages / "checkout.pth").write_text(f"{ROOT}\n")

    def python_run(*words, code=0):
        done = subprocess.run(
            [python, *words],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr[-2000:]
        return done

    return python_run


def test_nothing_else_is_there(run):
    code = "import importlib.util as u, sys; print([bool(u.find_spec(n)) for n in sys.argv[1:]])"
    names = sorted({"pytest", "adbc_driver_manager"} | of_extra("service"))
    assert "True" not in run("-c", code, *names).stdout


def test_every_module_can_be_imported(run):
    missing = json.loads(run("-c", IMPORTS).stdout)
    faults = {}
    for module, needs in missing.items():
        homes = [
            extra for home, extra in HOMES.items() if module.startswith(home)
        ]
        if not needs or not any(
            needs.split(".")[0] in of_extra(extra) for extra in homes
        ):
            faults[module] = needs
    assert faults == {}


RUN = "import sys; from {} import app; app(sys.argv[1:])"
HOME_OF = {
    "domainbert": "domainbert.__main__",
    "clinical": "clinical.cli",
    "biomed": "biomed.cli",
}


@pytest.mark.parametrize(
    ("line", "module", "extra"),
    [
        ("domainbert serve --model readmission-demo", "uvicorn", "service"),
        (
            "clinical cohort postgresql://127.0.0.1:1/db --out c.parquet",
            "adbc_driver_postgresql",
            "databases",
        ),
        (
            "clinical score sqlite:///n.db --query x --model readmission-demo --out r.csv",
            "adbc_driver_sqlite",
            "databases",
        ),
    ],
)
def test_a_missing_extra_is_one_line(run, line, module, extra):
    program, *words = line.split()
    done = run("-c", RUN.format(HOME_OF[program]), *words, code=1)
    (error,) = done.stderr.splitlines()
    assert error == (
        f"error: no {module}: run pip install '.[{extra}]' in a checkout of domainbert"
    )


def command_names(group, prefix):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from command_names(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}"


@pytest.mark.parametrize("program", HOME_OF)
def test_ci_runs_every_command_without_extras(program):
    app = importlib.import_module(HOME_OF[program]).app
    text = (ROOT / ".ci" / "commands.txt").read_text("utf-8")
    lines = [line.removeprefix("! ") + " " for line in text.splitlines()]
    group = typer.main.get_command(app)
    missing = [
        name
        for name in command_names(group, program)
        if not any(line.startswith(f"{name} ") for line in lines)
    ]
    assert missing == []


def test_the_commands_of_the_product_start(run):
    """The modules that a command imports at its start need no extra."""
    for program in HOME_OF:
        assert (
            "--help"
            in run("-c", RUN.format(HOME_OF[program]), "--help").stdout
        )
