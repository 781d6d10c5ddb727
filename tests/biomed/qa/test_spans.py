import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from biomed.qa.spans import best_spans


@st.composite
def windows(draw):
    size = draw(st.integers(1, 14))
    logits = st.lists(st.integers(-9, 9), min_size=size, max_size=size)
    flags = st.lists(st.booleans(), min_size=size, max_size=size)
    start, end = (np.array(draw(logits), dtype=np.float32) for _ in range(2))
    begins, ends = (np.array(draw(flags)) for _ in range(2))
    weights = np.array(
        draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    )
    sentences = np.cumsum(
        draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    )
    limits = draw(st.sampled_from([(1, np.inf), (2, 2), (1, 4)]))
    return (
        start,
        end,
        begins,
        ends,
        weights,
        sentences,
        limits,
        draw(st.integers(1, 16)),
    )


def brute_force(
    start, end, begins, ends, weights, sentences, limits, longest, taken=()
):
    """All legal spans that meet none of those taken, cut to their sentence, best first."""
    size, found = len(start), []
    for i in range(size):
        legal = [
            (-(float(start[i]) + float(end[j])), j)
            for j in range(i, min(size, i + longest))
            if begins[i]
            and ends[j]
            and limits[0] <= weights[i : j + 1].sum() <= limits[1]
            and all(j < a or b < i for a, b in taken)
        ]
        if own := [
            pair for pair in legal if sentences[pair[1]] == sentences[i]
        ]:
            found.append((min(legal)[0], i, min(own)[1]))
    return sorted(found)


@given(windows(), st.integers(1, 5))
def test_each_is_the_best_of_what_the_better_ones_leave(window, top_k):
    start, end, begins, ends, weights, sentences, limits, longest = window
    found = best_spans(
        np.where(begins, start, -np.inf),
        np.where(ends, end, -np.inf),
        weights=weights,
        sentences=sentences,
        limits=limits,
        longest=longest,
        top_k=top_k,
    )
    taken: list[tuple[int, int]] = []
    for span in found:
        score, first, last = brute_force(*window, taken)[0]
        assert span == (first, last, -score)
        taken.append((first, last))
    if len(found) < top_k:
        assert not brute_force(*window, taken)


def best(start, end, sentences):
    """The best span of at most all tokens."""
    (span,) = best_spans(
        np.array(start),
        np.array(end),
        weights=np.ones(len(start)),
        sentences=np.array(sentences),
        limits=(1, np.inf),
        longest=len(start),
        top_k=1,
    )
    return span


def test_a_start_behind_the_end_is_no_span():
    assert best([0.0, 0, 9], [9.0, 0, 0], [0, 0, 0]) == (0, 0, 9.0)


def test_an_answer_ends_with_its_sentence():
    """It ran over the end: "2.1 mg/dL. Blood cultures grew"."""
    assert best([5.0, 0, 0, 0], [0.0, 2, 0, 4], [0, 0, 1, 1]) == (0, 1, 9.0)
