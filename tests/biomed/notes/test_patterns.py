import re

import pytest

from biomed.notes.cues import AssertionRules
from biomed.notes.patterns import Patterns, endless_repeat
from domainbert.errors import UserError
from tests.timing import assert_linear_time

PATTERNS = Patterns(
    {"drug": "aspirin\nvitamin {letter}", "letter": "c\nd ?3", "gap": "[ -]"}
)


@pytest.mark.parametrize(
    ("lines", "text", "is_match"),
    [
        ("take {drug}", "take aspirin", True),
        ("take {drug}", "take \n vitamin c", True),
        ("take {drug}", "take vitamin d3", True),
        ("take {drug}", "take vitamin d  3", True),
        ("take {drug}", "takeaspirin", False),
        ("once{gap}daily", "once-daily", True),
        ("once{gap}daily", "once\tdaily", True),
        (r"a\ b", "a b", True),
        (r"a\ b", "a  b", False),
        ("\n one \n\n two ", "two", True),
        ("x{2}", "xx", True),
        ("{none}", "{none}", True),
    ],
)
def test_lines(lines, text, is_match):
    assert bool(PATTERNS.words(lines).fullmatch(text)) == is_match


@pytest.mark.parametrize("text", ["xone", "one1", "-one", "1/one"])
def test_words_are_whole(text):
    assert PATTERNS.words("one").search(text) is None


def test_no_lines_match_nothing():
    assert PATTERNS.words(" \n").search("some text") is None


def test_a_space_of_one_expression_is_a_space():
    pattern = PATTERNS.regex("x {letter}")
    assert pattern.fullmatch("x c")
    assert pattern.fullmatch("x\tc") is None


def test_linear_time():
    pattern = PATTERNS.words("take {drug}\nvitamin {letter}")

    def prepare(count):
        text = "take " + " " * count + "vitamin" + "\n" * count

        def search():
            assert pattern.search(text) is None

        return search

    assert_linear_time(prepare, 20_000)


@pytest.mark.parametrize(
    ("pattern", "repeat"),
    [
        ("(a+)+b", "(a+)+"),
        ("no (?:a|ab)*c", "(?:a|ab)*"),
        (r"(?:\w+\s?)*!", r"(?:\w+\s?)*"),
        ("((a?){3}b?){20,}", "((a?){3}b?){20,}"),
        ("(?P<x>[a)]*){1,30}", "(?P<x>[a)]*){1,30}"),
        ("(((a*)))+", "(((a*)))+"),
        ("(x(a|b)){11}", "(x(a|b)){11}"),
        ("(?:a{2,5})+", "(?:a{2,5})+"),
    ],
)
def test_a_repeat_of_what_matches_in_several_ways_is_endless(pattern, repeat):
    re.compile(pattern)
    assert endless_repeat(pattern) == repeat


@pytest.mark.parametrize(
    "pattern",
    [
        "no (?:evidence|sign)s? of",
        r"(?:\w+ ){0,5}pain",
        "(?:ab)+",
        r"\(a+\)+",
        "[(a+)]+",
        "(?<![a-z])denie[sd]",
        "a+ b* (c|d)",
        "(a|b)?",
    ],
)
def test_other_repeats_are_not(pattern):
    re.compile(pattern)
    assert endless_repeat(pattern) == ""


@pytest.mark.parametrize("form", ["regex", "patterns", "stops"])
def test_a_rule_of_a_user_with_an_endless_repeat_is_refused(form):
    row = {"words": "denies", "assertion": "negated", form: "(a|a)+b"}
    if form != "stops":
        del row["words"]
    with pytest.raises(UserError, match=r"cue 1: \(a\|a\)\+ may take"):
        AssertionRules.read([row])
