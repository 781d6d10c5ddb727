from copy import copy

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from clinical import ReadmissionModel, ReadmissionSettings
from clinical.cli import app
from clinical.evaluation.comparison import compare, record
from clinical.risk.manifest import RiskManifest
from clinical.stays.patients import overlap, patient_hashes
from clinical.training.recalibration import C_GRID, recalibrate
from clinical.training.training import ReadmissionRecipe, ReadmissionTable
from domainbert.errors import UserError
from domainbert.models.manifest import Example
from domainbert.statistics.calibration import calibrated, logit
from domainbert.tables import TableError, read_table, write_table


@pytest.fixture
def model(tiny_encoder):
    table = ReadmissionTable(encoder=str(tiny_encoder))
    training = ReadmissionRecipe().training
    return ReadmissionModel.untrained(table.encoder, training=training)


@pytest.fixture
def cohort(model):
    """Outcomes drawn from a known calibration of the model's own scores; p0 to p399 are "val"."""
    generator = np.random.default_rng(0)
    words = "patient home stable chest clinic blood breath weeks failure condition".split()
    notes = [
        [" ".join(generator.choice(words, generator.integers(3, 30)))]
        for _ in range(800)
    ]
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
    before = {
        name: t.clone() for name, t in model.network.state_dict().items()
    }
    recalibrate(model, cohort)
    assert all(
        before[name].equal(t) for name, t in model.network.state_dict().items()
    )
    assert model.fingerprint() != weights  # settings count
    slope, _ = model.settings.calibration
    assert slope > 0
    assert model.manifest.calibration.recalibrated.stays == 400
    test = cohort[cohort["split"] == "test"]
    risks = list(model.predict_many(test["text"]))
    found = np.array([risk.probability for risk in risks])
    assert found == pytest.approx(
        calibrated([r.score for r in risks], *model.settings.calibration)
    )
    assert (
        abs(found.mean() - test["readmitted"].mean()) < 0.06
    )  # calibrated in the large


def test_when_readmissions_come_is_learned_and_is_in_the_card(
    model, cohort, tmp_path
):
    recalibrate(model, cohort)
    assert model.settings.after_discharge == ()
    days = np.random.default_rng(1).uniform(1, 29, len(cohort))
    dated = cohort.assign(
        days_to_readmission=np.where(cohort["readmitted"] == 1, days, np.nan)
    )
    recalibrate(model, dated)
    groups = model.settings.after_discharge
    assert len(groups) == 3
    risk = next(model.predict_many(cohort["text"].head(1)))
    assert 0 < risk.remaining(21) < risk.remaining(7) < risk.probability
    table = compare(model, dated, bootstrap=0).remaining
    assert table["n"].head(1).item() > 50
    model.save_pretrained(tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text()
    assert "## After discharge" in card
    assert f"| 0.00 to {groups[1].above:.2f} | 7 |" in card
    recalibrate(model, cohort)  # the days are not known: no old curve is kept
    assert model.settings.after_discharge == ()


def test_patients_of_the_training_are_refused_and_new_ones_are_recorded(
    model, cohort
):
    seen = cohort.assign(split="train").head(30)
    model.manifest.data.patients = patient_hashes(seen)
    with pytest.raises(
        UserError, match=r"side 'val': of .*, 30 on its train side"
    ):
        recalibrate(model, cohort)
    assert model.settings.calibration is None
    recalibrate(model, cohort, split="test")
    found = overlap(cohort["patient_id"], model.manifest.data.patients)
    assert found == {"train": 30, "val": 400}


def test_too_few_stays_leave_the_model_as_it_was(model, cohort):
    with pytest.raises(UserError, match="too few to calibrate on"):
        recalibrate(model, cohort.head(30))
    assert model.settings.calibration is None
    with pytest.raises(
        UserError, match="no stay of the side 'train' can be scored"
    ):
        recalibrate(model, cohort, split="train")


def test_the_card_says_on_what_it_was_calibrated_and_measured(
    model, cohort, tmp_path
):
    recalibrate(model, cohort)
    model.manifest.scores.summary = [["", "domainbert"], ["AUROC", "0.7"]]
    model.save_pretrained(tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text()
    assert (
        "On the test side of the cohort that it was calibrated on, which"
        in card
    )
    assert "fitted on 400 other stays" in card


COLUMNS = ["age", "prior"]


@pytest.fixture
def wide(model, cohort):
    """The cohort with columns: age counts, prior admissions do not; every seventh age is missing.

    The outcome depends on the score and on age, 0.08 of log-odds a year.
    """
    generator = np.random.default_rng(1)
    age, prior = generator.integers(20, 95, 800), generator.poisson(1, 800)
    scores = np.array(
        [risk.score for risk in model.predict_many(cohort["text"])]
    )
    order = (scores - np.median(scores)) / scores.std()
    chance = 1 / (1 + np.exp(-(order + 0.08 * (age - 60))))
    known = np.where(np.arange(800) % 7, age, np.nan)
    readmitted = (generator.random(800) < chance).astype(int)
    return cohort.assign(age=known, prior=prior, readmitted=readmitted)


def test_columns_are_weighed_as_scikit_learn_does(model, wide):
    recalibrate(model, wide, columns=COLUMNS)
    val = wide[wide["split"] == "val"]
    scores = np.array(
        [risk.score for risk in model.predict_many(val.to_dict("records"))]
    )
    assert model.settings.columns[0].median == val["age"].median()
    table = np.column_stack(
        [logit(scores), val["age"].fillna(val["age"].median()), val["prior"]],
    )
    # The tolerance of its default is too coarse to compare with.
    theirs = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8))
    expected = theirs.fit(table, val["readmitted"]).predict_proba(table)[:, 1]
    found = [
        risk.probability for risk in model.predict_many(val.to_dict("records"))
    ]
    assert found == pytest.approx(expected, abs=1e-6)
    assert 0.05 < model.settings.columns[0].weight < 0.11
    assert all(
        risk.calibrated
        for risk in model.predict_many(val.head().to_dict("records"))
    )


def test_columns_are_read_from_tables_records_and_files(model, wide, tmp_path):
    recalibrate(model, wide, columns=COLUMNS)
    model.save_pretrained(tmp_path / "model")
    loaded = ReadmissionModel.from_pretrained(tmp_path / "model")
    assert loaded.settings == model.settings
    assert loaded.fingerprint() == model.fingerprint()
    rows = wide.head(20).assign(
        stay_id=[f"s{i}" for i in range(20)], text=wide["text"].str[0]
    )
    found = loaded.score_frame(rows)
    records = rows.to_dict("records")
    expected = [risk.probability for risk in model.predict_many(records)]
    assert found["probability"].to_numpy() == pytest.approx(expected)
    write_table(
        rows.drop(columns=["readmitted", "split"]), tmp_path / "new.csv"
    )
    words = ["score", "new.csv", "--out", "risks.csv", "--model", "model"]
    run = CliRunner().invoke(
        app,
        [str(tmp_path / w) if "." in w or w == "model" else w for w in words],
    )
    assert run.exit_code == 0, run.output
    written = read_table(
        tmp_path / "risks.csv", schema={"probability": "float"}
    )
    assert written["probability"].to_numpy() == pytest.approx(expected)
    # Of a table of notes, each row of a stay repeats the columns.
    notes = pd.concat([rows, rows.assign(text="Heart failure.")])
    both = loaded.score_frame(notes)
    pair = {**records[3], "text": [records[3]["text"], "Heart failure."]}
    assert both["probability"][3] == pytest.approx(
        loaded.predict(pair).probability
    )
    passages = loaded.explain(pair)
    assert passages.risk.probability == pytest.approx(
        loaded.predict(pair).probability
    )
    followed = loaded.score_frame(notes, task="trajectory")
    assert followed["probability"][7] == pytest.approx(
        loaded.predict(pair).probability
    )


def test_a_missing_value_is_the_median_and_a_wrong_one_an_error(model, wide):
    recalibrate(model, wide, columns=COLUMNS)
    median = model.settings.columns[0].median
    rows = pd.DataFrame(
        {
            "stay_id": list("abcd"),
            "text": "heart failure",
            "age": [str(median), None, "old", "nan"],
            "prior": ["1", "true", "1", "1"],
        }
    )
    found = model.score_frame(rows)
    assert found["status"].tolist() == ["ok", "ok", "error", "error"]
    assert found["probability"][0] == pytest.approx(
        found["probability"][1], abs=1e-12
    )
    assert found["reason"][0] == ""
    assert found["reason"][1] == "no age: the median is read"
    assert (
        found["reason"][2]
        == "not a number: age; expected {'text': notes, 'age': 3}"
    )
    with pytest.raises(TableError, match="has no column 'prior'"):
        model.score_frame(rows.drop(columns="prior"))
    with pytest.raises(UserError, match="not a number: age, prior; expected"):
        model.predict("heart failure")
    twice = pd.concat([rows.head(1), rows.head(1).assign(prior="2")])
    assert (
        "rows of this stay differ in age or prior"
        in model.score_frame(twice)["reason"][0]
    )


def test_what_each_column_adds_is_measured_on_the_test_side(
    model, wide, tmp_path
):
    recalibrate(model, wide, columns=COLUMNS)
    comparison = compare(model, wide, bootstrap=200)
    names = ["domainbert", "the notes alone", "without age", "without prior"]
    assert list(comparison.evaluations) == names
    own, alone, no_age, no_prior = comparison.evaluations.values()
    assert own.minus(alone)["auroc"].low > 0.02
    assert own.minus(no_age)["auroc"].low > 0.02
    assert abs(own.minus(no_prior)["auroc"].value) < 0.02
    plain = copy(model)
    plain.manifest = RiskManifest()
    recalibrate(plain, wide.assign(text=wide["text"]))
    assert [
        c.name for c in plain.settings.columns
    ] == COLUMNS  # kept where none are named
    assert model.manifest.calibration.recalibrated.stays == 400
    record(comparison, model)
    model.save_pretrained(tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text()
    assert (
        "a logistic regression on its log-odds and on the columns `age` (+0.0"
        in card
    )
    assert 'model.predict({"text": note, "age": ' in card
    assert "| the notes alone | without age | without prior |" in card


def test_columns_that_cannot_be_known_or_weighed_are_refused(model, wide):
    for name, cells in {
        "readmitted": wide["readmitted"],
        "insurance_id": wide["prior"],
        "band": "[70-80)",
        "constant": 3,
        "nothing": None,
    }.items():
        with pytest.raises(
            UserError, match=f"column '{name}': expected numbers that vary"
        ):
            recalibrate(model, wide.assign(**{name: cells}), columns=[name])
    with pytest.raises(TableError, match="the cohort has no column 'weight'"):
        recalibrate(model, wide, columns=["weight"])
    few = wide.assign(readmitted=(np.arange(800) % 14 == 0).astype(int))
    with pytest.raises(UserError, match="at least 40 with the outcome"):
        recalibrate(model, few, columns=COLUMNS)


def test_a_model_without_columns_is_what_it_was(model, cohort):
    assert (
        "columns" not in ReadmissionSettings().model_dump()
    )  # nor in a fingerprint
    model.manifest.example = Example(
        record={"text": ["x"]}, row={"probability": 0.5}
    )
    recalibrate(model, cohort)
    assert "columns" not in model.settings.model_dump()
    assert model.manifest.example is None  # its probability is no longer right
    record = {"text": ["heart failure"], "age": 70}
    assert (
        model.predict(record).probability
        == model.predict("heart failure").probability
    )
    assert model.predict("heart failure").shift == 0.0


def test_the_command_reads_columns(model, wide, tmp_path):
    model.save_pretrained(tmp_path / "model")
    write_table(wide, tmp_path / "cohort.parquet")
    words = [
        "recalibrate",
        "cohort.parquet",
        "--model",
        "model",
        "--columns",
        "age, prior",
    ]
    places = [
        str(tmp_path / w) if "." in w or w == "model" else w for w in words
    ]
    run = CliRunner().invoke(app, [*places, "--out", str(tmp_path / "new")])
    assert run.exit_code == 0, run.output
    loaded = ReadmissionModel.from_pretrained(tmp_path / "new")
    assert [column.name for column in loaded.settings.columns] == COLUMNS
    assert "without age" in loaded.manifest.scores.risks


def test_a_read_only_folder_is_one_line(
    model, wide, tmp_path, refused_in_one_line
):
    model.save_pretrained(tmp_path / "model")
    write_table(wide, tmp_path / "cohort.parquet")
    words = ["recalibrate", tmp_path / "cohort.parquet"]
    refused_in_one_line(app, [*words, "--model", tmp_path / "model"])


def test_c_is_kept_where_it_is_asked_for(model, cohort):
    chosen = []
    for keep_c in (True, False):
        model.settings = model.settings.replaced(c=3.0, calibration=None)
        recalibrate(model, cohort, keep_c=keep_c)
        assert model.settings.calibration is not None
        chosen.append(model.c)
    assert chosen[0] == 3.0
    assert chosen[1] in C_GRID  # which has no 3
