"""Titles of the codes in the diabetes table: its three id columns, and ICD-9-CM diagnoses.

Most rows have diagnosis categories such as 428, which the file of ICD-9-CM titles does not name. A
category gets the words that the titles of its codes share, or a name from `icd9_categories.csv`.
"""

from __future__ import annotations

import csv
import difflib
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from domainbert.tables import TableError, require_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

ENCOUNTERS: Final = "diabetic_data.csv.gz"
ID_TITLES: Final = "IDs_mapping.csv"
DIAGNOSIS_TITLES: Final = "icd9_diagnosis_long_titles.txt"
# How the source writes what it does not know.
MISSING: Final = frozenset(
    {
        "",
        "?",
        "NULL",
        "Not Available",
        "Not Mapped",
        "Unknown/Invalid",
        "PhysicianNotFound",
    }
)
ID_COLUMNS: Final = (
    "admission_type_id",
    "discharge_disposition_id",
    "admission_source_id",
)

# The abbreviations of the mapping file, in lower case, and what a note has instead.
_ID_REWRITES: Final = (
    (r"discharged/transferred(/referred)?(?: (?=another))?", "discharged to "),
    (r"discharged to +(?=to|within)", "discharged "),
    (r"\bsnf\b|skilled nursing facility \(snf\)", "skilled nursing facility"),
    (r"\bicf\b", "intermediate care facility"),
    (r"\bama\b", "against medical advice"),
    (r"rehab fac including.*", "rehabilitation facility"),
    (r"hospital inpt/same fac.*", "the same hospital"),
    (r"critial", "critical"),
    (r"\b(?:hmo|iv)\b", lambda match: match[0].upper()),
    (r"\bmedic(?:are|aid)\b", lambda match: match[0].capitalize()),
    (r" \(cah\)", ""),
)
# Parts of a title that are only for the coder, or about what is unknown.
_BOILERPLATE: Final = re.compile(
    r", type II or unspecified type|,? not (?:stated|specified) as [^,]*"
    r"|,? not elsewhere classified| \[[^]]*\]| without mention of [^,]*"
    r"|, (?:organism |part )?unspecified$"
)
_CODE: Final = re.compile(r"[0-9VE][0-9]{2,4}")
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


@dataclass(frozen=True)
class CodeTitles:
    """Titles of the codes of the table.

    Attributes:
        ids: for each id column, a phrase by id; empty where the id means "unknown".
        diagnoses: ICD-9-CM titles by code or category, without a dot.
    """

    ids: Mapping[str, Mapping[str, str]]
    diagnoses: Mapping[str, str]

    def diagnosis(self, code: str) -> str:
        """The title of an ICD-9-CM code, or of the nearest category above it, or the code."""
        digits, _, decimals = code.strip().upper().partition(".")
        # The source lost leading zeros: 38 is category 038, 8 is 008.
        plain = digits.zfill(3) + decimals
        for length in range(len(plain), _category_length(plain) - 1, -1):
            if title := self.diagnoses.get(plain[:length]):
                return title
        return f"ICD-9 code {code}"


def read_titles(folder: str | Path) -> CodeTitles:
    """Read what the codes mean; `TableError` if a file is missing or holds something else."""
    ids = source_file(folder, ID_TITLES)
    diagnoses = source_file(folder, DIAGNOSIS_TITLES)
    return CodeTitles(_read_ids(ids), _read_diagnoses(diagnoses))


def source_file(folder: str | Path, name: str) -> Path:
    """The path of one of the source's files; `TableError` if it does not exist."""
    folder = Path(folder)
    if (folder / name).is_file():
        return folder / name
    if not folder.is_dir():
        files = f"{ENCOUNTERS}, {ID_TITLES} and {DIAGNOSIS_TITLES}"
        msg = f"{folder}: no such folder; name the one that holds {files}"
        raise TableError(msg)
    file_names = {entry.name.lower(): entry.name for entry in folder.iterdir()}
    near = difflib.get_close_matches(name.lower(), file_names, n=1)
    guess = ""
    if near:
        guess = f"; rename {file_names[near[0]]!r} to that"
    msg = f"{folder} has no file {name!r}{guess}"
    raise TableError(msg)


def _read_ids(path: Path) -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = {}
    table: dict[str, str] = {}
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    for line in text.splitlines():
        key, _, title = (part.strip(' "') for part in line.partition(","))
        if title == "description":
            table = tables.setdefault(key, {})
        elif key.isdigit():
            table[key] = _phrase(title)
    require_columns(tables, ID_COLUMNS, source=path.name)
    return tables


def _phrase(title: str) -> str:
    """The title of an id as a note has it; empty if it means "unknown"."""
    if title in MISSING:
        return ""
    title = title.lower()
    for pattern, plain in _ID_REWRITES:
        title = re.sub(pattern, plain, title)
    return title.rstrip(" .")


def _category_length(code: str) -> int:
    if code.startswith("E"):
        return 4
    return 3


def _read_diagnoses(path: Path) -> dict[str, str]:
    """Titles by code, category (428, V45, E849) and subcategory."""
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    codes: dict[str, str] = {}
    for line in text.replace("\t", " ").splitlines():
        code, _, title = line.partition(" ")
        if _CODE.fullmatch(code) and title.strip():
            codes[code] = title.strip()
    if not codes:
        msg = f"{path.name} has no lines such as '4280  Congestive heart failure, unspecified'"
        raise TableError(msg)
    groups: dict[str, list[str]] = defaultdict(list)
    for code, title in codes.items():
        for length in range(_category_length(code), 5):
            groups[code[:length]].append(title)
    named = {group: _category(titles) for group, titles in groups.items()}
    names_by_hand = Path(__file__).with_name("icd9_categories.csv")
    with names_by_hand.open(encoding="utf-8", newline="") as file:
        named |= {row["code"]: row["title"] for row in csv.DictReader(file)}
    for code, title in codes.items():
        named[code] = _BOILERPLATE.sub("", title)
    return {
        code: " ".join(title.split()) for code, title in named.items() if title
    }


def _category(titles: list[str]) -> str:
    """What the titles of a category share, else its last "unspecified" or "other" title, or ""."""
    heads = {title.split(",")[0] for title in titles}
    if len(heads) == 1:
        return heads.pop()
    vague = [title for title in titles if _VAGUE_TITLE.match(title)]
    if not vague:
        return ""
    title = vague[-1]
    # A list ("ovary, fallopian tube, and ligament") stays whole; otherwise a comma starts a detail.
    if not re.search(r", (?:and|or) ", title):
        title = title.split(",")[0]
    name = _VAGUE_WORDS.sub("", title).strip()
    return name[:1].upper() + name[1:]
