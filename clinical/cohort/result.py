"""A built cohort: a Parquet file with its definition and its flow, and the figure of the flow."""

from __future__ import annotations

import glob
import json
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinical.cohort.flow import SUMMARY_KEY
from clinical.cohort.source import step
from clinical.stays.cohorts import read_stays
from domainbert.errors import UserError
from domainbert.files import atomic_path
from domainbert.statistics.figures import drawing
from domainbert.tables import TableError
from domainbert.tables.frames import read_metadata

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_SIZE = 8.5  # of the letters of the figure, in points; its axes count lines of text
_LEFT, _RIGHT, _WIDTH, _LINE = 0.2, 1.2, 6.4, _SIZE * 1.2 / 72  # inches
_SIDES = {"train": "Training", "val": "Validation", "test": "Test"}


@dataclass(frozen=True, eq=False)
class Cohort:
    """A labelled cohort on disk, every admission of the source in it.

    Attributes:
        path: the Parquet file.
        flow: `step, reason, removed, left`: one row for the input and one for each rule in order;
            `removed` and the last `left` add up to the input.
        issues: `source, problem, count`: what was wrong with rows of the source;
            `NAME.issues.csv`, beside the file, lists each of them.
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
            raise TableError(f"{path} was not written by build_cohort: it carries no flow")
        summary = json.loads(metadata[SUMMARY_KEY])
        return cls(
            path=Path(path),
            flow=pd.DataFrame(summary["steps"]).drop(columns="box"),
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

    def labels(self) -> pd.DataFrame:
        """The stays that are kept: ids, times, `prediction_time`, and `boolean_value`.

        A prediction is made at discharge, or so many hours after the episode began.
        """
        import duckdb

        values = {"path": glob.escape(str(self.path)), "hours": self.summary["hours"]}
        with duckdb.connect() as con:
            return con.execute(step("labels"), values).df()

    def save_flow_json(self, path: str | Path) -> None:
        """Write the flow, the counts, the issues and the caveats as JSON."""
        with atomic_path(path) as temporary:
            text = json.dumps(self.summary, indent=2, ensure_ascii=False)
            temporary.write_text(text + "\n", encoding="utf-8")

    def plot_flow(self) -> Figure:
        """The flow as a figure: `cohort.plot_flow().savefig("flow.png", dpi=200)`."""
        return plot_flow(self.summary)


def meds_labels(stays: pd.DataFrame) -> pd.DataFrame:
    """`Cohort.labels` as MEDS labels: `subject_id`, `prediction_time`, `boolean_value`."""
    labels = stays.assign(subject_id=whole_ids(stays["patient_id"]))
    return labels[["subject_id", "prediction_time", "boolean_value"]].reset_index(drop=True)


def whole_ids(ids: pd.Series) -> pd.Series:
    """Ids as whole numbers.

    Raises:
        UserError: an id is something else.
    """
    wrong = ids[~ids.astype(str).str.fullmatch(r"-?\d{1,18}")]
    if len(wrong):
        raise UserError(
            f"{len(wrong)} of {len(ids)} ids in {ids.name} are not whole numbers, as MEDS and OMOP "
            "want them; number the patients, or use --format fhir"
        )
    return ids.astype("int64")


def issues_path(path: str | Path) -> Path:
    """The list of faulty rows of a cohort: `NAME.issues.csv` beside `NAME.parquet`."""
    return Path(path).with_suffix(".issues.csv")


@drawing
def plot_flow(summary: dict[str, Any]) -> Figure:
    """Draw a flow, as `Cohort.save_flow_json` writes it: what is left, and what was left out.

    Reasons that removed nothing are not drawn, nor are the boxes after them, except for the last.
    """
    from matplotlib.figure import Figure

    boxes = [[f"Admissions (n = {summary['steps'][0]['left']:,})"]]
    removed = [row for row in summary["steps"] if row["removed"]]
    for title, group in groupby(removed, key=lambda row: row["box"]):
        rows = list(group)
        reasons = [f"   {row['reason']} (n = {row['removed']:,})" for row in rows]
        boxes.append([f"Left out (n = {sum(row['removed'] for row in rows):,})", *reasons])
        if title != summary["steps"][-1]["box"]:
            boxes.append([f"{title} (n = {rows[-1]['left']:,})"])
    is_early, event = summary["notes"] == "early", summary["definition"]["event"]
    when = f"{summary['hours']:g} h after admission" if is_early else "at discharge"
    boxes.append([*_counted("Cohort", summary["kept"], event), f"prediction {when}"])
    sides = [_counted(_SIDES[side], each, "outcome") for side, each in summary["splits"].items()]
    height = sum(len(lines) + 2 for lines in [*boxes, *sides[:1]])
    figure = Figure(figsize=(_WIDTH, height * _LINE))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, _WIDTH), ylim=(height, 0))
    axes.axis("off")
    axes.plot([_LEFT + 0.4] * 2, [1, height - 2], color="black", linewidth=1)
    box: dict[str, Any] = {"boxstyle": "square,pad=0.5", "facecolor": "white"}
    look: dict[str, Any] = {"va": "top", "fontsize": _SIZE, "linespacing": 1.2, "bbox": box}
    y = 1
    for lines in boxes:
        x = _RIGHT if lines[0].startswith("Left out") else _LEFT
        axes.text(x, y, "\n".join(lines), **look)
        y += len(lines) + 2
    for number, lines in enumerate(sides):
        axes.text(_LEFT + number * _WIDTH / 3, y, "\n".join(lines), **look)
    return figure


def _counted(title: str, counts: dict[str, int], event: str) -> list[str]:
    rate = f" ({counts['readmitted'] / counts['stays']:.1%})" if counts["stays"] else ""
    outcome = f"{event}: {counts['readmitted']:,}{rate}"
    return [f"{title} (n = {counts['stays']:,})", f"patients: {counts['patients']:,}", outcome]
