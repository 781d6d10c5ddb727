"""Vectors: the pooling they claim to be, whatever the company, and nothing lost in silence."""

import logging

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from biomed.terms.context import embed_in_context, find_mentions
from biomed.terms.embedder import TermEmbedder
from biomed.terms.pooling import TermSettings
from domainbert.encoders import EncoderError

TERMS = ["heart failure", "kidney disease", "pneumonia", "left chest pain with edema", "insulin"]


def manual(network, tokenizer, texts, *, pooling="mean", layers="last"):
    """The textbook way: one padded batch, masked."""
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.inference_mode():
        output = network(**batch, output_hidden_states=True)
    states = output.hidden_states
    hidden = {"last": states[-1], "mean4": sum(states[1:]) / 2, "sum4": sum(states[1:])}[layers]
    mask = batch["attention_mask"][..., None].bool()
    if pooling == "cls":
        return hidden[:, 0].numpy()
    if pooling == "max":
        return hidden.masked_fill(~mask, -1e9).amax(1).numpy()
    return ((hidden * mask).sum(1) / mask.sum(1)).numpy()


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("layers", ["last", "mean4", "sum4"])
def test_a_vector_is_the_pooling_it_claims_to_be(bare, tokenizer, pooling, layers):
    embedder = TermEmbedder(bare, tokenizer, settings=TermSettings(pooling=pooling, layers=layers))
    vectors = embedder.embed(TERMS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (5, 32) == (5, embedder.dimension)
    expected = manual(bare, tokenizer, TERMS, pooling=pooling, layers=layers)
    assert vectors == pytest.approx(expected, abs=1e-5)


@given(
    order=st.permutations(range(5)),
    batch_tokens=st.sampled_from([1, 9, 4096]),
    repeats=st.integers(1, 3),
)
def test_company_order_and_batch_size_do_not_matter(bare, tokenizer, order, batch_tokens, repeats):
    alone = np.stack([TermEmbedder(bare, tokenizer).embed(term) for term in TERMS])
    small = TermEmbedder(bare, tokenizer, batch_tokens=batch_tokens)
    together = small.embed([TERMS[i] for i in order] * repeats)
    assert together == pytest.approx(alone[list(order) * repeats], abs=1e-5)


def test_one_term_is_one_vector(embedder):
    assert embedder.embed("heart failure").shape == (32,)
    assert embedder.embed([]).shape == (0, 32)


def test_unit_norm(bare, tokenizer):
    plain = TermEmbedder(bare, tokenizer).embed(TERMS)
    scaled = TermEmbedder(bare, tokenizer, settings=TermSettings(unit_norm=True)).embed(TERMS)
    assert np.linalg.norm(scaled, axis=1) == pytest.approx(np.ones(5), abs=1e-6)
    assert scaled * np.linalg.norm(plain, axis=1)[:, None] == pytest.approx(plain, abs=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_a_text_longer_than_a_window_is_read_whole_and_flagged(bare, tokenizer, caplog, pooling):
    embedder = TermEmbedder(bare, tokenizer, settings=TermSettings(pooling=pooling))
    long = "heart failure and kidney disease " * 40
    with caplog.at_level(logging.WARNING):
        vector = embedder.embed([long, "insulin"])[0]
    assert "1 of 2 texts are longer than 64 tokens" in caplog.text
    assert "heart" not in caplog.text
    windows = embedder.windower.split(long).windows
    rows = embedder.pooled([window.input_ids for window in windows])
    lengths = [len(window) for window in windows]
    expected = np.average(rows, axis=0, weights=lengths) if pooling == "mean" else rows.max(axis=0)
    assert vector == pytest.approx(expected, abs=1e-5)
    (part,) = embedder.embed_many([long, "insulin"])
    assert part.windows.tolist() == [len(windows), 1]
    assert part.tokens.tolist() == [200, 1]


def test_what_cannot_be_embedded_costs_nothing_else(embedder):
    (part,) = embedder.embed_many(["insulin", "", None, 7, "  ", "中文", float("nan"), "edema"])
    assert part.faults == (
        *("", "no text", "no text", "it is int, not a string", "no text"),
        *("no word of it is in the encoder's vocabulary", "no text", ""),
    )
    assert np.isnan(part.vectors[1:7]).all()
    assert part.vectors[[0, 7]] == pytest.approx(embedder.embed(["insulin", "edema"]), abs=1e-6)


def test_embed_refuses_it_by_number_and_not_by_text(embedder):
    with pytest.raises(ValueError, match=r"term number 2 cannot be embedded: no text"):
        embedder.embed(["insulin", "edema", " "])
    with pytest.raises(ValueError, match="term number 1 cannot be embedded: no word") as caught:
        embedder.embed(["insulin", "秘密"])
    assert "秘密" not in str(caught.value)


def test_many_terms_come_in_pieces_and_in_order(bare, tokenizer):
    embedder = TermEmbedder(bare, tokenizer, batch_tokens=64)
    stream = (TERMS[i % 5] for i in range(3000))
    sizes, seen = [], []
    for part in embedder.embed_many(stream):
        sizes.append(len(part.vectors))
        seen.append(part.vectors)
    assert len(sizes) > 3
    assert max(sizes) < 1000
    assert np.concatenate(seen)[-5:] == pytest.approx(embedder.embed(TERMS), abs=1e-5)


def test_similarity_is_the_cosine(embedder):
    a, b = embedder.embed(TERMS[:2])
    expected = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    assert embedder.similarity(*TERMS[:2]) == pytest.approx(expected, abs=1e-6)
    assert embedder.similarity("edema", "edema") == pytest.approx(1, abs=1e-6)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="pooling must be one of mean, cls, max; got 'median'"):
        TermSettings(pooling="median")
    with pytest.raises(ValueError, match="layers must be one of last, mean4, sum4"):
        TermSettings(layers="first")


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


def test_the_limit_of_sentences_is_checked(embedder):
    with pytest.raises(ValueError, match="limit must be at least 1 sentence"):
        embed_in_context(embedder, ["edema"], [], limit=0)


# Loading and saving


def test_any_encoder_loads_and_says_once_what_it_was_not_made_for(
    tiny_encoder, caplog, monkeypatch
):
    monkeypatch.setattr("biomed.terms.embedder._warned", set())
    for _ in range(2):
        embedder = TermEmbedder.from_pretrained(tiny_encoder)
    assert caplog.text.count("was not trained for similarity") == 1
    assert embedder.settings == TermSettings()
    assert embedder.embed("heart failure").shape == (32,)


def test_a_model_made_for_similarity_brings_its_pooling(new_network, tokenizer, tmp_path, caplog):
    new_network().bert.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    modules = '[{"type": "sentence_transformers.models.%s"}]'
    (tmp_path / "modules.json").write_text(modules % "Transformer")
    embedder = TermEmbedder.from_pretrained(tmp_path)
    assert embedder.settings.pooling == "cls"
    assert not caplog.text
    assert TermEmbedder.from_pretrained(tmp_path, pooling="max").settings.pooling == "max"
    (tmp_path / "modules.json").write_text(modules % "Dense")
    with pytest.raises(EncoderError, match="puts Dense after its encoder"):
        TermEmbedder.from_pretrained(tmp_path)


def test_it_saves_and_loads_whole(bare, tokenizer, tmp_path, caplog):
    settings = TermSettings(pooling="max", layers="sum4", unit_norm=True)
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
def test_the_plain_encoder_gives_what_sentence_transformers_gives():
    sentence_transformers = pytest.importorskip("sentence_transformers")
    from domainbert.encoders import find_encoder

    reference = sentence_transformers.SentenceTransformer(find_encoder().location, device="cpu")
    embedder = TermEmbedder.from_pretrained("all-MiniLM-L6-v2", unit_norm=True, device="cpu")
    terms = ["heart failure", "COPD", "acute lymphoblastic leukemia", "β-thalassemia"]
    assert embedder.embed(terms) == pytest.approx(reference.encode(terms), abs=1e-5)
