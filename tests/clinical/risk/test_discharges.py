"""New discharges are scored from a hospital's tables as from a cohort of them."""

import re
import shlex
from collections import Counter
from functools import partial
from pathlib import Path

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
from clinical.risk.discharges import parse_since
from clinical.stays.choice import CHOICE, choice_of
from domainbert.errors import UserError
from domainbert.tables import read_table
from domainbert.text import runner
from domainbert.text.runner import WindowRunner

GUIDE = Path(__file__).parents[3] / "docs" / "howto" / "own_hospital.md"
FORMS = ["mimic3", "mimic4", "omop", "meds", "fhir"]
COLUMNS = (
    "patient_id stay_id discharge_time probability score p_max p_mean n_windows n_tokens "
    "calibrated status reason"
).split()
MAPPING = """
discharge_categories = ["Letter"]
[admissions]
table = "stays"
patient_id = "patient"
stay_id = "stay"
admit_time = "came"
discharge_time = "left"
discharge_location = "to"
[notes]
table = "letters"
stay_id = "stay"
category = "kind"
chart_time = "written"
text = "text"
"""
STAYS = """patient,stay,came,left,to
p1,old,2026-10-01 08:00,2026-10-04 10:00,HOME
p2,new,2026-11-01 08:00,2026-11-20 10:00,HOME
p3,late,2026-11-01 08:00,2026-11-21 10:00,HOME
p4,ward,2026-11-02 08:00,2026-11-20 09:00,TRANSFER
p4,rehab,2026-11-20 09:00,2026-11-21 12:00,HOME
p5,dead,2026-11-02 08:00,2026-11-21 12:00,DIED
p6,silent,2026-11-02 08:00,2026-11-21 12:00,HOME
p7,open,2026-11-21 08:00,,
p8,lost,2026-09-01 08:00,,
p8,next,2026-11-10 08:00,2026-11-21 12:00,HOME
p9,copied,2026-11-10 08:00,2026-11-21 12:00,HOME
p9,copied,2026-11-10 08:00,2026-11-21 12:00,HOME
"""


def letters():
    """A letter and a nursing note for each stay but one."""
    stays = [line.split(",")[1] for line in STAYS.splitlines()[1:]]
    rows = ["stay,kind,written,text"]
    for number, stay in enumerate(dict.fromkeys(stays)):
        if stay == "silent":
            continue
        rows.append(f"{stay},Letter,2026-11-21 10:00,heart failure {number}")
        rows.append(f"{stay},Nursing,2026-11-21 09:00,fever and pain {number}")
    return "\n".join(rows)


@pytest.fixture
def hospital(tmp_path):
    """Own tables with every kind of new stay, and the mapping that describes them."""
    folder = tmp_path / "hospital"
    folder.mkdir()
    (folder / "stays.csv").write_text(STAYS, "utf-8")
    (folder / "letters.csv").write_text(letters(), "utf-8")
    (tmp_path / "columns.toml").write_text(MAPPING, "utf-8")
    return folder


@pytest.fixture
def save_model(new_network, tokenizer, tmp_path):
    """A tiny model that reads the notes of a cohort, or all notes, in a folder."""

    def save(cohort=None):
        choice = None if cohort is None else choice_of(cohort[CHOICE].unique())
        settings = ReadmissionSettings(window=64, notes=choice)
        model = ReadmissionModel(new_network(), tokenizer, settings=settings)
        model.save_pretrained(tmp_path / "model")
        return str(tmp_path / "model")

    return save


def run(*words):
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output[-2000:]
    return done.stderr


def risks(path):
    return read_table(path, schema={"probability": "float", "score": "float"})


def own(folder, model, *words):
    """The risks of the made-up tables by stay, and what the command said."""
    out = folder.parent / "risks.csv"
    mapping = folder.parent / "columns.toml"
    said = run(
        "discharges",
        folder,
        "--mapping",
        mapping,
        "--model",
        model,
        *words,
        "--out",
        out,
    )
    return risks(out).set_index("stay_id"), said


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_the_nightly_job_of_the_guide(form, save_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    synthesize("hospital", stays=40, seed=1, dates="real", form=form)
    cohort = build_cohort("hospital", out="cohort.parquet").to_frame()
    model = save_model(cohort)
    (line,) = re.findall(
        r"^clinical discharges hospital .*--since [0-9].*$",
        GUIDE.read_text(),
        re.M,
    )
    words = shlex.split(line)[1:]
    words[words.index("--model") + 1] = model
    run(*words, "--restart")
    tonight = risks(words[words.index("--out") + 1])
    assert tonight.columns.tolist() == COLUMNS
    since = pd.Timestamp(words[words.index("--since") + 1])
    expected_stays = cohort[cohort["discharge_time"] >= since]["stay_id"]
    assert tonight["stay_id"].tolist() == expected_stays.tolist()
    assert len(tonight) > 5
    run("score", "cohort.parquet", "--model", model, "--out", "all.csv")
    by_stay = risks("all.csv").set_index("stay_id").loc[tonight["stay_id"]]
    for name in ("status", "reason", "n_tokens"):
        assert tonight[name].tolist() == by_stay[name].tolist()
    assert tonight["probability"].to_numpy() == pytest.approx(
        by_stay["probability"].to_numpy(), abs=1e-6, nan_ok=True
    )
    assert (tonight["status"] == "ok").sum() > 5


def test_every_new_stay_has_a_risk_or_a_reason(hospital, save_model):
    cohort = build_cohort(
        hospital, mapping=hospital.parent / "columns.toml"
    ).to_frame()
    table, said = own(
        hospital, save_model(cohort), "--since", "2026-11-20 10:00"
    )
    assert (
        "9 of 12 stays were discharged since 2026-11-20 10:00 or have no"
        in said
    )
    by_stay = table["status"].to_dict()
    assert by_stay == {
        "new": "ok",
        "late": "ok",
        "rehab": "ok",
        "dead": "empty",
        "silent": "empty",
        "open": "empty",
        "next": "ok",
        "copied": "ok",
    }
    reasons = table["reason"].fillna("")
    assert (reasons[table["status"] == "ok"] == "").all()
    assert "the patient died" in reasons["dead"]
    assert "no note of this stay has any text" in reasons["silent"]
    assert (
        "no time of discharge: a stay is scored when it has ended"
        in reasons["open"]
    )
    both, _ = own(
        hospital, save_model(cohort), "--since", "2026-11-20", "--restart"
    )
    assert (
        "the later stay that continues it has the risk"
        in both["reason"]["ward"]
    )
    assert int(both["n_tokens"]["rehab"]) == 2 * int(both["n_tokens"]["next"])


def test_an_early_model_scores_stays_that_have_not_ended(hospital, save_model):
    mapping = hospital.parent / "columns.toml"
    cohort = build_cohort(
        hospital, mapping=mapping, notes="early", hours=72
    ).to_frame()
    table, _ = own(hospital, save_model(cohort), "--since", "2026-11-21")
    assert table["status"]["open"] == "ok"
    assert (
        table["n_tokens"]["open"] == "4"
    )  # the nursing note of the first day
    assert (
        "lost" not in table.index
    )  # it has no discharge, but a later stay has begun
    assert "the patient died" in table["reason"]["dead"]


def test_a_place_that_looks_like_a_death_is_asked_for(hospital, save_model):
    stays = hospital / "stays.csv"
    stays.write_text(STAYS.replace("DIED", "Morgue"), "utf-8")
    model = save_model()
    words = [
        "--mapping",
        str(hospital.parent / "columns.toml"),
        "--model",
        model,
    ]
    words += ["--out", str(hospital.parent / "r.csv"), "--since", "2026-11-20"]
    done = CliRunner().invoke(app, ["discharges", str(hospital), *words])
    assert done.exit_code == 1
    assert "--died-locations" in done.output
    table, _ = own(hospital, model, "--died-locations", "Morgue")
    assert "the patient died" in table["reason"]["dead"]


def test_stays_without_follow_up_are_scored_from_a_cohort(
    hospital, save_model, tmp_path
):
    mapping = tmp_path / "columns.toml"
    path = tmp_path / "cohort.parquet"
    cohort = build_cohort(hospital, mapping=mapping, out=path).to_frame()
    model = save_model(cohort)
    assert cohort.set_index("stay_id")["exclusion"]["new"] == "censored"
    run("score", path, "--model", model, "--out", tmp_path / "all.csv")
    table = risks(tmp_path / "all.csv").set_index("stay_id")
    assert table["status"][["old", "new", "late", "copied"]].eq("ok").all()
    run(
        "discharges",
        path,
        "--since",
        "2026-11-20",
        "--model",
        model,
        "--out",
        tmp_path / "r.csv",
    )
    assert (
        risks(tmp_path / "r.csv")["stay_id"].isin(["new", "open"]).sum() == 2
    )


@pytest.mark.parametrize("since", ["2026-11-22", "2999-01-01"])
def test_nothing_discharged_is_an_empty_table(since, hospital, save_model):
    stays = hospital / "stays.csv"
    lines = stays.read_text("utf-8").splitlines()
    closed = [line for line in lines if not line.endswith(",,")]
    stays.write_text("\n".join(closed), "utf-8")
    table, said = own(hospital, save_model(), "--since", since)
    assert f"0 of 10 stays were discharged since {since}" in said
    assert "nothing to score: the table has no rows" in said
    assert {"stay_id", *table.columns} == set(COLUMNS)
    assert table.empty


def test_a_folder_of_notes_is_read_as_before(hospital, save_model, tmp_path):
    (hospital / "stays.csv").unlink()
    out = tmp_path / "r.csv"
    run("score", hospital, "--model", save_model(), "--out", out)
    table = risks(out)
    assert "discharge_time" not in table.columns
    assert len(table) == letters().count(",Letter,")


def test_what_cannot_be_scored_so_is_refused(hospital, save_model, tmp_path):
    model = save_model()
    common = ["--model", model, "--out", str(tmp_path / "r.csv")]

    def refused(*words, command="discharges"):
        done = CliRunner().invoke(app, [command, *map(str, words), *common])
        assert done.exit_code in (1, 2)
        return " ".join(done.output.split())

    assert "expected an ISO date or datetime" in refused(
        hospital, "--since", "yesterday"
    )
    letters_file = hospital / "letters.csv"
    assert "is a table without admissions" in refused(
        letters_file, "--since", "2026-01-01"
    )
    assert "none of mimic3" in refused(hospital, "--since", "2026-01-01")
    synthesize(tmp_path / "mimic", stays=2)
    explain = partial(refused, tmp_path / "mimic", command="explain")
    assert "--notes: no effect" in explain("--notes", "as-given")
    assert "--text: no effect" in explain("--text", "TEXT")
    assert "score its stays with `clinical discharges`" in refused(
        tmp_path / "mimic", command="score"
    )
    assert not (tmp_path / "r.csv").exists()
    assert not list(tmp_path.glob(".*stays*"))


def test_a_night_runs_each_window_once(hospital, save_model, monkeypatch):
    mapping = hospital.parent / "columns.toml"
    cohort = build_cohort(hospital, mapping=mapping).to_frame()
    words = [hospital, "--mapping", mapping, "--since", "2026-11-20 10:00"]
    words += ["--model", save_model(cohort)]
    runs = Counter()

    class CountingRunner(WindowRunner):
        def logits(self, windows):
            runs.update(tuple(map(int, window)) for window in windows)
            return super().logits(windows)

    monkeypatch.setattr(runner, "WindowRunner", CountingRunner)

    def passages(name, *options):
        run("explain", *words, "--out", hospital.parent / name, *options)
        return read_table(
            hospital.parent / name, schema={"probability": "float"}
        )

    cache = ["--cache", hospital.parent / "windows.sqlite"]
    run("discharges", *words, "--out", hospital.parent / "r.csv", *cache)
    windows = set(runs)
    assert len(windows) > 3
    night = passages("passages.csv", *cache)
    assert {runs[window] for window in windows} == {1}
    assert len(runs) > len(windows)
    by_stay = risks(hospital.parent / "r.csv").set_index("stay_id")
    assert set(night["stay_id"]) == set(by_stay.index)
    of_stays = by_stay.loc[night["stay_id"]]
    assert night["status"].tolist() == of_stays["status"].tolist()
    assert night["probability"].to_numpy() == pytest.approx(
        of_stays["probability"].to_numpy(), abs=1e-6, nan_ok=True
    )
    # Without the cache, the windows run again.
    again = passages("again.csv")
    assert {runs[window] for window in windows} == {2}
    places = ["stay_id", "note", "start", "end", "direction"]
    assert again[places].equals(night[places])


def test_a_model_of_another_definition_asks_for_it(
    hospital, new_network, tokenizer, tmp_path
):
    mapping = tmp_path / "columns.toml"
    cohort = build_cohort(hospital, mapping=mapping).to_frame()
    choice = choice_of(cohort[CHOICE].unique())
    for definition, sha256 in (("ours 2", "0"), (choice.definition, "0")):
        settings = ReadmissionSettings(
            notes=choice.replaced(
                definition=definition, definition_sha256=sha256
            )
        )
        model = ReadmissionModel(new_network(), tokenizer, settings=settings)
        model.save_pretrained(tmp_path / definition.split()[0])
    words = [
        "discharges",
        str(hospital),
        "--mapping",
        str(mapping),
        "--out",
        str(tmp_path / "r.csv"),
    ]
    done = CliRunner().invoke(app, [*words, "--model", str(tmp_path / "ours")])
    assert done.exit_code == 1
    assert (
        "trained with the definition ours 2, which is not shipped"
        in done.output
    )
    said = run(*words, "--model", tmp_path / "readmission-30d")
    assert (
        "or one of the two was edited: check that the rules are the same"
        in said
    )


def test_since_is_a_date_or_a_time():
    assert parse_since("2026-11-25") == pd.Timestamp("2026-11-25")
    assert parse_since(" 2026-11-25 18:00") == pd.Timestamp("2026-11-25 18:00")
    assert parse_since("2026-11-25T00:00-05:00") == pd.Timestamp(
        "2026-11-25 05:00"
    )
    for text in ("", "25.11.2026", "0001-01-01T00:00+14:00"):
        with pytest.raises(
            UserError, match="expected an ISO date or datetime"
        ):
            parse_since(text)
