import math

import pandas as pd
import pytest

from clinical import ReadmissionModel, ReadmissionSettings
from clinical.risk.task import ReadmissionTask
from domainbert.errors import UserError
from domainbert.scoring import score_file
from domainbert.statistics.calibration import calibrated
from domainbert.tables import TableError, read_table, write_table

TYPES = {"probability": "float"}

NOTE = "Patient admitted with chest pain. "


@pytest.fixture
def notes():
    return pd.DataFrame(
        {
            "patient_id": ["01", "02", "01", "03", "04"],
            "stay_id": ["1", "2", "1", "3", "4"],
            "note_id": ["a", "b", "c", "d", "e"],
            "chart_time": [
                "2020-01-02",
                "2020-01-01",
                "2020-01-01 08:00",
                None,
                "x",
            ],
            "text": [NOTE * 3, NOTE, "Heart failure.", None, "fever"],
        }
    )


def test_rows_of_one_stay_are_one_stay_in_time_order(model, notes):
    scores = model.score_frame(notes)
    assert list(scores["stay_id"]) == ["1", "2", "3", "4"]
    assert list(scores["patient_id"]) == ["01", "02", "03", "04"]
    assert list(scores["status"]) == ["ok", "ok", "empty", "ok"]
    expected = model.predict(["Heart failure.", NOTE * 3])
    assert scores["probability"][0] == pytest.approx(
        expected.probability, abs=1e-6
    )
    assert scores["n_windows"][0] == 2
    assert scores["n_tokens"][0] == expected.coverage.tokens


def test_stays_with_lists_of_notes_are_told_apart_by_the_case_of_their_ids(
    model,
):
    stays = {"patient_id": ["P1", "p1"], "stay_id": ["aB", "ab"]}
    texts = [[NOTE, "Heart failure."], [NOTE * 3]]
    scores = model.score_frame(pd.DataFrame(stays | {"text": texts}))
    assert list(scores["stay_id"]) == ["aB", "ab"]
    expected = [model.predict(notes).probability for notes in texts]
    assert list(scores["probability"]) == pytest.approx(expected, abs=1e-6)


def test_the_columns_are_those_of_the_design(model, notes):
    expected = (
        "patient_id stay_id probability score p_max p_mean n_windows n_tokens calibrated "
        "status reason"
    )
    scores = model.score_frame(notes)
    assert list(scores.columns) == expected.split()
    assert not scores["calibrated"].any()
    assert scores["probability"].equals(scores["score"])


GROUPS = [
    {"above": 0.0, "points": [[1, 0.1, 0.0], [7, 0.5, 0.1], [30, 1.0, 0.2]]}
]


def test_remaining_risks_are_columns_on_request_only(
    network, tokenizer, notes, tmp_path
):
    plain = ReadmissionModel(network, tokenizer)
    settings = ReadmissionSettings(
        calibration=(1.0, -2.0), after_discharge=GROUPS
    )
    model = ReadmissionModel(network, tokenizer, settings=settings)
    scores = model.score_frame(notes, remaining=True)
    usual = model.score_frame(notes)
    added = ["remaining_day_1", "remaining_day_7"]
    assert scores.drop(columns=added).equals(usual)
    assert list(scores.columns[-4:]) == [*added, "status", "reason"]
    risk = model.predict([NOTE])
    p = risk.probability
    assert scores.loc[1, added].tolist() == pytest.approx(
        [risk.remaining(1), risk.remaining(7)]
    )
    assert risk.remaining(0) == pytest.approx(p)
    assert risk.remaining(7) == pytest.approx(
        p * 0.5 / (1 - 0.5 * p - 0.1 * (1 - p))
    )
    assert risk.remaining(30) == 0
    assert scores.loc[2, added].isna().all()  # a stay without text
    assert math.isnan(model.predict("").remaining(7))
    assert "points" not in repr(risk) + risk._repr_html_()
    assert "placeholders" not in risk._repr_html_()  # a dict: see coverage
    model.save_pretrained(tmp_path / "model")
    loaded = ReadmissionModel.from_pretrained(tmp_path / "model")
    assert loaded.predict([NOTE]).remaining(7) == pytest.approx(
        risk.remaining(7), abs=1e-6
    )
    for ask in (
        lambda: plain.predict(NOTE).remaining(7),
        lambda: plain.score_frame(notes, remaining=True),
    ):
        with pytest.raises(
            UserError, match=r"clinical recalibrate COHORT.parquet --model"
        ):
            ask()


def test_a_calibrated_model_has_alerts_on_the_probability(
    network, tokenizer, notes
):
    raw = ReadmissionModel(network, tokenizer).score_frame(notes)
    threshold = float(calibrated(raw["score"].max(), 1.0, -2.0)) - 1e-6
    model = ReadmissionModel(
        network,
        tokenizer,
        settings=ReadmissionSettings(
            calibration=(1.0, -2.0), alert_threshold=threshold
        ),
    )
    scores = model.score_frame(notes)
    ok = scores["status"] == "ok"
    assert scores["calibrated"].all()
    assert scores["score"][ok].to_numpy() == pytest.approx(
        raw["score"][ok].to_numpy(), abs=1e-6
    )
    expected = calibrated(raw["score"][ok], 1.0, -2.0)
    assert scores["probability"][ok].to_numpy() == pytest.approx(
        expected, abs=1e-6
    )
    assert list(scores.columns)[-4:] == [
        "calibrated",
        "alert",
        "status",
        "reason",
    ]
    assert scores["alert"][ok].sum() == 1
    assert (
        scores["alert"][ok].to_numpy().argmax()
        == scores["score"][ok].to_numpy().argmax()
    )
    assert scores["alert"][~ok].isna().all()


def test_without_stay_id_each_row_is_its_own(model, notes):
    scores = model.score_frame(notes.drop(columns="stay_id"))
    assert list(scores["note_id"]) == ["a", "b", "c", "d", "e"]


def test_a_cohort_with_lists_of_notes(model):
    cohort = pd.DataFrame(
        {
            "stay_id": ["1", "2"],
            "text": [[NOTE, NOTE], []],
            "readmitted": [0, 1],
        }
    )
    scores = model.score_frame(cohort)
    assert list(scores["n_windows"]) == [2, 0]
    assert list(scores["status"]) == ["ok", "empty"]


def test_a_row_without_a_stay_id_is_an_error_row_where_there_are_stay_ids(
    model,
):
    frame = pd.DataFrame(
        {"stay_id": ["1", None, " "], "text": [NOTE, NOTE, NOTE]}
    )
    found = model.score_frame(frame)
    assert found["status"].tolist() == ["ok", "error", "error"]
    assert found["probability"].isna().tolist() == [False, True, True]
    assert (
        found["reason"].iloc[1]
        == "this row has no stay_id, and the table has stay ids"
    )


def test_duplicates_are_named(model):
    frame = pd.DataFrame(
        {
            "patient_id": ["1", "1", "2", "3", "2"],
            "stay_id": ["a", "a", "b", "b", "b"],
            "note_id": ["x", "x", "y", "z", "w"],
            "text": [NOTE] * 5,
        }
    )
    scores = model.score_frame(frame)
    assert list(scores["status"]) == ["ok", "error"]
    assert scores["reason"][0] == "1 rows with a repeated note_id left out"
    assert scores["n_windows"][0] == 1
    assert "more than one patient_id" in scores["reason"][1]
    twice = model.score_frame(
        pd.DataFrame({"stay_id": ["a", "a"], "text": [[NOTE], [NOTE]]})
    )
    assert list(twice["status"]) == ["error"]
    assert "2 rows of this stay have a list of notes" in twice["reason"][0]


def test_copies_without_a_note_id_and_unreadable_times_get_a_remark(model):
    frame = pd.DataFrame(
        {
            "stay_id": ["a", "a", "b", "b", "c", "c", "d", "d"],
            "chart_time": [
                None,
                None,
                "3/4/20",
                "4/3/20",
                *["2020-03-29T01:30+01:00"] * 4,
            ],
            "text": [NOTE, NOTE, NOTE, "fever", NOTE, "fever", "x", None],
        }
    )
    frame.loc[5, "chart_time"] = (
        "2020-03-29T03:30+02:00"  # the clocks went forward
    )
    scores = model.score_frame(frame)
    assert list(scores["status"]) == ["ok"] * 4
    unreadable = (
        "2 notes have a chart_time that is not an ISO date between 1800 and 2300: notes in "
        "the order of the table"
    )
    assert list(scores["reason"]) == [
        "1 notes repeat another note's text and are counted again",
        unreadable,
        "",
        "1 passage unread",
    ]


def test_mimic_and_omop_names_are_recognised_and_others_are_named(
    model, notes
):
    expected = model.score_frame(notes)
    mimic = notes.rename(
        columns={
            "patient_id": "SUBJECT_ID",
            "stay_id": "HADM_ID",
            "note_id": "ROW_ID",
            "chart_time": "CHARTTIME",
            "text": "TEXT",
        }
    )
    found = model.score_frame(mimic)
    assert list(found.columns[:2]) == ["SUBJECT_ID", "HADM_ID"]
    assert found["probability"].equals(expected["probability"])
    own = mimic.rename(columns={"HADM_ID": "aufenthalt", "TEXT": "brief"})
    named = {"stay_id": "aufenthalt", "text": "brief"}
    assert model.score_frame(own, named=named)["probability"].equals(
        expected["probability"]
    )


def test_other_columns_are_kept_on_request(model, notes):
    scores = model.score_frame(
        notes.assign(ward=["a", "b", "a", "c", "d"]), keep=["ward"]
    )
    assert list(scores["ward"]) == ["a", "b", "c", "d"]


def test_a_table_of_stays_is_explained(model, notes):
    table = model.score_frame(notes, task="explain", top=1, text=True)
    first = table[table["stay_id"] == "1"]
    passages = model.explain(["Heart failure.", NOTE * 3], top=1).passages
    assert first["text"].tolist() == [passage.text for passage in passages]
    assert table["status"].iloc[-2:].tolist() == ["empty", "ok"]


def test_a_misspelled_column_names_the_nearest(model, notes):
    with pytest.raises(
        TableError, match="no column 'text'; did you mean 'txt'"
    ):
        model.score_frame(notes.rename(columns={"text": "txt"}))


@pytest.mark.parametrize(
    "source", ["in.csv", "in.csv.gz", "in.parquet", "in.jsonl"]
)
@pytest.mark.parametrize("out", ["out.csv", "out.parquet", "out.jsonl"])
def test_files_in_and_out(model, notes, tmp_path, source, out):
    write_table(notes, tmp_path / source)
    counts = score_file(
        ReadmissionTask(model), tmp_path / source, tmp_path / out
    )
    written = read_table(tmp_path / out, schema=TYPES)
    expected = model.score_frame(notes)
    assert counts.made == len(written) == 4
    assert counts.rows == 5
    assert written["probability"].to_numpy() == pytest.approx(
        expected["probability"].to_numpy(), nan_ok=True, abs=1e-6
    )
    assert list(written["patient_id"].astype(str)) == ["01", "02", "03", "04"]


def test_bytes_that_are_not_utf8_cost_nobody_else(model, tmp_path):
    path = tmp_path / "in.csv"
    path.write_bytes(
        b"stay_id,text\n1,fever and \xff\xfe pain\n2,chest pain\n"
    )
    score_file(ReadmissionTask(model), path, tmp_path / "out.csv")
    scores = read_table(tmp_path / "out.csv")
    assert list(scores["status"]) == ["ok", "ok"]
    assert "1 passage unread" in scores["reason"][0]


def test_an_empty_file_gives_an_empty_table(model, tmp_path):
    (tmp_path / "in.csv").write_text("stay_id,text\n")
    assert (
        score_file(
            ReadmissionTask(model), tmp_path / "in.csv", tmp_path / "out.csv"
        ).made
        == 0
    )
    assert "probability" in (tmp_path / "out.csv").read_text()


def test_a_broken_line_is_an_error_row(model, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "fever"}\nnot json\n{"text": "pain"}\n')
    counts = score_file(ReadmissionTask(model), path, tmp_path / "out.csv")
    scores = read_table(tmp_path / "out.csv")
    assert counts.rows == len(scores) == 3
    assert list(scores["status"]) == ["ok", "error", "ok"]
    assert "line 2: not a JSON object" in scores["reason"][1]


def test_the_run_of_another_model_has_other_facts(network, tokenizer, model):
    other = ReadmissionModel(
        network, tokenizer, settings=ReadmissionSettings(c=3.0)
    )
    facts = ReadmissionTask(model).facts()
    assert facts == ReadmissionTask(model).facts()
    assert facts != ReadmissionTask(other).facts()
