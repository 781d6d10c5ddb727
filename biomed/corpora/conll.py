"""CoNLL files: a word and its tag on each line, a blank line between sentences.

Tags are in IOB2, IOB1, IOBES or BILOU, in their spellings, and become IOB2.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from biomed.corpora.documents import (
    OUTSIDE,
    CorpusError,
    TaggedText,
    lines_of,
    refuse_if_most,
)

UNTYPED = "Entity"
"""The type of entities whose tags name none: `B`, `I` and `O`."""

_BEGINNING = frozenset("BSUW")  # marks of words that begin an entity
_ENDING = frozenset("ELSUW")  # and of those that end one
_SPELLINGS = (
    re.compile(r"(?P<mark>[BIESLUWM])[-_](?P<type>.+)"),
    re.compile(r"(?P<type>.+)[-_](?P<mark>[BIESLUWM])"),
    re.compile(r"(?P<mark>[BIESLUWM])(?P<type>)"),
)

Tag = tuple[str, str]
"""Mark and type: ("B", "Disease"), ("O", ""), or ("", "Disease") for a type alone."""

DOCUMENT_MARK = "-DOCSTART-"
_SPACES = re.compile("[ \t]+")  # a no-break space belongs to a word
_COUNT = re.compile(r"\d[\d.:-]*")  # 3, 3-4, 3.1, 0:5
_COUNTED = 0.95  # share of numbers above which a column counts lines
_LEAST_COUNTED = 3  # lines
_HEADERS = frozenset(
    {"label", "labels", "ner", "ner_tag", "ner_tags", "tag", "tags"}
)


class _Line(NamedTuple):
    number: int
    cells: list[str]


_Sentence = list[_Line]


def read_conll(path: Path) -> tuple[list[TaggedText], list[str]]:
    """Read sentences; the word is the first column and the tag the last.

    Columns are separated by tabs, or by spaces on a line without tabs. A first column that
    counts the lines, or that repeats an id, is passed over. `-DOCSTART-` lines, comments
    (`# …`) and a header are skipped. Tags of other schemes are converted to IOB2 (see
    `read_tags`). A sentence with an invalid line is left out.

    Returns:
        The sentences, and remarks about what was left out or converted, with line numbers.

    Raises:
        CorpusError: most sentences have an invalid line, or there is no column of words.
    """
    sentences, remarks = _sentences(path)
    sentences, index_remarks = _without_index(sentences, path.name)
    remarks += index_remarks
    lines = chain.from_iterable(sentences)
    tags = read_tags(line.cells[-1] for line in lines if len(line.cells) > 1)
    texts = []
    faults = []
    changes = []  # tags that are not IOB2, and what they became
    for sentence in sentences:
        if fault := _fault(sentence, tags):
            faults.append(f"{path.name}, {fault}")
            continue
        converted = to_iob2(tags[line.cells[-1]] for line in sentence)
        words = tuple(line.cells[0] for line in sentence)
        texts.append(TaggedText(words, tuple(converted)))
        for line, tag in zip(sentence, converted, strict=True):
            if line.cells[-1] != tag:
                changes.append(f"{line.cells[-1]} to {tag}")
    refuse_if_most(faults, read=len(texts), what="sentences")
    remarks += [f"{fault}; the sentence is left out" for fault in faults]
    if changes:
        remarks.append(
            f"{path.name}: tags are converted to IOB2, {changes[0]} for example"
        )
        if any(label == UNTYPED for _, label in tags.values()):
            remarks.append(
                f"{path.name}: its tags name no type; the type is called {UNTYPED}. Rename "
                f"it with `labels={{{UNTYPED!r}: 'NAME'}}`"
            )
    return texts, remarks


def _sentences(path: Path) -> tuple[list[_Sentence], list[str]]:
    """The lines of each sentence as cells, without marks, comments and a header."""
    sentences: list[_Sentence] = [[]]
    remarks = []
    for number, line in enumerate(lines_of(path), start=1):
        if not line.strip() or line.startswith(DOCUMENT_MARK):
            sentences.append([])
            continue
        parts = line.split("\t")
        if len(parts) == 1:
            parts = _SPACES.split(line.strip(" "))
        cells = [cell.strip() for cell in parts]
        if line.startswith("#") and "\t" not in line:
            mark, _ = read_tags(cells[-1:])[cells[-1]]
            if not mark:  # a comment
                continue
        if not any(sentences) and cells[-1].casefold() in _HEADERS:
            remarks.append(f"{path.name}, line {number}: read as a header")
            continue
        sentences[-1].append(_Line(number, cells))
    return [sentence for sentence in sentences if sentence], remarks


def _without_index(
    sentences: list[_Sentence],
    name: str,
) -> tuple[list[_Sentence], list[str]]:
    """The sentences without leading columns that count lines or repeat an id."""
    remarks = []
    column = 1
    while _is_index(sentences):
        lines = list(chain.from_iterable(sentences))
        if min(len(line.cells) for line in lines) <= 2:
            raise CorpusError(
                f"{name}: the first column counts lines or repeats an id; expected a "
                "word and a tag on each line, separated by a tab"
            )
        remarks.append(
            f"{name}: column {column} counts lines or repeats an id; words are read "
            f"from column {column + 1}"
        )
        for line in lines:
            del line.cells[0]
        column += 1
    return sentences, remarks


def _is_index(sentences: Sequence[_Sentence]) -> bool:
    """Whether the first column has numbers, or one value in each sentence."""
    values = _first_cells(chain.from_iterable(sentences))
    if len(values) < _LEAST_COUNTED:
        return False
    numbers = sum(_COUNT.fullmatch(value) is not None for value in values)
    if numbers >= _COUNTED * len(values):
        return True
    if max(map(len, sentences)) < _LEAST_COUNTED:
        return False
    return all(len(set(_first_cells(lines))) == 1 for lines in sentences)


def _first_cells(lines: Iterable[_Line]) -> list[str]:
    return [line.cells[0] for line in lines]


def _fault(sentence: _Sentence, tags: dict[str, Tag]) -> str:
    """What is wrong with the first invalid line of a sentence; "" if all are valid."""
    for number, cells in sentence:
        if len(cells) < 2 or not cells[0]:
            return (
                f"line {number}: expected a word and a tag, separated by a tab"
            )
        mark, _ = tags[cells[-1]]
        if not mark:
            return (
                f"line {number}: expected a tag such as O, B-Disease or I-Disease in "
                "the last column; tags of IOB1, IOBES and BILOU are read too"
            )
    return ""


# --- tag schemes


def read_tags(names: Iterable[str]) -> dict[str, Tag]:
    """Mark and type of each tag name of a file or a network.

    One spelling is used for all names: `B-x` (or `B_x`), `x-B`, or `B` alone, whose type is
    `UNTYPED`. Small letters are marks where all names have them. A name that fits no
    spelling is a type alone.
    """
    spelled = set(names) - {OUTSIDE}
    tags = _read_spelled(spelled)
    has_marks = any(mark for mark, _ in tags.values())
    if not has_marks:
        tags |= _read_small(spelled)
    return {**tags, OUTSIDE: (OUTSIDE, "")}


def _read_small(names: Collection[str]) -> dict[str, Tag]:
    """The tags of names with small marks, such as `b-disease`; empty unless all names have one."""
    outside = OUTSIDE.lower()
    upper = {
        name: _with_upper_marks(name) for name in names if name != outside
    }
    tags = _read_spelled(set(upper.values()))
    if not upper or not all(mark for mark, _ in tags.values()):
        return {}
    small_tags = {name: tags[upper_name] for name, upper_name in upper.items()}
    return {**small_tags, outside: (OUTSIDE, "")}


def _read_spelled(names: Collection[str]) -> dict[str, Tag]:
    """The tags in the first spelling that fits: any name with a prefix, or all of another form."""
    for spelling, fits in zip(_SPELLINGS, (any, all, all), strict=True):
        matches = {name: spelling.fullmatch(name) for name in names}
        if names and fits(matches.values()):
            return {
                name: _as_tag(name, match) for name, match in matches.items()
            }
    return {name: ("", name) for name in names}


def _as_tag(name: str, match: re.Match[str] | None) -> Tag:
    """The mark of a tag, such as "B", and its type; a name without a mark has the mark ""."""
    if match is None:
        return "", name
    return match["mark"], match["type"] or UNTYPED


def _with_upper_marks(name: str) -> str:
    """`b-disease` as `B-disease`, `disease-b` as `disease-B`, `b` as `B`."""
    if re.match(r"[a-z](?:[-_]|$)", name):
        return name[0].upper() + name[1:]
    return name[:-1] + name[-1:].upper()


def begins(mark: str) -> bool:
    """Whether words with this mark always begin an entity."""
    return mark in _BEGINNING


def to_iob2(tags: Iterable[Tag]) -> list[str]:
    """The IOB2 tags of a sentence.

    A word that continues nothing begins an entity, as in IOB1, where `I` may begin one.
    """
    converted = []
    open_type = ""  # of the entity that the next word may continue
    for mark, label in tags:
        if mark == OUTSIDE:
            converted.append(OUTSIDE)
            open_type = ""
            continue
        new_mark = "B"
        if label == open_type and not begins(mark):
            new_mark = "I"
        converted.append(f"{new_mark}-{label}")
        open_type = label
        if mark in _ENDING:
            open_type = ""
    return converted
