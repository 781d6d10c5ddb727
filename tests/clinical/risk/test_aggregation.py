import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import clinical
from clinical.risk.aggregation import (
    aggregate,
    aggregate_stays,
    aggregate_tensor,
)
from domainbert.errors import UserError

probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=40)
cs = st.floats(0.01, 100)


def test_the_worked_example():
    assert clinical.aggregate([0.2, 0.8, 0.5], c=2) == pytest.approx(
        0.62, abs=1e-12
    )


def test_c_is_two_by_default_and_may_be_given_by_position():
    assert aggregate([0.2, 0.8, 0.5]) == aggregate([0.2, 0.8, 0.5], 2.0)
    assert aggregate([0.2, 0.8, 0.5], 1.0) != aggregate([0.2, 0.8, 0.5], 2.0)


@given(p=st.floats(0, 1), c=cs)
def test_one_window_keeps_its_probability(p, c):
    assert aggregate([p], c) == pytest.approx(p, abs=1e-12)


@given(values=probabilities, c=cs)
def test_within_mean_and_max(values, c):
    mean = np.add.reduceat(np.array(values), [0])[0] / len(values)
    assert min(mean, max(values)) <= aggregate(values, c) <= max(values)


@given(values=probabilities, c=cs, seed=st.integers(0, 99))
def test_order_does_not_matter(values, c, seed):
    shuffled = np.random.default_rng(seed).permutation(values)
    assert aggregate(shuffled, c) == pytest.approx(
        aggregate(values, c), abs=1e-12
    )


@given(stays=st.lists(probabilities, min_size=1, max_size=8), c=cs)
def test_many_stays_are_each_stay_alone(stays, c):
    together = aggregate_stays(
        np.concatenate(stays), np.array([len(stay) for stay in stays]), c=c
    )
    assert together == pytest.approx(
        [aggregate(stay, c) for stay in stays], abs=1e-12
    )


@given(stays=st.lists(probabilities, min_size=1, max_size=8), c=cs)
def test_tensors_give_the_numbers_of_arrays(stays, c):
    group = torch.tensor([i for i, stay in enumerate(stays) for _ in stay])
    values = torch.tensor(np.concatenate(stays))
    result = aggregate_tensor(values, group, stays=len(stays), c=c)
    assert result.numpy() == pytest.approx(
        [aggregate(stay, c) for stay in stays], abs=1e-9
    )


def test_gradients_are_those_of_the_formula():
    values = torch.tensor(
        [0.2, 0.8, 0.5], dtype=torch.float64, requires_grad=True
    )
    aggregate_tensor(
        values, torch.zeros(3, dtype=torch.int64), stays=1, c=2
    ).sum().backward()
    # d/dp_i = (n/c / n + [i is the max]) / (1 + n/c)
    assert values.grad.tolist() == pytest.approx([0.2, 0.6, 0.2])


@pytest.mark.parametrize("c", [0, -1, math.nan, math.inf])
def test_an_illegal_c_raises(c):
    with pytest.raises(ValueError, match="c must be a finite number above 0"):
        aggregate([0.5], c)


@pytest.mark.parametrize(
    "values", [[], [[0.1]], [math.nan], [1.1], [-0.1], ["a note"]]
)
def test_illegal_probabilities_raise(values):
    with pytest.raises(
        UserError,
        match=r"^probabilities (is empty|has shape|must be|is not numeric)",
    ):
        aggregate(values)


def test_counts_must_fit():
    with pytest.raises(ValueError, match="sum to 3"):
        aggregate_stays(np.array([0.1, 0.2, 0.3]), np.array([1, 1]))
