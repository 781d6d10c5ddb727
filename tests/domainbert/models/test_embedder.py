"""Embedder: the pooling it claims, whatever the company; every token read, or said."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from domainbert.encoders.loading import EncoderError
from domainbert.errors import UserError
from domainbert.models.embedder import Embedder
from domainbert.models.manifest import Manifest
from domainbert.models.pooling import EmbeddingSettings, unit
from domainbert.models.storage import write_manifest
from domainbert.text.windows import LONGEST_TEXT

TERMS = [
    "heart failure",
    "kidney disease",
    "pneumonia",
    "left chest pain with edema",
    "insulin",
]
LONG = "heart failure and kidney disease " * 40


@pytest.fixture(scope="module")
def bare(new_network):
    return new_network().bert


@pytest.fixture
def embedder(bare, tokenizer):
    return Embedder(bare, tokenizer)


def manual(network, tokenizer, texts, *, pooling="mean"):
    """The textbook way: one padded batch, masked."""
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.inference_mode():
        output = network(**batch)
    hidden = output.last_hidden_state
    mask = batch["attention_mask"][..., None].bool()
    if pooling == "cls":
        return hidden[:, 0].numpy()
    if pooling == "max":
        return hidden.masked_fill(~mask, -1e9).amax(1).numpy()
    return ((hidden * mask).sum(1) / mask.sum(1)).numpy()


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_a_vector_is_the_pooling_it_claims_to_be(bare, tokenizer, pooling):
    settings = EmbeddingSettings(pooling=pooling)
    embedder = Embedder(bare, tokenizer, settings=settings)
    vectors = embedder.embed(TERMS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (5, 32) == (5, embedder.dimension)
    expected = manual(bare, tokenizer, TERMS, pooling=pooling)
    assert vectors == pytest.approx(expected, abs=1e-5)


@given(
    order=st.permutations(range(5)),
    batch_tokens=st.sampled_from([1, 9, 4096]),
    repeats=st.integers(1, 3),
)
def test_company_order_and_batch_size_do_not_matter(
    bare, tokenizer, order, batch_tokens, repeats
):
    alone = np.stack([Embedder(bare, tokenizer).embed(term) for term in TERMS])
    small = Embedder(bare, tokenizer, batch_tokens=batch_tokens)
    together = small.embed([TERMS[i] for i in order] * repeats)
    assert together == pytest.approx(alone[list(order) * repeats], abs=1e-5)


def test_one_text_is_one_vector(embedder):
    assert embedder.embed("heart failure").shape == (32,)
    assert embedder.embed([]).shape == (0, 32)


def test_unit_norm(bare, tokenizer):
    plain = Embedder(bare, tokenizer).embed(TERMS)
    scaled = Embedder(
        bare, tokenizer, settings=EmbeddingSettings(unit_norm=True)
    ).embed(TERMS)
    assert np.linalg.norm(scaled, axis=1) == pytest.approx(
        np.ones(5), abs=1e-6
    )
    assert scaled * np.linalg.norm(plain, axis=1)[:, None] == pytest.approx(
        plain, abs=1e-5
    )


def test_unit_rows_have_length_one_and_zeros_stay():
    rows = unit(np.array([[3.0, 4.0], [0.0, 0.0]], dtype=np.float32))
    assert rows == pytest.approx(np.array([[0.6, 0.8], [0, 0]]))
    assert rows.dtype == np.float32


@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize("window", [None, 20])
def test_a_text_longer_than_a_window_is_read_whole(
    bare, tokenizer, pooling, window
):
    settings = EmbeddingSettings(pooling=pooling, window=window)
    embedder = Embedder(bare, tokenizer, settings=settings)
    vector = embedder.embed([LONG, "insulin"])[0]
    windows = embedder.windower.split(LONG).windows
    rows = embedder.pooled([window.input_ids for window in windows])
    lengths = [len(window) for window in windows]
    expected = (
        np.average(rows, axis=0, weights=lengths)
        if pooling == "mean"
        else rows.max(axis=0)
    )
    assert vector == pytest.approx(expected, abs=1e-5)
    (part,) = embedder.embed_many([LONG, "insulin"])
    assert [len(text.windows) for text in part.texts] == [len(windows), 1]
    assert [text.tokens for text in part.texts] == [200, 1]


def test_what_has_no_vector_affects_nothing_else(embedder):
    texts = [
        "insulin",
        "",
        None,
        7,
        "  ",
        "中文",
        float("nan"),
        "edema \ud800",
    ]
    (part,) = embedder.embed_many(texts)
    assert part.faults == [
        *("", "no text", "no text", "it is int, not a string", "no text"),
        *("no word of it is in the encoder's vocabulary", "no text", ""),
    ]
    assert np.isnan(part.vectors[1:7]).all()
    assert part.vectors[0] == pytest.approx(
        embedder.embed("insulin"), abs=1e-6
    )


def test_embed_refuses_it_by_number_and_not_by_text(embedder):
    with pytest.raises(
        UserError, match="text number 2 has no vector: no text"
    ):
        embedder.embed(["insulin", "edema", " "])
    column = pd.Series(["insulin", None, "edema"], dtype="string")
    with pytest.raises(
        UserError, match="text number 1 has no vector: no text"
    ):
        embedder.embed(column)
    (part,) = embedder.embed_many(column)
    assert part.faults == ["", "no text", ""]
    with pytest.raises(
        UserError, match="text number 1 has no vector: no word"
    ) as caught:
        embedder.embed(["insulin", "秘密"])
    assert "秘密" not in str(caught.value)


@pytest.mark.parametrize("method", ["embed_many", "embed_passages"])
def test_one_string_is_not_read_letter_by_letter(embedder, method):
    with pytest.raises(
        UserError, match="expected a list of texts, got one string"
    ):
        list(getattr(embedder, method)("asthma"))


def test_many_texts_come_in_pieces_and_in_order(bare, tokenizer):
    embedder = Embedder(bare, tokenizer, batch_tokens=64)
    parts = list(embedder.embed_many(TERMS[i % 5] for i in range(3000)))
    assert len(parts) > 3
    assert max(len(part.vectors) for part in parts) < 1000
    last = np.concatenate([part.vectors for part in parts])[-5:]
    assert last == pytest.approx(embedder.embed(TERMS), abs=1e-5)


def test_passages_cover_the_text_and_have_its_offsets(bare, tokenizer):
    embedder = Embedder(bare, tokenizer, batch_tokens=64)
    texts = ["Heart failure.", None, LONG, "", "edema and pain " * 30]
    parts = list(embedder.embed_passages(texts * 9, window=12))
    assert len(parts) > 1
    passages = [text.windows for part in parts for text in part.texts]
    places = np.array(
        [
            (number, passage.start, passage.end)
            for number, windows in enumerate(passages)
            for passage in windows
        ]
    )
    vectors = np.concatenate([part.vectors for part in parts])
    faults = [fault for part in parts for fault in part.faults]
    assert faults == ["", "no text", "", "no text", ""] * 9
    for number in (0, 2, 4, 42):
        own = places[places[:, 0] == number]
        text = texts[number % 5]
        pieces = [text[start:end] for _, start, end in own]
        assert " ".join(pieces) == text.strip()
        assert len(own) == max(
            1, -(-len(tokenizer(text)["input_ids"][1:-1]) // 10)
        )
        assert vectors[places[:, 0] == number] == pytest.approx(
            embedder.embed(pieces), abs=1e-4
        )


def test_settings_are_checked():
    with pytest.raises(
        UserError,
        match="pooling: expected 'mean', 'cls' or 'max', got 'median'",
    ):
        EmbeddingSettings(pooling="median")


def test_a_window_beyond_the_encoder_is_refused(bare, tokenizer, embedder):
    with pytest.raises(
        UserError, match="window must be at most 64 for this encoder, got 65"
    ):
        Embedder(bare, tokenizer, settings=EmbeddingSettings(window=65))
    with pytest.raises(
        UserError, match="window must be between 3 and 64, got 100"
    ):
        list(embedder.embed_passages(["text"], window=100))


# Loading and saving


def test_any_encoder_loads_and_is_reported(tiny_encoder, caplog):
    embedder = Embedder.from_pretrained(tiny_encoder)
    assert "was not trained for similarity" in caplog.text
    assert embedder.settings == EmbeddingSettings()


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("unit_norm", [False, True])
def test_the_merged_folder_gives_the_same_vectors_in_sentence_transformers(
    bare, tokenizer, tmp_path, caplog, pooling, unit_norm
):
    from sentence_transformers import SentenceTransformer

    settings = EmbeddingSettings(pooling=pooling, unit_norm=unit_norm)
    embedder = Embedder(bare, tokenizer, settings=settings)
    for _ in range(2):  # a model folder may be written again
        embedder.save_pretrained(tmp_path / "model")
    theirs = SentenceTransformer(
        str(tmp_path / "model"), device="cpu", local_files_only=True
    )
    assert theirs.encode(TERMS) == pytest.approx(
        embedder.embed(TERMS), abs=1e-5
    )
    again = Embedder.from_pretrained(tmp_path / "model")
    assert again.settings == settings
    assert (
        again.fingerprint()
        == Embedder.from_pretrained(tmp_path / "model").fingerprint()
    )
    assert not caplog.text


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_a_folder_of_sentence_transformers_gives_the_same_vectors_here(
    tiny_encoder, tmp_path, pooling
):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    modules = [
        Transformer(str(tiny_encoder)),
        Pooling(32, pooling),
        Normalize(),
    ]
    theirs = SentenceTransformer(modules=modules, device="cpu")
    theirs.save(str(tmp_path / "st"), create_model_card=False)
    ours = Embedder.from_pretrained(tmp_path / "st")
    assert ours.settings == EmbeddingSettings(pooling=pooling, unit_norm=True)
    assert ours.embed(TERMS) == pytest.approx(theirs.encode(TERMS), abs=1e-5)


def test_options_win_over_what_the_folder_says(
    new_network, tokenizer, tmp_path, caplog
):
    new_network().bert.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(
        '{"pooling_mode_cls_token": true}'
    )
    modules = '[{"type": "sentence_transformers.models.%s"}]'
    (tmp_path / "modules.json").write_text(modules % "Transformer")
    assert Embedder.from_pretrained(tmp_path).settings.pooling == "cls"
    assert not caplog.text
    assert (
        Embedder.from_pretrained(tmp_path, pooling="max").settings.pooling
        == "max"
    )
    (tmp_path / "modules.json").write_text(modules % "Dense")
    with pytest.raises(EncoderError, match="puts Dense after its encoder"):
        Embedder.from_pretrained(tmp_path)


def test_unknown_settings_in_a_folder_are_refused(bare, tokenizer, tmp_path):
    Embedder(bare, tokenizer).save_pretrained(tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    file.write_text(
        file.read_text().replace('"pooling": "mean"', '"polling": "mean"')
    )
    write_manifest(tmp_path / "model", Manifest())
    with pytest.raises(
        EncoderError,
        match=r"config\.json: settings: polling: no such setting; expected",
    ):
        Embedder.from_pretrained(tmp_path / "model")


def test_its_repr_has_no_text(embedder):
    embedder.embed("insulin")
    assert repr(embedder) == "Embedder('', pooling='mean', unit_norm=False)"


@pytest.mark.encoder
def test_the_shipped_encoder_gives_what_sentence_transformers_gives():
    from sentence_transformers import SentenceTransformer

    from domainbert.encoders.loading import find_encoder

    reference = SentenceTransformer(find_encoder().location, device="cpu")
    embedder = Embedder.from_pretrained(device="cpu")
    terms = [
        "heart failure",
        "COPD",
        "acute lymphoblastic leukemia",
        "β-thalassemia",
    ]
    assert embedder.embed(terms) == pytest.approx(
        reference.encode(terms), abs=1e-5
    )


def test_a_text_beyond_the_limit_affects_nothing_else(embedder):
    endless = "e" * (LONGEST_TEXT + 1)
    parts = embedder.embed_many(["insulin", endless])
    first, second = (fault for part in parts for fault in part.faults)
    assert first == ""
    assert second.startswith("it has 5,000,001 characters")
    parts = list(embedder.embed_passages([endless, "insulin"]))
    faults = [fault for part in parts for fault in part.faults]
    assert faults == [second, ""]
    passages = [text.windows for part in parts for text in part.texts]
    assert [len(windows) for windows in passages] == [0, 1]
