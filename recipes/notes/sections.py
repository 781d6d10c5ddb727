"""The real notes, and 300 of their sections that are kept apart for measuring.

The sections were drawn before anyone read them: of MTS-Dialog every section type, more of the
frequent ones, and paragraphs of ACI-Bench and MTSamples. They are the first ones in the order of a
hash of their texts.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from recipes.public_data import read_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

DRAWN = {"mts_dialog": 220, "aci_bench": 40, "mtsamples": 40}
LENGTH = range(20, 900)  # characters of a section
PARAGRAPH = range(80, 600)  # characters of a paragraph of the longer notes
# MTSamples lost its line breaks: a comma before a heading in capitals is where one was.
PARAGRAPHS = {
    "aci_bench": re.compile(r"(\n\n)"),
    "mtsamples": re.compile(r"(?<=\.)(,)(?=[A-Z]{2})"),
}
REPEATED = 60  # characters from which a section inside another text is more than a common phrase
SHARED = 10  # words in a row that a training section has in common with none kept apart
DEV = 3  # one section of so many is for choosing, the others for measuring


@dataclass(frozen=True)
class Section:
    """A section of a real note; `id` is the note's, with the paragraph's number."""

    id: str
    section_type: str
    text: str
    side: str = ""


@cache
def drawn(data: Path) -> list[Section]:
    """The sections that are kept apart, each with its side, "dev" or "test"."""
    sections = []
    for name, number in DRAWN.items():
        by_type: dict[str, list[Section]] = defaultdict(list)
        for section in sorted(drawable(data, name), key=_digest):
            by_type[section.section_type].append(section)
        sizes = {
            section_type: len(group) for section_type, group in by_type.items()
        }
        counts = _counts(sizes, number)
        for section_type, group in sorted(by_type.items()):
            sections += group[: counts[section_type]]
    return [
        replace(section, side="test" if number % DEV else "dev")
        for number, section in enumerate(sections)
    ]


def _counts(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """How many sections of each kind are drawn: in proportion to the root of their number."""
    roots = {
        section_type: math.sqrt(size) for section_type, size in sizes.items()
    }
    sum_of_roots = sum(roots.values())
    counts = {}
    for section_type, size in sizes.items():
        count = max(1, round(total * roots[section_type] / sum_of_roots))
        counts[section_type] = min(size, count)
    # Rounding, and kinds with few sections, leave the sum a little off.
    while sum(counts.values()) != total:
        step = 1 if sum(counts.values()) < total else -1
        free_types = [
            section_type
            for section_type, size in sizes.items()
            if 1 <= counts[section_type] + step <= size
        ]
        largest = max(free_types, key=sizes.__getitem__)
        counts[largest] += step
    return counts


@cache
def trainable(data: Path) -> list[Section]:
    """The sections that may be trained on, in the order of their digests.

    Left out are the longer notes of which a section is kept apart, and every section that shares
    `SHARED` words in a row with one.
    """
    apart = drawn(data)
    texts = {section.text for section in apart}
    notes = {_note(section) for section in apart}
    held_out_runs = set().union(*(_runs(text) for text in texts))
    sections = [
        section
        for name in DRAWN
        for section in drawable(data, name)
        if section.text not in texts
        and _note(section) not in notes
        and held_out_runs.isdisjoint(_runs(section.text))
    ]
    return sorted(sections, key=_digest)


def _note(section: Section) -> str:
    """The note of a paragraph; a section of MTS-Dialog is a note of its own."""
    if section.id.startswith("mts-"):
        return section.id
    return section.id.rpartition("-")[0]


def _runs(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.casefold())
    n_runs = len(words) - SHARED + 1
    return {tuple(words[start : start + SHARED]) for start in range(n_runs)}


def real_notes(data: Path) -> Iterator[str]:
    """The texts of all three collections without the sections that are kept apart.

    A text or paragraph that contains such a section (of 60 characters or more) is left out too.
    """
    apart = {section.text for section in drawn(data)}
    long = [text for text in apart if len(text) >= REPEATED]

    def is_kept_apart(part: str) -> bool:
        return part.strip() in apart or any(text in part for text in long)

    for name in DRAWN:
        for row in read_rows(data / "notes" / f"{name}.csv.gz"):
            parts = [row["text"]]
            if name in PARAGRAPHS:
                parts = PARAGRAPHS[name].split(row["text"])
            kept = [part for part in parts if not is_kept_apart(part)]
            yield "".join(kept)


def drawable(data: Path, name: str) -> Iterable[Section]:
    """Sections that may be drawn; a text that occurs twice is one."""
    rows = read_rows(data / "notes" / f"{name}.csv.gz")
    if name == "mts_dialog":
        sections = (
            Section(row["id"], row["section"], row["text"].strip())
            for row in rows
        )
        return {s.text: s for s in sections if len(s.text) in LENGTH}.values()
    parts = (
        Section(f"{row['id']}-{number}", name, part.strip())
        for row in rows
        for number, part in enumerate(PARAGRAPHS[name].split(row["text"]))
    )
    return {s.text: s for s in parts if len(s.text) in PARAGRAPH}.values()


def _digest(section: Section) -> str:
    return hashlib.sha256(section.text.encode()).hexdigest()
