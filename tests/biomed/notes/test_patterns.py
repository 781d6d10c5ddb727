import pytest

from biomed.notes.patterns import Patterns
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
