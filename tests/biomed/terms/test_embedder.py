"""TermEmbedder: what it adds to Embedder: the shipped model, contexts, its card."""

import numpy as np
import pytest
import torch

from biomed.terms.context import embed_in_context, find_mentions
from biomed.terms.embedder import TermEmbedder
from domainbert.embedding import Embedder
from domainbert.encoders import EncoderError
from domainbert.pooling import EmbeddingSettings

TERMS = ["heart failure", "kidney disease", "pneumonia", "left chest pain with edema", "insulin"]


def test_vectors_are_those_of_the_embedder(bare, tokenizer):
    settings = EmbeddingSettings(pooling="max", layers="sum4", unit_norm=True)
    expected = Embedder(bare, tokenizer, settings=settings).embed(TERMS)
    found = TermEmbedder(bare, tokenizer, settings=settings).embed(TERMS)
    assert np.array_equal(found, expected)


def test_similarity_is_the_cosine(embedder):
    a, b = embedder.embed(TERMS[:2])
    expected = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    assert embedder.similarity(*TERMS[:2]) == pytest.approx(expected, abs=1e-6)
    assert embedder.similarity("edema", "edema") == pytest.approx(1, abs=1e-6)


# In context


def test_a_term_is_found_as_whole_words_in_any_casing():
    sentences = ["The Heart Failure.", "a heartfailure", "heart  failure, heart failure", "pain"]
    found = list(find_mentions(["heart failure", "pain"], sentences))
    assert [(m.term, m.sentence[m.start : m.end]) for m in found] == [
        (0, "Heart Failure"),
        (0, "heart  failure"),
        (1, "pain"),
    ]


def test_in_context_a_vector_is_the_mean_of_its_own_tokens(bare, tokenizer, embedder):
    sentences = ["patient with edema and pain", "no edema", "stable"]
    result = embed_in_context(embedder, ["edema", "insulin"], sentences)
    assert result.sentences.tolist() == [2, 0]
    with torch.inference_mode():
        own = [
            bare(**tokenizer(text, return_tensors="pt")).last_hidden_state[0, place].numpy()
            for text, place in ((sentences[0], 3), (sentences[1], 2))
        ]
    assert result.vectors[0] == pytest.approx(np.mean(own, axis=0), abs=1e-5)
    assert result.vectors[1] == pytest.approx(embedder.embed("insulin"), abs=1e-5)
    shorter = embed_in_context(embedder, ["edema"], sentences, limit=1)
    assert shorter.vectors[0] == pytest.approx(own[0], abs=1e-5)
    assert embedder.embed("edema", sentences=sentences) == pytest.approx(result.vectors[0])


def test_a_long_sentence_is_read_around_the_term(embedder):
    sentence = "pain " * 300 + "edema" + " pain" * 300
    result = embed_in_context(embedder, ["edema"], [sentence])
    near = "pain " * 30 + "edema" + " pain" * 31
    assert result.sentences.tolist() == [1]
    expected = embed_in_context(embedder, ["edema"], [near]).vectors
    assert result.vectors == pytest.approx(expected, abs=1e-5)


def test_half_a_character_in_a_sentence_is_no_error(embedder):
    result = embed_in_context(embedder, ["edema"], ["no edema \ud800 here"])
    expected = embed_in_context(embedder, ["edema"], ["no edema \ufffd here"])
    assert np.array_equal(result.vectors, expected.vectors)


def test_the_limit_of_sentences_is_checked(embedder):
    with pytest.raises(ValueError, match="limit must be at least 1 sentence"):
        embed_in_context(embedder, ["edema"], [], limit=0)


# Loading and saving


def test_it_saves_and_loads_whole(bare, tokenizer, tmp_path, caplog):
    settings = EmbeddingSettings(pooling="max", layers="sum4", unit_norm=True)
    embedder = TermEmbedder(bare, tokenizer, settings=settings)
    embedder.save_pretrained(tmp_path / "model")
    again = TermEmbedder.from_pretrained(tmp_path / "model")
    assert again.settings == settings
    assert again.embed(TERMS) == pytest.approx(embedder.embed(TERMS), abs=1e-6)
    assert "TermEmbedder" in (tmp_path / "model" / "README.md").read_text()
    assert not caplog.text


def test_another_tasks_model_is_refused(model, tmp_path):
    model.save_pretrained(tmp_path / "readmission")
    with pytest.raises(EncoderError, match="is a model for readmission, not for terms"):
        TermEmbedder.from_pretrained(tmp_path / "readmission")


def test_its_repr_names_no_term(embedder):
    embedder.embed("insulin")
    expected = "TermEmbedder('encoder', pooling='mean', layers='last', unit_norm=False)"
    assert repr(embedder) == expected


@pytest.mark.encoder
def test_the_shipped_model_is_the_default():
    embedder = TermEmbedder.from_pretrained(device="cpu")
    assert embedder.name == "terms"
    near = embedder.similarity("heart attack", "myocardial infarction")
    assert near > embedder.similarity("heart attack", "acne") + 0.2
