"""Rules of the house: arrows point one way, nothing heavy at start-up, no code of a module run."""

import ast
import re
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


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path) -> set[str]:
    """What a file imports, inside functions too, but not for types alone."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = [ast.Pass()]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_no_import_cycles():
    files = [path for package in FORBIDDEN for path in (ROOT / package).rglob("*.py")]
    names = {module_name(path): path for path in files if path.name != "__init__.py"}
    graph = {name: imported_modules(path) & set(names) - {name} for name, path in names.items()}
    while free := [name for name, needs in graph.items() if not needs & set(graph)]:
        for name in free:
            del graph[name]
    assert not graph, f"cycles among {sorted(graph)}"


@pytest.mark.parametrize("package", FORBIDDEN)
def test_a_package_and_its_files_do_not_grow(package):
    lines = {path: path.read_text().count("\n") for path in (ROOT / package).rglob("*.py")}
    assert sum(lines.values()) <= 12_500
    assert [path.name for path, count in lines.items() if count > 420] == []


def test_the_locked_dependencies_are_those_that_are_tested():
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M))
    known = {name.lower().replace("_", "-"): version for name, version in pinned.items()}
    blocks = re.split(r"\n(?=[a-z])", (ROOT / "requirements.lock").read_text())[1:]
    for block in blocks:
        name, version = re.match(r"([\w.-]+)==(\S+)", block).groups()
        assert known[name] == version, name
        assert "--hash=sha256:" in block, name
    assert len(blocks) > 40
    assert not {"torch", "nvidia-cublas"} & {block.split("==")[0] for block in blocks}
