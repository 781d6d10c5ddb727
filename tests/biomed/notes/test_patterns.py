import pytest

from biomed.notes import patterns
from biomed.notes.assertion import decide_spans
from biomed.notes.cues import AssertionRules
from biomed.notes.patterns import Patterns
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


FORMS = ["regex", "patterns", "stops"]
EXPONENTIAL = [
    ("(?:a|a)+b", "a" * 60),
    ("no (?:a|aa)+[bc]", "no " + "a" * 60),
    ("(?:(?:a|b|ab)+ ?)+!", "ab" * 40),
]
POLYNOMIAL = [
    (r"\s*\s*\s*\s*x", " " * 5_000),
    (r"\d*,?\d*,?\d*,?\d*mg", "1" * 5_000),
    (r"(\w+) \w* ?\w* ?\w*\d\1!", "no " + "x" * 9_000),
]
# `re` takes hours for them, and `regex` notices in time that they cannot match.
GUARDED = [
    ("(?:a+)+b", "a" * 60),
    (r"(?:\w+\s?)*!", "w" * 60),
    (r"(?:(?:\w|\d)+,?)+!", "1" * 60),
    ("(?:no|denies) .*.*.*.*;", "denies " + "." * 5_000),
]


def assertion_by_rule(form, pattern, text):
    """The assertion of an entity beside a text, with a user's rule of this form."""
    if form != "regex":  # in which a space is white space
        pattern = pattern.replace(" ", r"\ ")
    row = {"assertion": "negated", form: pattern}
    text = f"{text} gout, b! c x; mg"
    if form == "stops":
        row |= {"words": "denies", "reach": 100}
        text = f"denies {text}"
    rules = AssertionRules.read([{"words": "x", "assertion": "other"}, row])
    start = text.index("gout")
    (decision,) = decide_spans(
        text, [(start, start + 4, "Disease")], rules=rules
    )
    return decision.assertion


@pytest.mark.parametrize(
    ("form", "pattern", "text"),
    [
        *((form, *case) for form in FORMS for case in EXPONENTIAL),
        *((form, *case) for form in FORMS[:2] for case in POLYNOMIAL),
    ],
)
def test_a_rule_of_a_user_that_takes_too_long_is_named(
    monkeypatch, form, pattern, text
):
    monkeypatch.setattr(patterns, "SEARCH_SECONDS", 0.2)
    message = r"assertion_rules, cue 2: took over 0\.2 s on one text; bound"
    with pytest.raises(UserError, match=message):
        assertion_by_rule(form, pattern, text)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("pattern", "text"), GUARDED)
def test_a_rule_of_a_user_that_is_in_time_after_all(form, pattern, text):
    assert assertion_by_rule(form, pattern, text) in ("present", "negated")


def test_a_rule_of_a_user_decides_as_one_of_the_package():
    text = "Brother with a stroke. Gout: not an issue, his wife says. A rash."
    names = ("stroke", "Gout", "rash")
    spans = [
        (text.index(name), text.index(name) + len(name), "Disease")
        for name in names
    ]
    rows = [
        {"patterns": "not an? (?:issue|worry)", "after": True},
        {"regex": r"\A(?!)|(?<=: )not an issue", "after": True},
    ]
    for row in rows:
        rules = AssertionRules.read([{"assertion": "negated", **row}])
        assertions = [
            decision.assertion
            for decision in decide_spans(text, spans, rules=rules)
        ]
        assert assertions == ["other", "negated", "present"]


def test_a_long_text_is_in_time_for_a_linear_rule():
    row = {"regex": r"(?:\w+ ?){1,9}free of", "assertion": "negated"}
    rules = AssertionRules.read([row])
    text = "The lungs are clear and he is free of pain. " * 5_000
    start = text.index("pain")
    (decision,) = decide_spans(
        text, [(start, start + 4, "Disease")], rules=rules
    )
    assert decision.assertion == "negated"


def test_a_regular_expression_that_only_one_of_the_engines_knows_is_named():
    row = {"regex": "a**", "assertion": "negated"}
    with pytest.raises(UserError, match="cue 1: regex: multiple repeat"):
        AssertionRules.read([row])
