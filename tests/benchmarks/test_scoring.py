"""Multiply-adds of a window, counted by hand."""

from transformers import BertConfig

from benchmarks.scoring import multiply_adds


def test_the_last_layer_counts_only_the_first_row():
    config = BertConfig(
        hidden_size=2,
        intermediate_size=4,
        num_hidden_layers=2,
        num_attention_heads=1,
        num_labels=1,
    )
    # Keys and values, query and output, attention, feed-forward; of 3 tokens.
    full_layer = 24 + 24 + 36 + 48
    last_layer = 24 + 8 + 12 + 16
    head = 4 + 2
    assert multiply_adds(config, 3) == full_layer + last_layer + head
