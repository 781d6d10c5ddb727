"""Notes of a made-up hospital, for benchmarks that need texts."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd

from clinical.datasets.hospital import synthesize

SUMMARY = "Discharge summary"


def made_up_notes(
    stays: int,
    *,
    seed: int,
    brief: bool = False,
) -> pd.DataFrame:
    """The notes of a made-up hospital, with the columns CATEGORY and TEXT."""
    with tempfile.TemporaryDirectory() as folder:
        synthesize(
            folder,
            stays=stays,
            seed=seed,
            brief=brief,
        )
        path = Path(folder) / "NOTEEVENTS.csv"
        return pd.read_csv(path, usecols=["CATEGORY", "TEXT"])


def discharge_summaries(
    count: int,
    *,
    stays: int,
    seed: int,
    brief: bool = False,
) -> list[str]:
    """The first discharge summaries of a made-up hospital of so many stays."""
    notes = made_up_notes(stays, seed=seed, brief=brief)
    is_summary = notes["CATEGORY"] == SUMMARY
    return notes.loc[is_summary, "TEXT"].tolist()[:count]
