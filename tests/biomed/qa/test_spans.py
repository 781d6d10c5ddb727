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
    begins, ends, needed = (np.array(draw(flags)) for _ in range(3))
    return start, end, begins, ends, needed, draw(st.integers(1, 16))


def brute_force(start, end, begins, ends, needed, longest, taken=()):
    """All legal spans that meet none of those taken, best first."""
    size = len(start)
    return sorted(
        (-(float(start[i]) + float(end[j])), i, j)
        for i in range(size)
        for j in range(i, min(size, i + longest))
        if begins[i]
        and ends[j]
        and needed[i : j + 1].any()
        and all(j < a or b < i for a, b in taken)
    )


@given(windows(), st.integers(1, 5))
def test_each_is_the_best_of_what_the_better_ones_leave(window, top_k):
    start, end, begins, ends, needed, longest = window
    options = {"begins": begins, "ends": ends, "needed": needed, "longest": longest}
    found = best_spans(start, end, **options, top_k=top_k)
    taken: list[tuple[int, int]] = []
    for span in found:
        score, first, last = brute_force(*window, taken)[0]
        assert span == (first, last, -score)
        taken.append((first, last))
    if len(found) < top_k:
        assert not brute_force(*window, taken)


def test_a_start_behind_the_end_is_no_span():
    start, end = np.array([0.0, 0, 9]), np.array([9.0, 0, 0])
    flags = dict.fromkeys(("begins", "ends", "needed"), np.ones(3, dtype=bool))
    (best,) = best_spans(start, end, **flags, longest=3)
    assert best == (0, 0, 9.0)


@pytest.mark.parametrize("size", [0, 3])
def test_nothing_to_choose_from(size):
    flags = dict.fromkeys(("begins", "ends", "needed"), np.zeros(size, dtype=bool))
    logits = np.zeros(size)
    assert best_spans(logits, logits, **flags, longest=2) == []
