import json

import numpy as np
import pandas as pd
import pytest
from clinical.risk.fitting import eligible, fit
from clinical.risk.teacher import out_of_fold, targets

from clinical.risk.model import ReadmissionModel, ReadmissionSettings
from domainbert.tables import TableError
from domainbert.training.settings import TrainingSettings

QUICK = TrainingSettings(epochs=4, learning_rate=5e-3, batch_size=8, dropout=0.0, evaluations=1)
SHORT = ReadmissionSettings(window=24)


@pytest.fixture(scope="module")
def cohort():
    """Stays of one to four windows, whose label a word tells; one in eleven is told wrongly."""
    generator = np.random.default_rng(0)
    filler = "patient home stable chest clinic blood breath weeks wife condition".split()
    rows = []
    for number in range(220):
        words = list(generator.choice(filler, generator.integers(15, 70)))
        readmitted = int(generator.random() < 0.4)
        start = generator.integers(len(words) - 8)
        told = readmitted != (number % 11 == 0)
        words[start : start + 8] = ["failure" if told else "afebrile"] * 8
        side = ("train", "train", "train", "val", "test")[number % 5]
        rows.append((f"p{number}", [" ".join(words)], readmitted, side, None))
    return pd.DataFrame(rows, columns=["patient_id", "text", "readmitted", "split", "exclusion"])


@pytest.mark.parametrize("objective", ["stay", "window"])
def test_both_objectives_learn(cohort, tiny_encoder, objective, tmp_path):
    from sklearn.metrics import roc_auc_score

    model = fit(cohort, encoder=tiny_encoder, objective=objective, training=QUICK, settings=SHORT)
    test = cohort[cohort["split"] == "test"]
    risks = [risk.probability for risk in model.predict_many(test["text"])]
    assert roc_auc_score(test["readmitted"], risks) > 0.75
    assert model.manifest["objective"] == objective
    assert model.manifest["stays"] == {"train": 132, "val": 44, "test": 44}
    model.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model" / "model.safetensors").exists()
    again = ReadmissionModel.from_pretrained(tmp_path / "model")
    assert [risk.probability for risk in again.predict_many(test["text"])] == pytest.approx(
        risks, abs=1e-6
    )
    assert again.settings == model.settings
    assert again.settings.calibration is not None


def test_full_weights_train_and_save_whole(cohort, tiny_encoder, tmp_path):
    full = TrainingSettings(epochs=1, learning_rate=1e-3, full=True)
    model = fit(cohort, encoder=tiny_encoder, training=full, settings=SHORT)
    model.save_pretrained(tmp_path / "model")
    assert (tmp_path / "model" / "model.safetensors").is_file()
    document = json.loads((tmp_path / "model" / "config.json").read_text())
    assert document["architectures"] == ["BertForSequenceClassification"]
    note = cohort["text"][0]
    loaded = ReadmissionModel.from_pretrained(tmp_path / "model")
    assert loaded.predict(note).probability == pytest.approx(model.predict(note).probability)


def test_the_test_side_has_no_say(cohort, tiny_encoder):
    one = TrainingSettings(epochs=1, learning_rate=1e-3)
    flipped = cohort.assign(
        readmitted=cohort["readmitted"].where(cohort["split"] != "test", 1 - cohort["readmitted"])
    )
    models = [fit(c, encoder=tiny_encoder, training=one, settings=SHORT) for c in (cohort, flipped)]
    note = cohort["text"][0]
    assert models[0].predict(note).probability == models[1].predict(note).probability
    assert models[0].settings == models[1].settings


def test_rows_that_cannot_be_used_are_left_out(cohort):
    odd = cohort.copy()
    odd.loc[0, "exclusion"] = "died"
    odd.at[1, "text"] = ["  "]
    odd.at[2, "text"] = []
    assert len(eligible(odd)) == len(cohort) - 3


def test_a_straddling_patient_stops_training(cohort, tiny_encoder):
    straddling = cohort.assign(patient_id=["same" if n < 5 else f"p{n}" for n in range(220)])
    with pytest.raises(ValueError, match="1 of 216 patients are on more than one side"):
        fit(straddling, encoder=tiny_encoder, training=QUICK)


def test_missing_columns_sides_and_outcomes(cohort, tiny_encoder):
    with pytest.raises(TableError, match="no column 'readmitted'; did you mean 'readmited'"):
        fit(cohort.rename(columns={"readmitted": "readmited"}), encoder=tiny_encoder)
    with pytest.raises(ValueError, match="the val side has 0 stays and needs both outcomes"):
        fit(cohort[cohort["split"] == "train"], encoder=tiny_encoder)
    with pytest.raises(ValueError, match="objective must be one of"):
        fit(cohort, encoder=tiny_encoder, objective="note")


def test_the_teacher_mixes_and_never_teaches_its_own_patient(cohort):
    train = cohort[cohort["split"] == "train"]
    labels = train["readmitted"].to_numpy()
    assert (targets(train, weight=0.0) == labels).all()
    teacher = out_of_fold(train)
    assert targets(train, weight=0.7) == pytest.approx(0.3 * labels + 0.7 * teacher)
    # The stays of one patient never teach that patient: alone it has no teacher at all.
    with pytest.raises(ValueError, match="1 patients fall into one fold"):
        out_of_fold(train.assign(patient_id="same"))
    with pytest.raises(ValueError, match="between 0 and 1"):
        targets(train, weight=1.5)
