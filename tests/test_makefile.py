"""`make demo` is the installation of a user; the version of Python is checked before anything."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = ["Makefile", "pyproject.toml", "constraints.txt", "README.md"]
pytestmark = pytest.mark.skipif(
    shutil.which("make") is None, reason="make is not installed"
)


@pytest.fixture
def checkout(tmp_path):
    """The files that make reads, with packages that are empty."""
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "recipes").mkdir()
    shutil.copy(ROOT / "recipes" / "models.mk", tmp_path / "recipes")
    for name in ("domainbert", "clinical", "biomed"):
        (tmp_path / name).mkdir()
    return tmp_path


def python_of_version(path, version):
    """A Python that says that it is of another version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    code = f"import sys; sys.version_info = {version}; exec(sys.argv[2])"
    path.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}' \"$@\"\n")
    path.chmod(0o755)
    return path


def make(folder, *words):
    done = subprocess.run(
        ["make", *words],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_an_old_python_is_refused_before_anything_is_made(checkout):
    old = python_of_version(checkout / "python3.10", (3, 10, 4))
    code, output = make(checkout, "demo", f"PYTHON={old}")
    assert code
    assert (
        f"{old} is Python 3.10; domainbert needs 3.11 or newer: "
        "make demo PYTHON=python3.11" in output
    )
    assert "pip" not in output
    assert not (checkout / ".venv").exists()


def test_a_python_that_is_not_there_is_named(checkout):
    code, output = make(checkout, "demo", "PYTHON=no-python")
    assert code
    assert "no-python" in output.splitlines()[-2]


@pytest.mark.parametrize(
    ("version", "made_again"),
    [((3, 9, 1), True), (tuple(sys.version_info[:3]), False)],
)
def test_an_environment_of_another_version_is_made_again(
    checkout, version, made_again
):
    python_of_version(checkout / ".venv" / "bin" / "python", version)
    for stamp in (".installed", ".tools", ".engines"):
        (checkout / ".venv" / stamp).touch()
    _, output = make(checkout, "-n", "test", f"PYTHON={sys.executable}")
    assert ("rm -rf .venv" in output) == made_again
    assert ("[dev," in output) == made_again


def test_the_demo_installs_the_required_dependencies_only(checkout):
    _, output = make(checkout, "-n", "demo", f"PYTHON={sys.executable}")
    installs = [line for line in output.splitlines() if " install " in line]
    assert len(installs) == 1
    assert installs[0].endswith("install . -c constraints.txt")
    assert "clinical demo" in output


def test_slow_tests_are_left_out_of_make_test_alone():
    """A commit is judged by all tests."""
    _, quick = make(ROOT, "--dry-run", "test")
    _, whole = make(ROOT, "--dry-run", "test-all")
    assert 'pytest -m "not slow"' in quick
    assert "not slow" not in whole
    assert "make test-all" in (ROOT / ".ci" / "run").read_text("utf-8")
