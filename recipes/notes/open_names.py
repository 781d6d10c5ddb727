"""Names of diseases and drugs, and abbreviations of neither, from the open lists in `names/`."""

from __future__ import annotations

import gzip
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from domainbert.errors import UserError
from recipes.notes.sections import read_rows, real_notes

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
_LABORATORY = frozenset(
    "cr hgb bnp chol glu bld crp tob phos glc ca lac alkp urica t4 t3 pcp".split()  # noqa: SIM905
)
_LONGEST = 7  # words of a name that is searched for in notes


def key(name: str) -> str:
    """A name as lists and notes are compared: case, hyphens and a plural s do not count."""
    words = _WORD.findall(name.replace("-", " ").casefold())
    return " ".join(
        word[:-1] if len(word) > 4 and word.endswith("s") else word
        for word in words
    )


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
    for file, label, columns in (
        ("mondo", DISEASE, ("name", "synonyms")),
        ("mesh_diseases", DISEASE, ("name", "synonyms")),
        ("drugbank", CHEMICAL, ("name", "synonyms")),
        ("rxnorm_brands", CHEMICAL, ("ingredient", "brands")),
    ):
        for row in read_rows(folder / f"{file}.csv.gz"):
            for column in columns:
                yield from (
                    (label, name) for name in row[column].split("|") if name
                )
    with gzip.open(
        folder / "hp_2013-11-30.obo.gz", "rt", encoding="utf-8"
    ) as lines:
        for line in lines:
            if line.startswith("name: "):
                yield DISEASE, line[6:].strip()
            elif line.startswith("synonym: ") and " EXACT " in line:
                yield DISEASE, line.split('"')[1].rstrip(".")


def in_real_notes(data: Path) -> dict[str, Counter[str]]:
    """Entity type -> listed names as real notes write them, with how often they do."""
    names = listed(data)
    counts = {DISEASE: Counter[str](), CHEMICAL: Counter[str]()}
    for text in real_notes(data):
        for line in re.split(r"[\n.;:,()]", text):
            words = line.split()
            at = 0
            while at < len(words):
                for size in range(min(_LONGEST, len(words) - at), 0, -1):
                    name = " ".join(words[at : at + size])
                    label = names.get(key(name)) if len(name) > 3 else None
                    if label and not is_no_name(name):
                        counts[label][name] += 1
                        at += size - 1
                        break
                at += 1
    return counts


def abbreviations(data: Path) -> tuple[dict[str, list[str]], list[str]]:
    """Abbreviations of real notes: those of diseases and drugs by type, and those of neither.

    An abbreviation is of a type if its main sense is a listed name of that type, and of neither if
    none of its senses is a listed name or reads like a finding or a substance.
    """
    senses: dict[str, dict[str, float]] = defaultdict(dict)
    spelt: dict[str, Counter[str]] = defaultdict(Counter)
    folder = data / "names" / "abbreviations"
    files = sorted(folder.glob("*.txt"))
    if not files:
        raise UserError(
            f"{folder} has no lists of abbreviations (.txt): name the public data with --data"
        )
    names = listed(data)
    for file in files:
        for line in file.read_text("utf-8", errors="replace").splitlines():
            cells = line.split("\t")
            if (
                len(cells) < 2
            ):  # Columbia's: the abbreviation, a space, the sense
                cells = line.split(" ", 1)
            if len(cells) < 2 or cells[0] in ("abbreviation", ""):
                continue
            short = cells[0].casefold()
            sense = cells[1].strip().casefold()
            share = float(cells[4]) if len(cells) > 4 else 1.0
            senses[short][sense] = max(share, senses[short].get(sense, 0.0))
            for variation in (
                cells[2].split("|") if len(cells) > 4 else [cells[0]]
            ):
                form, _, number = variation.rpartition("_")
                spelt[short][form or variation] += (
                    int(number) if number.isdigit() else 1
                )
    kinds: dict[str, list[str]] = {DISEASE: [], CHEMICAL: []}
    neither = []
    for short, shares in senses.items():
        forms = [
            form
            for form, _ in spelt[short].most_common(2)
            if re.search("[A-Za-z]", form)
        ]
        main, share = max(shares.items(), key=lambda item: item[1])
        label = names.get(key(main)) if main not in _NO_NAMES else None
        common = [
            sense for sense, part in shares.items() if part >= RARE_SENSE
        ]
        if label and share >= MAIN_SENSE and len(short) > 1:
            kinds[label] += forms if short not in _LABORATORY else []
        elif not any(
            names.get(key(s)) or _MEDICAL.search(s) for s in common
        ) and not names.get(short):
            neither += forms
    return kinds, neither


def is_no_name(name: str) -> bool:
    """Whether all words of a name are ones that no clinician would call a disease or drug."""
    return set(name.casefold().split()) <= _NO_NAMES
