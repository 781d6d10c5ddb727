"""A built cohort: a Parquet file with its definition and its flow."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinical.cohort.figure import plot_flow
from clinical.cohort.flow import SUMMARY_KEY
from domainbert.tables import TableError, atomic_path, read_metadata

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


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
        import pandas as pd

        frame = pd.read_parquet(self.path)
        frame["text"] = frame["text"].map(list)
        return frame.astype({"readmitted": "Int8", "age": "Int16"})

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
