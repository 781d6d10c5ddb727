import pytest
from hypothesis import given
from hypothesis import strategies as st

from biomed.corpora import TaggedText
from biomed.corpora.documents import spans_of, tags_of

KINDS = ("Disease", "Drug")


@st.composite
def valid_tags(draw):
    """Random valid IOB2."""
    tags = []
    for _ in range(draw(st.integers(0, 12))):
        if kind := draw(st.sampled_from(("", *KINDS))):
            tags += [f"B-{kind}"] + [f"I-{kind}"] * draw(st.integers(0, 3))
        else:
            tags.append("O")
    return tags


@given(valid_tags())
def test_spans_and_back(tags):
    assert tags_of(spans_of(tags), words=len(tags)) == tags


def test_neighbours_stay_two():
    tags = ["B-Disease", "I-Disease", "B-Disease", "B-Drug"]
    assert spans_of(tags) == [
        (0, 2, "Disease"),
        (2, 3, "Disease"),
        (3, 4, "Drug"),
    ]


@pytest.mark.parametrize(
    "tags", [["O", "I-Drug"], ["B-Drug", "O", "I-Drug"], ["I-Drug"]]
)
def test_an_i_after_nothing_is_no_entity(tags):
    assert spans_of(tags) == spans_of(
        ["O" if tag == "I-Drug" else tag for tag in tags]
    )


def test_an_i_of_another_type_ends_the_entity():
    assert spans_of(["B-Drug", "I-Disease", "I-Drug"]) == [(0, 1, "Drug")]


def test_the_repr_keeps_the_words():
    assert "secret" not in repr(TaggedText(("secret",), ("B-Drug",)))
