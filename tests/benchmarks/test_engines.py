"""Throughput and fixed cost from a small and a large table."""

import numpy as np
import pytest

from benchmarks.engines import differences_to_alone, table_rows, throughput

SIZES = (100, 1100)


def runs_of(seconds, scores):
    return [{"seconds": seconds, "scores": scores}]


def test_the_fixed_cost_is_what_the_small_table_takes_beyond_its_stays():
    """1,000 more stays in 50 s are 20 a second; 100 of them take 5 s of the 12."""
    rate, fixed = throughput(np.array([[12.0, 62.0]]), SIZES)
    assert rate == pytest.approx([20.0])
    assert fixed == pytest.approx([7.0])


def test_engines_are_compared_with_one_process():
    runs = {
        "one process": runs_of([10.0, 110.0], [0.25, 0.5]),
        "ray": runs_of([12.0, 62.0], [0.25, 0.5625]),
    }
    differences = differences_to_alone(runs)
    assert differences == {"one process": 0.0, "ray": 0.0625}
    alone, ray = table_rows(runs, SIZES, differences)
    assert alone["× one process"] == "1.00"
    assert ray["× one process"] == "2.00"
    assert ray["stays/s"] == "20.0"
