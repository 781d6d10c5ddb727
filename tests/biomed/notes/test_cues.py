import pytest

from biomed.notes.assertion import assert_spans
from biomed.notes.cues import AssertionRules
from domainbert.errors import UserError


def assertion(text, rows, *, name="gout", label="Disease"):
    start = text.index(name)
    rules = AssertionRules.read(rows)
    return assert_spans(
        text, [(start, start + len(name), label)], rules=rules
    )[0]


@pytest.mark.parametrize(
    ("row", "text", "expected"),
    [
        (
            {"assertion": "negated", "words": "quite unlike"},
            "Quite unlike gout.",
            "negated",
        ),
        (
            {"assertion": "negated", "words": "(nil)", "after": True},
            "gout (nil)",
            "negated",
        ),
        (
            {"assertion": "other", "patterns": "the {person} of"},
            "The  brother of gout",
            "other",
        ),
        (
            {"assertion": "negated", "words": "nope", "after": True},
            "gout, nope",
            "present",
        ),
        (
            {"assertion": "negated", "words": "nope", "after": True},
            "gout nope",
            "negated",
        ),
        (
            {"assertion": "present", "words": "no less than"},
            "No less than gout.",
            "present",
        ),
        ({"assertion": "possible", "regex": r"dd/?"}, "dd/ gout", "possible"),
        (
            {"assertion": "other", "words": "proband's kin"},
            "Proband’s kin: gout",
            "other",
        ),
        (
            {"assertion": "historical", "words": "a\nb c"},
            "b  c gout",
            "historical",
        ),
        (
            {"assertion": "negated", "words": "zz", "label": "drug"},
            "zz gout",
            "present",
        ),
        (
            {"assertion": "negated", "words": "zz", "reach": 0},
            "zz old gout",
            "historical",
        ),
        (
            {"assertion": "negated", "words": "zz", "stops": "yy"},
            "zz yy gout",
            "present",
        ),
        ({"assertion": "negated", "words": "zz"}, "zz pain, gout", "present"),
        (
            {"assertion": "negated", "words": "zz", "items": "list"},
            "zz pain, gout",
            "negated",
        ),
    ],
)
def test_a_cue_of_a_user(row, text, expected):
    assert assertion(text, [row]) == expected


def test_the_cues_of_the_package_stay():
    row = {"assertion": "negated", "words": "zz"}
    assert assertion("No gout.", [row]) == "negated"
    assert assertion("No gout.", None) == "negated"


def test_cues_in_a_file(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text('[[cue]]\nassertion = "negated"\nwords = "zz"\n', "utf-8")
    assert assertion("zz gout", path) == "negated"
    assert assertion("zz gout", str(path)) == "negated"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], r"assertion_rules: expected \[\[cue\]\] tables, got none"),
        (["no"], "cue 1: expected a table, got str"),
        ([{"words": "x"}], "cue 1: assertion: this setting is required"),
        (
            [{"assertion": "absent", "words": "x"}],
            "cue 1: assertion: expected .*absent",
        ),
        (
            [{"assertion": "negated", "word": "x"}],
            "cue 1: word: no such setting",
        ),
        (
            [{"assertion": "negated"}],
            "cue 1: expected one of words, patterns and regex",
        ),
        (
            [{"assertion": "negated", "words": "x", "regex": "x"}],
            "expected one of words, patterns and regex",
        ),
        ([{"assertion": "negated", "regex": "("}], "cue 1: regex: missing"),
        (
            [{"assertion": "negated", "words": "x", "reach": -1}],
            "reach: expected",
        ),
    ],
)
def test_wrong_cues_are_refused(rows, message):
    with pytest.raises(UserError, match=message):
        AssertionRules.read(rows)


def test_a_file_that_is_none_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"none\.toml: expected a TOML file"):
        AssertionRules.read(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("cue = 1\n[", "utf-8")
    with pytest.raises(UserError, match=r"bad\.toml: expected a TOML file"):
        AssertionRules.read(tmp_path / "bad.toml")
