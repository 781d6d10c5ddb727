"""A profile that lacks a quantity gets it from the notes that the model was trained on."""

import pandas as pd
import pytest
from typer.testing import CliRunner

from clinical import ReadmissionModel, ReadmissionSettings
from clinical.evaluation.drift import describe_notes, profile
from recipes.profile import main, typer

TEXTS = [
    f"Lives alone [**2151-7-{day}**]. Chest pain." for day in range(10, 30)
]


@pytest.fixture
def run(network, tokenizer, tmp_path):
    """The command on a cohort with these texts, for a model whose profile has no placeholders."""
    settings = ReadmissionSettings(window=32)
    model = ReadmissionModel(network, tokenizer, settings=settings)
    stored = profile(describe_notes(model, pd.Series([[t] for t in TEXTS])))
    del stored["placeholders"]
    model.manifest.data.profile = stored
    model.manifest.data.stays = {"val": len(TEXTS)}
    model.manifest.data.prevalence = {"val": 0.5}
    model.save_pretrained(tmp_path / "model")
    app = typer.Typer()
    app.command()(main)

    def run_on(texts):
        cohort = pd.DataFrame({"text": [[text] for text in texts]})
        cohort["patient_id"] = [str(number) for number in range(len(texts))]
        cohort["readmitted"] = [number % 2 for number in range(len(texts))]
        cohort["split"] = "val"
        cohort.to_parquet(tmp_path / "cohort.parquet")
        words = [tmp_path / "cohort.parquet", tmp_path / "model"]
        words += ["--out", tmp_path / "new"]
        return CliRunner().invoke(app, list(map(str, words)))

    return run_on


def test_what_is_missing_is_added_and_the_rest_stays(run, tmp_path):
    result = run(TEXTS)
    assert result.exit_code == 0, result.output
    before = ReadmissionModel.from_pretrained(tmp_path / "model")
    after = ReadmissionModel.from_pretrained(tmp_path / "new")
    added = dict(after.manifest.data.profile)
    assert added.pop("placeholders").median == 1
    assert added == before.manifest.data.profile


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([text + " Fever." for text in TEXTS], "other values of characters"),
        (TEXTS[:10], "10 validation stays, with other values of nothing"),
    ],
    ids=["other notes", "fewer stays"],
)
def test_other_stays_are_refused(run, tmp_path, texts, message):
    result = run(texts)
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())
    assert not (tmp_path / "new").exists()
