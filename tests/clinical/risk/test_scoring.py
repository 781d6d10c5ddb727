import pandas as pd
import pytest
from clinical.risk.scoring import score_table

from clinical.risk.model import ReadmissionModel, ReadmissionSettings
from domainbert.tables import TableError, read_table, write_table

NOTE = "Patient admitted with chest pain. "


@pytest.fixture
def notes():
    return pd.DataFrame(
        {
            "patient_id": ["01", "02", "01", "03", "04"],
            "stay_id": ["1", "2", "1", "3", "4"],
            "note_id": ["a", "b", "c", "d", "e"],
            "chart_time": ["2020-01-02", "2020-01-01", "2020-01-01 08:00", None, "x"],
            "text": [NOTE * 3, NOTE, "Heart failure.", None, "fever"],
        }
    )


def test_rows_of_one_stay_are_one_stay_in_time_order(model, notes):
    scores = model.predict_frame(notes)
    assert list(scores["stay_id"]) == ["1", "2", "3", "4"]
    assert list(scores["patient_id"]) == ["01", "02", "03", "04"]
    assert list(scores["status"]) == ["ok", "ok", "empty", "ok"]
    expected = model.predict(["Heart failure.", NOTE * 3])
    assert scores["probability"][0] == pytest.approx(expected.probability, abs=1e-6)
    assert scores["n_windows"][0] == 2
    assert scores["n_tokens"][0] == expected.coverage.tokens


def test_the_columns_are_those_of_the_design(model, notes):
    expected = "patient_id stay_id probability p_max p_mean n_windows n_tokens status reason"
    assert list(model.predict_frame(notes).columns) == expected.split()


def test_calibrated_stands_beside_where_fitted(network, tokenizer, notes):
    model = ReadmissionModel(
        network, tokenizer, settings=ReadmissionSettings(calibration=(1.0, -2.0))
    )
    scores = model.predict_frame(notes)
    assert (scores["calibrated"][[0, 1, 3]] < scores["probability"][[0, 1, 3]]).all()


def test_without_stay_id_each_row_is_its_own(model, notes):
    scores = model.predict_frame(notes.drop(columns="stay_id"))
    assert list(scores["note_id"]) == ["a", "b", "c", "d", "e"]


def test_a_cohort_with_lists_of_notes(model):
    cohort = pd.DataFrame({"stay_id": ["1", "2"], "text": [[NOTE, NOTE], []], "readmitted": [0, 1]})
    scores = model.predict_frame(cohort)
    assert list(scores["n_windows"]) == [2, 0]
    assert list(scores["status"]) == ["ok", "empty"]


def test_a_missing_stay_id_is_a_stay_of_its_own(model):
    frame = pd.DataFrame({"stay_id": ["1", None, None], "text": [NOTE, NOTE, NOTE]})
    assert len(model.predict_frame(frame)) == 3


def test_duplicates_are_named(model):
    frame = pd.DataFrame(
        {
            "patient_id": ["1", "1", "2", "3", "2"],
            "stay_id": ["a", "a", "b", "b", "b"],
            "note_id": ["x", "x", "y", "z", "w"],
            "text": [NOTE] * 5,
        }
    )
    scores = model.predict_frame(frame)
    assert list(scores["status"]) == ["ok", "error"]
    assert scores["reason"][0] == "1 rows with a repeated note_id left out"
    assert scores["n_windows"][0] == 1
    assert "more than one patient_id" in scores["reason"][1]
    twice = pd.DataFrame({"stay_id": ["a", "a"], "text": [[NOTE], [NOTE]]})
    assert list(model.predict_frame(twice)["status"]) == ["ok", "error"]


def test_a_misspelled_column_names_the_nearest(model, notes):
    with pytest.raises(TableError, match="no column 'text'; did you mean 'txt'"):
        model.predict_frame(notes.rename(columns={"text": "txt"}))


@pytest.mark.parametrize("source", ["in.csv", "in.csv.gz", "in.parquet", "in.jsonl"])
@pytest.mark.parametrize("out", ["out.csv", "out.parquet", "out.jsonl"])
def test_files_in_and_out(model, notes, tmp_path, source, out):
    write_table(notes, tmp_path / source)
    pieces = list(score_table(model, tmp_path / source, tmp_path / out))
    written = read_table(tmp_path / out)
    expected = model.predict_frame(notes)
    assert sum(map(len, pieces)) == len(written) == 4
    assert written["probability"].to_numpy() == pytest.approx(
        expected["probability"].to_numpy(), nan_ok=True, abs=1e-6
    )
    assert list(written["patient_id"].astype(str)) == ["01", "02", "03", "04"]


def test_bytes_that_are_not_utf8_cost_nobody_else(model, tmp_path):
    path = tmp_path / "in.csv"
    path.write_bytes(b"stay_id,text\n1,fever and \xff\xfe pain\n2,chest pain\n")
    list(score_table(model, path, tmp_path / "out.csv"))
    scores = read_table(tmp_path / "out.csv")
    assert list(scores["status"]) == ["ok", "ok"]
    assert scores["reason"][0] == "1 passage unread"


def test_an_empty_file_gives_an_empty_table(model, tmp_path):
    (tmp_path / "in.csv").write_text("stay_id,text\n")
    assert list(score_table(model, tmp_path / "in.csv", tmp_path / "out.csv")) == []
    assert "probability" in (tmp_path / "out.csv").read_text()


def test_a_failure_halfway_leaves_no_file(model, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "fever"}\nnot json\n')
    with pytest.raises(TableError, match="line 2"):
        list(score_table(model, path, tmp_path / "out.csv"))
    assert [file.name for file in tmp_path.iterdir()] == ["in.jsonl"]
