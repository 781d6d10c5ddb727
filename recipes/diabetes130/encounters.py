"""The UCI table "Diabetes 130-US hospitals" as a cohort with real outcomes.

The table (Strack et al. 2014, BioMed Research International, CC BY 4.0) has no notes but 50 columns
for each encounter. Here each encounter becomes one short discharge note that says what the columns
say, so that a text model can be trained and tested on real readmissions.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from clinical.stays.patients import assign_splits
from domainbert.tables import (
    TableError,
    read_table,
    require_columns,
    table_columns,
)
from recipes.diabetes130 import icd9
from recipes.diabetes130.icd9 import ID_COLUMNS, MISSING, CodeTitles

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pandas as pd

FRACTIONS: Final = MappingProxyType({"train": 0.80, "val": 0.08, "test": 0.12})
DIED_OR_HOSPICE: Final = "died or hospice"

_GROUPS: Final = {
    "age": "age", "sex": "gender", "ethnicity": "race", "insurance": "payer_code",
}  # fmt: skip
_DIED_OR_HOSPICE_IDS: Final = ("11", "13", "14", "19", "20", "21")
_COUNTS: Final = (
    "number_inpatient",
    "number_emergency",
    "number_outpatient",
    "number_diagnoses",
    "time_in_hospital",
    "num_procedures",
    "num_lab_procedures",
    "num_medications",
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
_AGES: Final = {
    f"[{n}0-{n + 1}0)": name
    for n, name in enumerate(_DECADES.split(), start=1)
}
_PEOPLE: Final = {"Female": ("Woman", "her"), "Male": ("Man", "his")}
_RACES: Final = {"AfricanAmerican": "African American", "Other": "other race"}
# The source does not explain its payer codes; these are obvious, the others stay codes.
_PAYERS: Final = {
    "MC": "Medicare", "MD": "Medicaid", "HM": "HMO", "BC": "Blue Cross", "SP": "self-pay",
    "WC": "workers' compensation",
}  # fmt: skip
_A1C: Final = {
    ">7": "seven to eight percent",
    ">8": "above eight percent",
    "Norm": "normal",
}
_GLUCOSE: Final = {">200": "above 200", ">300": "above 300", "Norm": "normal"}
_DOSES: Final = {"Up": "raised", "Down": "lowered", "Steady": "unchanged"}
# The values of each column; the mapping file has those of the id columns.
_KNOWN: Final[Mapping[str, Collection[str]]] = {
    "age": ("[0-10)", *_AGES),
    "gender": (*_PEOPLE, "Unknown/Invalid"),
    "A1Cresult": (*_A1C, "None"),
    "max_glu_serum": (*_GLUCOSE, "None"),
    "change": ("Ch", "No"),
    "readmitted": ("<30", ">30", "NO"),
    **dict.fromkeys(_DRUGS, (*_DOSES, "No")),
}
_COLUMNS: Final = (
    "encounter_id",
    "patient_nbr",
    "race",
    "payer_code",
    "medical_specialty",
    "diag_1",
    "diag_2",
    "diag_3",
    *_COUNTS,
    *ID_COLUMNS,
    *_KNOWN,
)


def build_diabetes130(folder: str | Path, *, seed: int = 0) -> pd.DataFrame:
    """Turn the folder with the three source files into a cohort table.

    Every encounter of the source is a row, in its order. Encounters that ended in death or hospice
    cannot be followed by a readmission: they have an `exclusion` and no `split`. The others are
    split by patient, according to `seed`. The source has no dates, so the times and
    `days_to_readmission` are null. `age` is a band such as `[70-80)`, `insurance` a payer code;
    `age_from` is where the band starts, and the counts of the source are columns too.

    Raises:
        TableError: a missing file or column, or an unknown value.
    """
    import pandas as pd

    titles = icd9.read_titles(folder)
    file = icd9.source_file(folder, icd9.ENCOUNTERS)
    source = _read_encounters(file, titles=titles)
    patients = source["patient_nbr"]
    excluded = source["discharge_disposition_id"].isin(_DIED_OR_HOSPICE_IDS)
    sides = assign_splits(patients, seed=seed, fractions=FRACTIONS)
    records = source.to_dict("records")
    exclusion = pd.Series(DIED_OR_HOSPICE, index=source.index)
    cohort = {
        "patient_id": patients,
        "stay_id": source["encounter_id"],
        "admit_time": pd.NaT,
        "discharge_time": pd.NaT,
        "text": [[narrate(row, titles=titles)] for row in records],
        "readmitted": source["readmitted"].eq("<30").astype("int64"),
        "days_to_readmission": float("nan"),
        "split": pd.Series(sides, dtype="str").mask(excluded),
        "exclusion": exclusion.where(excluded),
    }
    for name, column in _GROUPS.items():
        cohort[name] = source[column].mask(source[column].isin(MISSING))
    first_age = source["age"].str.extract(r"(\d+)", expand=False)
    cohort["age_from"] = first_age.astype("int64")
    for name in _COUNTS:
        cohort[name] = source[name].astype("int64")
    return pd.DataFrame(cohort)


def narrate(row: Mapping[str, str], *, titles: CodeTitles) -> str:
    """Write one encounter, a row of the source as text, as a short discharge note.

    It has up to six short paragraphs, one per line, without what the source does not know.
    """
    ids = {
        column: titles.ids[column].get(row[column], "")
        for column in ID_COLUMNS
    }
    paragraphs = [
        _person(row),
        _admission(row, ids["admission_type_id"], ids["admission_source_id"]),
        _course(row),
        _diagnoses(row, titles),
        _drugs(row),
    ]
    disposition = ids["discharge_disposition_id"]
    if disposition:
        paragraphs.append(f"Disposition: {disposition}.")
    return "\n".join(filter(None, paragraphs))


def _person(row: Mapping[str, str]) -> str:
    noun, pronoun = _PEOPLE.get(row["gender"], ("Patient", "the"))
    age = "under ten years old"
    if row["age"] in _AGES:
        age = f"in {pronoun} {_AGES[row['age']]}"
    race = ""
    if _known(row["race"]):
        race = f", {_RACES.get(row['race'], row['race'])}"
    inpatient = _count(row["number_inpatient"], "inpatient stay")
    emergency = _count(row["number_emergency"], "emergency visit")
    outpatient = _count(row["number_outpatient"], "outpatient visit")
    return f"{noun} {age}{race}. In the year before: {inpatient}, {emergency}, {outpatient}."


def _admission(
    row: Mapping[str, str], admission_type: str, source: str
) -> str:
    if source == "emergency room":
        source = f"from {source}"
    parts = [admission_type, source]
    specialty = _specialty(row["medical_specialty"])
    if specialty:
        parts.append(f"under {specialty}")
    payer = row["payer_code"]
    if _known(payer):
        parts.append(f"payer {_PAYERS.get(payer, payer)}")
    description = ", ".join(filter(None, parts))
    if not description:
        return ""
    return f"Admission: {description}."


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
    if row["A1Cresult"] in _A1C:
        parts.append(f"A1C {_A1C[row['A1Cresult']]}")
    if row["max_glu_serum"] in _GLUCOSE:
        parts.append(f"glucose {_GLUCOSE[row['max_glu_serum']]}")
    return f"Course: {', '.join(parts)}."


def _diagnoses(row: Mapping[str, str], titles: CodeTitles) -> str:
    number = _count(row["number_diagnoses"], "diagnosis", plural="diagnoses")
    description = f"{number.capitalize()}."
    if _known(row["diag_1"]):
        principal = titles.diagnosis(row["diag_1"])
        description = f"Principal of {number}: {principal}."
    secondary_codes = filter(_known, (row["diag_2"], row["diag_3"]))
    secondary = "; ".join(map(titles.diagnosis, secondary_codes))
    if secondary:
        description += f" Secondary: {secondary}."
    return description


def _drugs(row: Mapping[str, str]) -> str:
    doses = [
        f"{drug} {_DOSES[row[drug]]}" for drug in _DRUGS if row[drug] in _DOSES
    ]
    if not doses:
        return "Diabetes drugs: none."
    change = "changed" if row["change"] == "Ch" else "not changed"
    return f"Diabetes drugs: {', '.join(doses)}; treatment {change}."


def _count(text: str, noun: str, *, plural: str = "") -> str:
    """`3, stay` -> `three stays`: bags of words drop single digits, so small numbers are words."""
    number = int(text)
    words = str(number)
    if number < len(_NUMBERS):
        words = _NUMBERS[number]
    if number != 1:
        noun = plural or f"{noun}s"
    return f"{words} {noun}"


def _known(text: str) -> bool:
    return text not in MISSING


def _read_encounters(path: Path, *, titles: CodeTitles) -> pd.DataFrame:
    """Read the table, every column as strings, and check every value."""
    require_columns(table_columns(path), _COLUMNS, source=path.name)
    source = read_table(path, columns=_COLUMNS).fillna("")

    def check(column: str, bad: pd.Series, expected: str) -> None:
        if bad.any():
            first = int(bad.to_numpy().argmax()) + 2  # the header is line 1
            msg = (
                f"{path.name}, {column!r}: {int(bad.sum())} rows are wrong, first on line {first}; "
                f"expected {expected}"
            )
            raise TableError(msg)

    known_values = {
        **_KNOWN,
        **{column: titles.ids[column] for column in ID_COLUMNS},
    }
    for column, values in known_values.items():
        check(
            column,
            ~source[column].isin(list(values)),
            f"one of {', '.join(values)}",
        )
    for column in _COUNTS:
        check(
            column,
            ~source[column].str.fullmatch("[0-9]{1,6}"),
            "a whole number",
        )
    for column in ("encounter_id", "patient_nbr"):
        check(column, source[column].isin(MISSING), "an id on every row")
    check("encounter_id", source["encounter_id"].duplicated(), "each id once")
    return source
