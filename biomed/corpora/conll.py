"""CoNLL files: a word and its tag on each line, a blank line between sentences."""

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from biomed.corpora.documents import (
    CorpusError,
    TaggedText,
    lines_of,
    refuse_if_most,
)
from biomed.corpora.schemes import UNTYPED, Tag, read_tags, to_iob2

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
    `biomed.corpora.schemes`). A sentence with an invalid line is left out.

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
