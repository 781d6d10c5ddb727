"""Augmented SBERT: new pairs, their scores, and both cases of the paper."""

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from biomed.cli import app
from biomed.sentences import augment as augment_module
from biomed.sentences.augment import AugmentRecipe, SilverTable, alike, augment, candidates, rate
from biomed.sentences.data import Examples, read_examples
from biomed.sentences.encoder import CrossEncoder
from domainbert.errors import UserError
from domainbert.training.recipes import read_recipe

QUICK = {
    "data.scale": 5.0,
    "cross.epochs": 4.0,
    "cross.learning_rate": 6e-3,
    "cross.evaluations": 1,
    "training.epochs": 4.0,
    "training.learning_rate": 6e-3,
    "training.evaluations": 1,
    "silver.pairs": 60,
    "silver.bins": 1,
}


@pytest.fixture
def recipe(tiny_encoder):
    pytest.importorskip("bm25s")
    return read_recipe(AugmentRecipe, "augmented", {**QUICK, "model.encoder": str(tiny_encoder)})


def test_silver_pairs_are_distributed_as_the_rated_ones_are():
    generator = np.random.default_rng(0)
    scores, wanted = generator.uniform(0, 1, 5000), np.array([0.05] * 30 + [0.95] * 60 + [1.0] * 10)
    rows = alike(scores, wanted, count=200, bins=10)
    assert len(set(rows.tolist())) == len(rows) == 200
    counts = np.histogram(scores[rows], bins=10, range=(0, 1))[0]
    assert counts.tolist() == [60, *[0] * 8, 140]
    assert not np.array_equal(alike(scores, wanted, count=200, bins=10, seed=1), rows)
    few = alike(np.array([0.1, 0.9, 0.95]), wanted, count=200, bins=10)
    assert few.tolist() == [1, 2]  # a bin has what it has; 0.1 is in the second


def test_new_pairs_are_neighbours_and_random_texts_and_none_is_known(recipe):
    texts = ["left chest pain", "chest pain at home", "kidney disease", "fever", "edema", "fever"]
    known = Examples(["kidney disease"], ["left chest pain"], [], ["1"])
    table = SilverTable(neighbours=1, random=0)
    found = candidates(texts, recipe.replaced(silver=table), without=[known])
    assert {"left chest pain", "chest pain at home"} in [set(pair) for pair in found]
    all_pairs = SilverTable(neighbours=4, random=40)
    found = candidates(texts, recipe.replaced(silver=all_pairs), without=[known])
    assert len(found) == len(set(map(frozenset, found))) == 5 * 4 / 2 - 1
    assert {"left chest pain", "kidney disease"} not in [set(pair) for pair in found]
    with pytest.raises(UserError, match="at least two different texts, got 1"):
        candidates(["fever", "fever"], recipe)
    with pytest.raises(UserError, match="every pair of these texts is rated"):
        candidates(["pain", "fever"], recipe, without=[Examples(["fever"], ["pain"], [], [])])
    with pytest.raises(UserError, match="no text has a word that BM25 counts"):
        candidates(["a", "the"], recipe)


def test_the_cross_encoder_rates_on_the_scale_of_the_recipe(recipe, cross):
    new = [("fever", "pain"), ("edema", "insulin")]
    low, high = sorted(cross.predict(*pair).score for pair in new)
    rated = Examples(["x", "y"], ["y", "x"], [], [str(5 * low), str(5 * high)])
    one_bin = recipe.replaced(silver=SilverTable(pairs=9, bins=1))
    silver = rate(cross, new, rated, one_bin)
    assert sorted(silver.scores(5)) == pytest.approx([low, high], abs=1e-6)
    assert (silver.first, silver.second) == (["fever", "edema"], ["pain", "insulin"])


def test_both_cases_train_a_bi_encoder(recipe, write_pairs):
    rated, validation = (
        read_examples(write_pairs(f"{seed}.csv", seed=seed, count=60)) for seed in (0, 1)
    )
    found = augment(recipe, rated, validation)
    counts = found.encoder.manifest["counts"]
    assert counts["training rows, pairs"] == len(rated) + len(found.silver)
    assert counts["silver pairs"] == len(found.silver) > 20
    assert not set(found.silver.pairs()) & {*rated.pairs(), *validation.pairs()}
    rows = list(zip(found.silver.first, found.silver.second, strict=True))
    scores = [found.cross.predict(*pair).score for pair in rows[:9]]
    assert found.silver.scores(5)[:9] == pytest.approx(scores, abs=1e-5)
    texts = [f"renal {word} {n}" for n in range(10) for word in ("pain", "fever")]
    other = augment(recipe, rated, validation, texts=texts, silver_only=True)
    assert other.encoder.manifest["counts"]["training rows, pairs"] == len(other.silver)
    assert {text for pair in other.silver.pairs() for text in pair} <= set(texts)


def test_the_command_writes_the_model_and_the_silver_pairs(tiny_encoder, write_pairs, tmp_path):
    pytest.importorskip("bm25s")
    recipe = tmp_path / "r.toml"
    recipe.write_text(
        "[cross]\nepochs = 1.0\nevaluations = 1\n[training]\nepochs = 1.0\nevaluations = 1\n"
        "[silver]\npairs = 30\nbins = 1\n"
    )
    arguments = ["augment", write_pairs("a.csv", count=40), "--scale", 5, "--recipe", recipe]
    arguments += ["--validation", write_pairs("b.csv", count=40, seed=1)]
    arguments += ["--encoder", tiny_encoder, "--out", tmp_path / "m"]
    arguments += ["--silver", tmp_path / "silver.csv", "--cross", tmp_path / "cross", "--seed", 7]
    result = CliRunner().invoke(app, ["sentences", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    assert "30 silver pairs" in result.output
    silver = read_examples(tmp_path / "silver.csv")
    assert len(silver) == 30
    assert all(0 <= score <= 1 for score in silver.scores(5))
    assert (tmp_path / "m" / "adapter.safetensors").is_file()
    assert not (tmp_path / "m-checkpoints").exists()
    cross = CrossEncoder.from_pretrained(tmp_path / "cross")
    found = [cross.predict(a, b).score for a, b in zip(silver.first, silver.second, strict=True)]
    assert found == pytest.approx(silver.scores(5), abs=1e-4)
    for name in ("m", "cross"):
        config = json.loads((tmp_path / name / "config.json").read_text())["domainbert"]
        assert config["manifest"]["training"]["seed"] == 7


def test_what_is_wrong_with_the_texts_is_said_before_anything_trains(
    recipe, write_pairs, monkeypatch
):
    rated, validation = (read_examples(write_pairs(f"{seed}.csv", seed=seed)) for seed in (0, 1))
    trained = []
    monkeypatch.setattr(augment_module, "train_from_recipe", lambda *_, **__: trained.append(1))
    with pytest.raises(UserError, match="at least two different texts, got 1"):
        augment(recipe, rated, validation, texts=["fever"])
    with pytest.raises(UserError, match="text number 1 has no vector"):
        augment(recipe, rated, validation, texts=["chest pain", "\u200b"])
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(UserError, match="BM25 needs bm25s: pip install"):
        augment(recipe, rated, validation)
    assert not trained


def test_no_silver_pair_is_said_where_they_alone_would_train(recipe, write_pairs):
    rated, validation = (read_examples(write_pairs(f"{seed}.csv", seed=seed)) for seed in (0, 1))
    none = {"silver": SilverTable(pairs=1, bins=1000, neighbours=0, random=1)}
    quick = recipe.replaced(cross=recipe.cross.replaced(epochs=0.1), **none)
    with pytest.raises(UserError, match="no silver pair: none of 2 new pairs scores as rated ones"):
        augment(quick, rated, validation, texts=["pain", "edema", "fever"], silver_only=True)
