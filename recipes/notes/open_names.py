"""Names of diseases and drugs, and abbreviations of neither, from the open lists in `names/`."""

from __future__ import annotations

import gzip
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from recipes.notes.inventories import read_senses
from recipes.notes.sections import real_notes
from recipes.public_data import read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

DISEASE = "Disease"
CHEMICAL = "Chemical"
MAIN_SENSE = 0.7  # share of a sense in real notes from which an abbreviation is read as it
RARE_SENSE = 0.05
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9'-]*")
# Words of senses that name a finding, a disease or a substance although no list has the sense.
_MEDICAL = re.compile(
    r"itis|osis|emia|uria|oma|pathy|plegia|algia|rrhea|pnea|cancer|disease|disorder|syndrome|failure|"
    r"infect|injur|fracture|pain|bleed|hemorrh|block|attack|abuse|deficien|deficit|lesion|mass|edema|"
    r"cyst|ulcer|tumor|murmur|trauma|defect|insufficien|stenosis|abnormal|arrest|accident|fever|stroke|"
    r"hypert|hypot|tachy|brady|depress|anxi|seizure|arrhyth|fibrill|infarct|embol|thromb|distress|"
    r"vitamin|acid|ine\b|ol\b|ide\b|ium\b|ate\b|mycin|cillin|alcohol|insulin|hormone|oxide|oxygen|"
    r"lysis|obstruct|prolapse|dilat|regurg|effusion|disten|elevat|reassur|dislocat|rupture|"
    r"retard|obes|loss|virus|pregnan|premature|contraction|dystro|palsy|sclero"
)
_NO_NAMES = frozenset(
    Path(__file__).with_name("no_names.txt").read_text("utf-8").split()
)
# Substances that notes abbreviate as tests or habits.
_TESTS = "cr hgb bnp chol glu bld crp tob phos glc ca lac alkp urica t4 t3 pcp"
_LABORATORY = frozenset(_TESTS.split())
_LONGEST = 7  # words of a name that is searched for in notes
# The lists of names in `names/`, with the columns that have names.
_LISTS = (
    ("mondo", DISEASE, ("name", "synonyms")),
    ("mesh_diseases", DISEASE, ("name", "synonyms")),
    ("drugbank", CHEMICAL, ("name", "synonyms")),
    ("rxnorm_brands", CHEMICAL, ("ingredient", "brands")),
)


def key(name: str) -> str:
    """A name as lists and notes are compared: case, hyphens and a plural s do not count."""
    words = _WORD.findall(name.replace("-", " ").casefold())
    return " ".join(map(_singular, words))


def _singular(word: str) -> str:
    if len(word) > 4:
        return word.removesuffix("s")
    return word


@cache
def listed(data: Path) -> dict[str, str]:
    """The key of every listed name -> its entity type; names of both types are left out."""
    types: dict[str, set[str]] = defaultdict(set)
    for label, name in names_of(data):
        types[key(name)].add(label)
    return {
        name: labels.pop()
        for name, labels in types.items()
        if name and len(labels) == 1
    }


def names_of(data: Path) -> Iterator[tuple[str, str]]:
    """Entity type and name, as the lists write it, without very long names and abbreviations."""
    for label, name in _names(data / "names"):
        if 3 <= len(name) <= 60 and (len(name) > 4 or not name.isupper()):
            yield label, name


def _names(folder: Path) -> Iterator[tuple[str, str]]:
    for file, label, columns in _LISTS:
        for row in read_rows(folder / f"{file}.csv.gz"):
            for column in columns:
                names = filter(None, row[column].split("|"))
                yield from ((label, name) for name in names)
    phenotypes = folder / "hp_2013-11-30.obo.gz"
    with gzip.open(phenotypes, "rt", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("name: "):
                yield DISEASE, line.removeprefix("name: ").strip()
            elif line.startswith("synonym: ") and " EXACT " in line:
                yield DISEASE, line.split('"')[1].rstrip(".")


def in_real_notes(data: Path) -> dict[str, Counter[str]]:
    """Entity type -> listed names as real notes write them, with how often they do."""
    labels = listed(data)
    counts = {DISEASE: Counter[str](), CHEMICAL: Counter[str]()}
    for text in real_notes(data):
        for phrase in re.split(r"[\n.;:,()]", text):
            for label, name in _names_in(phrase, labels):
                counts[label][name] += 1
    return counts


def _names_in(
    phrase: str, labels: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Type and name of the longest listed names in a phrase, from left to right."""
    words = phrase.split()
    start = 0
    while start < len(words):
        end = min(start + _LONGEST, len(words))
        while end > start:
            name = " ".join(words[start:end])
            if len(name) > 3 and not is_no_name(name):
                label = labels.get(key(name))
                if label:
                    yield label, name
                    break
            end -= 1
        start = max(end, start + 1)


def abbreviations(data: Path) -> tuple[dict[str, list[str]], list[str]]:
    """Abbreviations of real notes: those of diseases and drugs by type, and those of neither.

    An abbreviation is of a type if its main sense is a listed name of that type, and of neither if
    none of its senses is a listed name or reads like a finding or a substance.
    """
    shares_of, spellings_of = _abbreviations_of_notes(data)
    names = listed(data)
    by_type: dict[str, list[str]] = {DISEASE: [], CHEMICAL: []}
    neither: list[str] = []
    for short, shares in shares_of.items():
        forms = [
            form
            for form, _ in spellings_of[short].most_common(2)
            if re.search("[A-Za-z]", form)
        ]
        main_sense = max(shares, key=shares.__getitem__)
        label = names.get(key(main_sense))
        is_main = shares[main_sense] >= MAIN_SENSE
        if (
            label
            and is_main
            and len(short) > 1
            and main_sense not in _NO_NAMES
        ):
            if short not in _LABORATORY:
                by_type[label] += forms
        elif short not in names and not any(
            names.get(key(sense)) or _MEDICAL.search(sense)
            for sense, share in shares.items()
            if share >= RARE_SENSE
        ):
            neither += forms
    return by_type, neither


def _abbreviations_of_notes(
    data: Path,
) -> tuple[dict[str, dict[str, float]], dict[str, Counter[str]]]:
    """Senses with their shares, and spellings with counts, by abbreviation in lower case."""
    shares_of: dict[str, dict[str, float]] = defaultdict(dict)
    spellings_of: dict[str, Counter[str]] = defaultdict(Counter)
    for sense in read_senses(data):
        short = sense.abbreviation.casefold()
        share = 1.0
        spellings: tuple[tuple[str, int], ...] = ((sense.abbreviation, 1),)
        # Shares are read of the inventories that also have spellings.
        if sense.spellings and sense.share is not None:
            share = sense.share
            spellings = sense.spellings
        shares = shares_of[short]
        shares[sense.text] = max(share, shares.get(sense.text, 0.0))
        for form, count in spellings:
            spellings_of[short][form] += count
    return shares_of, spellings_of


def is_no_name(name: str) -> bool:
    """Whether all words of a name are ones that no clinician would call a disease or drug."""
    return set(name.casefold().split()) <= _NO_NAMES
