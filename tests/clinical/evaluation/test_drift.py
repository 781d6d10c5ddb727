"""Drift: numbers only, no alarm by chance, an alarm for a change; monitoring from end to end."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from clinical.cli import app
from clinical.evaluation.drift import (
    MOST_STAYS,
    compare_inputs,
    describe_notes,
    drift,
    profile,
)
from clinical.evaluation.monitoring import monitor
from clinical.report.page import write_monitoring
from clinical.risk.manifest import QuantityProfile
from domainbert.tables import TableError, write_table

NOTE = "Patient admitted with chest pain. Heart failure. "


def test_what_is_described_of_a_stay_by_hand(model):
    # "failure" is a word of the tiny vocabulary, "zz" is read in two pieces, the sign is unknown.
    stays = pd.Series([["heart failure", "zz heart ☃"], [""]])
    found = pd.DataFrame(describe_notes(model, stays)).sort_values(
        "notes", ascending=False
    )
    found = found.reset_index(drop=True)
    assert found.loc[0].to_dict() == {
        "notes": 2,
        "characters": 23,
        "tokens": 6,
        "split_words": 1 / 5,
        "unknown_tokens": 1 / 6,
        "placeholders": 0,
    }
    assert found.loc[1, ["notes", "tokens"]].tolist() == [1, 0]
    assert found.loc[1, ["split_words", "unknown_tokens"]].isna().all()


def test_placeholders_are_counted_by_note_and_can_drift(model):
    stays = pd.Series([["on [**2151-7-16**] by ___", "heart failure"]] * 20)
    marked = describe_notes(model, stays)
    assert set(marked["placeholders"]) == {1.0}
    plain = pd.Series([["heart failure"]] * 20)
    table = drift(profile(marked), describe_notes(model, plain))
    assert table.set_index("quantity").loc["placeholders", "now"] == 0


def test_the_stability_index_by_hand():
    # (.7 - .5) ln(.7/.5) + (.3 - .5) ln(.3/.5), the half stays being lost in a million.
    tokens = QuantityProfile(
        n=10**6, median=0.5, edges=[0.5], shares=[0.5, 0.5]
    )
    kept = {"tokens": tokens}
    index = {
        share: drift(kept, {"tokens": np.arange(10**6) >= share * 10**6})[
            "psi"
        ][0]
        for share in (0.7, 0.5, 1.0)
    }
    assert index[0.7] == pytest.approx(0.169460, abs=1e-5)
    assert index[0.5] == 0
    assert np.isfinite(index[1.0])


def test_chance_alone_seldom_exceeds_what_it_is_said_to_give():
    rng = np.random.default_rng(0)
    above = []
    for _ in range(300):
        kept = profile({"tokens": rng.normal(size=400)})
        table = drift(kept, {"tokens": rng.normal(size=200)})
        above.append(table["psi"][0] > table["chance"][0])
    assert 0.01 < np.mean(above) < 0.1


def test_a_change_is_found_and_a_small_sample_alarms_nobody():
    rng = np.random.default_rng(1)
    kept = profile(
        {
            "tokens": rng.normal(1000, 100, 2000),
            "notes": rng.integers(1, 4, 2000),
        }
    )
    now = {
        "tokens": rng.normal(1300, 100, 500),
        "notes": rng.integers(1, 4, 500),
    }
    table = drift(kept, now).set_index("quantity")
    assert table["finding"].to_dict() == {"tokens": "act", "notes": "stable"}
    few = drift(kept, {"tokens": rng.normal(1000, 100, 15)})
    assert few["finding"].tolist() == ["stable"]
    assert drift(kept, {}).empty


def test_a_profile_holds_numbers_only_and_none_of_few_stays(model):
    notes = pd.Series([[NOTE + "zebrafinch " * n] for n in range(60)])
    found = profile(
        describe_notes(model, notes) | {"probability": np.linspace(0, 1, 30)}
    )
    assert "zebrafinch" not in str(found)
    assert len(found["probability"].percentiles) == 99
    assert sum(found["tokens"].shares) == pytest.approx(1)
    assert profile({"tokens": np.arange(9)}) == {}
    many = pd.Series([["fever"]] * (MOST_STAYS + 5))
    assert len(describe_notes(model, many)["tokens"]) == MOST_STAYS


@pytest.fixture
def watched(model):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "patient_id": [f"p{n}" for n in range(160)],
            "text": [[NOTE * int(k)] for k in rng.integers(1, 4, 160)],
            "split": ["train", "val"] * 80,
            "readmitted": rng.integers(0, 2, 160),
            "discharge_time": pd.date_range(
                "2024-01-01", periods=160, freq="D"
            ),
        }
    )
    val = rows["text"][1::2]
    risks = [risk.probability for risk in model.predict_many(val)]
    kept = profile(describe_notes(model, val) | {"probability": risks})
    model.manifest.data.profile = kept
    return model, rows.drop(columns="split")


def test_the_same_kind_of_stays_is_stable_and_longer_notes_are_not(
    watched, tmp_path
):
    model, rows = watched
    same = monitor(model, rows, bootstrap=20)
    assert set(same.inputs["finding"]) == {"stable"}
    assert same.periods["n"].sum() == 160
    assert same.evaluation.n_stays == 160
    missing = rows.assign(text=[[*stay, None] for stay in rows["text"]])
    again = monitor(model, missing.assign(stay_id=None), bootstrap=0)
    assert set(again.inputs["finding"]) == {"stable"}
    longer = rows.assign(
        text=[[note * 6 for note in stay] for stay in rows["text"]]
    )
    changed = monitor(
        model, longer.drop(columns=["readmitted", "patient_id"]), bootstrap=20
    )
    findings = changed.inputs.set_index("quantity")["finding"]
    assert findings["tokens"] == "act"
    assert any(
        line.startswith("Tokens of a stay: a clear change")
        for line in changed.findings
    )
    assert any("No outcomes were given" in line for line in changed.findings)
    assert changed.periods.empty
    content = json.loads(write_monitoring(changed, tmp_path / "a").read_text())
    assert content["stays"] == 160
    assert content["drift"][0]["quantity"] == "notes"
    write_monitoring(same, tmp_path / "b")
    names = {"drift.csv", "months.csv", "monitor.json"}
    assert {path.name for path in (tmp_path / "b").iterdir()} == names


def test_a_read_only_folder_is_one_line(
    watched, tmp_path, refused_in_one_line
):
    model, rows = watched
    model.save_pretrained(tmp_path / "model")
    write_table(rows, tmp_path / "new.parquet")
    words = ["monitor", tmp_path / "new.parquet", "--bootstrap", 0]
    refused_in_one_line(app, [*words, "--model", tmp_path / "model"])


def test_training_patients_and_ranking_come_first(watched):
    from clinical.stays.patients import patient_hashes

    model, rows = watched
    model.manifest.data.patients = patient_hashes(rows.assign(split="train"))
    found = monitor(model, rows, bootstrap=50)
    assert found.findings[0].startswith(
        "The model was trained on 160 of these 160 patients"
    )
    assert "AUROC" in found.findings[1]  # outcomes at random
    assert "calibration cannot mend ranking" in found.findings[1]
    assert not any("recalibrate" in line for line in found.findings)
    model.manifest.data.patients = None
    assert "(no record)" in monitor(model, rows, bootstrap=0).findings[0]


def test_only_a_change_since_validation_is_an_alarm(model):
    rng = np.random.default_rng(0)
    risk = rng.beta(2, 5, 400)
    one, other = (
        profile({"probability": rng.beta(2, 5, 400)}),
        profile({"probability": risk / 4}),
    )
    model.manifest.data.profile = one
    table, findings = compare_inputs(
        model, pd.DataFrame({"probability": risk})
    )
    assert (table["finding"].tolist(), findings) == (["stable"], [])
    model.manifest.data.profile = other
    assert (
        len(compare_inputs(model, pd.DataFrame({"probability": risk}))[1]) == 1
    )


def test_monitoring_says_what_it_needs(model, watched):
    _, rows = watched
    kept = model.manifest.data.profile
    model.manifest.data.profile = {}
    with pytest.raises(ValueError, match="no profile of its validation side"):
        monitor(model, rows)
    model.manifest.data.profile = kept
    with pytest.raises(TableError, match="no column 'text'"):
        monitor(model, rows.rename(columns={"text": "txt"}))
    with pytest.raises(
        ValueError,
        match="159 rows repeat a stay_id: expected one row per stay",
    ):
        monitor(model, rows.assign(stay_id="7"))
    with pytest.raises(ValueError, match="every row is excluded"):
        monitor(model, rows.assign(exclusion="age"))


def test_the_command_writes_tables_and_figures(watched, tmp_path):
    model, rows = watched
    model.save_pretrained(tmp_path / "model")
    write_table(
        rows.assign(text=[stay[0] for stay in rows["text"]]),
        tmp_path / "new.csv",
    )
    command = [
        "monitor",
        str(tmp_path / "new.csv"),
        "--model",
        str(tmp_path / "model"),
    ]
    result = CliRunner().invoke(
        app, [*command, "--out", str(tmp_path / "out"), "--bootstrap", "9"]
    )
    assert result.exit_code == 0, result.output
    assert "stable" in result.output
    assert (tmp_path / "out" / "drift.csv").is_file()
    assert (tmp_path / "out" / "months.csv").is_file()
