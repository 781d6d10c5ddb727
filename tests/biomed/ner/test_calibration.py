import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from biomed.corpora import Gold, TaggedText
from biomed.models import shipped
from biomed.ner import calibration
from biomed.ner.calibration import Scored
from biomed.ner.commands import app
from biomed.ner.decoding import calibrated
from biomed.ner.network import WordTagger
from biomed.ner.tagger import EntityTagger
from domainbert.calibration import bins_of, calibration_error, fit_platt, platt
from domainbert.errors import UserError


@pytest.fixture
def overconfident():
    """2,000 entities that are right less often than their scores say."""
    rng = np.random.default_rng(0)
    scores = rng.uniform(0.05, 0.999, 2000)
    right = rng.uniform(size=2000) < calibrated(scores, 0.5, -0.5)
    return Scored(np.array(["a"] * 1000 + ["b"] * 1000), scores, right)


def test_maps_are_found_and_help(overconfident):
    maps = calibration.fit_maps(overconfident)
    assert set(maps) == {"a", "b"}
    for slope, intercept in maps.values():
        assert slope == pytest.approx(0.5, abs=0.12)
        assert intercept == pytest.approx(-0.5, abs=0.25)
    before = calibration_error(overconfident.scores, overconfident.right)
    after = calibration_error(calibration.cross_fitted(overconfident), overconfident.right)
    assert before > 0.1
    assert after < 0.06
    mapped = calibration.apply({"a": [0.5, -0.5]}, overconfident)
    assert np.array_equal(mapped[1000:], overconfident.scores[1000:])
    order = np.argsort(overconfident.scores[:1000])
    assert (np.diff(mapped[:1000][order]) >= 0).all()


def test_bins_and_error():
    scores, right = np.array([0.1, 0.95, 0.97, 1.0]), np.array([False, True, True, False])
    assert [n for *_, n in bins_of(scores, right)] == [1, 3]
    error = (0.1 + 3 * abs(2.92 / 3 - 2 / 3)) / 4
    assert calibration_error(scores, right) == pytest.approx(error)
    assert calibrated(np.array([0.0, 1.0]), 1, 0) == pytest.approx([0, 1], abs=1e-5)


def test_too_few():
    few = Scored(np.array(["a"]), np.array([0.5]), np.array([True]))
    with pytest.raises(UserError, match="a: 1 entities found; expected 50"):
        calibration.fit_maps(few)
    with pytest.raises(UserError, match="nothing to calibrate on"):
        calibration.fit_maps(few.part(np.array([False])))


def gold(times=60):
    texts = [TaggedText(("heart", "failure"), ("B-Disease", "I-Disease")) for _ in range(times)]
    texts += [TaggedText(("kidney", "was"), ("O", "O")) for _ in range(times // 2)]
    texts[0] = TaggedText(("heart", "failure", "x"), ("B-Disease", "I-Disease", "B-Other"))
    return Gold("g", tuple(texts))


def test_found_entities_are_right_or_wrong(disease):
    found = calibration.scored_entities(disease, [gold()])
    assert len(found.scores) == 90
    assert found.right.mean() == pytest.approx(2 / 3)


def test_a_calibrated_model(disease, drug, tmp_path):
    disease.save_pretrained(tmp_path / "model")
    lines = "heart\tB-Disease\nfailure\tI-Disease\n\n" * 100 + "kidney\tO\nwas\tO\n\n" * 40
    (tmp_path / "devel.tsv").write_text(lines)
    out = ["--out", str(tmp_path / "better"), "--figure", str(tmp_path / "f.png")]
    out += ["--json", str(tmp_path / "numbers.json")]
    command = ["calibrate", str(tmp_path / "model"), str(tmp_path / "devel.tsv"), *out]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    after = json.loads((tmp_path / "numbers.json").read_text())["sides"]["devel"]["after"]
    assert "devel" in result.output
    assert f"{after:.3f}" in result.output
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    slope, intercept = json.loads((tmp_path / "numbers.json").read_text())["maps"]["Disease"]
    better = WordTagger.from_pretrained(tmp_path / "better", device="cpu")
    plain, mapped = EntityTagger(disease), EntityTagger(better)
    (before,), (after,) = plain.tag("heart failure"), mapped.tag("heart failure")
    assert after.score == pytest.approx(float(calibrated(before.score, slope, intercept)))
    assert (plain.score_kind, mapped.score_kind) == ("span_probability", "calibrated")
    assert EntityTagger(better, drug).score_kind == "span_probability"
    assert better.fingerprint() != disease.fingerprint()
    card = (tmp_path / "better" / "README.md").read_text()
    assert "140 entities that the model finds in" in card
    assert "each half was measured by a fit on the other" in card
    # Calibrated again, it gets the same maps: they are fitted on the network's own scores.
    again = calibration.fit_maps(calibration.scored_entities(better, [gold()]))
    assert again == calibration.fit_maps(calibration.scored_entities(disease, [gold()]))


def test_other_sides_are_only_measured(disease):
    devel, test = gold(200), replace(gold(60), name="other")
    model = WordTagger(disease.network, disease.tokenizer)
    numbers, curves = calibration.calibrate(model, [devel], [test])
    maps = model.settings.calibration
    assert set(numbers["sides"]) == {"devel", "other"}
    assert maps == calibration.fit_maps(calibration.scored_entities(disease, [devel]))
    # All its scores are near 1, and two thirds are right.
    (mean, share, number), *_ = numbers["bins"]
    assert (share, number) == (pytest.approx(2 / 3), 90)
    assert mean == pytest.approx(2 / 3, abs=0.02)
    assert numbers["sides"]["other"]["before"] > 0.2 > numbers["sides"]["other"]["after"]
    # gold() has one entity of a type that the model does not find: it is not counted.
    scores = model.manifest["scores"]
    assert set(scores["f1"]) == {"other"}
    assert scores["precision"]["other"] == pytest.approx(2 / 3)
    assert scores["recall"]["other"] == 1
    assert scores["f1"]["other"]["value"] == pytest.approx(0.8)
    with pytest.raises(UserError, match="two sides are named other; rename"):
        calibration.calibrate(model, [devel], [test, test])
    (_, right), (after, _) = curves.values()
    assert len(right) == len(after) == 90


@pytest.mark.parametrize("name", ["disease", "drug", "disease-drug"])
def test_the_shipped_models_are_calibrated(name):
    config = json.loads((shipped()[name] / "config.json").read_text("utf-8"))["domainbert"]
    assert {f"B-{kind}" for kind in config["settings"]["calibration"]} <= set(config["labels"])
    assert len(config["labels"]) == 1 + 2 * len(config["settings"]["calibration"])
    known = config["manifest"]["calibration"]
    assert "hand-tagged notes test" in config["manifest"]["scores"]["f1"]
    assert known["sides"]["devel"]["after"] < known["sides"]["devel"]["before"]
    assert known["note"] in (shipped()[name] / "README.md").read_text("utf-8")


def test_a_score_that_ranks_backwards_is_flat_at_the_share_that_is_right():
    values, right = np.array([7.6, 7.7, 7.9, 8.0] * 50), np.array([True, True, True, False] * 50)
    slope, intercept = fit_platt(values, right)
    assert 0 < slope < 0.001
    assert platt(values, slope, intercept) == pytest.approx(0.75, abs=0.01)
