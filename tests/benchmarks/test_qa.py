"""The best span of one window, as the plain loop finds it."""

import numpy as np
import pytest

from benchmarks.qa import Window, has_word

TEXT = "warm days."
# [CLS], a question of one token, [SEP], and "warm", "days" and ".".
OFFSETS = np.array([[0, 0], [0, 1], [0, 0], [0, 4], [5, 9], [9, 10]])
START = np.array([1.0, 0, 0, 2, 5, 9])
END = np.array([1.0, 0, 0, 3, 4, 8])
WORDS = (np.array([0, 5, 9]), np.array([4, 9, 10]))
JOINED = (np.array([0, 9]), np.array([9, 10]))  # as one word, "warm days"


@pytest.mark.parametrize(
    ("edges", "longest", "best"),
    [
        (WORDS, 2, (5, 10, 11.0)),
        (WORDS, 1, (5, 9, 7.0)),
        (JOINED, 2, (0, 9, 4.0)),
    ],
    ids=["not a mark alone", "one token", "whole words"],
)
def test_the_best_span_is_of_words_and_not_too_long(edges, longest, best):
    window = Window(
        offsets=OFFSETS,
        is_context=np.arange(6) > 2,
        has_word=has_word(TEXT, OFFSETS),
    )
    assert window.best(START, END, edges=edges, longest=longest) == best
