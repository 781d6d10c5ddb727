"""The faithfulness of a model's explanations goes into its card."""

import pandas as pd
from typer.testing import CliRunner

from clinical import ReadmissionModel, ReadmissionSettings
from recipes import evidence


def test_the_result_goes_into_the_card(network, tokenizer, tmp_path):
    settings = ReadmissionSettings(window=32)
    ReadmissionModel(network, tokenizer, settings=settings).save_pretrained(
        tmp_path / "model"
    )
    text = "He lives alone. Missed furosemide. No fever. Chest pain and edema. Renal failure."
    pd.DataFrame(
        {
            "patient_id": [str(i) for i in range(4)],
            "text": [[text]] * 4,
            "readmitted": [i % 2 for i in range(4)],
            "split": ["val"] * 3 + ["test"],
        }
    ).to_parquet(tmp_path / "cohort.parquet")
    app = evidence.typer.Typer()
    app.command()(evidence.main)
    words = [tmp_path / "cohort.parquet", tmp_path / "model"]
    words += ["--out", tmp_path / "measured"]
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    found = ReadmissionModel.from_pretrained(
        tmp_path / "measured"
    ).manifest.evidence
    assert (found.stays, found.patients, found.side) == (3, 3, "val")
    assert found.measures[1]["low"] is None  # too few patients for an interval
    card = (tmp_path / "measured" / "README.md").read_text()
    assert "comprehensiveness 5%" in card
    assert "furosemide" not in card + str(found) + result.output
