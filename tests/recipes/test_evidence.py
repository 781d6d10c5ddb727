"""The faithfulness of a model's explanations goes into its card."""

import pandas as pd

from clinical import ReadmissionModel, ReadmissionSettings
from recipes import evidence
from tests.recipes.conftest import run


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
    words = [tmp_path / "cohort.parquet", tmp_path / "model"]
    output = run(evidence.main, *words, "--out", tmp_path / "measured")
    measured = ReadmissionModel.from_pretrained(tmp_path / "measured")
    result = measured.manifest.evidence
    assert (result.stays, result.patients, result.side) == (3, 3, "val")
    # Too few patients for an interval.
    assert result.measures[1]["low"] is None
    card = (tmp_path / "measured" / "README.md").read_text()
    assert "comprehensiveness 5%" in card
    assert "furosemide" not in card + str(result) + output
