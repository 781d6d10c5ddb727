import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertForSequenceClassification

from domainbert.errors import UserError
from domainbert.text.runner import (
    WindowRunner,
    find_device,
    pad,
    plan_batches,
)

LENGTHS = [3, 64, 17, 5, 64, 33, 4, 64, 20, 9, 41, 3]


@pytest.fixture
def windows(tokenizer):
    """Windows of many lengths, and not one alike."""
    generator = np.random.default_rng(0)
    return [
        generator.integers(5, len(tokenizer), length) for length in LENGTHS
    ]


@pytest.fixture
def expected(network, windows):
    """What Hugging Face's own classifier says, one window at a time and nothing padded."""
    reference = BertForSequenceClassification(network.config).eval()
    reference.load_state_dict(network.state_dict())
    with torch.no_grad():
        logits = [
            reference(torch.from_numpy(window)[None]).logits.item()
            for window in windows
        ]
    assert np.ptp(logits) > 0.5
    return np.array(logits)


def runner(network, tokenizer, **options):
    return WindowRunner(
        network, pad_token_id=tokenizer.pad_token_id, device="cpu", **options
    )


@given(
    lengths=st.lists(st.integers(0, 600), max_size=200),
    batch_tokens=st.integers(1, 5000),
)
def test_batches_hold_each_window_once_within_the_budget(
    lengths, batch_tokens
):
    batches = plan_batches(lengths, batch_tokens=batch_tokens)
    together = [int(index) for batch in batches for index in batch]
    assert sorted(together) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[index] for index in batch)
        assert len(batch) == 1 or len(batch) * longest <= batch_tokens
    assert [lengths[i] for i in together] == sorted(lengths, reverse=True)


def test_a_few_windows_of_many_lengths_are_hardly_padded():
    """Two windows of a short stay are a long one and a short rest, as a service gets them."""
    generator = np.random.default_rng(0)
    lengths = np.concatenate(
        [np.full(20, 128), generator.integers(3, 128, 20)]
    )
    batches = plan_batches(lengths, batch_tokens=4096)
    padded = sum(len(batch) * lengths[batch].max() for batch in batches)
    assert padded < 1.1 * lengths.sum()
    assert len(batches) <= 6


def test_windows_of_like_length_fill_the_budget():
    batches = plan_batches([10] * 10, batch_tokens=40)
    assert [len(batch) for batch in batches] == [4, 4, 2]


@pytest.mark.parametrize("batch_tokens", [1, 64, 150, 100_000, None])
def test_same_numbers_whatever_the_batch(
    network, tokenizer, windows, expected, batch_tokens
):
    logits = runner(network, tokenizer, batch_tokens=batch_tokens).logits(
        windows
    )
    assert logits.dtype == np.float32
    assert logits == pytest.approx(expected, abs=1e-5)


def test_same_numbers_whatever_the_order_and_company(
    network, tokenizer, windows, expected
):
    run = runner(network, tokenizer, batch_tokens=130)
    order = np.random.default_rng(1).permutation(len(windows))
    assert run.logits([windows[i] for i in order]) == pytest.approx(
        expected[order], abs=1e-5
    )
    assert run.logits(windows[4:9]) == pytest.approx(expected[4:9], abs=1e-5)
    assert run.logits(windows[:1]) == pytest.approx(expected[:1], abs=1e-5)


def test_no_window_no_number(network, tokenizer):
    assert runner(network, tokenizer).logits([]).shape == (0,)


def test_dropout_is_off_also_after_training(
    network, tokenizer, windows, expected
):
    for module in network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.5
    network.train()
    run = runner(network, tokenizer)
    assert run.logits(windows) == pytest.approx(expected, abs=1e-5)
    network.train()
    with pytest.raises(IndexError):
        run.logits([np.array([10**6])])
    assert run.logits(windows) == pytest.approx(expected, abs=1e-5)


def test_other_processes_get_the_same_numbers(
    network, tokenizer, windows, expected
):
    runner = WindowRunner(
        network, pad_token_id=tokenizer.pad_token_id, batch_tokens=77
    )
    copy = pickle.loads(pickle.dumps(runner))
    assert (copy.batch_tokens, copy.device) == (77, runner.device)
    np.testing.assert_allclose(copy.logits(windows), expected, atol=1e-5)


def test_no_gradient_is_kept(network, tokenizer, windows):
    seen = []
    network.classifier.register_forward_hook(
        lambda *parts: seen.append(parts[2])
    )
    runner(network, tokenizer).logits(windows)
    assert all(output.is_inference() for output in seen)


def test_other_weights_run_the_same_way(
    network, new_network, tokenizer, windows
):
    run = runner(network, tokenizer, batch_tokens=77)
    other = run.with_model(new_network(seed=1))
    assert other.batch_tokens == 77
    assert np.abs(other.logits(windows) - run.logits(windows)).max() > 0.1


@pytest.mark.parametrize("batch_tokens", [0, -1])
def test_batch_budget_must_be_positive(network, tokenizer, batch_tokens):
    with pytest.raises(
        ValueError,
        match=f"batch_tokens must be at least 1, got {batch_tokens}",
    ):
        runner(network, tokenizer, batch_tokens=batch_tokens)


def test_equal_rows_need_no_mask():
    ids, mask = pad([np.array([2, 7, 3]), np.array([2, 8, 3])], pad_token_id=0)
    assert ids.tolist() == [[2, 7, 3], [2, 8, 3]]
    assert mask is None


def test_shorter_rows_are_padded_and_masked():
    ids, mask = pad([np.array([2, 3]), np.array([2, 8, 9, 3])], pad_token_id=5)
    assert ids.tolist() == [[2, 3, 5, 5], [2, 8, 9, 3]]
    assert mask.tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]


@pytest.mark.parametrize(
    "device", ["gpu", "cuda:x", "meta", "mps", "", "cuda:-1", 3.5]
)
def test_a_device_that_is_none_is_refused_with_a_list(device):
    with pytest.raises(
        UserError, match=r"^no device '.*'; this machine has: cpu"
    ):
        find_device(device)


def test_a_device_that_this_machine_lacks_is_refused():
    count = torch.cuda.device_count()
    with pytest.raises(
        UserError, match=rf"^no device 'cuda:{count}'; this machine has: cpu"
    ):
        find_device(f"cuda:{count}")
    assert (
        find_device("cpu")
        == find_device(torch.device("cpu"))
        == torch.device("cpu")
    )
    assert find_device().type == ("cuda" if count else "cpu")


def test_ten_threads_on_one_model_give_what_one_gives(new_network):
    network = new_network(hidden_dropout_prob=0.5)
    rng = np.random.default_rng(0)
    windows = [
        rng.integers(5, 60, size=n) for n in rng.integers(3, 60, size=40)
    ]
    runner = WindowRunner(
        network, pad_token_id=0, device="cpu", batch_tokens=128
    )
    expected = runner.logits(windows)
    network.train()

    def run(number):
        return runner.logits(windows[: 4 + 4 * (number % 10)])

    with ThreadPoolExecutor(10) as pool:
        for number, found in enumerate(pool.map(run, range(60))):
            np.testing.assert_allclose(
                found, expected[: 4 + 4 * (number % 10)], atol=1e-5
            )
