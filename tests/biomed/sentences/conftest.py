"""A tiny encoder with windows of 64 tokens, and pairs that a model can learn."""

import numpy as np
import pytest

from biomed.sentences.encoder import CrossEncoder, SentenceEncoder

WORDS = ["pain", "fever", "edema", "insulin"]


@pytest.fixture
def encoder(new_network, tokenizer):
    return SentenceEncoder(new_network().bert, tokenizer)


@pytest.fixture
def cross(new_network, tokenizer):
    return CrossEncoder(new_network(labels=1), tokenizer)


@pytest.fixture
def write_pairs(tmp_path):
    """Writes pairs that are alike where they have the same word; kinds differ in the label."""

    def write(name, *, count=120, seed=0, kind="score"):
        generator = np.random.default_rng(seed)
        lines = [f"first,second,{kind}"]
        for number in range(count):
            a, b = (str(generator.choice(WORDS[:2])) for _ in range(2))
            label = {
                "score": 5 * (a == b),
                "label": "same" if a == b else "other",
            }[kind]
            lines.append(
                f"patient {a} {seed} {number % 10},the {b} {number // 10},{label}"
            )
        path = tmp_path / name
        path.write_text("\n".join(dict.fromkeys(lines)) + "\n")
        return path

    return write
