"""Risks in the forms of other tools, checked against the official schemas."""

import gzip
import json
import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from clinical.cli import app
from clinical.cohort.result import whole_ids
from clinical.risk.exports import export_scores
from domainbert.errors import UserError
from domainbert.tables import TableError

STANDARDS = Path(__file__).parents[4] / "shared" / "data" / "standards"
needs_standards = pytest.mark.skipif(
    not STANDARDS.is_dir(),
    reason="needs the public data: ../shared/data or $DOMAINBERT_DATA",
)


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """A cohort, and a score table of it with its summary; one stay has no risk."""
    folder = tmp_path_factory.mktemp("scored")
    for words in (
        [
            "synthesize",
            str(folder / "h"),
            "--stays",
            "60",
            "--brief",
            "--dates",
            "real",
        ],
        [
            "cohort",
            str(folder / "h"),
            "--out",
            str(folder / "c.parquet"),
            "--format",
            "meds-labels",
        ],
    ):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
    cohort = pd.read_parquet(folder / "c.parquet")
    kept = cohort[cohort["exclusion"].isna()].reset_index(drop=True)
    scores = kept[["patient_id", "stay_id"]].assign(
        probability=[0.01 + n / 100 for n in range(len(kept))],
        status="ok",
        reason="",
    )
    scores.loc[3, ["probability", "status", "reason"]] = [
        None,
        "error",
        "no text",
    ]
    scores.to_csv(folder / "r.csv", index=False)
    summary = {"model": "0" * 64, "model_name": "tiny", "version": "0.1.0"}
    (folder / "r.csv.summary.json").write_text(json.dumps(summary))
    return folder, kept, scores[scores["status"] == "ok"]


@pytest.fixture
def export(scored, tmp_path):
    folder, kept, scores = scored
    for name in ("r.csv", "r.csv.summary.json"):
        shutil.copy(folder / name, tmp_path / name)
    return (
        kept,
        scores,
        lambda form: export_scores(
            tmp_path / "r.csv", folder / "c.parquet", form
        ),
    )


def test_meds_predictions_are_evaluated_as_our_own(export):
    from sklearn.metrics import roc_auc_score

    kept, scores, write = export
    (path,) = write("meds")
    table = pq.read_table(path)
    assert table["predicted_boolean_probability"].to_pylist() == pytest.approx(
        scores["probability"].tolist()
    )
    pytest.importorskip(
        "meds_evaluation", reason="pip install meds-evaluation"
    )
    import polars as pl
    from meds_evaluation.evaluate import evaluate_binary_classification
    from meds_evaluation.schema import PredictionSchema

    PredictionSchema.validate(table)
    found = evaluate_binary_classification(pl.read_parquet(path))
    outcome = kept.loc[scores.index, "readmitted"].astype(int)
    assert found["samples_equally_weighted"]["roc_auc_score"] == pytest.approx(
        roc_auc_score(outcome, scores["probability"])
    )


def test_meds_labels_of_a_cohort(scored):
    folder, kept, _ = scored
    table = pq.read_table(folder / "c.meds-labels.parquet")
    assert (
        table["boolean_value"].to_pylist()
        == (kept["readmitted"] == 1).tolist()
    )
    assert (
        table["prediction_time"].to_pylist() == kept["discharge_time"].tolist()
    )
    meds = pytest.importorskip("meds", reason="pip install meds")
    meds.LabelSchema.validate(table)


@needs_standards
def test_omop_rows_have_the_columns_of_the_specification(export):
    _, scores, write = export
    fields = pd.read_csv(STANDARDS / "omop" / "OMOP_CDMv5.4_Field_Level.csv")
    for path in write("omop"):
        table = pd.read_csv(path)
        expected = fields[
            fields["cdmTableName"].str.upper() == path.name.split(".")[-2]
        ]
        assert table.columns.tolist() == expected["cdmFieldName"].tolist()
        required = expected.loc[
            expected["isRequired"] == "Yes", "cdmFieldName"
        ]
        assert table[required].notna().all(axis=None)
        assert len(table) == len(scores)
        for name, kind in zip(
            expected["cdmFieldName"], expected["cdmDatatype"], strict=True
        ):
            if kind.startswith("varchar"):
                assert (table[name].dropna().astype(str).str.len() <= 50).all()
    assert table["value_as_number"].tolist() == pytest.approx(
        scores["probability"].tolist()
    )


@needs_standards
def test_fhir_risk_assessments_are_valid(export):
    jsonschema = pytest.importorskip("jsonschema")
    _, scores, write = export
    (path,) = write("fhir")
    with gzip.open(STANDARDS / "fhir" / "fhir-r4.schema.json.gz") as file:
        definitions = json.load(file)["definitions"]
    validator = jsonschema.Draft6Validator(
        {"$ref": "#/definitions/RiskAssessment", "definitions": definitions}
    )
    resources = [json.loads(line) for line in path.read_text().splitlines()]
    for resource in resources[::10]:
        validator.validate(resource)
    predictions = [resource["prediction"][0] for resource in resources]
    percents = [prediction["probabilityDecimal"] for prediction in predictions]
    assert percents == pytest.approx((100 * scores["probability"]).tolist())
    assert (
        predictions[0]["rationale"] == "The risk is 1.00 percent (0 to 100)."
    )
    assert (
        predictions[0]["outcome"]["text"]
        == "readmitted within 30 days of discharge"
    )


def test_ids_that_are_no_numbers():
    with pytest.raises(
        UserError, match="1 of 2 ids in patient_id are not whole numbers"
    ):
        whole_ids(pd.Series(["7", "P7"], name="patient_id"))


def test_only_a_cohort_has_the_times(scored):
    folder, _, _ = scored
    words = [
        "score",
        str(folder / "h" / "NOTEEVENTS.csv"),
        "--model",
        "readmission-demo",
    ]
    words += ["--out", str(folder / "x.csv"), "--format", "meds"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    with pytest.raises(TableError):
        export_scores(
            folder / "r.csv", folder / "h" / "NOTEEVENTS.csv", "meds"
        )
