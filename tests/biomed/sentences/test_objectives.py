"""Training an embedder: the losses by hand, the windows of prediction, and models that learn."""

import numpy as np
import pandas as pd
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses

from biomed.sentences.encoder import SentenceEncoder
from biomed.sentences.objectives import (
    METRICS,
    DifferentBatches,
    TextVectorsObjective,
    vectors_of,
    windows_of,
)
from biomed.sentences.training import (
    SentenceRecipe,
    SentenceTable,
    fit_encoder,
)
from domainbert.encoders.loading import find_encoder
from domainbert.errors import EncoderError, UserError
from domainbert.models.pooling import EmbeddingSettings, unit
from domainbert.training.settings import TrainingSettings

ANCHORS = ["heart failure", "left chest pain with edema", "insulin"]
OTHERS = ["renal failure", "fever", "medication at home"]
THIRDS = ["stable", "mother with kidney disease", "no"]
LONG = "heart failure and kidney disease " * 40


@pytest.fixture
def embedder(new_network, tokenizer):
    return SentenceEncoder(new_network().bert, tokenizer)


def objective_of(embedder, kind, *columns, label=None):
    data = pd.DataFrame(
        dict(zip(("first", "second", "negative"), columns, strict=False))
    )
    data = data if label is None else data.assign(label=label)
    return TextVectorsObjective(
        embedder, {"part": data}, data, objective=kind, training=QUICK
    )


def loss_of(embedder, kind, *columns, **options):
    objective = objective_of(embedder, kind, *columns, **options)
    batch = objective.collate(range(len(columns[0])), epoch=0)
    return objective.loss(embedder.network, batch)


def as_vectors(embedder, *columns):
    return [torch.from_numpy(embedder.embed(texts)) for texts in columns]


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("unit_norm", [False, True])
def test_training_sees_the_vectors_of_prediction(
    new_network, tokenizer, pooling, unit_norm
):
    settings = EmbeddingSettings(pooling=pooling, unit_norm=unit_norm)
    embedder = SentenceEncoder(
        new_network().bert, tokenizer, settings=settings
    )
    texts = [
        *ANCHORS,
        LONG,
        *OTHERS,
        *THIRDS,
    ] * 5  # several lengths, and more than are read at once
    found = vectors_of(embedder, embedder.network, windows_of(embedder, texts))
    expected = np.concatenate(
        [part.vectors for part in embedder.embed_many(texts)]
    )
    assert embedder.scaled(found.detach().numpy()) == pytest.approx(
        expected, abs=1e-5
    )


def test_a_large_batch_keeps_less_for_the_backward_pass(embedder, monkeypatch):
    sizes = []
    texts = [
        [f"{text} {n}" for n in range(30) for text in part]
        for part in (ANCHORS, OTHERS)
    ]

    def keep(tensor):
        sizes.append(tensor.nelement())
        return tensor

    def step():
        sizes.clear()
        embedder.network.zero_grad()
        with torch.autograd.graph.saved_tensors_hooks(
            keep, lambda tensor: tensor
        ):
            value = loss_of(embedder, "contrastive", *texts)
        value.backward()
        return (
            value.item(),
            embedder.network.embeddings.word_embeddings.weight.grad.clone(),
        )

    value, gradient = step()
    kept = sum(sizes)
    monkeypatch.setattr("biomed.sentences.objectives._MAX_TOKENS", 0)
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
    expected = theirs.compute_loss_from_embeddings(
        as_vectors(embedder, *columns), None
    )
    found = loss_of(embedder, "contrastive", *columns)
    assert found.item() == pytest.approx(expected.item(), abs=1e-4)


def test_triplet_is_the_margin_of_euclidean_distances(embedder):
    a, p, n = (
        embedder.embed(texts).astype(float)
        for texts in (ANCHORS, OTHERS, THIRDS)
    )
    near, far = (
        np.sqrt(((a - p) ** 2).sum(axis=1)),
        np.sqrt(((a - n) ** 2).sum(axis=1)),
    )
    expected = np.mean([max(0.0, near[i] - far[i] + 1) for i in range(3)])
    assert expected > 0
    found = loss_of(embedder, "triplet", ANCHORS, OTHERS, THIRDS)
    assert found.item() == pytest.approx(expected, abs=1e-4)


def test_classification_is_softmax_over_u_v_and_their_difference(embedder):
    objective = objective_of(
        embedder, "classification", ANCHORS, OTHERS, label=["c", "a", "b"]
    )
    u, v = (
        embedder.embed(ANCHORS).astype(float),
        embedder.embed(OTHERS).astype(float),
    )
    joined = np.hstack([u, v, np.abs(u - v)])
    weight = objective.head.weight.detach().numpy().astype(float)
    logits = joined @ weight.T + objective.head.bias.detach().numpy()
    assert weight.shape == (3, 96)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    expected = -np.log(shares[[0, 1, 2], [2, 0, 1]]).mean()
    found = objective.loss(
        embedder.network, objective.collate([0, 1, 2], epoch=0)
    )
    assert found.item() == pytest.approx(expected, abs=1e-4)


def test_no_text_and_no_key_is_twice_in_a_batch():
    generator = np.random.default_rng(0)
    numbers = zip(
        *(generator.integers(0, n, 200) for n in (30, 30, 20)), strict=True
    )
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

    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    sizes |= {
        "intermediate_size": 64,
        "max_position_embeddings": 34,
        "pad_token_id": 0,
    }
    torch.manual_seed(0)
    network = MPNetModel(
        MPNetConfig(vocab_size=len(tokenizer), **sizes)
    ).eval()
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    embedder = SentenceEncoder.from_pretrained(tmp_path)
    assert embedder.windower.window == 32  # positions are counted from 2
    full = "pain fever " * 15
    with torch.inference_mode():
        hidden = network(
            **tokenizer(full, return_tensors="pt")
        ).last_hidden_state
    assert hidden.shape[1] == 32
    assert embedder.embed(full) == pytest.approx(
        hidden[0].mean(0).numpy(), abs=1e-5
    )
    pairs = pd.DataFrame(
        {"first": ["pain", full * 2], "second": ["fever", "edema"]}
    )
    trained = fit({"words": pairs}, "contrastive", tmp_path, epochs=1.0)
    changed = {name.rsplit("lora_", 1)[0] for name in trained.adapter.tensors}
    assert len(changed) == 2 * 6  # every linear layer
    assert np.isfinite(trained.embed(full)).all()


QUICK = TrainingSettings(
    epochs=12.0,
    learning_rate=1e-2,
    batch_size=6,
    evaluations=1,
    patience=99,
    dropout=0.0,
)


def fit(sets, objective, encoder, *, validation=None, share=1.0, **changes):
    model = SentenceTable(
        objective=objective, encoder=str(encoder), share=share
    )
    recipe = SentenceRecipe(model=model, training=QUICK.replaced(**changes))
    return fit_encoder(
        sets, sets["words"] if validation is None else validation, recipe
    )


WORDS = "heart kidney renal pulmonary pneumonia edema fever insulin pain chest".split()
FIRST, SECOND = WORDS[0::2], WORDS[1::2]


def right(embedder):
    """Share of first words whose nearest second word is their partner."""
    ids = [
        embedder.windower.split(word).windows[0].input_ids
        for word in FIRST + SECOND
    ]
    vectors = embedder.pooled(ids)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors[:5] @ vectors[5:].T
    return float((cosines.argmax(axis=1) == np.arange(5)).mean())


@pytest.fixture
def by_partners(monkeypatch):
    """The share of right partners chooses the weights, whatever the objective."""

    def evaluate(self, network):
        return {self.metric: right(self._embedder.with_network(network))}

    monkeypatch.setattr(TextVectorsObjective, "evaluate", evaluate)


def separation(embedder):
    """How much nearer partners are than other words, in cosines."""
    u, v = (unit(embedder.embed(words)) for words in (FIRST, SECOND))
    cosines = u @ v.T
    return np.diag(cosines).mean() - cosines[~np.eye(5, dtype=bool)].mean()


def examples(objective):
    if objective == "contrastive":
        return pd.DataFrame(
            {"first": FIRST * 6, "second": SECOND * 6, "key": FIRST * 6}
        )
    if objective == "triplet":
        others = SECOND[1:] + SECOND[:1]
        return pd.DataFrame(
            {"first": FIRST * 6, "second": SECOND * 6, "negative": others * 6}
        )
    pairs = [
        (a, b, float(i == j))
        for i, a in enumerate(FIRST)
        for j, b in enumerate(SECOND)
    ]
    pairs += [pair for pair in pairs if pair[2]] * 4
    table = pd.DataFrame(pairs, columns=["first", "second", "label"])
    if objective == "classification":
        table["label"] = np.where(table["label"] == 1, "same", "other")
    return table


@pytest.mark.usefixtures("by_partners")
@pytest.mark.parametrize(
    "objective", ["contrastive", "regression", "triplet", "classification"]
)
def test_every_objective_learns_and_the_model_saves(
    tiny_encoder, tmp_path, objective
):
    trained = fit({"words": examples(objective)}, objective, tiny_encoder)
    plain = SentenceEncoder.from_pretrained(tiny_encoder)
    learned = right(trained)
    assert separation(trained) > separation(plain) + 0.1
    if objective != "classification":  # which does not train cosines
        assert learned >= 0.8 > right(plain)
    found = trained.manifest.training.validation[METRICS[objective]]
    assert found == pytest.approx(learned, abs=0.21)
    trained.save_pretrained(tmp_path / "adapter")
    trained.save_pretrained(tmp_path / "merged", merged=True)
    for folder in ("adapter", "merged"):
        again = SentenceEncoder.from_pretrained(tmp_path / folder)
        assert again.embed(WORDS) == pytest.approx(
            trained.embed(WORDS), abs=1e-5
        )
    theirs = SentenceTransformer(
        str(tmp_path / "merged"), device="cpu", local_files_only=True
    )
    assert theirs.encode(WORDS) == pytest.approx(
        trained.embed(WORDS), abs=1e-5
    )


@pytest.mark.parametrize(
    ("columns", "objective", "message"),
    [
        (
            {"first": [], "second": []},
            "contrastive",
            "there is nothing to train on",
        ),
        (
            {"first": ["x"], "second": [" "]},
            "contrastive",
            "words: second: 1 texts have no char",
        ),
        (
            {"first": ["x", LONG], "second": ["y", "\u200b"]},
            "contrastive",
            "words: second: 1 texts have no character that the model reads, the first is number 1",
        ),
        (
            {"first": ["x"], "second": ["y"]},
            "triplet",
            "triplets need a column `negative`",
        ),
        (
            {"first": ["x"], "second": ["y"]},
            "classification",
            "a column `label`.*got 0 classes",
        ),
    ],
)
def test_bad_training_rows_are_refused_before_training(
    tiny_encoder, columns, objective, message
):
    good = examples(objective)
    with pytest.raises(UserError, match=message):
        fit(
            {"words": pd.DataFrame(columns)},
            objective,
            tiny_encoder,
            validation=good,
        )


def test_a_validation_text_without_a_token_is_refused(tiny_encoder):
    data = {"words": examples("contrastive")}
    empty = pd.DataFrame({"first": ["pain"], "second": ["\u200b"]})
    with pytest.raises(
        UserError, match="validation: second: 1 texts have no character"
    ):
        fit(data, "contrastive", tiny_encoder, validation=empty)
    embedder = SentenceEncoder.from_pretrained(tiny_encoder)
    with pytest.raises(
        UserError, match="text number 1 has no vector: no text"
    ):
        embedder.vectors_of([LONG, "\u200b"])


def test_a_class_that_only_validation_has_is_refused(tiny_encoder):
    data = examples("classification")
    with pytest.raises(
        UserError,
        match="validation has the class 'new', which the training pairs do not have",
    ):
        fit(
            {"words": data},
            "classification",
            tiny_encoder,
            validation=data.assign(label="new"),
        )


def test_a_share_averages_with_the_plain_encoder(tiny_encoder, monkeypatch):
    def evaluate(self, network):
        embedder = self._embedder.with_network(network)
        vectors = embedder.vectors_of(["heart failure"])
        return {self.metric: float(vectors[0, 0])}

    monkeypatch.setattr(TextVectorsObjective, "evaluate", evaluate)
    data = {"words": examples("contrastive")}
    whole, half = (
        fit(data, "contrastive", tiny_encoder, epochs=1.0, share=share)
        for share in (1.0, 0.5)
    )
    for model in (whole, half):
        own = model.embed(["heart failure"])[0, 0]
        assert model.manifest.training.validation["mrr"] == pytest.approx(
            own, abs=1e-4
        )
    plain = SentenceEncoder.from_pretrained(tiny_encoder).network.state_dict()
    trained, averaged = whole.network.state_dict(), half.network.state_dict()
    name = "encoder.layer.0.attention.self.query.weight"
    assert not torch.allclose(trained[name], plain[name], atol=1e-4)
    assert torch.allclose(
        averaged[name], (trained[name] + plain[name]) / 2, atol=1e-4
    )
    with pytest.raises(UserError, match="share and start need adapters"):
        fit(data, "contrastive", tiny_encoder, share=0.5, full=True)


@pytest.mark.parametrize("full", [False, True])
def test_a_model_with_an_adapter_is_trained_further(
    tiny_encoder, write_adapter, tmp_path, full
):
    start = write_adapter(SentenceEncoder, tmp_path / "start")
    vectors = SentenceEncoder.from_pretrained(start).embed(WORDS)
    plain = SentenceEncoder.from_pretrained(tiny_encoder)
    assert vectors != pytest.approx(plain.embed(WORDS), abs=0.1)
    data = {"words": examples("contrastive")}
    for rate, is_same in ((1e-9, True), (1e-2, False)):
        trained = fit(
            data,
            "contrastive",
            start,
            epochs=1.0,
            learning_rate=rate,
            full=full,
        )
        assert (
            trained.embed(WORDS) == pytest.approx(vectors, abs=1e-3)
        ) == is_same
    trained.save_pretrained(tmp_path / "trained")
    assert not (tmp_path / "trained" / "adapter_model.safetensors").exists()
    again = SentenceEncoder.from_pretrained(tmp_path / "trained")
    assert again.embed(WORDS) == pytest.approx(trained.embed(WORDS), abs=1e-5)
    assert again.config.encoder == str(start)
    assert again.config.encoder_sha256 not in (
        None,
        find_encoder(tiny_encoder).sha256,
    )
    with pytest.raises(
        EncoderError,
        match="holds an adapter, not all weights; save the model wi",
    ):
        find_encoder(start)


def test_constant_ratings_cannot_choose_the_weights(tiny_encoder):
    data = examples("regression")
    constant = data.assign(label=0.5)
    with pytest.raises(
        UserError, match="ratings are the same, so their rank corr"
    ):
        fit({"words": data}, "regression", tiny_encoder, validation=constant)
