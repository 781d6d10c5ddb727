import pytest
from hypothesis import given
from hypothesis import strategies as st

from biomed.corpora import CorpusError, Document, Span, gold_of
from biomed.corpora.documents import (
    DISCONTINUOUS,
    INSIDE_WORD,
    NO_WORD,
    OVERLAPS,
    flat_spans,
    spans_of,
    tagged,
)
from biomed.corpora.words import split_words

TEXT = "no  breast and ovarian cancer-like tumour."


def at(part, label="Disease", **more):
    start = TEXT.index(part)
    return Span(start, start + len(part), label, **more)


def kind(remark):
    """How a span was changed."""
    return remark.split(": ", 1)[1]


def test_spans_become_tags():
    text, remarks = tagged(
        Document("1", TEXT, (at("tumour"), at("ovarian cancer")))
    )
    assert text.words[3:6] == ("ovarian", "cancer", "-")
    assert spans_of(text.tags) == [(3, 5, "Disease"), (7, 8, "Disease")]
    assert remarks == []


def test_a_discontinuous_span_counts_as_its_extent_and_the_longest_stays():
    whole = at("breast and ovarian cancer", discontinuous=True)
    document = Document("1", TEXT, (at("ovarian cancer"), whole))
    assert flat_spans(document) == [whole]
    assert tagged(document)[1] == [
        f"1, characters 4 to 29: {DISCONTINUOUS}",
        f"1, characters 15 to 29: {OVERLAPS}",
    ]


def test_a_span_within_a_word_is_widened():
    text, remarks = tagged(Document("1", TEXT, (at("varian canc"),)))
    assert spans_of(text.tags) == [(3, 5, "Disease")]
    assert remarks == [f"1, characters 16 to 27: {INSIDE_WORD}"]


def test_two_spans_within_one_word_and_one_on_a_space():
    spans = (at("ovar"), at("ian"), Span(2, 4, "Disease"))
    text, remarks = tagged(Document("1", TEXT, spans))
    assert spans_of(text.tags) == [(3, 4, "Disease")]
    assert sorted(kind(remark) for remark in remarks) == sorted(
        [INSIDE_WORD, OVERLAPS, NO_WORD]
    )


@given(
    st.text(max_size=40),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40))),
)
def test_any_spans_give_tags_or_remarks(text, pairs):
    spans = tuple(
        Span(min(p), max(p) + 1, "x") for p in pairs if max(p) < len(text)
    )
    found, remarks = tagged(Document("1", text, spans))
    assert len(found.words) == len(found.tags) == len(split_words(text))
    left_out = sum(kind(remark) in (OVERLAPS, NO_WORD) for remark in remarks)
    assert len(spans_of(found.tags)) == len(spans) - left_out


@pytest.mark.parametrize(
    "span", [Span(-1, 2, "x"), Span(3, 3, "x"), Span(4, 99, "x")]
)
def test_a_span_outside_its_text(span):
    with pytest.raises(
        CorpusError,
        match=f"document 7: characters {span.start} to .* text of 42",
    ):
        gold_of([Document("7", TEXT, (span,))])


def test_renaming_and_dropping():
    spans = (
        Span(0, 1, "SpecificDisease"),
        Span(2, 3, "Modifier"),
        Span(4, 5, "Disease"),
    )
    named = gold_of(
        [Document("1", "a b c", spans)],
        labels={"SpecificDisease": "Disease", "Modifier": ""},
    )
    assert named.documents[0].spans == (
        Span(0, 1, "Disease"),
        Span(4, 5, "Disease"),
    )


def test_the_repr_keeps_the_text():
    assert "breast" not in repr(Document("1", TEXT, ()))
