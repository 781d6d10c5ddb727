"""Augmented SBERT: new pairs, their scores, and both cases of the paper."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from biomed.cli import app
from biomed.sentences import augment as augment_module
from biomed.sentences.augment import (
    AugmentRecipe,
    SilverTable,
    augment,
    candidates,
    silver_pairs,
)
from biomed.sentences.data import keys, read_pairs, scores
from domainbert.errors import UserError
from domainbert.models.manifest import Manifest
from domainbert.models.storage import read_manifest
from domainbert.training.recipes import read_recipe
from domainbert.training.settings import TrainingSettings

QUICK = {
    "model.scale": 5.0,
    "cross.epochs": 4.0,
    "cross.learning_rate": 6e-3,
    "cross.evaluations": 1,
    "training.epochs": 4.0,
    "training.learning_rate": 6e-3,
    "training.evaluations": 1,
    "silver.pairs": 60,
    "silver.bins": 1,
}


def frame(first, second, label=None):
    pairs = pd.DataFrame({"first": first, "second": second})
    return pairs if label is None else pairs.assign(label=label)


@pytest.fixture
def recipe(tiny_encoder):
    return read_recipe(
        AugmentRecipe,
        "augmented",
        {**QUICK, "model.encoder": str(tiny_encoder)},
    )


def test_silver_pairs_are_distributed_as_the_rated_ones_are():
    generator = np.random.default_rng(0)
    given, wanted = (
        generator.uniform(0, 1, 5000),
        np.array([0.05] * 30 + [0.95] * 60 + [1.0] * 10),
    )
    rated = frame(["x"] * 100, ["y"] * 100, wanted)

    def drawn(given, seed=0):
        recipe = AugmentRecipe(
            silver=SilverTable(pairs=200, bins=10),
            training=TrainingSettings(seed=seed),
        )
        new = [(str(number), "y") for number in range(len(given))]
        pairs = silver_pairs(new, given, rated, recipe)
        rows = pairs["first"].astype(int).to_numpy()
        assert scores(pairs) == pytest.approx(given[rows])
        return rows

    rows = drawn(given)
    assert len(set(rows.tolist())) == len(rows) == 200
    counts = np.histogram(given[rows], bins=10, range=(0, 1))[0]
    assert counts.tolist() == [60, *[0] * 8, 140]
    assert not np.array_equal(drawn(given, seed=1), rows)
    few = drawn(np.array([0.11, 0.9, 0.95]))
    assert few.tolist() == [1, 2]  # a bin has what it has


def test_new_pairs_are_neighbours_and_random_texts_and_none_is_known(recipe):
    texts = [
        "left chest pain",
        "chest pain at home",
        "kidney disease",
        "fever",
        "edema",
        "fever",
    ]
    known = frame(["kidney disease"], ["left chest pain"], ["1"])
    table = SilverTable(neighbours=1, random=0)
    found = candidates(texts, recipe.replaced(silver=table), without=[known])
    assert {text for pair in found for text in pair} == set(
        texts
    )  # each with its nearest
    all_pairs = SilverTable(neighbours=4, random=40)
    found = candidates(
        texts, recipe.replaced(silver=all_pairs), without=[known]
    )
    assert len(found) == len(set(map(frozenset, found))) == 5 * 4 / 2 - 1
    assert {"left chest pain", "kidney disease"} not in [
        set(pair) for pair in found
    ]
    with pytest.raises(UserError, match="at least two different texts, got 1"):
        candidates(["fever", "fever"], recipe)
    with pytest.raises(UserError, match="every pair of these texts is rated"):
        candidates(
            ["pain", "fever"], recipe, without=[frame(["fever"], ["pain"])]
        )


def test_silver_pairs_are_on_the_scale_of_the_recipe(recipe):
    new, given = (
        [("fever", "pain"), ("edema", "insulin")],
        np.array([0.25, 0.75]),
    )
    rated = frame(["x", "y"], ["y", "x"], ["1.25", "3.75"])
    one_bin = recipe.replaced(silver=SilverTable(pairs=9, bins=1))
    silver = silver_pairs(new, given, rated, one_bin)
    assert silver["label"].astype(float).tolist() == [1.25, 3.75]
    assert silver[["first", "second"]].to_numpy().tolist() == [
        list(pair) for pair in new
    ]


def test_both_cases_train_a_bi_encoder(recipe, write_pairs):
    rated, validation = (
        read_pairs(write_pairs(f"{seed}.csv", seed=seed, count=60))
        for seed in (0, 1)
    )
    found = augment(recipe, rated, validation)
    counts = found.encoder.manifest.data.counts
    assert counts["training rows, pairs"] == len(rated) + len(found.silver)
    assert counts["silver pairs"] == len(found.silver) > 20
    assert not set(keys(found.silver)) & {*keys(rated), *keys(validation)}
    rows = found.silver[["first", "second"]].to_numpy()[:9]
    expected = [found.cross.predict(*pair).score for pair in rows]
    assert scores(found.silver, 5)[:9] == pytest.approx(expected, abs=1e-5)
    texts = [
        f"renal {word} {n}" for n in range(10) for word in ("pain", "fever")
    ]
    other = augment(recipe, rated, validation, texts=texts, silver_only=True)
    assert other.encoder.manifest.data.counts["training rows, pairs"] == len(
        other.silver
    )
    assert {text for pair in keys(other.silver) for text in pair} <= set(texts)


def test_the_command_writes_the_model_and_the_silver_pairs(
    tiny_encoder, write_pairs, tmp_path
):
    recipe = tmp_path / "r.toml"
    recipe.write_text(
        "[cross]\nepochs = 1.0\nevaluations = 1\n[training]\nepochs = 1.0\nevaluations = 1\n"
        "[silver]\npairs = 30\nbins = 1\n"
    )
    arguments = [
        "augment",
        write_pairs("a.csv", count=40),
        "--scale",
        5,
        "--recipe",
        recipe,
    ]
    arguments += ["--validation", write_pairs("b.csv", count=40, seed=1)]
    arguments += ["--encoder", tiny_encoder, "--out", tmp_path / "m"]
    arguments += ["--silver", tmp_path / "silver.csv", "--seed", 7]
    result = CliRunner().invoke(app, ["sentences", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    assert "30 silver pairs" in result.output
    silver = read_pairs(tmp_path / "silver.csv")
    assert len(silver) == 30
    assert not (tmp_path / "m-checkpoints").exists()
    assert all(0 <= score <= 1 for score in scores(silver, 5))
    training = read_manifest(tmp_path / "m", Manifest).training
    assert training.stages[0].seed == 7


def test_what_is_wrong_with_the_texts_is_said_before_anything_trains(
    recipe, write_pairs, monkeypatch
):
    rated, validation = (
        read_pairs(write_pairs(f"{seed}.csv", seed=seed)) for seed in (0, 1)
    )
    trained = []
    monkeypatch.setattr(
        augment_module, "fit", lambda *_, **__: trained.append(1)
    )
    with pytest.raises(UserError, match="at least two different texts, got 1"):
        augment(recipe, rated, validation, texts=["fever"])
    with pytest.raises(UserError, match="text number 1 has no vector"):
        augment(recipe, rated, validation, texts=["chest pain", "\u200b"])
    assert not trained


def test_no_silver_pair_is_said_where_they_alone_would_train(
    recipe, write_pairs
):
    rated, validation = (
        read_pairs(write_pairs(f"{seed}.csv", seed=seed)) for seed in (0, 1)
    )
    none = {"silver": SilverTable(pairs=1, bins=1000, neighbours=0, random=1)}
    quick = recipe.replaced(cross=recipe.cross.replaced(epochs=0.1), **none)
    with pytest.raises(
        UserError,
        match="no silver pair: no new pair of 2 scores like the rated ones",
    ):
        augment(
            quick,
            rated,
            validation,
            texts=["pain", "edema", "fever"],
            silver_only=True,
        )
