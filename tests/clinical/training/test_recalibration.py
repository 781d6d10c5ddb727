import numpy as np
import pandas as pd
import pytest

from clinical import ReadmissionModel
from clinical.stays.patients import overlap, patient_hashes
from clinical.training.recalibration import recalibrate
from clinical.training.training import ReadmissionRecipe, ReadmissionTable
from domainbert.errors import UserError
from domainbert.statistics.calibration import calibrated


@pytest.fixture
def model(tiny_encoder):
    table = ReadmissionTable(encoder=str(tiny_encoder))
    found = ReadmissionModel.untrained(table.encoder, training=ReadmissionRecipe().training)
    found.manifest = {}
    return found


@pytest.fixture
def cohort(model):
    """Outcomes drawn from a known calibration of the model's own scores; p0 to p399 are "val"."""
    generator = np.random.default_rng(0)
    words = "patient home stable chest clinic blood breath weeks failure condition".split()
    notes = [[" ".join(generator.choice(words, generator.integers(3, 30)))] for _ in range(800)]
    scores = np.array([risk.score for risk in model.predict_many(notes)])
    middle, spread = np.median(scores), scores.std()
    chance = 1 / (1 + np.exp(-2 * (scores - middle) / spread))
    side = np.where(np.arange(800) < 400, "val", "test")
    return pd.DataFrame(
        {
            "patient_id": [f"p{i}" for i in range(800)],
            "text": notes,
            "readmitted": (generator.random(800) < chance).astype(int),
            "split": side,
        }
    )


def test_only_what_is_around_the_network_is_fitted(model, cohort):
    weights = model.fingerprint()
    before = {name: t.clone() for name, t in model.network.state_dict().items()}
    recalibrate(model, cohort)
    assert all(before[name].equal(t) for name, t in model.network.state_dict().items())
    assert model.fingerprint() != weights  # settings count
    slope, _ = model.settings.calibration
    assert slope > 0
    assert model.manifest["recalibrated"]["stays"] == 400
    test = cohort[cohort["split"] == "test"]
    risks = list(model.predict_many(test["text"]))
    found = np.array([risk.probability for risk in risks])
    assert found == pytest.approx(calibrated([r.score for r in risks], *model.settings.calibration))
    assert abs(found.mean() - test["readmitted"].mean()) < 0.06  # calibrated in the large


def test_patients_of_the_training_are_refused_and_new_ones_are_recorded(model, cohort):
    seen = cohort.assign(split="train").head(30)
    model.manifest["patients"] = patient_hashes(seen)
    with pytest.raises(UserError, match=r"side 'val': of .*, 30 on its train side"):
        recalibrate(model, cohort)
    assert model.settings.calibration is None
    recalibrate(model, cohort, split="test")
    found = overlap(cohort["patient_id"], model.manifest["patients"])
    assert found == {"train": 30, "val": 400}


def test_too_few_stays_leave_the_model_as_it_was(model, cohort):
    with pytest.raises(UserError, match="too few to calibrate on"):
        recalibrate(model, cohort.head(30))
    assert model.settings.calibration is None
    with pytest.raises(UserError, match="no stay of the side 'train' can be scored"):
        recalibrate(model, cohort, split="train")


def test_the_card_says_on_what_it_was_calibrated_and_measured(model, cohort, tmp_path):
    recalibrate(model, cohort)
    model.manifest |= {"score_table": [["", "domainbert"], ["AUROC", "0.7"]], "verdicts": []}
    model.save_pretrained(tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text()
    assert "On the test side of the cohort that it was calibrated on, which" in card
    assert "fitted on 400 other stays" in card
