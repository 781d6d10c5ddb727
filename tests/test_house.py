"""Rules of the house: arrows point one way, nothing heavy at start-up, no code of a module run."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from house_measures import measure  # noqa: E402

FORBIDDEN = {
    "domainbert": {"clinical", "biomed"},
    "clinical": {"biomed"},
    "biomed": {"clinical"},
}


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
    "package",
    ["clinical", "clinical.cli", "clinical.datasets.hospital", "biomed"],
)
def test_importing_does_not_import_torch(package):
    heavy = "{'torch', 'transformers', 'sklearn', 'matplotlib', 'duckdb'}"
    code = f"import sys, {package}; sys.exit(bool({heavy} & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", code], check=False).returncode
        == 0
    )


def test_public_names_exist():
    import clinical

    for name in clinical.__all__:
        assert getattr(clinical, name).__module__.startswith("clinical")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path, *, types: bool) -> set[str]:
    """What a file imports, inside functions too, and for types alone if that is asked."""
    names, tree = set(), ast.parse(path.read_text())
    for node in ast.walk(tree):
        if (
            not types
            and isinstance(node, ast.If)
            and "TYPE_CHECKING" in ast.unparse(node.test)
        ):
            node.body = [ast.Pass()]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {
                f"{node.module}.{alias.name}" for alias in node.names
            }
    return names


def circle(graph: dict[str, set[str]]) -> list[str]:
    """What is left when everything that needs nothing else is taken away, again and again."""
    left = {name: set(needs) for name, needs in graph.items()}
    while free := [
        name for name, needs in left.items() if not needs & left.keys()
    ]:
        for name in free:
            del left[name]
    return sorted(left)


def folder(module: str) -> str:
    """The folder of a module; the entries stand above everything else."""
    above, _, name = module.rpartition(".")
    return module if name in ("cli", "demo", "__main__") else above


def import_graph(*, types: bool) -> dict[str, set[str]]:
    files = [
        path
        for package in FORBIDDEN
        for path in (ROOT / package).rglob("*.py")
    ]
    names = {
        module_name(path): path for path in files if path.name != "__init__.py"
    }
    return {
        name: imported_modules(path, types=types) & set(names) - {name}
        for name, path in names.items()
    }


def test_no_import_cycles_between_files_types_counted():
    assert circle(import_graph(types=True)) == []


def test_no_import_cycles_between_folders():
    folders: dict[str, set[str]] = {}
    for name, needs in import_graph(types=False).items():
        here = folder(name)
        folders.setdefault(here, set()).update(
            {folder(other) for other in needs} - {here}
        )
    assert circle(folders) == []


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert circle({"a": {"b"}, "b": {"a"}, "c": set()}) == ["a", "b"]


LIMITS = {
    "nodes in a line": 5.2,
    "files": 230,
    "longest file": 500,
    "longest function": 80,
    "functions over 40 lines": 60,
    "ternaries in 1,000 lines": 8.0,
    "tuple assignments in 1,000 lines": 1.5,
    "nested comprehensions in 1,000 lines": 1.5,
    "Any": 200,
    "functions with a vague local": 20,
    "decisions in templates": 100,
}


def test_the_house_stays_as_legible_as_it_is():
    figures = measure([ROOT / package for package in FORBIDDEN])
    assert figures.keys() == LIMITS.keys()
    over = {name: f for name, f in figures.items() if f > LIMITS[name]}
    assert over == {}


def test_the_locked_dependencies_are_those_that_are_tested():
    pinned = dict(
        re.findall(
            r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M
        )
    )
    known = {
        name.lower().replace("_", "-"): version
        for name, version in pinned.items()
    }
    blocks = re.split(
        r"\n(?=[a-z])", (ROOT / "requirements.lock").read_text()
    )[1:]
    for block in blocks:
        name, version = re.match(r"([\w.-]+)==(\S+)", block).groups()
        assert known[name] == version, name
        assert "--hash=sha256:" in block, name
    assert len(blocks) > 40
    assert not {"torch", "nvidia-cublas"} & {
        block.split("==")[0] for block in blocks
    }
