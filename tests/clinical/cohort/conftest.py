"""A hospital written by hand: stays in days since a first day, tables as MIMIC-III has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from clinical.cohort.build import build_cohort
from clinical.cohort.result import issues_path

START = datetime(2100, 1, 1)


def moment(day: float | str) -> str:
    """Days since the first one as text; text stays as it is."""
    if isinstance(day, str):
        return day
    return (START + timedelta(days=day)).isoformat(sep=" ")


@dataclass
class Hospital:
    """Collects rows, writes them as CSV and builds the cohort."""

    folder: Path
    admissions: list[dict] = field(default_factory=list)
    notes: list[dict] = field(default_factory=list)
    patients: list[dict] = field(default_factory=list)
    current: str = "7"  # whose the next rows are

    def cases(self, table: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """The cases of a table; the rows of each are of a patient of its own.

        Building a cohort once for all cases takes less time than once for each.
        """
        for number, (case, values) in enumerate(table.items(), start=1000):
            self.current = str(number)
            yield case, values

    def stay(
        self,
        admit,
        discharge,
        *,
        patient=None,
        kind="EMERGENCY",
        id=None,
        **columns,
    ) -> str:
        id = str(100 + len(self.admissions)) if id is None else id
        self.admissions.append(
            {
                "SUBJECT_ID": self.current if patient is None else patient,
                "HADM_ID": id,
                "ADMITTIME": moment(admit),
                "DISCHTIME": moment(discharge),
                "DEATHTIME": "",
                "ADMISSION_TYPE": kind,
                "DISCHARGE_LOCATION": "HOME",
                "INSURANCE": "Medicare",
                "ETHNICITY": "WHITE",
                "HOSPITAL_EXPIRE_FLAG": "0",
            }
            | columns
        )
        return id

    def note(
        self,
        stay,
        text,
        *,
        category="Discharge summary",
        day="",
        at="",
        **columns,
    ) -> None:
        self.notes.append(
            {
                "ROW_ID": str(len(self.notes) + 1),
                "SUBJECT_ID": self.current,
                "HADM_ID": stay,
                "CHARTDATE": moment(day)[:10],
                "CHARTTIME": moment(at),
                "CATEGORY": category,
                "DESCRIPTION": "Report",
                "ISERROR": "",
                "TEXT": text,
            }
            | columns
        )

    def patient(
        self, id=None, *, born="2050-06-15 00:00:00", died="", sex="F"
    ) -> None:
        id = self.current if id is None else id
        self.patients.append(
            {"SUBJECT_ID": id, "GENDER": sex, "DOB": born, "DOD": moment(died)}
        )

    def write(self) -> Path:
        self.folder.mkdir(exist_ok=True)
        for name, rows in self.tables().items():
            pd.DataFrame(rows).to_csv(self.folder / f"{name}.csv", index=False)
        return self.folder

    def tables(self) -> dict[str, list[dict]]:
        tables = {
            "ADMISSIONS": self.admissions,
            "NOTEEVENTS": self.notes,
            "PATIENTS": self.patients,
        }
        return {name: rows for name, rows in tables.items() if rows}

    def build(self, **options):
        return build_cohort(self.write(), **options)

    def rows(self, **options) -> dict[str, dict]:
        """The cohort's rows by stay id."""
        return by_stay(self.build(**options))


def list_issues(cohort) -> pd.DataFrame:
    """Every faulty row of the source: `source, row, id, problem`."""
    types = {"source": str, "row": "Int64", "id": str, "problem": str}
    path = issues_path(cohort.path)
    frame = pd.read_csv(
        path, dtype=types, keep_default_na=False, na_values={"row": [""]}
    )
    # The file has an apostrophe before an id that a spreadsheet would run as a formula.
    frame["id"] = frame["id"].str.replace("^'(?=[=+@-])", "", regex=True)
    return frame


def by_stay(cohort) -> dict[str, dict]:
    frame = cohort.to_frame().astype(object)
    rows = frame.where(frame.notna(), None).to_dict("records")
    return {row["stay_id"]: row for row in rows}


@pytest.fixture
def hospital(tmp_path) -> Hospital:
    return Hospital(tmp_path / "hospital")


@pytest.fixture
def define(tmp_path):
    """Write a definition: the shipped one with some lines changed."""
    from clinical.cohort.definition import load_definition

    def write(**changes) -> Path:
        text = load_definition().text
        for key, value in changes.items():
            rule = rf"(?m)^(?:# )?{key} = (?:\[[^]]*\]|.*)$"
            text, count = re.subn(rule, f"{key} = {value}", text)
            assert count == 1
        path = tmp_path / "definition.toml"
        path.write_text(text)
        return path

    return write
