"""Colours, axes and saving, shared by all figures.

Figures are outside pyplot's registry, so long jobs do not collect them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from domainbert.files import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours are distinct with any colour vision, the line styles also in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", "--", ":", "-.", "-", "--")
GREY = "#6B6B6B"
STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": "#222222",
    "legend.edgecolor": "none",
    "legend.fontsize": 9,
    "legend.framealpha": 1,
    "legend.handlelength": 2.2,
    "lines.linewidth": 1.4,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "text.parse_math": False,  # names come from data and may hold a $
}


@contextmanager
def drawing() -> Iterator[None]:
    """Use `STYLE` in a block, or with `@drawing()` in a function."""
    import matplotlib as mpl
    from matplotlib.rcsetup import cycler

    lines = cycler(color=COLOURS, linestyle=DASHES)
    with mpl.rc_context(STYLE | {"axes.prop_cycle": lines}):
        yield


def new_axes(
    size: tuple[float, float], *boxes: tuple[float, float, float, float]
) -> tuple[Figure, list[Axes]]:
    """A figure, size in inches, with axes in the given boxes (left, bottom, width, height).

    Call it within `drawing()`.
    """
    from matplotlib.figure import Figure

    if not boxes:
        figure = Figure(figsize=size, layout="constrained")
        return figure, [figure.add_subplot()]
    figure = Figure(figsize=size)
    return figure, [figure.add_axes(box) for box in boxes]


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a figure atomically and without a date; the ending (.png, .svg, .pdf) sets the kind."""
    import matplotlib as mpl

    path = Path(path)
    file_format = path.suffix.lstrip(".").lower()
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    # SVG names its parts at random unless it is given a salt.
    with (
        mpl.rc_context({"svg.hashsalt": "domainbert"}),
        atomic_path(path) as temporary,
    ):
        figure.savefig(
            temporary,
            format=file_format,
            dpi=200,
            metadata=dates.get(file_format),
            bbox_inches="tight",
        )
    return path
