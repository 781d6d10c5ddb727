"""Training an embedder: the losses by hand, the windows of prediction, and models that learn."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses

from domainbert.encoders.loading import find_encoder
from domainbert.errors import EncoderError, UserError
from domainbert.models.embedder import Embedder
from domainbert.models.pooling import EmbeddingSettings, unit
from domainbert.training.sentences import (
    WINDOWS,
    DifferentBatches,
    TextVectorsObjective,
    fit_embedder,
    vectors_of,
    windows_of,
)
from domainbert.training.settings import TrainingSettings

ANCHORS = ["heart failure", "left chest pain with edema", "insulin"]
OTHERS = ["renal failure", "fever", "medication at home"]
THIRDS = ["stable", "mother with kidney disease", "no"]
LONG = "heart failure and kidney disease " * 40


@pytest.fixture
def embedder(new_network, tokenizer):
    return Embedder(new_network().bert, tokenizer)


def objective_of(embedder, kind, *columns, label=None, **options):
    data = dict(zip(("first", "second", "third"), columns, strict=False))
    return TextVectorsObjective(
        embedder,
        {"part": data if label is None else {**data, "label": label}},
        kind=kind,
        score=right,
        metric="right",
        training=QUICK,
        split="",
        **options,
    )


def loss_of(embedder, kind, *columns, **options):
    objective = objective_of(embedder, kind, *columns, **options)
    batch = objective.collate(range(len(columns[0])), epoch=0)
    return objective.loss(embedder.network, batch)


def as_vectors(embedder, *columns):
    return [torch.from_numpy(embedder.embed(texts)) for texts in columns]


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("unit_norm", [False, True])
def test_training_sees_the_vectors_of_prediction(new_network, tokenizer, pooling, unit_norm):
    settings = EmbeddingSettings(pooling=pooling, unit_norm=unit_norm)
    embedder = Embedder(new_network().bert, tokenizer, settings=settings)
    texts = [
        *ANCHORS,
        LONG,
        *OTHERS,
        *THIRDS,
    ] * 5  # several lengths, and more than are read at once
    windows = windows_of(embedder, texts)
    found = vectors_of(embedder, embedder.network, *(windows[part] for part in WINDOWS))
    expected = np.concatenate([part.vectors for part in embedder.embed_many(texts)])
    assert embedder.scaled(found.detach().numpy()) == pytest.approx(expected, abs=1e-5)


def test_a_large_batch_keeps_less_for_the_backward_pass(embedder, monkeypatch):
    sizes = []
    texts = [[f"{text} {n}" for n in range(30) for text in part] for part in (ANCHORS, OTHERS)]

    def keep(tensor):
        sizes.append(tensor.nelement())
        return tensor

    def step():
        sizes.clear()
        embedder.network.zero_grad()
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            value = loss_of(embedder, "contrastive", *texts)
        value.backward()
        return value.item(), embedder.network.embeddings.word_embeddings.weight.grad.clone()

    value, gradient = step()
    kept = sum(sizes)
    monkeypatch.setattr("domainbert.training.sentences._KEPT", 0)
    again, same = step()
    assert again == pytest.approx(value, abs=1e-6)
    torch.testing.assert_close(same, gradient, atol=1e-6, rtol=1e-4)
    assert sum(sizes) < kept / 5


# --- the losses are those of sentence-transformers


def test_regression(embedder):
    scores = [0.9, 0.0, 0.4]
    u, v = as_vectors(embedder, ANCHORS, OTHERS)
    theirs = losses.CosineSimilarityLoss(None).loss_fct
    expected = theirs(torch.cosine_similarity(u, v), torch.tensor(scores))
    found = loss_of(embedder, "regression", ANCHORS, OTHERS, label=scores)
    assert found.item() == pytest.approx(expected.item(), abs=1e-5)


@pytest.mark.parametrize("with_negatives", [False, True])
def test_contrastive(embedder, with_negatives):
    columns = (ANCHORS, OTHERS, THIRDS)[: 3 if with_negatives else 2]
    theirs = losses.MultipleNegativesRankingLoss(None)
    expected = theirs.compute_loss_from_embeddings(as_vectors(embedder, *columns), None)
    found = loss_of(embedder, "contrastive", *columns)
    assert found.item() == pytest.approx(expected.item(), abs=1e-4)


def test_triplet_is_the_margin_of_euclidean_distances(embedder):
    a, p, n = (embedder.embed(texts).astype(float) for texts in (ANCHORS, OTHERS, THIRDS))
    near, far = np.sqrt(((a - p) ** 2).sum(axis=1)), np.sqrt(((a - n) ** 2).sum(axis=1))
    expected = np.mean([max(0.0, near[i] - far[i] + 1) for i in range(3)])
    assert expected > 0
    found = loss_of(embedder, "triplet", ANCHORS, OTHERS, THIRDS)
    assert found.item() == pytest.approx(expected, abs=1e-4)


def test_classification_is_softmax_over_u_v_and_their_difference(embedder):
    options = {"label": ["c", "a", "b"], "classes": ("a", "b", "c")}
    objective = objective_of(embedder, "classification", ANCHORS, OTHERS, **options)
    u, v = embedder.embed(ANCHORS).astype(float), embedder.embed(OTHERS).astype(float)
    joined = np.hstack([u, v, np.abs(u - v)])
    weight = objective.head.weight.detach().numpy().astype(float)
    logits = joined @ weight.T + objective.head.bias.detach().numpy()
    assert weight.shape == (3, 96)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    expected = -np.log(shares[[0, 1, 2], [2, 0, 1]]).mean()
    found = objective.loss(embedder.network, objective.collate([0, 1, 2], epoch=0))
    assert found.item() == pytest.approx(expected, abs=1e-4)


def test_an_unknown_objective_is_refused(embedder):
    with pytest.raises(UserError, match="objective must be one of contrastive, regression"):
        objective_of(embedder, "cosine", ANCHORS, OTHERS)


def test_no_text_and_no_key_is_twice_in_a_batch():
    generator = np.random.default_rng(0)
    numbers = zip(*(generator.integers(0, n, 200) for n in (30, 30, 20)), strict=True)
    rows = [(f"a{a}", f"p{b}", f"key {c}") for a, b, c in numbers]
    plan = DifferentBatches(rows, batch_size=8, seed=3)
    first = plan.epoch(0)
    assert sorted(i for batch in first for i in batch) == list(range(200))
    for batch in first:
        for column in zip(*rows, strict=True):
            assert len({column[i] for i in batch}) == len(batch)
    assert plan.epoch(1) != first == plan.epoch(0)


def test_mpnet_is_read_to_its_last_position_and_trained(tokenizer, tmp_path):
    from transformers import MPNetConfig, MPNetModel

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 64, "max_position_embeddings": 34, "pad_token_id": 0}
    torch.manual_seed(0)
    network = MPNetModel(MPNetConfig(vocab_size=len(tokenizer), **sizes)).eval()
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    embedder = Embedder.from_pretrained(tmp_path)
    assert embedder.windower.window == 32  # positions are counted from 2
    full = "pain fever " * 15
    with torch.inference_mode():
        hidden = network(**tokenizer(full, return_tensors="pt")).last_hidden_state
    assert hidden.shape[1] == 32
    assert embedder.embed(full) == pytest.approx(hidden[0].mean(0).numpy(), abs=1e-5)
    trained = fit_embedder(
        {"words": {"a": ["pain", full * 2], "b": ["fever", "edema"]}},
        objective="contrastive",
        score=right,
        metric="right",
        encoder=tmp_path,
        training=QUICK.replaced(epochs=1.0),
        model_class=Embedder,
        validation={},
    )
    changed = {name.rsplit("lora_", 1)[0] for name in trained.adapter.tensors}
    assert len(changed) == 2 * 6  # every linear layer
    assert np.isfinite(trained.embed(full)).all()


QUICK = TrainingSettings(
    epochs=12.0, learning_rate=1e-2, batch_size=6, evaluations=1, patience=99, dropout=0.0
)
WORDS = "heart kidney renal pulmonary pneumonia edema fever insulin pain chest".split()
FIRST, SECOND = WORDS[0::2], WORDS[1::2]


def right(embedder, network):
    """Share of first words whose nearest second word is their partner."""
    ids = [embedder.windower.split(word).windows[0].input_ids for word in FIRST + SECOND]
    vectors = embedder.pooled(ids, network=network)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors[:5] @ vectors[5:].T
    return {"right": float((cosines.argmax(axis=1) == np.arange(5)).mean())}


def separation(embedder):
    """How much nearer partners are than other words, in cosines."""
    u, v = (unit(embedder.embed(words)) for words in (FIRST, SECOND))
    cosines = u @ v.T
    return np.diag(cosines).mean() - cosines[~np.eye(5, dtype=bool)].mean()


def examples(objective):
    if objective == "contrastive":
        return {"anchor": FIRST * 6, "positive": SECOND * 6, "key": FIRST * 6}
    if objective == "triplet":
        others = SECOND[1:] + SECOND[:1]
        return {"anchor": FIRST * 6, "positive": SECOND * 6, "negative": others * 6}
    pairs = [(a, b, float(i == j)) for i, a in enumerate(FIRST) for j, b in enumerate(SECOND)]
    pairs += [pair for pair in pairs if pair[2]] * 4
    labels = [pair[2] for pair in pairs]
    if objective == "classification":
        labels = ["same" if label else "other" for label in labels]
    return {"first": [p[0] for p in pairs], "second": [p[1] for p in pairs], "label": labels}


@pytest.mark.parametrize("objective", ["contrastive", "regression", "triplet", "classification"])
def test_every_objective_learns_and_the_model_saves(tiny_encoder, tmp_path, objective):
    trained = fit_embedder(
        {"words": examples(objective)},
        objective=objective,
        score=right,
        metric="right",
        encoder=tiny_encoder,
        training=QUICK,
        labels=("same", "other") if objective == "classification" else (),
        model_class=Embedder,
        validation={},
    )
    plain = Embedder.from_pretrained(tiny_encoder)
    learned = right(trained, None)["right"]
    assert separation(trained) > separation(plain) + 0.1
    if objective != "classification":  # which does not train cosines
        assert learned >= 0.8 > right(plain, None)["right"]
    assert trained.manifest["validation"]["right"] == pytest.approx(learned, abs=0.21)
    trained.save_pretrained(tmp_path / "adapter")
    trained.save_pretrained(tmp_path / "merged", merged=True)
    for folder in ("adapter", "merged"):
        again = Embedder.from_pretrained(tmp_path / folder)
        assert again.embed(WORDS) == pytest.approx(trained.embed(WORDS), abs=1e-5)
    theirs = SentenceTransformer(str(tmp_path / "merged"), device="cpu", local_files_only=True)
    assert theirs.encode(WORDS) == pytest.approx(trained.embed(WORDS), abs=1e-5)


@pytest.mark.parametrize(
    ("columns", "objective", "message"),
    [
        ({}, "contrastive", "no rows to train on"),
        ({"a": ["x"], "b": [" "]}, "contrastive", "part: b of row number 0 has no character"),
        ({"a": ["x", LONG], "b": ["y", "\u200b"]}, "contrastive", "b of row number 1 has no char"),
        ({"a": ["x"], "b": ["y"]}, "triplet", "triplet needs 3 columns of texts, got a, b"),
    ],
)
def test_bad_training_rows_are_refused_before_training(tiny_encoder, columns, objective, message):
    with pytest.raises(UserError, match=message):
        fit_embedder(
            {"part": columns},
            objective=objective,
            score=right,
            metric="right",
            encoder=tiny_encoder,
            training=QUICK,
            labels=("same", "other"),
            model_class=Embedder,
            validation={},
        )


def test_a_validation_text_without_a_token_is_refused(tiny_encoder):
    embedder = Embedder.from_pretrained(tiny_encoder)
    options = {"objective": "contrastive", "score": right, "metric": "right"}
    options |= {"training": QUICK, "encoder": tiny_encoder, "model_class": Embedder}
    data, empty = {"words": examples("contrastive")}, {"first": ["pain"], "second": ["\u200b"]}
    with pytest.raises(UserError, match="validation: second of row number 0 has no character"):
        fit_embedder(data, validation=empty, **options)
    with pytest.raises(UserError, match="text number 1 has no vector: no text"):
        embedder.vectors_of([LONG, "\u200b"])


def test_a_share_averages_with_the_plain_encoder(tiny_encoder):
    options = {
        "objective": "contrastive",
        "score": right,
        "metric": "right",
        "encoder": tiny_encoder,
        "training": QUICK.replaced(epochs=1.0),
        "model_class": Embedder,
        "validation": {},
    }
    data = {"words": examples("contrastive")}
    options["score"] = lambda embedder, network: {
        "right": float(embedder.vectors_of(["heart failure"], network=network)[0, 0])
    }
    whole, half = (fit_embedder(data, share=share, **options) for share in (1.0, 0.5))
    for model in (whole, half):
        own = model.embed(["heart failure"])[0, 0]
        assert model.manifest["validation"]["right"] == pytest.approx(own, abs=1e-4)
    plain = Embedder.from_pretrained(tiny_encoder).network.state_dict()
    trained, averaged = whole.network.state_dict(), half.network.state_dict()
    name = "encoder.layer.0.attention.self.query.weight"
    assert not torch.allclose(trained[name], plain[name], atol=1e-4)
    assert torch.allclose(averaged[name], (trained[name] + plain[name]) / 2, atol=1e-4)
    with pytest.raises(UserError, match="share needs adapters"):
        fit_embedder(data, share=0.5, **{**options, "training": QUICK.replaced(full=True)})


@pytest.mark.parametrize("full", [False, True])
def test_a_model_with_an_adapter_is_trained_further(tiny_encoder, write_adapter, tmp_path, full):
    start = write_adapter(Embedder, tmp_path / "start")
    vectors = Embedder.from_pretrained(start).embed(WORDS)
    assert vectors != pytest.approx(Embedder.from_pretrained(tiny_encoder).embed(WORDS), abs=0.1)
    options = {"objective": "contrastive", "score": right, "metric": "right", "encoder": start}
    data = {"words": examples("contrastive")}
    for rate, is_same in ((1e-9, True), (1e-2, False)):
        training = QUICK.replaced(epochs=1.0, learning_rate=rate, full=full)
        trained = fit_embedder(
            data, training=training, model_class=Embedder, validation={}, **options
        )
        assert (trained.embed(WORDS) == pytest.approx(vectors, abs=1e-3)) == is_same
    trained.save_pretrained(tmp_path / "trained")
    assert not (tmp_path / "trained" / "adapter_model.safetensors").exists()
    again = Embedder.from_pretrained(tmp_path / "trained")
    assert again.embed(WORDS) == pytest.approx(trained.embed(WORDS), abs=1e-5)
    assert again.config.encoder == str(start)
    assert again.config.encoder_sha256 not in (None, find_encoder(tiny_encoder).sha256)
    with pytest.raises(EncoderError, match="holds an adapter, not all weights; save the model wi"):
        find_encoder(start)
