"""int8: close to float32, the same in any company, and a model of its own."""

import pickle

import numpy as np
import pytest
import torch

from domainbert.encoders.classifier import CLSClassifier
from domainbert.encoders.int8 import Int8Linear, int8_is_exact, measure_ranges, to_int8
from domainbert.errors import UserError
from domainbert.text.runner import WindowRunner

pytestmark = pytest.mark.numeric
needs_vnni = pytest.mark.skipif(not int8_is_exact(), reason="this processor has no VNNI")


@pytest.fixture(scope="module")
def network(random_network):
    return random_network(CLSClassifier, head="classifier", num_labels=1).eval()


def windows(seed, number=12):
    rng = np.random.default_rng(seed)
    return [rng.integers(5, 90, rng.integers(4, 60)) for _ in range(number)]


@needs_vnni
def test_a_layer_is_what_arithmetic_says():
    torch.manual_seed(0)
    linear = torch.nn.Linear(24, 8)
    inputs = torch.rand(5, 3, 24) * 4 - 1
    layer = Int8Linear(linear, -1.0, 3.0)
    scale, zero = 4 / 255, round(255 / 4)
    whole = ((inputs / scale).round() + zero).clamp(0, 255) - zero
    weights = layer.weight.float() * layer.scales[:, None]
    expected = whole @ weights.T * scale + linear.bias
    torch.testing.assert_close(layer(inputs), expected, atol=1e-4, rtol=1e-4)
    assert (layer(inputs) - linear(inputs)).abs().max() < 0.05
    torch.testing.assert_close(layer(inputs * 100), layer(inputs.clamp(-9, 9) * 100))


@needs_vnni
def test_scores_are_close_and_the_same_in_any_company(network):
    runner = WindowRunner(network, pad_token_id=0, device="cpu")
    ranges = measure_ranges(network, windows(0), runner=runner)
    assert len(ranges) == 2 * 6
    fast = runner.with_model(to_int8(network, ranges))
    others = windows(1)
    together = fast.logits(others)
    plain = runner.logits(others)
    assert 0 < np.abs(together - plain).max() < 0.1 * np.ptp(plain)
    alone = [fast.logits([window])[0] for window in others]
    np.testing.assert_allclose(alone, together, atol=1e-5)
    again = runner.with_model(pickle.loads(pickle.dumps(to_int8(network, ranges))))
    np.testing.assert_array_equal(again.logits(others), together)


@pytest.mark.skipif(int8_is_exact(), reason="this processor has VNNI")
def test_a_processor_that_would_give_other_numbers_is_refused(network):
    with pytest.raises(UserError, match=r"lacks the 8-bit instructions .* leave --precision out"):
        to_int8(network, {})


@needs_vnni
def test_what_cannot_be_quantised_is_refused(network):
    runner = WindowRunner(network, pad_token_id=0, device="cpu")
    with pytest.raises(UserError, match="at least one window"):
        measure_ranges(network, [], runner=runner)
    with pytest.raises(UserError, match="belong to another network"):
        to_int8(network, {"encoder.layer.0.query": (0.0, 1.0)})
