"""Sentences and passages: vectors, search, reranking, and models of both kinds."""
