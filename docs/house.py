"""Draws the folders of the packages and their imports: `python docs/house.py docs/house.png`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[1]
COLOURS = {"domainbert": "#4c72b0", "clinical": "#c44e52", "biomed": "#55a868"}


def room(parts: tuple[str, ...]) -> str:
    """The folder that a module is in, such as domainbert/text; a flat file's is its package."""
    folder = "/".join(parts[:2])
    return folder if (ROOT / folder).is_dir() else parts[0]


def running_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module without what only type checkers read."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from running_nodes(child)


def read_imports() -> tuple[dict[str, int], dict[str, set[str]]]:
    """Lines of code of each room, and the rooms that each room imports."""
    lines: dict[str, int] = {}
    imports: dict[str, set[str]] = {}
    for package in COLOURS:
        for path in sorted((ROOT / package).rglob("*.py")):
            here = room(path.relative_to(ROOT).parts)
            text = path.read_text("utf-8")
            lines[here] = lines.get(here, 0) + text.count("\n")
            for node in running_nodes(ast.parse(text)):
                if isinstance(node, ast.ImportFrom) and node.module:
                    imports.setdefault(here, set()).add(
                        room(tuple(node.module.split(".")))
                    )
    return lines, {
        here: there & set(lines) - {here} for here, there in imports.items()
    }


def levels(
    rooms: dict[str, int], imports: dict[str, set[str]]
) -> dict[str, int]:
    """How far each room is above those it imports; there must be no circle."""
    level: dict[str, int] = {}
    while len(level) < len(rooms):
        ready = [
            r
            for r in rooms
            if r not in level and imports.get(r, set()) <= set(level)
        ]
        if not ready:
            raise SystemExit(
                f"rooms in a circle: {sorted(set(rooms) - set(level))}"
            )
        for name in ready:
            level[name] = 1 + max(
                (level[below] for below in imports.get(name, set())),
                default=-1,
            )
    return level


def direct_imports(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """The imports that no other import implies (the transitive reduction)."""
    reachable: dict[str, set[str]] = {}

    def reach(name: str) -> set[str]:
        if name not in reachable:
            below = imports.get(name, set())
            reachable[name] = below.union(*map(reach, below))
        return reachable[name]

    return {
        name: below - set().union(*map(reach, below))
        for name, below in imports.items()
    }


def crossed(
    position: dict[str, tuple[float, float]], lines: list[tuple[str, str]]
) -> int:
    """How many boxes have a line behind them that neither begins nor ends there."""
    count = 0
    for start, end in lines:
        x, y = position[start]
        end_x, end_y = position[end]
        for name, (box_x, box_y) in position.items():
            if name not in (start, end) and end_y < box_y < y:
                line_x = x + (end_x - x) * (box_y - y) / (end_y - y)
                count += abs(line_x - box_x) < 0.06
    return count


def arrange(
    level: dict[str, int], lines: list[tuple[str, str]]
) -> dict[str, tuple[float, float]]:
    """A row of boxes for each level, by the clearest of 3,000 random layouts."""
    columns = {"biomed": 0, "domainbert": 1, "clinical": 2}
    names = sorted(level, key=lambda name: (columns[name.split("/")[0]], name))
    rows = [
        [name for name in names if level[name] == height]
        for height in range(max(level.values()) + 1)
    ]
    layouts = []
    for seed in range(3000):
        random = np.random.default_rng(seed)
        position = {}
        for height, row in enumerate(rows):
            shift = random.uniform(0.2, 0.8)
            for number, name in enumerate(row):
                position[name] = ((number + shift) / len(row), height)
        layouts.append(position)
    return min(layouts, key=lambda position: crossed(position, lines))


def draw(path: Path) -> None:
    """A row of boxes for each level, the foundation below; lines down to what a folder imports."""
    rooms, imports = read_imports()
    # Flat files of a package (command line, demo, the classes users hold) may use all its rooms.
    below = {name: there for name, there in imports.items() if "/" in name}
    below = {
        name: {t for t in there if "/" in t} for name, there in below.items()
    }
    level = levels(
        {name: n for name, n in rooms.items() if "/" in name}, below
    )
    direct = direct_imports(below)
    lines = [(name, other) for name in direct for other in direct[name]]
    position = arrange(level, lines)
    figure, axes = plt.subplots(figsize=(11, 8))
    for name, (x, y) in position.items():
        package, label = name.split("/")
        box = {
            "boxstyle": "round,pad=0.4",
            "fc": COLOURS[package],
            "ec": "none",
        }
        axes.text(
            x, y, f"{label}\n{rooms[name]:,}", ha="center", va="center",
            color="white", fontsize=8, bbox=box,
        )  # fmt: skip
    for name, other in lines:
        x, y = zip(position[name], position[other], strict=True)
        axes.plot(x, y, color="#999999", linewidth=0.8, zorder=1)
    handles = [
        plt.Rectangle((0, 0), 1, 1, color=colour)
        for colour in COLOURS.values()
    ]
    axes.legend(handles, COLOURS, loc="upper right", frameon=False, ncols=3)
    axes.set(xlim=(0, 1), ylim=(-0.6, max(level.values()) + 0.8))
    axes.set_axis_off()
    axes.set_title(
        "Folders, their lines of code, and lines down to what they import\n"
        "(an import that others imply has no line)",
        loc="left",
    )
    figure.savefig(path, dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/house.png"))
