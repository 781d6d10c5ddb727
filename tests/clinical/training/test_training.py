import base64
import json
import logging

import numpy as np
import pandas as pd
import pytest
import torch

from clinical import ReadmissionModel
from clinical.evaluation.comparison import compare
from clinical.stays.cohorts import read_cohort
from clinical.stays.patients import overlap, patient_hashes
from clinical.training.training import (
    ReadmissionRecipe,
    ReadmissionTable,
    fit,
)
from domainbert.errors import UserError
from domainbert.models.manifest import Manifest
from domainbert.models.storage import read_manifest, shipped_models
from domainbert.tables import TableError, write_table
from domainbert.training.recipes import read_recipe, recipe_file
from domainbert.training.settings import TrainingSettings

QUICK = TrainingSettings(
    epochs=3, learning_rate=5e-3, batch_size=8, dropout=0.0, evaluations=1
)
ONE = TrainingSettings(epochs=0.3, learning_rate=1e-3)


@pytest.fixture(scope="module")
def cohort():
    """Stays of one to four windows, whose label a word tells; one in eleven is told wrongly."""
    generator = np.random.default_rng(0)
    filler = "patient home stable chest clinic blood breath weeks wife condition".split()
    rows = []
    for number in range(300):
        words = list(generator.choice(filler, generator.integers(15, 70)))
        readmitted = int(generator.random() < 0.4)
        start = generator.integers(len(words) - 8)
        told = readmitted != (number % 11 == 0)
        words[start : start + 8] = ["failure" if told else "afebrile"] * 8
        side = ("train", "train", "train", "val", "test")[number % 5]
        rows.append((f"p{number}", [" ".join(words)], readmitted, side, None))
    return pd.DataFrame(
        rows,
        columns=["patient_id", "text", "readmitted", "split", "exclusion"],
    )


@pytest.fixture
def recipe(tiny_encoder):
    def made(training=ONE, **model):
        table = {"encoder": str(tiny_encoder), "window": 24, **model}
        return ReadmissionRecipe(
            model=ReadmissionTable(**table), training=training
        )

    return made


@pytest.mark.parametrize("objective", ["stay", "window"])
def test_both_objectives_learn(cohort, recipe, objective, tmp_path):
    from sklearn.metrics import roc_auc_score

    model = fit(cohort, recipe(QUICK, objective=objective))
    test = cohort[cohort["split"] == "test"]
    risks = [risk.score for risk in model.predict_many(test["text"])]
    assert roc_auc_score(test["readmitted"], risks) > 0.75
    assert model.manifest.training.objective == objective
    assert model.manifest.data.stays == {"train": 180, "val": 60, "test": 60}
    model.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model" / "model.safetensors").exists()
    again = ReadmissionModel.from_pretrained(tmp_path / "model")
    assert [
        risk.score for risk in again.predict_many(test["text"])
    ] == pytest.approx(risks, abs=1e-6)
    assert again.settings == model.settings
    assert again.settings.calibration[0] > 0


def test_full_weights_train_and_save_whole(cohort, recipe, tmp_path):
    model = fit(cohort, recipe(ONE.replaced(full=True)))
    model.save_pretrained(tmp_path / "model")
    assert (tmp_path / "model" / "model.safetensors").is_file()
    document = json.loads((tmp_path / "model" / "config.json").read_text())
    assert document["architectures"] == ["BertForSequenceClassification"]
    note = cohort["text"][0]
    loaded = ReadmissionModel.from_pretrained(tmp_path / "model")
    assert loaded.predict(note).probability == pytest.approx(
        model.predict(note).probability, abs=1e-5
    )


def test_the_test_side_has_no_say(cohort, recipe):
    flipped = cohort.assign(
        readmitted=cohort["readmitted"].where(
            cohort["split"] != "test", 1 - cohort["readmitted"]
        )
    )
    models = [fit(c, recipe()) for c in (cohort, flipped)]
    note = cohort["text"][0]
    assert (
        models[0].predict(note).probability
        == models[1].predict(note).probability
    )
    assert models[0].settings == models[1].settings


def test_missing_notes_and_notes_of_marks_alone_do_not_end_a_training(
    cohort, recipe, caplog
):
    odd = cohort.copy()
    odd.at[0, "text"] = None
    odd.at[1, "text"] = [None, *odd.at[1, "text"]]
    odd.at[2, "text"] = ["___"]
    odd.at[3, "text"] = ["___", None]
    odd.at[4, "text"] = ["[**Name 12**]"]
    odd.at[5, "text"] = np.array([None, np.nan], dtype=object)
    with caplog.at_level(logging.WARNING):
        model = fit(odd, recipe())
    assert sum(model.manifest.data.stays.values()) == 296
    assert "2 stays have no text and are left out" in caplog.text
    assert "2 stays have no readable text and are left out" in caplog.text
    comparison = compare(model, odd, bootstrap=0)
    assert len(comparison.stays) == 59
    assert (
        "1 of 60 stays could not be scored and are not measured."
        in comparison.caveats
    )


def test_bad_cohorts_are_refused_before_any_work(cohort, recipe):
    nowhere = ReadmissionRecipe(
        model=ReadmissionTable(encoder="nowhere")
    )  # never looked for
    straddling = cohort.assign(
        patient_id=["same" if n < 5 else f"p{n}" for n in range(300)]
    )
    with pytest.raises(
        UserError, match="1 of 296 patients are on more than one side"
    ):
        fit(straddling, nowhere)
    with pytest.raises(
        TableError, match="no column 'readmitted'; did you mean 'readmited'"
    ):
        fit(cohort.rename(columns={"readmitted": "readmited"}), nowhere)
    with pytest.raises(
        UserError,
        match=r"the val side has 0 stays, which do not have both .* --fractions 0.6",
    ):
        fit(cohort[cohort["split"] == "train"], nowhere)
    for label in (2, -1, 0.5, "1"):
        wrong = cohort.assign(readmitted=cohort["readmitted"].astype(object))
        wrong.at[7, "readmitted"] = label
        with pytest.raises(
            UserError, match="readmitted holds 1 values that are not 0 or 1"
        ):
            fit(wrong, nowhere)
    notes = cohort.assign(text=[[3]] * 300)
    with pytest.raises(
        UserError,
        match="text: note 0 is int, not text; expected a list of str",
    ):
        fit(notes, nowhere)
    with pytest.raises(
        UserError, match="objective: expected 'stay' or 'window', got 'note'"
    ):
        recipe(objective="note")


def test_a_resumed_run_refuses_another_cohort_split_window_or_objective(
    cohort, recipe, tmp_path
):
    fit(cohort, recipe(), checkpoints=tmp_path)
    used = cohort[cohort["split"] != "test"]
    others = [
        (used.iloc[:-1], recipe(), "data_sha256"),
        (cohort.assign(split=cohort["split"].replace({"val": "test", "test": "val"})), recipe(),
         "data_sha256"),
        (cohort, recipe(window=32), "settings.window"),
        (cohort, recipe(objective="window"), "objective"),
        (cohort.assign(target=0.5), recipe(), "data_sha256"),
        (cohort, recipe(ONE.replaced(seed=1)), "training.seed"),
    ]  # fmt: skip
    for table, plan, named in others:
        with pytest.raises(UserError, match=f"made with another .*{named}"):
            fit(table, plan, checkpoints=tmp_path, resume=True)
    # The test side is not used, so it may differ.
    fit(used, recipe(), checkpoints=tmp_path, resume=True)


def test_few_events_train_a_model_without_a_calibrator_and_say_so(
    cohort, recipe, caplog, tmp_path
):
    val = cohort.index[cohort["split"] == "val"]
    few = cohort.copy()
    few.loc[val[few.loc[val, "readmitted"] == 1][3:], "exclusion"] = "left out"
    with caplog.at_level(logging.WARNING):
        model = fit(few, recipe())
    reason = "3 with the outcome, are too few to calibrate on; at least 20 with the outcome"
    assert reason in caplog.text
    assert model.settings.calibration is None
    assert model.settings.alert_threshold is None
    assert not model.predict(cohort["text"][0]).calibrated
    comparison = compare(model, few, bootstrap=0)
    assert any(reason in caveat for caveat in comparison.caveats)
    model.save_pretrained(tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text()
    assert "**The probability is not calibrated**" in card
    assert reason in card


def test_a_model_that_ranks_validation_backwards_has_no_calibrator(
    cohort, recipe
):
    flipped = cohort.copy()
    flipped.loc[flipped["split"] == "val", "readmitted"] ^= 1
    model = fit(flipped, recipe(QUICK))
    assert model.manifest.training.validation["auroc"] < 0.5
    assert model.settings.calibration is None
    assert "no better than chance" in model.manifest.calibration.refused


def test_the_test_side_is_not_tokenised(cohort, recipe, monkeypatch):
    asked = []

    def token_ids(self, stays):
        asked.extend(stays)
        raise KeyboardInterrupt

    monkeypatch.setattr(ReadmissionModel, "token_ids", token_ids)
    with pytest.raises(KeyboardInterrupt):
        fit(cohort, recipe())
    assert len(asked) == (cohort["split"] != "test").sum() < len(cohort)


def test_patients_of_the_training_are_recognised_by_any_spelling(
    cohort, recipe, tmp_path
):
    model = fit(cohort, recipe())
    stored = model.manifest.data.patients
    assert len(base64.b64decode(stored["train"])) == 5 * 180
    assert overlap([" P0 ", "p1", "P3", "p4", "someone", None], stored) == {
        "train": 2,
        "val": 1,
    }
    model.save_pretrained(tmp_path / "model")
    again = ReadmissionModel.from_pretrained(tmp_path / "model")
    other = cohort.assign(
        split=cohort["split"].replace({"train": "test", "test": "train"})
    )
    message = "trained on patients of the side 'test': of 180, 180 on its train side; use the split"
    with pytest.raises(UserError, match=message):
        compare(again, other, bootstrap=0)
    seen = "has seen patients of this side"
    assert seen not in "".join(compare(again, cohort, bootstrap=0).caveats)
    assert (
        seen in compare(again, cohort, split="train", bootstrap=0).caveats[0]
    )
    # Of two models nobody can tell whether they have patients in common.
    assert patient_hashes(cohort)["train"] != stored["train"]
    forgotten = fit(cohort, recipe(), record_patients=False)
    assert forgotten.manifest.data.patients is None
    assert (
        compare(forgotten, other, bootstrap=0)
        .caveats[0]
        .startswith("Not checked")
    )


@pytest.mark.numeric
def test_training_starts_from_another_model_and_knows_its_patients(
    cohort, recipe, tmp_path
):
    first = cohort.assign(patient_id="first " + cohort["patient_id"])
    fit(first, recipe()).save_pretrained(tmp_path / "first")
    before = ReadmissionModel.from_pretrained(tmp_path / "first")
    still = ONE.replaced(learning_rate=1e-9)
    model = fit(cohort, recipe(still, start=str(tmp_path / "first")))
    for name, tensor in before.adapter.tensors.items():
        assert torch.allclose(
            tensor.float(), model.adapter.tensors[name].float(), atol=1e-3
        ), name
    assert model.manifest.training.start == "first"
    assert overlap(["first p0", "p0", "p4"], model.manifest.data.patients) == {
        "train": 2,
        "val": 0,
    }
    moved = first.assign(
        split=first["split"].replace({"train": "test", "test": "train"})
    )
    with pytest.raises(UserError, match="180 on its train side"):
        fit(moved, recipe(start=str(tmp_path / "first")))
    with pytest.raises(UserError, match="share and start need adapters"):
        fit(
            cohort,
            recipe(ONE.replaced(full=True), start=str(tmp_path / "first")),
        )


def test_another_cohort_may_not_bring_patients_of_the_test_side(
    cohort, tmp_path
):
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    write_table(cohort.assign(exclusion=""), first)
    shifted = cohort["split"].to_numpy()[np.r_[1:300, 0]]
    write_table(cohort.assign(exclusion="", split=shifted), second)
    with pytest.raises(
        UserError,
        match=r"60 of 300 patients are on more than one side of the split",
    ):
        read_cohort(first, also=[second])
    write_table(
        cohort.assign(exclusion="", patient_id=cohort["patient_id"] + "x"),
        second,
    )
    together = read_cohort(first, also=[second])
    assert together["split"].value_counts().to_dict() == {
        "train": 360,
        "val": 60,
        "test": 60,
    }


def test_a_model_folder_holds_nothing_from_patients_but_what_its_card_lists(
    cohort, recipe, tmp_path
):
    named = cohort.copy()
    named["text"] = [[f"{notes[0]} Mr. Zebrafinch"] for notes in named["text"]]
    named["patient_id"] = [f"mrn-{n}" for n in range(300)]
    model = fit(named, recipe())
    compare(model, named, bootstrap=0)
    written = model.manifest.model_dump(exclude_defaults=True)
    assert set(written["data"]) == {
        *("stays", "prevalence", "disjoint", "patients", "profile")
    }
    assert set(written) <= {"card", "data", "training", "calibration"}
    assert set(model.manifest.training.facts[0]) == {
        "data_sha256",
        "objective",
    }
    model.save_pretrained(tmp_path / "model")
    names = {path.name for path in (tmp_path / "model").rglob("*")}
    assert names == {
        "README.md",
        "adapter_config.json",
        "adapter_model.safetensors",
        "config.json",
        "evaluation.json",
    }
    for path in (tmp_path / "model").rglob("*"):
        content = path.read_bytes().lower()
        assert b"zebrafinch" not in content
        assert b"mrn-" not in content
    card = (tmp_path / "model" / "README.md").read_text()
    assert "hashes of the patient ids" in card
    assert "no vocabulary made from notes" in card
    assert "no patient is on two sides" in card


def test_targets_are_trained_on_and_checked(cohort, recipe):
    with pytest.raises(
        UserError, match="target: expected numbers from 0 to 1"
    ):
        fit(cohort.assign(target=1.5), recipe())
    with pytest.raises(
        UserError, match="target: expected numbers from 0 to 1"
    ):
        fit(cohort.assign(target=np.nan), recipe())
    soft = cohort.assign(
        target=np.where(cohort["split"] == "train", 0.3, np.nan)
    )
    assert (
        fit(soft, recipe()).manifest.training.facts
        != fit(cohort, recipe()).manifest.training.facts
    )


@pytest.mark.parametrize(
    "name", ["readmission-demo", "readmission-diabetes130"]
)
def test_the_shipped_recipes_are_those_of_the_shipped_models(name):
    recipe = read_recipe(ReadmissionRecipe, recipe_file(name))
    training = read_manifest(
        shipped_models("clinical")[name], Manifest
    ).training
    assert recipe.card.name == name
    assert training.objective.startswith(recipe.model.objective)
    now = recipe.training.model_dump()
    then = training.stages[0].model_dump()
    assert {name: now[name] for name in then} == then


def test_too_few_stays_to_calibrate_on_are_said_before_training(
    cohort, recipe, caplog, monkeypatch
):
    few = cohort[(cohort["split"] == "train") | (cohort.index % 20 == 3)]
    said = []

    def before_training(*_, **__):
        said.append(caplog.text)
        raise KeyboardInterrupt

    monkeypatch.setattr("clinical.training.training._trained", before_training)
    with pytest.raises(KeyboardInterrupt), caplog.at_level(logging.WARNING):
        fit(few, recipe())
    assert "this model will not be calibrated: 15 stays, " in said[0]
    assert (
        "--fractions 0.6 0.2 0.2, or the estimator's validation_fraction)"
        in said[0]
    )
    assert " or cross-fitted calibration" in said[0]


def test_cross_fitted_calibration_needs_no_large_validation_side(
    cohort, recipe, tmp_path
):
    few = cohort[(cohort["split"] == "train") | (cohort.index % 20 == 3)].head(
        130
    )
    two = QUICK.replaced(epochs=2)
    model = fit(few, recipe(two, calibration="cross-fitted"))
    assert model.settings.calibration is not None
    assert not model.manifest.calibration.refused
    model.save_pretrained(tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text()
    assert (
        "fitted on out-of-fold scores of the training and validation stays"
        in card
    )


def test_out_of_fold_scores_are_of_models_that_did_not_see_the_patient(
    cohort, recipe, monkeypatch
):
    from clinical.training import training

    own, sides = training._trained, []
    monkeypatch.setattr(
        training,
        "_trained",
        lambda rows, *rest: sides.append(rows) or own(rows, *rest),
    )
    rows = cohort[cohort["split"] == "train"].head(60).reset_index(drop=True)
    rows = rows.assign(
        patient_id=[f"p{n // 2}" for n in range(60)]
    )  # two stays each
    values, counts, outcome = training._out_of_fold(rows, recipe(), None)
    assert len(counts) == len(outcome) == 60
    assert counts.sum() == len(values)
    assert outcome.sum() == rows["readmitted"].sum()
    assert len(sides) == training.FOLDS
    for fold in sides:
        held, trained = (
            set(fold[fold["split"] == s]["patient_id"])
            for s in ("val", "train")
        )
        assert not held & trained
