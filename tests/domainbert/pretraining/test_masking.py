import numpy as np
import pytest

from domainbert.pretraining.examples import IGNORED, Masker

ROWS, TOKENS = 400, 60


@pytest.fixture(scope="module")
def batch(tokenizer):
    """Rows of ordinary tokens between special ones, some padded."""
    special = tokenizer.all_special_ids
    ordinary = [
        number for number in range(len(tokenizer)) if number not in special
    ]
    generator = np.random.default_rng(0)
    ids = generator.choice(ordinary, (ROWS, TOKENS))
    ids[:, 0], ids[:, 30], ids[:, -1] = (
        tokenizer.cls_token_id,
        tokenizer.sep_token_id,
        0,
    )
    ids[:, -2] = tokenizer.sep_token_id
    ids[::4, 40:] = tokenizer.pad_token_id
    ids[::5, 7] = tokenizer.unk_token_id
    return ids


def hide(masker, ids, seed):
    """What a batch shows, and its labels, shape (rows, tokens)."""
    rows = {
        "tokens": ids,
        "second": np.full(len(ids), ids.shape[1]),
        "label": np.zeros(len(ids)),
    }
    batch = masker.batch(rows, seed=(seed,))
    return batch["input_ids"].numpy(), batch["labels"].numpy()


def within(count, total, share):
    """Whether a binomial count lies within five standard deviations."""
    return abs(count - total * share) < 5 * np.sqrt(
        total * share * (1 - share)
    )


@pytest.mark.parametrize("masked", [0.15, 0.4])
def test_rates(tokenizer, batch, masked):
    shown, labels = hide(Masker(tokenizer, masked=masked), batch, 1)
    ordinary = ~np.isin(batch, tokenizer.all_special_ids)
    hidden = labels != IGNORED
    total = int(hidden.sum())
    assert within(total, int(ordinary.sum()), masked)
    is_mask, is_same = (
        shown[hidden] == tokenizer.mask_token_id,
        shown[hidden] == batch[hidden],
    )
    words = len(tokenizer)
    assert within(int(is_mask.sum()), total, 0.8 + 0.1 / words)
    assert within(int(is_same.sum()), total, 0.1 + 0.1 / words)
    assert within(int((~is_mask & ~is_same).sum()), total, 0.1 - 0.2 / words)


def test_special_tokens_are_never_hidden(tokenizer, batch):
    masker = Masker(tokenizer, masked=0.9)
    shown, labels = hide(masker, batch, 2)
    special = np.isin(batch, tokenizer.all_special_ids)
    hidden = labels != IGNORED
    assert not (hidden & special).any()
    assert (shown[~hidden] == batch[~hidden]).all()
    assert (labels[hidden] == batch[hidden]).all()


def test_the_seed_decides(tokenizer, batch):
    masker = Masker(tokenizer)
    first = hide(masker, batch, 5)
    again = hide(masker, batch, 5)
    other = hide(masker, batch, 6)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert (first[1] != other[1]).any()
