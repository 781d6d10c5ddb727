"""Calibration of the scores of entity models."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from biomed.corpora import Gold, TaggedText
from biomed.ner.tagger import EntityManifest, EntitySettings, EntityTagger
from domainbert.errors import UserError
from domainbert.models.storage import read_manifest, shipped_models
from domainbert.statistics.calibration import calibrated, calibration_error
from recipes import calibration
from tests.biomed.ner.conftest import make_rules


@pytest.fixture(scope="module")
def disease(tokenizer):
    """Knows "heart failure" and the like; windows of 24 tokens."""
    settings = EntitySettings(window=24)
    return EntityTagger(make_rules(tokenizer), tokenizer, settings=settings)


@pytest.fixture
def overconfident():
    """2,000 entities that are right less often than their scores say."""
    rng = np.random.default_rng(0)
    scores = rng.uniform(0.05, 0.999, 2000)
    right = rng.uniform(size=2000) < calibrated(scores, 0.5, -0.5)
    return pd.DataFrame(
        {"label": ["a"] * 1000 + ["b"] * 1000, "score": scores, "right": right}
    )


def test_fitted_maps_reduce_the_calibration_error(overconfident):
    maps = calibration.fit_maps(overconfident)
    assert set(maps) == {"a", "b"}
    for slope, intercept in maps.values():
        assert slope == pytest.approx(0.5, abs=0.12)
        assert intercept == pytest.approx(-0.5, abs=0.25)
    before = calibration_error(overconfident["right"], overconfident["score"])
    after = calibration_error(
        overconfident["right"], calibration.cross_fitted(overconfident)
    )
    assert before > 0.1
    assert after < 0.06
    mapped = calibration.apply({"a": [0.5, -0.5]}, overconfident)
    assert np.array_equal(mapped[1000:], overconfident["score"][1000:])
    order = np.argsort(overconfident["score"][:1000])
    assert (np.diff(mapped[:1000][order]) >= 0).all()


def test_too_few_or_misordered_entities_have_no_calibration():
    few = pd.DataFrame({"label": ["a"], "score": [0.5], "right": [True]})
    with pytest.raises(UserError, match="a: 1 entities found; expected 50"):
        calibration.fit_maps(few)
    with pytest.raises(UserError, match="nothing to calibrate on"):
        calibration.fit_maps(few[:0])
    backwards = pd.DataFrame(
        {"label": "a", "score": [0.6, 0.7, 0.8, 0.9] * 20}
    )
    backwards["right"] = [True, True, True, False] * 20
    with pytest.raises(UserError, match="a: no finite calibration exists"):
        calibration.fit_maps(backwards)


def gold(times=60):
    """Half of "heart failure" is a disease, and most of "kidney", which has the higher score."""
    right = times // 2 + 4
    texts = [
        TaggedText(("heart", "failure"), ("B-Disease", "I-Disease"))
    ] * right
    texts += [TaggedText(("heart", "failure"), ("O", "O"))] * (times - right)
    texts += [TaggedText(("kidney", "was"), ("O", "O"))] * 4
    texts += [TaggedText(("kidney", "was"), ("B-Disease", "O"))] * (
        times // 2 - 4
    )
    texts[0] = TaggedText(
        ("heart", "failure", "x"), ("B-Disease", "I-Disease", "B-Other")
    )
    return Gold("g", tuple(texts))


def test_the_entities_that_a_model_finds_are_right_or_wrong(disease):
    entities = calibration.scored_entities(disease, [gold()])
    assert len(entities) == 90
    assert entities["right"].mean() == pytest.approx(2 / 3)


def test_the_command_writes_a_calibrated_model(disease, tmp_path):
    disease.save_pretrained(tmp_path / "model")
    lines = (
        "heart\tB-Disease\nfailure\tI-Disease\n\n" * 60
        + "heart\tO\nfailure\tO\n\n" * 40
    )
    lines += "kidney\tB-Disease\nwas\tO\n\n" * 36 + "kidney\tO\nwas\tO\n\n" * 4
    (tmp_path / "devel.tsv").write_text(lines)
    out = [
        "--out",
        str(tmp_path / "better"),
        "--figure",
        str(tmp_path / "f.png"),
    ]
    out += ["--json", str(tmp_path / "numbers.json")]
    app = typer.Typer()
    app.command()(calibration.main)
    command = [str(tmp_path / "model"), str(tmp_path / "devel.tsv"), *out]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    after = json.loads((tmp_path / "numbers.json").read_text())["sides"][
        "devel"
    ]["after"]
    assert "devel" in result.output
    assert f"{after:.3f}" in result.output
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    slope, intercept = json.loads((tmp_path / "numbers.json").read_text())[
        "maps"
    ]["Disease"]
    better = EntityTagger.from_pretrained(tmp_path / "better", device="cpu")
    plain, mapped = disease, better
    (before,), (after,) = (
        plain.tag("heart failure"),
        mapped.tag("heart failure"),
    )
    assert after.score == pytest.approx(
        float(calibrated(before.score, slope, intercept))
    )
    assert (plain.score_kind, mapped.score_kind) == (
        "span_probability",
        "calibrated",
    )
    assert better.fingerprint() != disease.fingerprint()
    card = (tmp_path / "better" / "README.md").read_text()
    assert "140 entities that the model finds in" in card
    assert "each half was measured by a fit on the other" in card
    # Calibrated again, it gets the same maps: they are fitted on the network's own scores.
    again = calibration.fit_maps(calibration.scored_entities(better, [gold()]))
    assert again == calibration.fit_maps(
        calibration.scored_entities(disease, [gold()])
    )


def test_other_sides_are_only_measured(disease):
    devel, test = gold(200), replace(gold(60), name="other")
    model = EntityTagger(disease.network, disease.tokenizer)
    numbers, table = calibration.calibrate(model, [devel], [test])
    maps = model.settings.calibration
    assert set(numbers.errors) == {"devel", "other"}
    assert maps == calibration.fit_maps(
        calibration.scored_entities(disease, [devel])
    )
    # All its scores are near 1, and two thirds are right.
    assert sum(number for *_, number in numbers.bins) == 90
    assert sum(
        mean * number for mean, _, number in numbers.bins
    ) == pytest.approx(60, abs=2)
    assert sum(
        share * number for _, share, number in numbers.bins
    ) == pytest.approx(60)
    assert (
        numbers.errors["other"]["before"]
        > 0.2
        > numbers.errors["other"]["after"]
    )
    # gold() has one entity of a type that the model does not find: it is not counted.
    scores = model.manifest.scores.table
    assert set(scores["f1"]) == {"other"}
    assert scores["precision"]["other"] == pytest.approx(2 / 3)
    assert scores["recall"]["other"] == 1
    assert scores["f1"]["other"].value == pytest.approx(0.8)
    with pytest.raises(UserError, match="two sides are named other; rename"):
        calibration.calibrate(model, [devel], [test, test])
    assert list(table) == ["label", "score", "right", "after"]
    assert len(table) == 90


def test_the_shipped_model_is_calibrated():
    name = "disease-drug"
    config = json.loads(
        (shipped_models("biomed")[name] / "config.json").read_text("utf-8")
    )["domainbert"]
    assert {f"B-{kind}" for kind in config["settings"]["calibration"]} <= set(
        config["labels"]
    )
    assert len(config["labels"]) == 1 + 2 * len(
        config["settings"]["calibration"]
    )
    manifest = read_manifest(shipped_models("biomed")[name], EntityManifest)
    calibration = manifest.calibration
    assert {"hand-tagged-notes test", "real-sections test"} <= set(
        manifest.scores.table["f1"]
    )
    assert (
        calibration.errors["devel"]["after"]
        < calibration.errors["devel"]["before"]
    )
    assert calibration.note in (
        shipped_models("biomed")[name] / "README.md"
    ).read_text("utf-8")
