"""Real encounters with real outcomes: the UCI table "Diabetes 130-US hospitals" as a cohort.

The table (Strack et al. 2014, BioMed Research International, CC BY 4.0) has no notes: it has 50
columns an encounter. Each encounter is told here as one short discharge note, which says what the
columns say and nothing else, so that a text model can be trained and judged on real readmissions.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from clinical.cohort.splits import assign_splits
from clinical.datasets.icd9 import (
    DIAGNOSIS_TITLES,
    ENCOUNTERS,
    ID_COLUMNS,
    ID_TITLES,
    MISSING,
    CodeTitles,
    read_titles,
    source_file,
)
from domainbert.tables import TableError, require_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pandas as pd

__all__ = [
    "DIAGNOSIS_TITLES",
    "DIED_OR_HOSPICE",
    "ENCOUNTERS",
    "FRACTIONS",
    "ID_TITLES",
    "CodeTitles",
    "build_diabetes130",
    "narrate",
    "read_titles",
]

FRACTIONS: Final = MappingProxyType({"train": 0.80, "val": 0.08, "test": 0.12})
DIED_OR_HOSPICE: Final = "died or hospice"

_DIED_OR_HOSPICE_IDS: Final = ("11", "13", "14", "19", "20", "21")
_COUNTS: Final = (
    *("number_inpatient", "number_emergency", "number_outpatient", "number_diagnoses"),
    *("time_in_hospital", "num_procedures", "num_lab_procedures", "num_medications"),
)
_DRUG_NAMES: Final = (
    "insulin metformin repaglinide nateglinide chlorpropamide glimepiride acetohexamide glipizide "
    "glyburide tolbutamide pioglitazone rosiglitazone acarbose miglitol troglitazone tolazamide "
    "examide citoglipton glyburide-metformin glipizide-metformin glimepiride-pioglitazone "
    "metformin-rosiglitazone metformin-pioglitazone"
)
_DRUGS: Final = tuple(_DRUG_NAMES.split())

_NUMBER_WORDS: Final = "no one two three four five six seven eight nine ten"
_NUMBERS: Final = tuple(_NUMBER_WORDS.split())
_DECADES: Final = "teens twenties thirties forties fifties sixties seventies eighties nineties"
_AGES: Final = {f"[{n}0-{n + 1}0)": name for n, name in enumerate(_DECADES.split(), start=1)}
_PEOPLE: Final = {"Female": ("Woman", "her"), "Male": ("Man", "his")}
_RACES: Final = {"AfricanAmerican": "African American", "Other": "other race"}
# The source publishes no list of its payer codes; these can be read, the others stay codes.
_PAYERS: Final = {
    "MC": "Medicare",
    "MD": "Medicaid",
    "HM": "HMO",
    "BC": "Blue Cross",
    "SP": "self-pay",
    "WC": "workers' compensation",
}
_A1C: Final = {">7": "seven to eight percent", ">8": "above eight percent", "Norm": "normal"}
_GLUCOSE: Final = {">200": "above 200", ">300": "above 300", "Norm": "normal"}
_DOSES: Final = {"Up": "raised", "Down": "lowered", "Steady": "unchanged"}
# What a column may hold; an id may be any that the mapping file has.
_LEGAL: Final[Mapping[str, Collection[str]]] = {
    "age": ("[0-10)", *_AGES),
    "gender": (*_PEOPLE, "Unknown/Invalid"),
    "A1Cresult": (*_A1C, "None"),
    "max_glu_serum": (*_GLUCOSE, "None"),
    "change": ("Ch", "No"),
    "readmitted": ("<30", ">30", "NO"),
    **dict.fromkeys(_DRUGS, (*_DOSES, "No")),
}
_COLUMNS: Final = (
    *("encounter_id", "patient_nbr", "race", "payer_code", "medical_specialty"),
    *("diag_1", "diag_2", "diag_3"),
    *_COUNTS,
    *ID_COLUMNS,
    *_LEGAL,
)


def build_diabetes130(folder: str | Path, *, seed: int = 0) -> pd.DataFrame:
    """Turn the source folder into a cohort table.

    Every encounter of the source is a row. Those that ended in death or hospice cannot be
    readmitted: they keep their row, with `exclusion` set and no `split`. The others are split by
    patient. The source has no dates, so the times and `days_to_readmission` are null.

    Args:
        folder: where the three files of the source lie.
        seed: of the split.

    Returns:
        The cohort table, one row an encounter, in the order of the source; `age` is the source's
        band such as `[70-80)`, `insurance` its payer code.

    Raises:
        TableError: a file or a column that is not there, or a value that cannot be told.
    """
    import pandas as pd

    titles = read_titles(folder)
    source = _read_encounters(source_file(folder, ENCOUNTERS), titles=titles)
    excluded = source["discharge_disposition_id"].isin(_DIED_OR_HOSPICE_IDS)
    sides = assign_splits(source["patient_nbr"], seed=seed, fractions=FRACTIONS)
    notes = [[narrate(row, titles=titles)] for row in source.to_dict("records")]
    unknown_time = pd.Series(pd.NaT, index=source.index, dtype="datetime64[ns]")
    return pd.DataFrame(
        {
            "patient_id": source["patient_nbr"],
            "stay_id": source["encounter_id"],
            "admit_time": unknown_time,
            "discharge_time": unknown_time,
            "text": pd.Series(notes, index=source.index, dtype=object),
            "readmitted": source["readmitted"].eq("<30").astype("int64"),
            "days_to_readmission": pd.Series(float("nan"), index=source.index, dtype="float64"),
            "split": pd.Series(sides, index=source.index, dtype="str").mask(excluded),
            "exclusion": pd.Series(DIED_OR_HOSPICE, index=source.index).where(excluded),
            "age": _or_null(source["age"]),
            "sex": _or_null(source["gender"]),
            "ethnicity": _or_null(source["race"]),
            "insurance": _or_null(source["payer_code"]),
        }
    )


def narrate(row: Mapping[str, str], *, titles: CodeTitles) -> str:
    """Tell one encounter as a short discharge note.

    Args:
        row: the source's columns of one encounter, all as strings.
        titles: what its codes mean.

    Returns:
        Up to six short paragraphs, one a line. What the source does not know is left out.
    """
    paragraphs = (
        f"{_person(row)} {_visits(row)}",
        _admission(row, titles=titles),
        _course(row),
        _diagnoses(row, titles=titles),
        _drugs(row),
        _disposition(row, titles=titles),
    )
    return "\n".join(paragraph for paragraph in paragraphs if paragraph)


def _person(row: Mapping[str, str]) -> str:
    noun, pronoun = _PEOPLE.get(row["gender"], ("Patient", "the"))
    decade = _AGES.get(row["age"])
    age = f"in {pronoun} {decade}" if decade else "under ten years old"
    race = _RACES.get(row["race"], row["race"])
    return f"{noun} {age}, {race}." if _known(race) else f"{noun} {age}."


def _visits(row: Mapping[str, str]) -> str:
    inpatient = _count(row["number_inpatient"], "inpatient stay")
    emergency = _count(row["number_emergency"], "emergency visit")
    outpatient = _count(row["number_outpatient"], "outpatient visit")
    return f"In the year before: {inpatient}, {emergency}, {outpatient}."


def _admission(row: Mapping[str, str], *, titles: CodeTitles) -> str:
    kind = titles.ids["admission_type_id"].get(row["admission_type_id"], "")
    source = titles.ids["admission_source_id"].get(row["admission_source_id"], "")
    specialty, payer = _specialty(row["medical_specialty"]), row["payer_code"]
    parts = (
        kind,
        f"from {source}" if source == "emergency room" else source,
        f"under {specialty}" if specialty else "",
        f"payer {_PAYERS.get(payer, payer)}" if _known(payer) else "",
    )
    told = ", ".join(part for part in parts if part)
    return f"Admission: {told}." if told else ""


def _specialty(name: str) -> str:
    """`Surgery-Cardiovascular/Thoracic` -> `cardiovascular and thoracic surgery`."""
    if not _known(name):
        return ""
    if name.startswith("Surgery-"):
        name = f"{name.removeprefix('Surgery-')} surgery"
    spaced = re.sub(r"[/&]", " and ", name).replace("-", " ")
    spaced = re.sub(r"(?<=[a-z])(and|within)(?=[A-Z])", r" \1 ", spaced)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", spaced).lower()


def _course(row: Mapping[str, str]) -> str:
    parts = [
        _count(row["time_in_hospital"], "day") + " in hospital",
        _count(row["num_procedures"], "procedure"),
        _count(row["num_lab_procedures"], "lab test"),
        _count(row["num_medications"], "medication"),
    ]
    if a1c := _A1C.get(row["A1Cresult"]):
        parts.append(f"A1C {a1c}")
    if glucose := _GLUCOSE.get(row["max_glu_serum"]):
        parts.append(f"glucose {glucose}")
    return f"Course: {', '.join(parts)}."


def _diagnoses(row: Mapping[str, str], *, titles: CodeTitles) -> str:
    first, *others = (
        titles.diagnosis(row[name]) if _known(row[name]) else ""
        for name in ("diag_1", "diag_2", "diag_3")
    )
    number = _count(row["number_diagnoses"], "diagnosis", plural="diagnoses")
    secondary = "; ".join(title for title in others if title)
    told = f"Principal of {number}: {first}." if first else f"{number.capitalize()}."
    return f"{told} Secondary: {secondary}." if secondary else told


def _drugs(row: Mapping[str, str]) -> str:
    doses = [f"{drug} {_DOSES[row[drug]]}" for drug in _DRUGS if row[drug] in _DOSES]
    if not doses:
        return "Diabetes drugs: none."
    change = "changed" if row["change"] == "Ch" else "not changed"
    return f"Diabetes drugs: {', '.join(doses)}; treatment {change}."


def _disposition(row: Mapping[str, str], *, titles: CodeTitles) -> str:
    phrase = titles.ids["discharge_disposition_id"].get(row["discharge_disposition_id"], "")
    return f"Disposition: {phrase}." if phrase else ""


def _count(text: str, noun: str, *, plural: str = "") -> str:
    """`3, stay` -> `three stays`: bags of words drop single digits, so ten and less are words."""
    number = int(text)
    words = _NUMBERS[number] if number < len(_NUMBERS) else str(number)
    return f"{words} {noun if number == 1 else plural or noun + 's'}"


def _known(text: str) -> bool:
    return text not in MISSING


def _or_null(column: pd.Series) -> pd.Series:
    return column.mask(column.isin(MISSING))


def _read_encounters(path: Path, *, titles: CodeTitles) -> pd.DataFrame:
    """Read the table, every column as strings, and check it whole before anything is told."""
    import pandas as pd

    try:
        # Here "None" is a word (test not done), so nothing may be read as NaN.
        source = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        # The parser's own message may quote the row: it stays unsaid.
        msg = f"{path.name} cannot be read as CSV ({type(error).__name__})"
        raise TableError(msg) from None
    require_columns(source.columns, _COLUMNS, source=path.name)
    legal = {**_LEGAL, **{column: titles.ids[column] for column in ID_COLUMNS}}
    for column, values in legal.items():
        bad = ~source[column].isin(list(values))
        _refuse(bad, f"{path.name}, {column!r}", legal=f"one of {', '.join(values)}")
    for column in _COUNTS:
        bad = ~source[column].str.fullmatch("[0-9]{1,6}", na=False)
        _refuse(bad, f"{path.name}, {column!r}", legal="a whole number")
    for column in ("encounter_id", "patient_nbr"):
        bad = source[column].isna() | source[column].isin(MISSING)
        _refuse(bad, f"{path.name}, {column!r}", legal="an id on every row")
    bad = source["encounter_id"].duplicated()
    _refuse(bad, f"{path.name}, 'encounter_id'", legal="each id once")
    return source


def _refuse(bad: pd.Series, where: str, *, legal: str) -> None:
    if bad.any():
        first = int(bad.to_numpy().argmax()) + 2  # the header is line 1
        msg = f"{where}: {int(bad.sum())} rows are wrong, first on line {first}; legal: {legal}"
        raise TableError(msg)
