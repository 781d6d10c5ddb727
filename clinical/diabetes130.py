"""Real encounters with real outcomes: the UCI table "Diabetes 130-US hospitals" as a cohort.

The table (Strack et al. 2014, BioMed Research International, CC BY 4.0) has no notes: it has 50
columns an encounter. Each encounter is told here as one short discharge note, which says what the
columns say and nothing else, so that a text model can be trained and judged on real readmissions.
"""

from __future__ import annotations

import difflib
import re
import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from clinical.splits import assign_splits
from domainbert.tables import TableError, require_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pandas as pd

ENCOUNTERS: Final = "diabetic_data.csv.gz"
ID_TITLES: Final = "IDs_mapping.csv"
DIAGNOSIS_TITLES: Final = "icd9_diagnosis_long_titles.txt"
FRACTIONS: Final = MappingProxyType({"train": 0.80, "val": 0.08, "test": 0.12})
DIED_OR_HOSPICE: Final = "died or hospice"

_DIED_OR_HOSPICE_IDS: Final = ("11", "13", "14", "19", "20", "21")
_MISSING: Final = frozenset(
    {"", "?", "NULL", "Not Available", "Not Mapped", "Unknown/Invalid", "PhysicianNotFound"}
)
_IDS: Final = ("admission_type_id", "discharge_disposition_id", "admission_source_id")
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
    *_IDS,
    *_LEGAL,
)


@dataclass(frozen=True)
class CodeTitles:
    """What the numbers and codes of the table mean.

    Attributes:
        ids: for each of the three id columns, a phrase by id; empty where the id means "unknown".
        diagnoses: ICD-9-CM titles by code without its dot, whole categories among them.
    """

    ids: Mapping[str, Mapping[str, str]] = field(repr=False)
    diagnoses: Mapping[str, str] = field(repr=False)

    def diagnosis(self, code: str) -> str:
        """The title of an ICD-9-CM code, or of the nearest category above it, or the code."""
        whole, _, decimals = code.strip().upper().partition(".")
        # The table was once read as numbers: 38 is category 038, 8 is 008.
        plain = whole.zfill(3) + decimals
        for length in range(len(plain), _category_length(plain) - 1, -1):
            if title := self.diagnoses.get(plain[:length]):
                return title
        return f"ICD-9 code {code}"


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
    source = _read_encounters(_file(folder, ENCOUNTERS), titles=titles)
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
    return text not in _MISSING


def _or_null(column: pd.Series) -> pd.Series:
    return column.mask(column.isin(_MISSING))


def _file(folder: str | Path, name: str) -> Path:
    folder = Path(folder)
    path = folder / name
    if path.is_file():
        return path
    if not folder.is_dir():
        files = f"{ENCOUNTERS}, {ID_TITLES} and {DIAGNOSIS_TITLES}"
        msg = f"{folder}: no such folder; name the one that holds {files}"
        raise TableError(msg)
    found = {entry.name.lower(): entry.name for entry in folder.iterdir()}
    near = difflib.get_close_matches(name.lower(), found, n=1)
    guess = f"; rename {found[near[0]]!r} to that" if near else ""
    msg = f"{folder} has no file {name!r}{guess}"
    raise TableError(msg)


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
    legal = {**_LEGAL, **{column: titles.ids[column] for column in _IDS}}
    for column, values in legal.items():
        bad = ~source[column].isin(list(values))
        _refuse(bad, f"{path.name}, {column!r}", legal=f"one of {', '.join(values)}")
    for column in _COUNTS:
        bad = ~source[column].str.fullmatch("[0-9]{1,6}", na=False)
        _refuse(bad, f"{path.name}, {column!r}", legal="a whole number")
    for column in ("encounter_id", "patient_nbr"):
        bad = source[column].isna() | source[column].isin(_MISSING)
        _refuse(bad, f"{path.name}, {column!r}", legal="an id on every row")
    bad = source["encounter_id"].duplicated()
    _refuse(bad, f"{path.name}, 'encounter_id'", legal="each id once")
    return source


def _refuse(bad: pd.Series, where: str, *, legal: str) -> None:
    if bad.any():
        first = int(bad.to_numpy().argmax()) + 2  # the header is line 1
        msg = f"{where}: {int(bad.sum())} rows are wrong, first on line {first}; legal: {legal}"
        raise TableError(msg)


def read_titles(folder: str | Path) -> CodeTitles:
    """Read what the codes mean: the id tables and the ICD-9-CM titles of the folder.

    Raises:
        TableError: a file that is not there, or that does not hold what its name says.
    """
    return CodeTitles(
        ids=_read_ids(_file(folder, ID_TITLES)),
        diagnoses=_read_diagnoses(_file(folder, DIAGNOSIS_TITLES)),
    )


# The mapping file's shorthand, in lower case, and how a note says it.
_ID_REWRITES: Final = (
    (r"discharged/transferred(/referred)?(?: (?=another))?", "discharged to "),
    (r"discharged to +(?=to|within)", "discharged "),
    (r"\bsnf\b|skilled nursing facility \(snf\)", "skilled nursing facility"),
    (r"\bicf\b", "intermediate care facility"),
    (r"\bama\b", "against medical advice"),
    (r"rehab fac including.*", "rehabilitation facility"),
    (r"hospital inpt/same fac.*", "the same hospital"),
    (r"critial", "critical"),
    (r"\b(?:hmo|iv)\b", lambda found: found[0].upper()),
    (r"\bmedic(?:are|aid)\b", lambda found: found[0].capitalize()),
    (r" \(cah\)|[ .]+$", ""),
)


def _read_ids(path: Path) -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = {}
    table: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8-sig", errors="replace").splitlines():
        key, _, title = (part.strip(' "') for part in line.partition(","))
        if title == "description":
            table = tables.setdefault(key, {})
        elif key.isdigit():
            table[key] = _phrase(title) if _known(title) else ""
    require_columns(tables, _IDS, source=path.name)
    return tables


def _phrase(title: str) -> str:
    phrase = title.lower()
    for pattern, plain in _ID_REWRITES:
        phrase = re.sub(pattern, plain, phrase)
    return phrase


# Most rows hold categories, and the file of titles names codes only: the categories whose names
# cannot be had from the titles of their codes (see `_category`).
_CATEGORIES: Final = """
008 Intestinal infection; 009 Ill-defined intestinal infection; 034 Streptococcal sore throat and
scarlet fever; 038 Septicemia; 041 Bacterial infection; 053 Herpes zoster; 054 Herpes simplex; 079
Viral infection; 154 Malignant neoplasm of rectum and anus; 155 Malignant neoplasm of liver; 157
Malignant neoplasm of pancreas; 162 Malignant neoplasm of lung; 172 Malignant melanoma of skin;
174 Malignant neoplasm of breast; 182 Malignant neoplasm of body of uterus; 188 Malignant neoplasm
of bladder; 189 Malignant neoplasm of kidney and urinary organs; 196 Secondary malignant neoplasm
of lymph nodes; 197 Secondary malignant neoplasm of respiratory and digestive systems; 198
Secondary malignant neoplasm of other sites; 199 Malignant neoplasm without specification of site;
202 Malignant neoplasm of lymphoid tissue; 203 Multiple myeloma and immunoproliferative neoplasms;
211 Benign neoplasm of digestive system; 225 Benign neoplasm of brain and nervous system; 227
Benign neoplasm of endocrine glands; 233 Carcinoma in situ of breast and genitourinary system; 235
Neoplasm of uncertain behavior of digestive and respiratory systems; 238 Neoplasm of uncertain
behavior; 239 Neoplasm of unspecified nature; 242 Thyrotoxicosis; 250 Diabetes mellitus; 2503
Diabetes with other coma; 2508 Diabetes with other specified manifestations; 2509 Diabetes with
unspecified complication; 276 Fluid and electrolyte disorders; 278 Overweight and obesity; 287
Purpura and other hemorrhagic conditions; 290 Dementia; 296 Episodic mood disorders; 300 Anxiety
and other nonpsychotic disorders; 305 Nondependent abuse of drugs; 332 Parkinson's disease; 338
Pain; 342 Hemiplegia; 348 Conditions of brain; 386 Vertiginous syndromes; 397 Diseases of
endocardial structures; 398 Rheumatic heart disease; 402 Hypertensive heart disease; 403
Hypertensive chronic kidney disease; 411 Acute and subacute ischemic heart disease; 415 Acute
pulmonary heart disease; 420 Acute pericarditis; 424 Diseases of endocardium and valves; 425
Cardiomyopathy; 433 Occlusion of precerebral arteries; 434 Occlusion of cerebral arteries; 440
Atherosclerosis; 441 Aortic aneurysm and dissection; 444 Arterial embolism and thrombosis; 446
Polyarteritis nodosa and allied conditions; 454 Varicose veins of lower extremities; 455
Hemorrhoids; 456 Varicose veins of other sites; 466 Acute bronchitis and bronchiolitis; 487
Influenza; 494 Bronchiectasis; 507 Pneumonitis due to solids and liquids; 510 Empyema; 511
Pleurisy and pleural effusion; 512 Pneumothorax; 517 Lung involvement in diseases classified
elsewhere; 518 Diseases of lung; 531 Gastric ulcer; 532 Duodenal ulcer; 533 Peptic ulcer; 534
Gastrojejunal ulcer; 535 Gastritis and duodenitis; 540 Acute appendicitis; 550 Inguinal hernia;
552 Hernia with obstruction; 562 Diverticula of intestine; 565 Anal fissure and fistula; 571
Chronic liver disease and cirrhosis; 574 Cholelithiasis; 581 Nephrotic syndrome; 582 Chronic
glomerulonephritis; 583 Nephritis and nephropathy; 590 Kidney infection; 592 Calculus of kidney
and ureter; 604 Orchitis and epididymitis; 617 Endometriosis; 625 Symptoms of female genital
organs; 642 Hypertension complicating pregnancy; 648 Conditions complicating pregnancy; 681
Cellulitis and abscess of finger and toe; 693 Dermatitis due to substance taken internally; 714
Rheumatoid arthritis and inflammatory polyarthropathies; 722 Intervertebral disc disorders; 726
Enthesopathies; 729 Disorders of soft tissues; 730 Osteomyelitis and bone infection; 780 General
symptoms; 781 Symptoms of nervous and musculoskeletal systems; 782 Symptoms of skin; 784 Symptoms
of head and neck; 786 Respiratory and chest symptoms; 787 Symptoms of digestive system; 788
Symptoms of urinary system; 790 Abnormal findings in blood; 794 Abnormal function study; 799
Ill-defined causes of morbidity; 802 Fracture of face bones; 805 Fracture of vertebral column; 807
Fracture of ribs, sternum, larynx, and trachea; 808 Fracture of pelvis; 812 Fracture of humerus;
813 Fracture of radius and ulna; 820 Fracture of neck of femur; 821 Fracture of femur; 822
Fracture of patella; 823 Fracture of tibia and fibula; 825 Fracture of foot bones; 852
Intracranial hemorrhage following injury; 860 Traumatic pneumothorax and hemothorax; 867 Injury to
pelvic organs; 905 Late effects of musculoskeletal injuries; 922 Contusion of trunk; 923 Contusion
of upper limb; 924 Contusion of lower limb; 958 Early complications of trauma; 959 Injury; 962
Poisoning by hormones and synthetic substitutes; 965 Poisoning by analgesics; 969 Poisoning by
psychotropic agents; 995 Adverse effects; 996 Complications of implant, graft, or device; 997
Complications affecting body systems; E849 Place of accident; E878 Surgery as cause of later
complication; E879 Medical procedure as cause of later complication; E942 Cardiovascular agents
causing adverse effects; E944 Water, mineral, and uric acid drugs causing adverse effects; E950
Self-inflicted poisoning; V09 Infection with drug-resistant microorganisms; V10 Personal history
of malignant neoplasm; V12 Personal history of other diseases; V17 Family history of chronic
disease; V43 Organ or tissue replaced by other means; V45 Postprocedural status; V49 Problems
influencing health status; V55 Attention to artificial opening; V56 Encounter for dialysis; V57
Rehabilitation; V64 Procedure not carried out; V85 Body mass index
"""
# What a title says only for the coder, or about what is not known.
_BOILERPLATE: Final = re.compile(
    r", type II or unspecified type|,? not (?:stated|specified) as [^,]*"
    r"|,? not elsewhere classified| \[[^]]*\]| without mention of [^,]*"
    r"|, (?:organism |part )?unspecified$"
)
_VAGUE_TITLE: Final = re.compile(
    r"other|unspecified"
    r"|.*(?:, unspecified|unspecified site|site unspecified|other and unspecified)",
    re.IGNORECASE,
)
_VAGUE_WORDS: Final = re.compile(
    r" (?:of|in|at) (?:other |unspecified |specified |multiple |and )*(?:sites?|parts?)\b"
    r"|\b(?:other and (?:ill-defined|unspecified)|other specified|other|unspecified|part of) ?"
    r"|\bopen (?=fracture|dislocation)| with(?:out)? .*| not elsewhere classified",
    re.IGNORECASE,
)


def _category_length(code: str) -> int:
    return 4 if code.startswith("E") else 3


def _read_diagnoses(path: Path) -> dict[str, str]:
    """Titles by code, and by the categories (428, V45, E849) and subcategories above them."""
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    codes = dict(re.findall(r"(?m)^([0-9VE][0-9]{2,4})\s+(\S.*?)\s*$", text))
    if not codes:
        msg = f"{path.name} has no lines such as '4280  Congestive heart failure, unspecified'"
        raise TableError(msg)
    groups: dict[str, list[str]] = defaultdict(list)
    for code, title in codes.items():
        for length in range(_category_length(code), 5):
            groups[code[:length]].append(title)
    named = {group: _category(titles) for group, titles in groups.items()}
    named |= dict(entry.split(maxsplit=1) for entry in _CATEGORIES.split(";"))
    named |= {code: _BOILERPLATE.sub("", title) for code, title in codes.items()}
    return {code: " ".join(title.split()) for code, title in named.items() if title}


def _category(titles: list[str]) -> str:
    """Name a category by what its codes share, else by its last code for "unspecified" or "other".

    Empty where neither is found: no name is better than a wrong one.
    """
    heads = {title.split(",")[0] for title in titles}
    if len(heads) == 1:
        return heads.pop()
    vague = [title for title in titles if _VAGUE_TITLE.match(title)]
    if not vague:
        return ""
    # A list ("ovary, fallopian tube, and ligament") is one thing; else a comma starts a detail.
    title = vague[-1] if re.search(r", (?:and|or) ", vague[-1]) else vague[-1].split(",")[0]
    name = _VAGUE_WORDS.sub("", title).strip()
    return name[:1].upper() + name[1:]
