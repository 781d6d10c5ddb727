"""A built cohort: a Parquet file with its definition and its flow, and the figure of the flow."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinical.cohort.flow import STEPS, SUMMARY_KEY
from clinical.stays.cohorts import read_stays
from domainbert.tables import TableError, atomic_path, read_metadata

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches throughout: the axes span the page, one unit an inch, so that text fits its box.
_WIDTH = 7.2
_LINE = 0.175
_PADDING = 0.12
_GAP = 0.26
_MAIN = (0.1, 3.0)  # left edge and width of the boxes that lead down
_ASIDE = (3.45, 3.65)  # of the boxes of what was left out
_MIDDLE = _MAIN[0] + _MAIN[1] / 2
_MAIN_AND_ASIDE = _ASIDE[0] + _ASIDE[1] - _MAIN[0] + 0.2
_SIDES = {"train": "Training", "val": "Validation", "test": "Test"}


@dataclass(frozen=True, eq=False)
class Cohort:
    """A labelled cohort on disk, every admission of the source in it.

    Attributes:
        path: the Parquet file.
        flow: `step, reason, removed, left`: one row for the input and one for each rule in order;
            `removed` and the last `left` add up to the input.
        issues: `source, problem, count`: what was wrong with rows of the source; `list_issues`
            lists each of them.
        n_admissions: rows of the table of admissions.
        n_stays: stays kept.
        n_patients: patients of the stays kept.
        n_readmitted: stays kept that were followed by an unplanned return within the horizon.
        caveats: what a reader of results on this cohort should know.
        summary: all of this as one dictionary, as `save_flow_json` writes it.
    """

    path: Path
    flow: pd.DataFrame = field(repr=False)
    issues: pd.DataFrame = field(repr=False)
    n_admissions: int
    n_stays: int
    n_patients: int
    n_readmitted: int
    caveats: tuple[str, ...]
    summary: dict[str, Any] = field(repr=False)
    _keep: Any = field(default=None, repr=False)

    @classmethod
    def open(cls, path: str | Path, *, keep: Any = None) -> Cohort:
        """Open a cohort that `build_cohort` wrote; `keep` must live as long as the result.

        Raises:
            TableError: a file that `build_cohort` did not write.
        """
        import pandas as pd

        metadata = read_metadata(path)
        if SUMMARY_KEY not in metadata:
            msg = f"{path} was not written by build_cohort: it carries no flow"
            raise TableError(msg)
        summary = json.loads(metadata[SUMMARY_KEY])
        return cls(
            path=Path(path),
            flow=pd.DataFrame(summary["steps"]),
            issues=pd.DataFrame(summary["issues"], columns=["source", "problem", "count"]),
            n_admissions=summary["steps"][0]["left"],
            **{f"n_{what}": summary["kept"][what] for what in ("stays", "patients", "readmitted")},
            caveats=tuple(summary["caveats"]),
            summary=summary,
            _keep=keep,
        )

    def to_frame(self) -> pd.DataFrame:
        """The whole table with excluded rows; `frame[frame.exclusion.isna()]` are those kept.

        `text` is a list of notes; `readmitted` is an integer, missing on excluded rows.
        """
        return read_stays(self.path)

    def list_issues(self) -> pd.DataFrame:
        """Every faulty row of the source: `source, row, id, problem`; rows count from 1.

        Notes with an id are listed by it, without a row number. Malformed lines of a CSV file are
        listed under the file's name, and `row` is the line of the file.
        """
        import pandas as pd

        types = {"source": str, "row": "Int64", "id": str, "problem": str}
        path = issues_path(self.path)
        frame = pd.read_csv(path, dtype=types, keep_default_na=False, na_values={"row": [""]})
        # The file has an apostrophe before an id that a spreadsheet would run as a formula.
        frame["id"] = frame["id"].str.replace("^'(?=[=+@-])", "", regex=True)
        return frame

    def save_flow_json(self, path: str | Path) -> None:
        """Write the flow, the counts, the issues and the caveats as JSON."""
        with atomic_path(path) as temporary:
            text = json.dumps(self.summary, indent=2, ensure_ascii=False)
            temporary.write_text(text + "\n", encoding="utf-8")

    def plot_flow(self) -> Figure:
        """The flow as a figure: `cohort.plot_flow().savefig("flow.png", dpi=200)`."""
        return plot_flow(self.summary)


def issues_path(path: str | Path) -> Path:
    """The list of faulty rows of a cohort: `NAME.issues.csv` beside `NAME.parquet`."""
    return Path(path).with_suffix(".issues.csv")


def plot_flow(summary: dict[str, Any]) -> Figure:
    """Draw a flow, as `Cohort.save_flow_json` writes it, with what was left out on the right.

    Reasons that removed nothing are not drawn; boxes that no reason separates are drawn as one.
    """
    from matplotlib.figure import Figure

    titles = {step: title for title, step, _ in STEPS}
    levels = []
    for title, group in groupby(summary["steps"][1:], key=lambda row: titles[row["step"]]):
        if rows := [row for row in group if row["removed"]]:
            levels.append(([f"{title} (n = {rows[-1]['left']:,})"], rows))
    *before, (_, last) = levels or [([""], [])]
    figure = Figure()
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    y = _box(axes, _MAIN, -0.05, [f"Admissions (n = {summary['steps'][0]['left']:,})"])
    for lines, rows in [*before, (_cohort_lines(summary), last)]:
        y = _step(axes, y, rows, lines)
    sides = [name for name in _SIDES if name in summary["splits"]]
    top, bottom, width = y, y, _MAIN_AND_ASIDE / max(1, len(sides))
    for number, name in enumerate(sides):
        left, counts = _MAIN[0] + number * width, summary["splits"][name]
        lines = [f"{_SIDES[name]} (n = {counts['stays']:,})", *_count_lines(counts)]
        _arrow(axes, (_MIDDLE, top), (left + width / 2, top - 2 * _GAP))
        bottom = _box(axes, (left, width - 0.2), top - 2 * _GAP, lines)
    figure.set_size_inches(_WIDTH, 0.1 - bottom)
    axes.set_xlim(0, _WIDTH)
    axes.set_ylim(bottom - 0.1, 0)
    return figure


def _cohort_lines(summary: dict[str, Any]) -> list[str]:
    kept, days = summary["kept"], summary["definition"]["horizon_days"]
    is_early = summary["notes"] == "early"
    when = f"{summary['hours']:g} h after admission" if is_early else "at discharge"
    counts = _count_lines(kept, within=f" within {days:g} days")
    return [f"Cohort (n = {kept['stays']:,})", *counts, f"prediction {when}"]


def _count_lines(counts: dict[str, int], *, within: str = "") -> list[str]:
    rate = f" ({counts['readmitted'] / counts['stays']:.1%})" if counts["stays"] else ""
    readmitted = f"readmitted{within}: {counts['readmitted']:,}{rate}"
    return [f"patients: {counts['patients']:,}", readmitted]


def _step(axes: Axes, top: float, rows: list[dict[str, Any]], lines: list[str]) -> float:
    """An arrow down to the next box, with a branch to what was left out; the new bottom."""
    space = 2 * _GAP
    if rows:
        aside = [f"Left out (n = {sum(row['removed'] for row in rows):,})"]
        aside += [f"   {row['reason']} (n = {row['removed']:,})" for row in rows]
        height = 2 * _PADDING + _LINE * len(aside)
        space += height
        branch = top - space / 2
        _arrow(axes, (_MIDDLE, branch), (_ASIDE[0], branch))
        _box(axes, _ASIDE, branch + height / 2, aside)
    _arrow(axes, (_MIDDLE, top), (_MIDDLE, top - space))
    return _box(axes, _MAIN, top - space, lines)


def _box(axes: Axes, place: tuple[float, float], top: float, lines: list[str]) -> float:
    """A box of text, its first line bold; returns its bottom."""
    from matplotlib.patches import Rectangle

    left, width = place
    bottom = top - 2 * _PADDING - _LINE * len(lines)
    axes.add_patch(
        Rectangle((left, bottom), width, top - bottom, facecolor="white", edgecolor="black")
    )
    for number, line in enumerate(lines):
        weight = "normal" if number else "bold"
        y = top - _PADDING - (number + 0.5) * _LINE
        axes.text(left + 0.1, y, line, fontsize=8.5, va="center", fontweight=weight)
    return bottom


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    arrow = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "color": "black"}
    axes.annotate("", xy=end, xytext=start, arrowprops=arrow)
