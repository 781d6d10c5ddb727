"""Reserved words: as names in the code they stand only where the glossary allows them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("domainbert", "clinical", "biomed", "recipes", "benchmarks")
GLOSSARY = ROOT / "docs" / "explanation" / "glossary.md"


class Word(NamedTuple):
    """A pattern of names, and the files where such names may stand."""

    pattern: str
    files: str = r"(?!)"


RESERVED = {
    # `--kind` of sentence models, bi-encoder or cross-encoder; and public names of rule files,
    # schemas and results: `kind` of a cue, of a note table and of an error, `score_kind`.
    "kind": Word(
        r"(?i)(^|_)kinds?($|_)",
        r"biomed/sentences/(commands|training)\.py|biomed/notes/.*\.py"
        r"|biomed/ner/(errors|export|tagger|task)\.py|clinical/cohort/.*\.py",
    ),
    # Classes that get rows or text from a file or a database.
    "read": Word(
        r"^_?(Read(?!mission)|Reading)|(?<!r)Reader",
        r"domainbert/tables/(options|rows)\.py|clinical/cohort/.*\.py|benchmarks/peer\.py",
    ),
    "flaw": Word(r"(?i)flaw|doubt"),
    # The column of `cohort.issues.csv`.
    "problem": Word(
        r"(?i)problem", r"domainbert/tables/.*\.py|clinical/cohort/.*\.py"
    ),
    # The list of a cohort, and FHIR's OperationOutcome.
    "issue": Word(
        r"(?i)(^|_)issues?($|_)", r"clinical/(cohort|bedside|report)/.*\.py"
    ),
    # Functions that score the rows of a table; one that gives a probability has another name.
    "score": Word(
        r"^_?score_(?!kind|contribution|frame|file|items|chunks|source|ray|spark|partition"
        r"|discharges|text)",
        r"benchmarks/.*\.py",
    ),
}


def names_of(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the name of each class, function, argument and variable of a file."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


@pytest.mark.parametrize("word", RESERVED)
def test_a_reserved_word_is_a_name_only_where_it_is_allowed(word):
    pattern, files = RESERVED[word]
    wrong = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            if re.fullmatch(files, file):
                continue
            wrong += [
                f"{file}:{line} {name}"
                for line, name in names_of(path)
                if re.search(pattern, name)
            ]
    assert not wrong, f"see the reserved words in {GLOSSARY.name}"


@pytest.mark.parametrize("word", RESERVED)
def test_the_glossary_reserves_it(word):
    _, _, table = GLOSSARY.read_text("utf-8").partition("## Reserved words")
    assert re.search(rf"(?i)^\| .*`{word}", table, re.MULTILINE)


def test_no_word_of_the_glossary_has_two_meanings():
    rows = re.findall(
        r"^\| ([a-z][^|]*?) \|", GLOSSARY.read_text("utf-8"), re.MULTILINE
    )
    words = [word for row in rows if row != "word" for word in row.split(", ")]
    assert len(words) == len(set(words))
    assert len(words) > 50
