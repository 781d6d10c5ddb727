from hypothesis import given
from hypothesis import strategies as st

from biomed.corpora.documents import spans_of, tags_of
from biomed.corpora.schemes import read_tags, to_iob2


def test_one_spelling_holds_for_all_names():
    assert read_tags(["B-x", "I-x", "O", "y-B"])["y-B"] == ("", "y-B")
    assert read_tags(["x-B", "x-I", "O"])["x-I"] == ("I", "x")
    assert read_tags(["x-B", "Drug"])["x-B"] == ("", "x-B")
    assert read_tags(["O", "Disease", "Drug"])["Drug"] == ("", "Drug")
    assert read_tags(["O", "hepatitis-C", "B"])["B"] == ("", "B")
    assert read_tags(["o", "disease-b"]) == {
        "o": ("O", ""),
        "O": ("O", ""),
        "disease-b": ("B", "disease"),
    }


@given(st.lists(st.sampled_from("xy"), min_size=1), st.integers(1, 3))
def test_every_scheme_gives_the_same_entities(kinds, length):
    """Entities side by side, as IOBES and BILOU, become IOB2 with the same spans."""
    spans = [
        (number * length, (number + 1) * length, kind)
        for number, kind in enumerate(kinds)
    ]
    iob2 = tags_of(spans, words=len(kinds) * length)
    assert to_iob2((tag[0], tag[2:]) for tag in iob2) == iob2
    for single, last in ("SE", "UL"):
        marks = [single] if length == 1 else ["B", *"I" * (length - 2), last]
        tags = [(mark, kind) for kind in kinds for mark in marks]
        assert spans_of(to_iob2(tags)) == spans
