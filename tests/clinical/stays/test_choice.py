"""The notes that a model reads: chosen from raw notes as its cohort chose them."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from clinical import (
    ReadmissionModel,
    ReadmissionSettings,
    build_cohort,
    synthesize,
)
from clinical.cli import app
from clinical.evidence.task import ExplainTask
from clinical.risk.task import ReadmissionTask
from clinical.stays.choice import (
    AS_GIVEN,
    CHOICE,
    NoteChoice,
    check_notes,
    choice_of,
    outcome_of,
    read_choice,
    readmission_days,
)
from domainbert.errors import UserError
from domainbert.scoring import score_frame
from domainbert.tables import TableError, read_table


@pytest.fixture(scope="module")
def hospital(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hospital")
    synthesize(folder, stays=80, seed=3)
    return folder


def model_of(cohort, network, tokenizer, **settings):
    """A tiny model that was trained on the notes of a cohort."""
    settings = ReadmissionSettings(
        window=64, notes=choice_of(cohort[CHOICE].unique()), **settings
    )
    return ReadmissionModel(network, tokenizer, settings=settings)


def raw_notes(folder):
    return read_table(folder / "NOTEEVENTS.csv")


@pytest.mark.slow
@pytest.mark.parametrize("early", [False, True])
def test_raw_notes_have_the_tokens_of_the_cohort(
    hospital, network, tokenizer, early
):
    cohort = build_cohort(
        hospital, notes="early" if early else "discharge", hours=30
    ).to_frame()
    model = model_of(cohort, network, tokenizer)
    trained = model.score_frame(cohort[cohort["exclusion"].isna()]).set_index(
        "stay_id"
    )
    assert not trained["reason"].str.contains("notes").any()
    raw = raw_notes(hospital)
    if early:
        admitted = read_table(hospital / "ADMISSIONS.csv")[
            ["HADM_ID", "ADMITTIME"]
        ]
        raw = raw.merge(admitted, on="HADM_ID")
    found = model.score_frame(raw.sample(frac=1, random_state=1)).set_index(
        "HADM_ID"
    )
    # With the admissions unknown, the notes of an earlier stay of the episode are not there.
    one_stay = cohort[
        cohort["exclusion"].isna()
        & (cohort["episode_stay_id"] == cohort["stay_id"])
    ]
    episodes = cohort.groupby("episode_stay_id")["stay_id"].size()
    alone = [stay for stay in one_stay["stay_id"] if episodes[stay] == 1]
    assert len(alone) > 50
    for name in ("n_tokens", "n_windows"):
        assert (
            found.loc[alone, name].tolist()
            == trained.loc[alone, name].tolist()
        )
    np.testing.assert_allclose(
        found.loc[alone, "probability"],
        trained.loc[alone, "probability"],
        atol=1e-6,
    )
    given = model.score_frame(raw, notes="as-given").set_index("HADM_ID")
    assert (
        given.loc[alone, "n_tokens"] > trained.loc[alone, "n_tokens"]
    ).mean() > 0.5
    assert given["reason"].str.contains(AS_GIVEN).all()


def test_copies_and_words_for_empty_cells_are_left_out_as_in_the_cohort(
    hospital, network, tokenizer, tmp_path
):
    raw = raw_notes(hospital)
    copies = raw.assign(
        ROW_ID="9" + raw["ROW_ID"].astype(str), TEXT=raw["TEXT"] + "\n"
    )
    empty = copies.assign(TEXT="null", ROW_ID="8" + raw["ROW_ID"].astype(str))
    notes = pd.concat([raw, copies, empty])
    for name in ("ADMISSIONS", "PATIENTS"):
        table = read_table(hospital / f"{name}.csv")
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    notes.to_csv(tmp_path / "NOTEEVENTS.csv", index=False)
    cohort = build_cohort(hospital).to_frame()
    repeated = build_cohort(tmp_path).to_frame()
    assert repeated["text"].tolist() == cohort["text"].tolist()
    model = model_of(cohort, network, tokenizer)
    scores = model.score_frame(raw)
    found = model.score_frame(notes)
    assert found["n_tokens"].tolist() == scores["n_tokens"].tolist()
    is_scored = found["status"] == "ok"
    assert (
        found.loc[is_scored, "reason"]
        .str.contains("text and are left out")
        .all()
    )


def test_a_column_that_decides_is_asked_for(
    hospital, network, tokenizer, tmp_path
):
    cohort = build_cohort(hospital).to_frame()
    model = model_of(cohort, network, tokenizer)
    frame = raw_notes(hospital).drop(columns="CATEGORY")
    with pytest.raises(
        TableError,
        match=r"no column 'category' .*'category': 'NAME'.* `notes='as-given'`",
    ):
        model.score_frame(frame)
    early = model_of(
        build_cohort(hospital, notes="early").to_frame(), network, tokenizer
    )
    with pytest.raises(TableError, match="no column 'admit_time'"):
        early.score_frame(raw_notes(hospital), task="trajectory")
    model.save_pretrained(tmp_path / "model")
    frame.head(3).to_csv(tmp_path / "notes.csv", index=False)
    words = [
        str(tmp_path / "notes.csv"),
        "--model",
        str(tmp_path / "model"),
        "--out",
    ]
    for command in ("score", "explain", "trajectory"):
        out = str(tmp_path / f"{command}.csv")
        refused = CliRunner().invoke(app, [command, *words, out])
        assert refused.exit_code == 1
        assert "no column 'category'" in refused.output
        taken = CliRunner().invoke(
            app, [command, *words, out, "--notes", "as-given"]
        )
        assert taken.exit_code == 0, taken.output
        summary = (tmp_path / f"{command}.csv.summary.json").read_text("utf-8")
        assert "without the admissions" not in summary
        assert read_table(out)["reason"].str.contains(AS_GIVEN).all()


def test_what_is_not_read_has_a_reason(hospital, network, tokenizer):
    cohort = build_cohort(hospital).to_frame()
    model = model_of(cohort, network, tokenizer)
    frame = pd.DataFrame(
        {
            "stay_id": ["1", "2", "2", None],
            "category": [
                "Physician",
                "Discharge summary",
                " DISCHARGE SUMMARY",
                "Physician",
            ],
            "iserror": [None, "1", None, None],
            "text": ["fever", "edema edema edema", "pain", "dyspnea"],
        }
    )
    found = score_frame(ReadmissionTask(model), frame)
    assert found["status"].tolist() == ["empty", "ok", "error"]
    assert found["n_tokens"].iloc[1] == 1
    assert (
        "none of its 1 notes is read: this model reads discharge summ"
        in found["reason"].iloc[0]
    )
    assert "no stay_id" in found["reason"].iloc[2]
    excluded = model.score_frame(cohort[cohort["exclusion"].notna()])
    assert (excluded["status"] == "empty").all()
    assert (
        excluded["reason"].str.startswith("excluded from the cohort: ").all()
    )
    task = ReadmissionTask(model)
    assert "remark" not in task.about()
    score_frame(task, frame)
    assert (
        "transfers, earlier stays of an episode and deaths"
        in task.about()["remark"]
    )
    passages = score_frame(ExplainTask(model), frame)
    assert passages["status"].iloc[0] == "empty"


def test_a_cohort_with_other_notes_is_refused(hospital, network, tokenizer):
    model = model_of(build_cohort(hospital).to_frame(), network, tokenizer)
    other = build_cohort(hospital, notes="early").to_frame()
    other = other[other["exclusion"].isna()]
    with pytest.raises(
        UserError,
        match=r"this model reads discharge summaries .* the cohort has",
    ):
        model.score_frame(other)
    with pytest.raises(
        UserError, match="build it with the model's definition"
    ):
        check_notes(model.settings.notes, other)
    assert (
        model.score_frame(other, notes="as-given")["reason"]
        .str.contains(AS_GIVEN)
        .all()
    )
    (remark,) = check_notes(model.settings.notes, other.drop(columns=CHOICE))
    assert remark.startswith(
        "The table does not say how its notes were chosen"
    )
    edited = model.settings.notes.replaced(
        definition="mine 1", definition_sha256="0"
    )
    same_notes = other.assign(**{CHOICE: edited.model_dump_json()})
    (remark,) = check_notes(model.settings.notes, same_notes)
    assert remark.startswith(
        "The cohort was built by mine 1, the model's by readmission-30d"
    )
    unknown = model.score_frame(other[["stay_id", "text"]])
    assert unknown["reason"].str.contains(AS_GIVEN).all()


def test_a_model_keeps_its_choice(hospital, network, tokenizer, tmp_path):
    cohort = build_cohort(hospital).to_frame()
    model = model_of(cohort, network, tokenizer)
    model.save_pretrained(tmp_path / "model")
    loaded = ReadmissionModel.from_pretrained(tmp_path / "model")
    assert loaded.settings.notes == model.settings.notes
    assert loaded.fingerprint() == model.fingerprint()
    demo = ReadmissionModel.from_pretrained("readmission-demo").settings.notes
    assert check_notes(demo, cohort) == []
    with pytest.raises(UserError, match="2 choices of notes; expected one"):
        choice_of(["{}", "[]"])
    with pytest.raises(UserError, match="not a choice of notes"):
        choice_of(["mine"])


def choice_with(**changes):
    values = {
        "notes": "discharge",
        "summaries": ("DISCHARGE SUMMARY",),
        "transfer_gap_hours": 0.0,
        "definition": "d 1",
        "definition_sha256": "0",
    }
    return NoteChoice(**values | changes)


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        ("died", "death"),
        ("amputation", "amputation"),
        ("readmitted ", "unplanned readmission"),
        ("died within 7 days", "death within 7 days"),
    ],
)
def test_an_event_of_one_word_is_an_outcome(event, outcome):
    choice = choice_with(event=event)
    assert outcome_of(choice) == outcome
    assert readmission_days(choice) == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"event": ""},
        {"event": " \n"},
        {"hours": 1e18},
        {"transfer_gap_hours": 1e18},
        {"transfer_gap_hours": -1.0},
    ],
)
def test_a_choice_that_no_cohort_has_is_refused(changes):
    (name,) = changes
    with pytest.raises(UserError, match=f"{name}: expected"):
        choice_with(**changes)
    text = choice_with().model_dump() | changes
    with pytest.raises(UserError, match="not a choice of notes"):
        read_choice(json.dumps(text))
