"""The risk after each note: the same numbers as scoring each beginning of the stay by itself."""

import time

import pandas as pd
import pytest
from typer.testing import CliRunner

from clinical import ReadmissionModel, ReadmissionSettings
from clinical.cli import app
from clinical.risk.task import follow
from domainbert.tables import TableError, read_table, write_table
from domainbert.text.runner import WindowRunner

LONG = "Patient admitted with chest pain and fever. " * 12
NOTES = [LONG, "Heart failure treated.", "", LONG, "Discharge home, stable."]


@pytest.fixture
def calibrated(network, tokenizer):
    settings = ReadmissionSettings(
        window=32, calibration=(1.0, -0.4), alert_threshold=0.5
    )
    return ReadmissionModel(network, tokenizer, settings=settings)


@pytest.fixture
def joining(network, tokenizer):
    settings = ReadmissionSettings(window=32, join_notes=True)
    return ReadmissionModel(network, tokenizer, settings=settings)


def table():
    return pd.DataFrame(
        {
            "subject_id": ["p"] * 5 + ["q"] * 2 + ["r"],
            "HADM_ID": ["1"] * 5 + ["2", "2", "3"],
            "note_id": list("abcdefgh"),
            "chart_time": [
                *(f"2026-03-0{day} 08:00" for day in (1, 2, 3, 4, 9)),
                *["x"] * 2,
                None,
            ],
            "text": [
                *NOTES[:2],
                None,
                *NOTES[3:],
                "Fever.",
                "Chest pain.",
                None,
            ],
        }
    )


def of_one_stay(notes, times=None):
    return pd.DataFrame({"stay_id": "1", "text": notes, "chart_time": times})


@pytest.mark.parametrize("kind", ["calibrated", "joining"])
def test_each_point_is_the_risk_of_the_notes_so_far(
    request, kind, monkeypatch
):
    model, scored = request.getfixturevalue(kind), []
    run = WindowRunner.run

    def counting(self, windows, **options):
        scored.extend(windows)
        return run(self, windows, **options)

    monkeypatch.setattr(WindowRunner, "run", counting)
    found = model.score_frame(of_one_stay(NOTES), task="trajectory")
    n_scored = len(scored)
    assert found["n_notes"].tolist() == [1, 2, 3, 4, 5]
    for n, point in enumerate(found.itertuples(), start=1):
        alone = model.predict(NOTES[:n])
        for name in ("probability", "score", "p_max", "p_mean"):
            assert getattr(point, name) == pytest.approx(
                getattr(alone, name), abs=1e-6
            ), name
        assert point.n_windows == alone.coverage.windows
        assert getattr(point, "alert", None) == alone.alert
    whole = {
        w.tobytes()
        for end in range(1, 6)
        for w in model.token_ids([NOTES[:end]])[0]
    }
    assert n_scored == len(whole)
    if kind == "calibrated":  # its first note was copied forward
        assert found["n_windows"].iloc[-1] > n_scored


def test_notes_are_sorted_by_their_times(calibrated):
    times = [
        "2026-03-05",
        "2026-03-01",
        "2026-03-02",
        "2026-03-04T10:00+01:00",
        "2026-03-04 09:30",
    ]
    found = calibrated.score_frame(
        of_one_stay(NOTES, times), task="trajectory"
    )
    order = [1, 2, 3, 4, 0]
    assert found["chart_time"].tolist() == [times[i] for i in order]
    expected = calibrated.score_frame(
        of_one_stay([NOTES[i] for i in order]), task="trajectory"
    )
    assert found["probability"].tolist() == expected["probability"].tolist()


def test_before_the_first_text_there_is_no_risk(calibrated):
    found = calibrated.score_frame(
        of_one_stay(["", "  ", "fever"]), task="trajectory"
    )
    assert found["probability"].isna().tolist() == [True, True, False]
    assert found["n_windows"].tolist() == [0, 0, 1]
    assert found["alert"].isna().tolist() == [True, True, False]


def test_a_table_without_stays_is_refused_in_a_line(calibrated):
    with pytest.raises(TableError, match="no column 'stay_id'"):
        calibrated.score_frame(
            pd.DataFrame({"text": ["a"]}), task="trajectory"
        )


def test_a_table_gets_a_row_for_each_note(calibrated):
    found = calibrated.score_frame(table(), task="trajectory")
    assert found["HADM_ID"].tolist() == list("11111223")
    assert found["note_id"].fillna("").tolist() == [*"abcdefg", ""]
    assert found["n_notes"].tolist() == [1, 2, 3, 4, 5, 1, 2, pd.NA]
    assert found["status"].tolist() == [*["ok"] * 7, "empty"]
    assert (
        found["reason"]
        .iloc[2]
        .startswith("this note has no text; 1 notes repeat")
    )
    assert (
        "chart_time that is not an ISO date between 1800 and 2300"
        in found["reason"].iloc[5]
    )
    last = calibrated.score_frame(table())
    ends = found.groupby("HADM_ID").last()["probability"]
    assert ends.to_numpy() == pytest.approx(
        last["probability"].to_numpy(), nan_ok=True, abs=1e-6
    )


def test_a_list_of_notes_in_one_row(calibrated):
    frame = pd.DataFrame({"stay_id": ["1", "2"], "text": [NOTES, ["fever"]]})
    found = calibrated.score_frame(frame, task="trajectory")
    assert found["stay_id"].tolist() == ["1"] * 5 + ["2"]
    expected = calibrated.score_frame(of_one_stay(NOTES), task="trajectory")[
        "probability"
    ].tolist()
    assert found["probability"][:5].tolist() == pytest.approx(
        expected, abs=1e-6
    )


def test_the_command_writes_a_table(calibrated, tmp_path):
    calibrated.save_pretrained(tmp_path / "model")
    write_table(table().sample(frac=1, random_state=1), tmp_path / "notes.csv")
    words = [
        "trajectory",
        "notes.csv",
        "--model",
        "model",
        "--out",
        "risk.csv",
    ]
    run = CliRunner().invoke(app, place(words, tmp_path))
    assert run.exit_code == 0, run.output
    found = read_table(tmp_path / "risk.csv", schema={"probability": "float"})
    expected = calibrated.score_frame(table(), task="trajectory")
    known = found[found["HADM_ID"] == "1"]["probability"]
    assert known.to_numpy() == pytest.approx(
        expected["probability"][:5].to_numpy(), abs=1e-6
    )


def place(words, folder):
    return [
        str(folder / word) if "." in word or word == "model" else word
        for word in words
    ]


def test_stays_that_come_slowly_are_followed_in_order(network, tokenizer):
    """A thread reads ahead while stays are asked for: neither may enter the source twice."""
    small = ReadmissionModel(network, tokenizer, batch_tokens=4)
    assert not small.settings.join_notes

    def slowly():
        for number in range(40):
            time.sleep(0.01)
            yield ["heart failure " * (number % 3 + 1)] * 2

    assert len(list(follow(small, slowly()))) == 40


def test_the_risks_so_far_keep_no_windows(model):
    notes = ["Pain.", "", "Fever.", "Cough."]
    ((risk, risks_so_far),) = follow(model, [notes])
    assert len(risk.windows) == 3
    # With the windows of each beginning, a stay of many notes would take quadratic time and memory.
    assert not any(so_far.windows for so_far in risks_so_far.values())
    counts = [so_far.coverage.windows for so_far in risks_so_far.values()]
    assert counts == [1, 2, 3]
    last = risks_so_far[3]
    assert (last.probability, last.p_max) == (risk.probability, risk.p_max)
