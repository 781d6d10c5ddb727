"""TermEmbedder: what it adds to Embedder: the neighbours, the shipped model, its card."""

import numpy as np
import pytest

from biomed.sentences.encoder import SentenceEncoder
from biomed.terms.similarity import TermEmbedder
from domainbert.encoders.loading import EncoderError
from domainbert.models.embedder import Embedder
from domainbert.models.pooling import EmbeddingSettings

TERMS = [
    "heart failure",
    "kidney disease",
    "pneumonia",
    "left chest pain with edema",
    "insulin",
]


def test_vectors_are_those_of_the_embedder(bare, tokenizer):
    settings = EmbeddingSettings(pooling="max", unit_norm=True)
    expected = Embedder(bare, tokenizer, settings=settings).embed(TERMS)
    found = TermEmbedder(bare, tokenizer, settings=settings).embed(TERMS)
    assert np.array_equal(found, expected)


def test_similarity_is_the_cosine(embedder):
    a, b = embedder.embed(TERMS[:2])
    expected = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    assert embedder.similarity(*TERMS[:2]) == pytest.approx(expected, abs=1e-6)
    assert embedder.similarity("edema", "edema") == pytest.approx(1, abs=1e-6)


def test_a_vocabulary_is_embedded_once(embedder, monkeypatch):
    """Each call of nearest took 8.5 seconds for the shipped vocabulary."""
    words = ["edema", "fever", "kidney disease"]
    calls = []
    embed = TermEmbedder.embed
    monkeypatch.setattr(
        TermEmbedder,
        "embed",
        lambda self, t: calls.append(len(t)) or embed(self, t),
    )
    first = embedder.nearest("swelling", words, k=2)
    assert embedder.nearest("swelling", list(words), k=2).equals(first)
    assert calls == [3]
    index = embedder._index[1]
    embedder.nearest("cough", words)
    assert (
        embedder._index[1] is index
    )  # its names are read once too: a second each time
    embedder.nearest("swelling", words[:2], k=1)
    assert calls == [3, 2]


# Loading and saving


def test_it_saves_and_loads_whole(bare, tokenizer, tmp_path, caplog):
    settings = EmbeddingSettings(pooling="max", unit_norm=True)
    embedder = TermEmbedder(bare, tokenizer, settings=settings)
    embedder.save_pretrained(tmp_path / "model")
    again = TermEmbedder.from_pretrained(tmp_path / "model")
    assert again.settings == settings
    assert again.embed(TERMS) == pytest.approx(embedder.embed(TERMS), abs=1e-6)
    assert "TermEmbedder" in (tmp_path / "model" / "README.md").read_text()
    assert not caplog.text


def test_a_model_of_terms_gives_vectors_of_sentences(
    bare, tokenizer, tmp_path
):
    embedder = TermEmbedder(bare, tokenizer)
    embedder.save_pretrained(tmp_path / "model")
    encoder = SentenceEncoder.from_pretrained(tmp_path / "model")
    assert np.array_equal(encoder.encode(TERMS), embedder.embed(TERMS))
    encoder.save_pretrained(tmp_path / "sentences")
    again = TermEmbedder.from_pretrained(tmp_path / "sentences")
    assert np.array_equal(again.embed(TERMS), embedder.embed(TERMS))


@pytest.mark.encoder
def test_one_shipped_model_reads_terms_and_sentences():
    encoder = SentenceEncoder.from_pretrained()
    vectors = TermEmbedder.from_pretrained().embed(TERMS)
    assert encoder.name == "terms"
    assert np.array_equal(encoder.encode(TERMS), vectors)
    plain = SentenceEncoder.from_pretrained("all-MiniLM-L6-v2")
    assert not np.allclose(plain.encode(TERMS), vectors, atol=0.01)


def test_another_tasks_model_is_refused(model, tmp_path):
    model.save_pretrained(tmp_path / "readmission")
    with pytest.raises(
        EncoderError, match="is a model for readmission, not for terms"
    ):
        TermEmbedder.from_pretrained(tmp_path / "readmission")


def test_its_repr_names_no_term(embedder):
    embedder.embed("insulin")
    expected = "TermEmbedder('', pooling='mean', unit_norm=False)"
    assert repr(embedder) == expected


@pytest.mark.encoder
def test_the_shipped_model_is_the_default():
    embedder = TermEmbedder.from_pretrained(device="cpu")
    assert embedder.name == "terms"
    near = embedder.similarity("heart attack", "myocardial infarction")
    assert near > embedder.similarity("heart attack", "acne") + 0.2
