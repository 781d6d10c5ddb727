"""Rules of the house: arrows point one way, nothing heavy at start-up, no code of a module run."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FORBIDDEN = {"domainbert": {"clinical", "biomed"}, "clinical": {"biomed"}, "biomed": {"clinical"}}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("package", FORBIDDEN)
def test_arrows_point_one_way(package):
    for path in (ROOT / package).rglob("*.py"):
        assert not imports(path) & FORBIDDEN[package], path.name


@pytest.mark.parametrize(
    "package", ["clinical", "clinical.cli", "clinical.datasets.synthetic", "biomed"]
)
def test_importing_does_not_import_torch(package):
    heavy = "{'torch', 'transformers', 'sklearn', 'matplotlib', 'duckdb'}"
    code = f"import sys, {package}; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_public_names_exist():
    import clinical

    for name in clinical.__all__:
        assert getattr(clinical, name).__module__.startswith("clinical")
