"""Draws the rooms of the packages and their imports, as `python docs/house.py docs/house.png`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl

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


def draw(path: Path) -> None:
    """A column of boxes for each package, the foundation below; arrows to what a room imports."""
    rooms, imports = read_imports()
    # Flat files of a package (command line, demo, the classes users hold) may use all its rooms.
    below = {name: there for name, there in imports.items() if "/" in name}
    below = {
        name: {t for t in there if "/" in t} for name, there in below.items()
    }
    level = levels(
        {name: n for name, n in rooms.items() if "/" in name}, below
    )
    figure, axes = plt.subplots(figsize=(11, 8))
    place: dict[str, tuple[float, float]] = {}
    for height in sorted(set(level.values())):
        row = sorted(name for name in level if level[name] == height)
        for number, name in enumerate(row):
            place[name] = ((number + 0.5) / len(row), height)
    for name, there in below.items():
        for other in there:
            axes.annotate(
                "", place[other], place[name], zorder=1,
                arrowprops={"arrowstyle": "-|>", "color": "#bbbbbb", "lw": 0.6, "shrinkB": 12},
            )  # fmt: skip
    for name, (x, y) in place.items():
        package, label = name.split("/")
        text = f"{label}\n{rooms[name]:,}"
        box = {
            "boxstyle": "round,pad=0.4",
            "fc": COLOURS[package],
            "ec": "none",
        }
        axes.text(
            x,
            y,
            text,
            ha="center",
            va="center",
            color="white",
            fontsize=8,
            bbox=box,
        )
    handles = [
        plt.Rectangle((0, 0), 1, 1, color=colour)
        for colour in COLOURS.values()
    ]
    axes.legend(handles, COLOURS, loc="upper right", frameon=False, ncols=3)
    axes.set(xlim=(0, 1), ylim=(-0.6, max(level.values()) + 0.8))
    axes.set_axis_off()
    axes.set_title(
        "Rooms, their lines of code, and what they import", loc="left"
    )
    figure.savefig(path, dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/house.png"))
