"""Sentences and passages: vectors, search, reranking and training."""
