"""Every regular expression of the packages takes time linear in the text, whatever is in it."""

import importlib
import pkgutil
import re
import time

import pytest

import biomed
import clinical
import domainbert
from biomed.notes.cues import AssertionRules
from domainbert.text.sentences import split_sentences

# A text of 4,000 characters tells a pattern that may be slow; one of 20,000 decides.
SHORT, LONG = 4_000, 20_000
UNITS = """. ? ... .) ." [** ** [**a __ - -= ( ()( " ' a A a. A. 1 1. 0. | a| a|t| { {} : ; , ,a and
de Key " """.split(" ")
BLANKS = [
    " ",
    "\n",
    "\n ",
    "\t",
    "\r",
    ". ",
    " .",
    "a ",
    " a",
    "A. ",
    "1) ",
    "\u00a0",
    " and ",
    "\n\n",
]
INNER = [
    "\u0301",
    "a\u0301",
    "\xad",
    "a\u200d",
    "\ud83d",
    "\x00",
    "\ue000",
    "é",
    "漢",
]
TEXTS = [
    (unit, end)
    for unit in dict.fromkeys([*UNITS, *BLANKS, *INNER])
    if unit
    for end in ("", "!", "x")
]
# Only ever matched from the start of a text; searched for, they would be quadratic.
ANCHORED = {
    "biomed.ner.differences._DRUG_ENDING",
    "biomed.notes.medications._CLASSES",
    "biomed.notes.statuses._NEW_TO",
    "biomed.notes.statuses._NEW_WITH",
    "domainbert.tables.ids._ZEROS",
    "domainbert.tables.ids._FORMULA",
    "domainbert.tables.ids._GUARDED",
    "domainbert.tables.columns._SPELLED",
    "domainbert.tables.sources._PART",
    "biomed.corpora.conll._SPELLINGS",
    "biomed.corpora.pubtator._TEXT_LINE",
    "biomed.corpora.words._LIST_MARK",
    "clinical.cohort.fhir.attachments._BYTE_FORMS",
    "clinical.cohort.fhir.attachments._FRAGMENT",
    "clinical.cohort.fhir.attachments._TEXT_FORMS",
    "clinical.cohort.fhir.cda._DECLARATION",
}
OURS = "clinical.datasets."  # reads texts that we wrote, and titles of codes


def patterns():
    """Every compiled pattern at the top of a module that may see a user's text."""
    for package in (domainbert, clinical, biomed):
        for found in pkgutil.walk_packages(
            package.__path__, f"{package.__name__}."
        ):
            if found.name.endswith("__main__"):
                continue
            module = importlib.import_module(found.name)
            if found.name.startswith(OURS):
                continue
            for name, value in vars(module).items():
                for pattern in patterns_in(value):
                    yield pytest.param(pattern, id=f"{found.name}.{name}")


def patterns_in(value):
    """A compiled pattern, or those of a tuple, perhaps each with its name."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from patterns_in(part)


def repeated(unit, end, length):
    return (unit * (length // len(unit) + 1))[:length] + end


def seconds(read, text):
    start = time.process_time()
    read(text)
    return time.process_time() - start


def slowest(read):
    """The text that takes longest, and its seconds.

    What takes time in proportion to the square of the length takes 25 times as long for a text
    of five times the length: below 0.02 s for the short one, the long one is below half a second.
    """
    worst = (0.0, "")
    for unit, end in TEXTS:
        taken = seconds(read, repeated(unit, end, SHORT))
        if taken > 0.02:
            taken = seconds(read, repeated(unit, end, LONG))
        worst = max(worst, (taken, f"{unit!r} ... {end!r}"))
    return worst


@pytest.mark.parametrize("pattern", list(patterns()))
def test_a_pattern_takes_less_than_half_a_second(pattern, request):
    def read(text):
        if isinstance(pattern.pattern, bytes):
            text = text.encode("utf-8", "replace")
        pattern.match(text)
        pattern.fullmatch(text)
        # Patterns of one tuple have numbers after its name.
        if request.node.callspec.id.rstrip("0123456789") not in ANCHORED:
            pattern.sub(text[:0], text)

    assert slowest(read) < (0.5, "")


# An entity is a row of this mark where cues are looked for.
CUE_UNITS = [
    " ",
    "\n",
    "\t",
    "a ",
    "no ",
    "if ",
    "¤",
    "¤, ",
    ", ",
    "1 ",
    "and ",
]
CUE_LENGTH = 4_000


def cues():
    """The cues of assertions, which are compiled from lines when they are first needed."""
    for label, rows in AssertionRules.read().cues.items():
        for number, cue in enumerate(rows):
            if cue.row.label in (label, "any"):
                yield pytest.param(cue, id=f"{label}-{number}")


@pytest.mark.parametrize("cue", list(cues()))
def test_a_cue_takes_less_than_half_a_second(cue):
    """An attached cue is matched where an entity ends, here after the first of the text."""
    for unit in CUE_UNITS:
        text = f"{unit * (CUE_LENGTH // len(unit))}x"
        start = time.process_time()
        assert all(cue.matches(text, [0]))
        cue.stops.search(text)
        assert time.process_time() - start < 0.5, unit


def test_sentences_are_found_in_less_than_half_a_second():
    assert slowest(split_sentences) < (0.5, "")
