"""The wheel with its required dependencies alone, and no repository beside it."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.bare import make_environment

ROOT = Path(__file__).parents[1]
pytestmark = [pytest.mark.slow, pytest.mark.encoder]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    build = "from hatchling.build import build_wheel; import sys; build_wheel(sys.argv[1])"
    run([sys.executable, "-c", build, folder], cwd=ROOT)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A function that runs a program of the wheel's environment in an empty folder."""
    folder = tmp_path_factory.mktemp("environment")
    python, _ = make_environment(folder)
    options = ["--quiet", "--no-deps", "--no-index"]
    pip = [sys.executable, "-m", "pip", "--python", python]
    run([*pip, "install", *options, wheel], cwd=folder)
    work = folder / "work"
    work.mkdir()
    return lambda program, *words: run(
        [folder / "bin" / program, *words], cwd=work
    )


def run(command, *, cwd):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_it_is_small_and_holds_the_product_only(wheel):
    assert wheel.stat().st_size < 25_000_000
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {
        "domainbert",
        "clinical",
        "biomed",
    }
    assert {"LICENSE", "NOTICE"} <= {name.split("/")[-1] for name in names}
    recipes = [
        name for name in names if name.startswith("domainbert/recipes/")
    ]
    assert recipes
    assert not [name for name in recipes if not name.endswith(".toml")]


# In one process, because most of the time of a command is that of its imports.
COMMANDS = """
import importlib
import sys
from pathlib import Path

from typer.testing import CliRunner

import clinical

Path("notes.csv").write_text("id,text\\n1,Metformin for type 2 diabetes. Lives alone.\\n")
score = "score notes.csv --notes as-given --model readmission-demo --out risks.csv"
for home, line in (
    ("clinical.cli", "demo --out demo --stays 80"),
    ("clinical.cli", score),
    ("biomed.cli", "ner tag notes.csv --model disease-drug --out found.csv"),
    ("biomed.cli", "models"),
):
    result = CliRunner().invoke(importlib.import_module(home).app, line.split())
    assert result.exit_code == 0, result.output
assert "disease-drug" in result.output
assert clinical.__file__.startswith(sys.prefix)
"""


def test_the_readme_and_the_commands_run(installed):
    blocks = re.findall(
        r"```python\n(.*?)```",
        (ROOT / "README.md").read_text(),
        flags=re.DOTALL,
    )
    assert "tokens" in installed(
        "python", "-c", "\n".join([*blocks, COMMANDS])
    )


def test_each_command_is_installed(installed):
    assert "readmission-demo" in installed("clinical", "models")
    assert "terms" in installed("biomed", "--help")
    assert installed("domainbert", "--version")
