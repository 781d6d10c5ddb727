"""Medical text for pretraining: every document once."""

from domainbert.tables import read_table
from recipes.medical_text import main


def test_every_document_once_and_with_text(data_folder, tmp_path):
    main(data_folder, tmp_path / "medical.parquet")
    table = read_table(tmp_path / "medical.parquet")
    assert table["note_id"].is_unique
    assert table["text"].str.strip().ne("").all()
    sources = table["note_id"].str.split().str[0].value_counts()
    assert sources.to_dict() == {
        "medquad": 5486,
        "pubmedqa": 1000,
        "covid-qa": 79,
    }
    assert 3.7e6 < table["text"].str.split().str.len().sum() < 3.9e6
