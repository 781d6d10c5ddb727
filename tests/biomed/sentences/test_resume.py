"""Trainings of embedders and pairs resume where they were killed, and only the same run."""

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from biomed.sentences.encoder import CrossEncoder
from biomed.sentences.objectives import (
    METRICS,
    PairsObjective,
    TextVectorsObjective,
)
from biomed.sentences.training import (
    SentenceRecipe,
    SentenceTable,
    fit,
    fit_encoder,
)
from domainbert.errors import UserError
from domainbert.training.settings import TrainingSettings

SETTINGS = TrainingSettings(
    epochs=3.0,
    learning_rate=5e-3,
    batch_size=6,
    evaluations=2,
    patience=99,
    max_windows=2,
)
WORDS = "heart kidney renal pulmonary pneumonia edema fever insulin pain chest".split()
LONG = "heart failure and kidney disease " * 20


def texts(seed):
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(WORDS, 3)) for _ in range(24)]


@pytest.fixture(autouse=True)
def by_size(monkeypatch):
    """The size of the weights chooses them, so that the last ones are kept."""

    def evaluate(self, network):
        trained = [
            value for value in network.parameters() if value.requires_grad
        ]
        return {
            self.metric: float(
                sum(value.detach().abs().sum() for value in trained)
            )
        }

    monkeypatch.setattr(TextVectorsObjective, "evaluate", evaluate)


def recipe(encoder, training=SETTINGS, **model):
    return SentenceRecipe(
        model=SentenceTable(encoder=str(encoder), **model), training=training
    )


def embedder(
    encoder,
    objective,
    folder,
    *,
    words=("pain", "fever"),
    resume=False,
    **changes,
):
    pairs = pd.DataFrame({"first": texts(0), "second": texts(1)})
    validation = pd.DataFrame({"first": words, "second": words})
    if objective != "contrastive":
        is_class = objective == "classification"
        labels = ["one", "two"] if is_class else [0.5, 0.1]
        pairs["label"] = labels * 12
        validation["label"] = labels
    plan = recipe(encoder, objective=objective, **changes)
    return fit_encoder(
        {"pairs": pairs}, validation, plan, checkpoints=folder, resume=resume
    )


def pairs(encoder, folder, *, resume=False, **changes):
    first, second = texts(0), [LONG, *texts(1)[1:]]
    labels = [n % 5 / 4 for n in range(len(first))]
    rows = pd.DataFrame({"first": first, "second": second, "label": labels})
    held = rows[:8].assign(first=texts(2)[:8])
    plan = recipe(encoder, kind="cross-encoder", **changes)
    return fit(rows, plan, validation=held, checkpoints=folder, resume=resume)


def killed_at(monkeypatch, kind, step):
    """Interrupts the loss of a step."""
    loss, count = kind.loss, iter(range(10**6))

    def stopping(self, network, batch):
        if next(count) == step:
            raise KeyboardInterrupt
        return loss(self, network, batch)

    monkeypatch.setattr(kind, "loss", stopping)


def weights(model):
    return dict(model.network.named_parameters())


@pytest.mark.parametrize(
    ("kind", "stop"),
    [
        ("pairs", 7),
        ("regression", 5),
        ("classification", 7),
        ("contrastive", 7),
    ],
)
def test_a_killed_run_resumes_and_ends_with_the_same_weights(
    tiny_encoder, tmp_path, monkeypatch, kind, stop
):
    """Three epochs of four steps, with dropout and a checkpoint every second step."""

    def fit(folder, **changes):
        if kind == "pairs":
            return pairs(tiny_encoder, tmp_path / folder, **changes)
        return embedder(tiny_encoder, kind, tmp_path / folder, **changes)

    whole = fit("whole")
    with monkeypatch.context() as patch:
        killed_at(
            patch,
            PairsObjective if kind == "pairs" else TextVectorsObjective,
            stop,
        )
        with pytest.raises(KeyboardInterrupt):
            fit("parts")
    steps = sorted(
        int(path.name.split("-")[1])
        for path in tmp_path.glob("parts/checkpoint-*")
    )
    assert steps[-1] == stop - 1
    stored = load_file(
        tmp_path / "parts" / f"checkpoint-{stop - 1}" / "model.safetensors"
    )
    has_head = any("classifier" in name or "head" in name for name in stored)
    assert has_head == (kind in ("pairs", "classification"))
    with pytest.raises(
        UserError, match="has checkpoints: continue with `resume=True`"
    ):
        fit("parts")
    with pytest.raises(UserError, match=r"made with another training\.seed"):
        fit("parts", training=SETTINGS.replaced(seed=1), resume=True)
    found = fit("parts", resume=True)
    expected = weights(whole)
    for name, value in weights(found).items():
        torch.testing.assert_close(value, expected[name], atol=1e-5, rtol=0)


def test_another_validation_side_is_another_run(tiny_encoder, tmp_path):
    embedder(tiny_encoder, "regression", tmp_path)
    with pytest.raises(
        UserError, match="made with another split; repeat the first command"
    ):
        embedder(
            tiny_encoder,
            "regression",
            tmp_path,
            words=("pain", "edema"),
            resume=True,
        )


def test_the_best_weights_are_kept(tiny_encoder, tmp_path, monkeypatch):
    """Evaluations count 0, 1, 2, 3, 0, 1: the fourth, after step 8, is the best."""
    scores = iter([0, 1, 2, 3, 0, 1])
    monkeypatch.setattr(
        TextVectorsObjective,
        "evaluate",
        lambda self, _: {self.metric: float(next(scores))},
    )
    model = embedder(tiny_encoder, "regression", tmp_path)
    assert model.manifest.training.validation == {METRICS["regression"]: 3.0}
    stored = load_file(tmp_path / "checkpoint-8" / "model.safetensors")
    adapter = {
        name: value
        for name, value in model.adapter.tensors.items()
        if "lora_B" in name
    }
    assert adapter
    for name, value in adapter.items():
        (match,) = (n for n in stored if name.replace(".weight", "") in n)
        torch.testing.assert_close(value.float(), stored[match].half().float())


def test_a_choice_of_windows_depends_on_the_epoch_and_the_pair_alone(
    new_network, tokenizer
):
    model = CrossEncoder(new_network(labels=1), tokenizer)
    firsts, seconds = ["pain", "fever"], [LONG * 4] * 2
    long = pd.DataFrame(
        {"first": firsts, "second": seconds, "label": [0.5, 1.0]}
    )
    objective = PairsObjective(
        model, long, long, training=SETTINGS.replaced(seed=3)
    )

    def ids(batch, epoch=0):
        return objective.collate(batch, epoch=epoch)["input_ids"]

    first = ids([0, 1])
    assert torch.equal(ids([0, 1]), first)
    assert torch.equal(ids([1, 0])[:2], first[2:])
    assert (
        len(
            {
                tuple(ids([0, 1], epoch).flatten().tolist())
                for epoch in range(6)
            }
        )
        > 1
    )
