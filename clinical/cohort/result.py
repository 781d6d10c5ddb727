"""A built cohort: what each rule removed, what a reader should know, and the file that has both."""

from __future__ import annotations

import glob
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from clinical.cohort.definition import SHIPPED
from clinical.cohort.source import step
from clinical.stays.cohorts import SUMMARY_KEY, read_stays
from domainbert.errors import UserError
from domainbert.files import JsonObject, write_json
from domainbert.tables import TableError
from domainbert.tables.frames import read_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from clinical.cohort.reader import Request

_DEFINITION = ("name", "version", "sha256", "label", "horizon_days", "event")


@dataclass(frozen=True, eq=False, repr=False)
class Cohort:
    """A labelled cohort on disk, every admission of the source in it.

    Attributes:
        path: the Parquet file.
        flow: `step, reason, removed, left`: one row for the input and one for each rule in order;
            `removed` and the last `left` add up to the input.
        issues: `source, problem, count, examples`: what was wrong with rows of the source, and up
            to three ids or rows; `NAME.issues.csv`, beside the file, lists each of them.
        n_admissions: rows of the table of admissions.
        n_stays: stays kept.
        n_patients: patients of the stays kept.
        n_readmitted: stays kept that were followed by an unplanned return within the horizon.
        caveats: what a reader of results on this cohort should know.
        summary: all of this as one dictionary, as `save_flow_json` writes it.
    """

    path: Path
    flow: pd.DataFrame
    issues: pd.DataFrame
    n_admissions: int
    n_stays: int
    n_patients: int
    n_readmitted: int
    caveats: tuple[str, ...]
    summary: JsonObject
    _keep: object = None

    @classmethod
    def open(cls, path: str | Path, *, keep: object = None) -> Cohort:
        """Open a cohort that `build_cohort` wrote; `keep` must live as long as the result.

        Raises:
            TableError: a file that `build_cohort` did not write.
        """
        metadata = read_metadata(path)
        if SUMMARY_KEY not in metadata:
            raise TableError(
                f"{path} was not written by build_cohort: it carries no flow"
            )
        summary = json.loads(metadata[SUMMARY_KEY])
        kept = summary["kept"]
        return cls(
            path=Path(path),
            flow=pd.DataFrame(summary["steps"]).drop(columns="box"),
            issues=pd.DataFrame(
                summary["issues"],
                columns=["source", "problem", "count", "examples"],
            ),
            n_admissions=summary["steps"][0]["left"],
            n_stays=kept["stays"],
            n_patients=kept["patients"],
            n_readmitted=kept["readmitted"],
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

        with duckdb.connect() as con:
            return con.execute(
                step("labels"),
                {
                    "path": glob.escape(str(self.path)),
                    "hours": self.summary["hours"],
                },
            ).df()

    def save_flow_json(self, path: str | Path) -> None:
        """Write the flow, the counts, the issues and the caveats as JSON."""
        write_json(self.summary, Path(path))

    def flow_svg(self) -> str:
        """The flow as a figure: `Path("flow.svg").write_text(cohort.flow_svg())`."""
        from jinja2 import Template

        text = (SHIPPED / "flow.svg.j2").read_text("utf-8")
        template = Template(
            text, autoescape=True, trim_blocks=True, lstrip_blocks=True
        )
        return template.render(self.summary)

    _repr_svg_ = flow_svg  # in a notebook

    def __repr__(self) -> str:
        """The counts; the caveats are an attribute."""
        return (
            f"Cohort({self.n_admissions:,} admissions; kept: {self.n_stays:,} stays of "
            f"{self.n_patients:,} patients, {self.n_readmitted:,} readmitted)"
        )


def meds_labels(stays: pd.DataFrame) -> pd.DataFrame:
    """`Cohort.labels` as MEDS labels: `subject_id`, `prediction_time`, `boolean_value`."""
    labels = stays.assign(subject_id=whole_ids(stays["patient_id"]))
    return labels[
        ["subject_id", "prediction_time", "boolean_value"]
    ].reset_index(drop=True)


def whole_ids(ids: pd.Series) -> pd.Series:
    """Ids as whole numbers.

    Raises:
        UserError: an id is something else.
    """
    wrong = ids[~ids.astype(str).str.fullmatch(r"-?\d{1,18}")]
    if len(wrong):
        raise UserError(
            f"{len(wrong)} of {len(ids)} ids in {ids.name} are not whole numbers, as MEDS and OMOP "
            "want them; number the patients, or use `form='fhir'`"
        )
    return ids.astype("int64")


def issues_path(path: str | Path) -> Path:
    """The list of faulty rows of a cohort: `NAME.issues.csv` beside `NAME.parquet`."""
    return Path(path).with_suffix(".issues.csv")


def summarise(
    con: duckdb.DuckDBPyConnection,
    request: Request,
    facts: Mapping[str, Any],
) -> JsonObject:
    """The request, the flow, the counts and further facts of a build, as one dictionary."""
    for name in ("flow", "followed", "incidence"):
        con.execute(step(name))
    ((counts,),) = con.execute(step("summary")).fetchall()
    return {
        "schema": request.schema.name,
        "exact_ids": request.schema.exact_ids,
        "notes": request.notes,
        "hours": request.hours,
        "seed": request.seed,
        "split_by": request.split_by,
        "definition": {
            name: getattr(request.definition, name) for name in _DEFINITION
        },
        **json.loads(counts),
        **facts,
    }
