import numpy as np
import pytest
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
    weights = np.array(draw(st.lists(st.integers(0, 3), min_size=size, max_size=size)))
    limits = draw(st.sampled_from([(1, np.inf), (2, 2), (1, 4)]))
    return start, end, begins, ends, weights, limits, draw(st.integers(1, 16))


def brute_force(start, end, begins, ends, weights, limits, longest, taken=()):
    """All legal spans that meet none of those taken, best first."""
    size = len(start)
    return sorted(
        (-(float(start[i]) + float(end[j])), i, j)
        for i in range(size)
        for j in range(i, min(size, i + longest))
        if begins[i]
        and ends[j]
        and limits[0] <= weights[i : j + 1].sum() <= limits[1]
        and all(j < a or b < i for a, b in taken)
    )


@given(windows(), st.integers(1, 5))
def test_each_is_the_best_of_what_the_better_ones_leave(window, top_k):
    start, end, begins, ends, weights, limits, longest = window
    options = {"begins": begins, "ends": ends, "weights": weights, "limits": limits}
    found = best_spans(start, end, **options, longest=longest, top_k=top_k)
    taken: list[tuple[int, int]] = []
    for span in found:
        score, first, last = brute_force(*window, taken)[0]
        assert span == (first, last, -score)
        taken.append((first, last))
    if len(found) < top_k:
        assert not brute_force(*window, taken)


def test_a_start_behind_the_end_is_no_span():
    start, end = np.array([0.0, 0, 9]), np.array([9.0, 0, 0])
    flags = dict.fromkeys(("begins", "ends", "weights"), np.ones(3, dtype=bool))
    (best,) = best_spans(start, end, **flags, longest=3)
    assert best == (0, 0, 9.0)


@pytest.mark.parametrize("size", [0, 3])
def test_nothing_to_choose_from(size):
    flags = dict.fromkeys(("begins", "ends", "weights"), np.zeros(size, dtype=bool))
    logits = np.zeros(size)
    assert best_spans(logits, logits, **flags, longest=2) == []
