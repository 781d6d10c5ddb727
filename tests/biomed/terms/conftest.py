"""A tiny embedder: two layers, 32 dimensions, windows of 64 tokens."""

import pytest

from biomed.terms.similarity import TermEmbedder


@pytest.fixture(scope="session")
def bare(new_network):
    """A tiny encoder without a head."""
    return new_network().bert


@pytest.fixture
def embedder(bare, tokenizer):
    return TermEmbedder(bare, tokenizer)
