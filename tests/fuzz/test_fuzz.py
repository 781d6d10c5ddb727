"""Hostile input, seeded: nothing is lost, nothing crashes, no note text leaks.

A few minutes by default; `FUZZ=100000 pytest tests/fuzz/test_fuzz.py` makes about so many texts,
stays and rows (the files do not become more, they become longer).
"""

import copy
import itertools
import logging
import random
import re
import shutil
import sys
import unicodedata
import warnings
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from domainbert.errors import UserError
from domainbert.scoring import score_file
from domainbert.tables import id_key, iter_rows, read_table
from domainbert.text.windows import Windower

sys.path.insert(0, str(Path(__file__).parent))
from hostile import MARK, damaged_csv, damaged_jsonl, stay, text

pytestmark = pytest.mark.slow

STATUSES = {"ok", "empty", "error"}


@pytest.fixture
def times(request):
    return request.config.getoption("--fuzz")


@pytest.fixture
def quiet_about_notes(caplog, capfd):
    """No note text in any log line or on stdout and stderr."""
    caplog.set_level(logging.DEBUG)
    yield
    assert MARK not in caplog.text
    told = capfd.readouterr()
    assert MARK not in told.out + told.err


def random_tagger(random_network, tokenizer):
    from transformers import BertForTokenClassification

    from biomed.ner.tagger import EntityTagger

    labels = ("O", "B-Disease", "I-Disease")
    names = {
        "id2label": dict(enumerate(labels)),
        "label2id": {n: i for i, n in enumerate(labels)},
    }
    network = random_network(
        BertForTokenClassification, head="classifier", **names
    )
    return EntityTagger(network, tokenizer)


def random_answerer(random_network, tokenizer):
    from transformers import BertForQuestionAnswering

    from biomed.qa.model import QuestionAnswerer

    network = random_network(BertForQuestionAnswering, head="qa_outputs")
    return QuestionAnswerer(network, tokenizer)


def test_texts_through_windows(tokenizer, times):
    chooser = random.Random(1)
    reference = copy.deepcopy(tokenizer.backend_tokenizer)
    reference.encode_special_tokens = (
        True  # "[MASK]" in a note is four characters and a word
    )
    reference.no_truncation()  # another test may have asked the shared tokenizer to truncate
    for _ in range(600 * times):
        window = chooser.randrange(5, 65)
        overlap = chooser.choice((0, 0, chooser.randrange(window - 2)))
        windower = Windower(
            tokenizer, window=window, overlap=overlap, limit=64
        )
        note = text(chooser, longest=120)
        found = windower.split(note)
        contents = [list(w.input_ids[1:-1]) for w in found.windows]
        clean = re.sub("[\ud800-\udfff]", "\ufffd", note)
        expected = reference.encode(clean, add_special_tokens=False).ids
        if not overlap:
            assert list(itertools.chain.from_iterable(contents)) == expected
        assert found.tokens == len(expected)
        assert all(0 <= w.start < w.end <= len(note) for w in found.windows)
        covered = np.zeros(len(note), dtype=bool)
        for span in (*found.windows, *found.unread):
            covered[span.start : span.end] = True
        # Spaces say nothing, and an accent is read with its letter, or stripped from it.
        left = {
            c
            for c, done in zip(note, covered, strict=True)
            if not (done or c.isspace())
        }
        assert all(unicodedata.combining(c) for c in left), left


def test_stays_through_predict_many(model, times, quiet_about_notes):
    chooser = random.Random(2)
    stays = [stay(chooser) for _ in range(250 * times)]
    risks = list(model.predict_many(stays))
    assert len(risks) == len(stays)
    for risk in risks:
        assert risk.status in STATUSES
        assert MARK not in repr(risk) + risk.reason
        # A stay with a risk may have a remark, such as that its notes are not in English.
        assert risk.reason or risk.status == "ok"
        if risk.status == "ok":
            assert (
                0
                <= risk.p_mean - 1e-9
                <= risk.score
                <= risk.p_max + 1e-9
                <= 1 + 1e-8
            )
            assert risk.coverage.windows == len(risk.windows) > 0
        else:
            assert np.isnan(risk.probability)


def rows_of(chooser, columns, most):
    ids = ["7", "07", "8", "", "P1", "p1 ", "=1+1", "NA"]
    ids += [f"S{number}" for number in range(most - 12)]
    make = {
        "stay_id": lambda: chooser.choice(ids),
        "id": lambda: chooser.choice(ids),
    }
    plain = [
        {
            name: make.get(name, lambda: text(chooser, longest=12))()
            for name in columns
        }
        for _ in range(chooser.randrange(1, most))
    ]
    return [
        {name: _tidy(value) for name, value in row.items()} for row in plain
    ]


def _tidy(value):
    """Without halves of surrogate pairs, which no file can hold."""
    return value.encode("utf-8", "replace").decode()


def write_damaged(chooser, rows, folder, ending):
    path = folder / f"in{ending}"
    if ending == ".csv":
        path.write_bytes(damaged_csv(chooser, rows))
    elif ending == ".jsonl":
        path.write_bytes(damaged_jsonl(chooser, rows))
    else:
        table = pa.Table.from_pylist(rows)
        if chooser.random() < 0.3:
            name = chooser.choice(table.column_names)
            values = [chooser.choice((1, None)) for _ in rows]
            table = table.set_column(
                table.column_names.index(name), name, pa.array(values)
            )
        pq.write_table(table, path)
    return path


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("kind", ["readmission", "entities", "answers"])
def test_tables_through_every_task(
    kind,
    ending,
    model,
    random_network,
    tokenizer,
    tmp_path,
    times,
    quiet_about_notes,
):
    from biomed.ner.task import TagTask
    from biomed.qa.task import AskTask
    from clinical.risk.task import ReadmissionTask

    chooser = random.Random(f"{kind}{ending}")
    if kind == "readmission":
        task, columns = ReadmissionTask(model), ["stay_id", "text"]
    elif kind == "entities":
        task, columns = (
            TagTask(random_tagger(random_network, tokenizer)),
            ["id", "text"],
        )
    else:
        answerer = random_answerer(random_network, tokenizer)
        task, columns = AskTask(answerer), ["id", "question", "context"]
    for number in range(25):
        folder = tmp_path / str(number)
        folder.mkdir()
        source = write_damaged(
            chooser, rows_of(chooser, columns, 12 * times), folder, ending
        )
        out = folder / f"out{chooser.choice(('.csv', '.jsonl', '.parquet'))}"
        try:
            counts = score_file(task, source, out)
        except UserError as error:
            assert MARK not in str(error)
            assert "\n" not in str(error)
            assert not out.exists()
            continue
        rows = list(iter_rows(source))
        found = read_table(out)
        assert counts.rows == len(rows)
        assert set(found["status"]) <= STATUSES
        assert not found["reason"].fillna("").str.contains(MARK).any()
        assert (
            found.loc[found["status"] == "error", "reason"]
            .fillna("")
            .ne("")
            .all()
        )
        if "row" in found:
            assert found["row"].astype(int).unique().tolist() == list(
                range(len(rows))
            )
        else:
            keys = {
                id_key(row.cells.get("stay_id"))
                for row in rows
                if not row.fault
            }
            assert len(found) >= len(keys - {None})
        assert sorted(p.name for p in folder.iterdir()) == sorted(
            [source.name, out.name]
        )


def mostly(chooser, usual, odd):
    """The usual value, or in one case of eight an odd one."""
    return chooser.choice(odd) if chooser.random() < 0.125 else usual


def admission(chooser, number, patient):
    day = date(2101, 1, 1) + timedelta(days=chooser.randrange(300))
    end = day + timedelta(days=chooser.randrange(9))
    odd_days = ["", "soon", "2101-02-30", "2101-01-05 10:00"]
    return {
        "SUBJECT_ID": mostly(chooser, patient, ["02", "", "1"]),
        "HADM_ID": mostly(chooser, str(number), ["", "1"]),
        "ADMITTIME": mostly(chooser, str(day), odd_days),
        "DISCHTIME": mostly(chooser, str(end), odd_days),
        "DEATHTIME": mostly(chooser, "", ["2101-01-06", "never"]),
        "ADMISSION_TYPE": mostly(
            chooser, "EMERGENCY", ["NEWBORN", "ELECTIVE", "??"]
        ),
        "DISCHARGE_LOCATION": mostly(
            chooser, "HOME", ["DEAD/EXPIRED", "verstorben"]
        ),
        "INSURANCE": "x",
        "ETHNICITY": "y",
        "HOSPITAL_EXPIRE_FLAG": mostly(chooser, "0", ["1", ""]),
    }


def cohort_note(chooser, row_id, number, patient):
    note = _tidy(text(chooser, longest=10)).replace("\x00", "")
    return {
        "ROW_ID": mostly(chooser, str(row_id), ["1", ""]),
        "SUBJECT_ID": mostly(chooser, patient, ["1", ""]),
        "HADM_ID": mostly(chooser, str(number), ["1", ""]),
        "CHARTDATE": mostly(chooser, "2101-02-01", ["", "soon"]),
        "CHARTTIME": "",
        "CATEGORY": mostly(chooser, "Discharge summary", ["Nursing", ""]),
        "DESCRIPTION": "",
        "ISERROR": mostly(chooser, "", ["1", "?"]),
        "TEXT": note,
    }


def test_cohorts(tmp_path, times, quiet_about_notes):
    from clinical.cohort.build import build_cohort

    chooser = random.Random(4)
    n_built = 0
    n_kept = 0
    for number in range(6):
        folder = tmp_path / str(number)
        folder.mkdir()
        n_stays = chooser.randrange(2, 30 * times)
        patients = [f"P{stay // 2}" for stay in range(n_stays)]
        admissions = [
            admission(chooser, stay, patients[stay]) for stay in range(n_stays)
        ]
        notes = []
        for row_id in range(chooser.randrange(2, 60 * times)):
            stay_number = chooser.randrange(n_stays)
            patient = patients[stay_number]
            notes.append(cohort_note(chooser, row_id, stay_number, patient))
        (folder / "ADMISSIONS.csv").write_bytes(
            damaged_csv(chooser, admissions)
        )
        (folder / "NOTEEVENTS.csv").write_bytes(damaged_csv(chooser, notes))
        rows = [
            row
            for row in iter_rows(folder / "ADMISSIONS.csv")
            if not row.fault
        ]
        # Damaged words for death too: otherwise nearly every source is refused for them.
        locations = {row.cells["DISCHARGE_LOCATION"] for row in rows}
        died_locations = sorted(locations - {"HOME", None})
        try:
            built = build_cohort(
                folder,
                out=folder / "cohort.parquet",
                died_locations=died_locations,
            )
        except UserError as error:
            assert MARK not in str(error)
            continue
        n_built += 1
        frame = built.to_frame()
        assert len(frame) <= len(rows)
        kept = frame[frame["exclusion"].isna()]
        n_kept += len(kept)
        assert kept["readmitted"].isin([0, 1]).all()
        sides = kept.groupby(kept["patient_id"].str.casefold())["split"]
        assert sides.nunique().le(1).all()
        assert built.flow["left"].iloc[-1] == len(kept)
    assert n_built >= 3  # of 6; the others have no admission or no summary
    assert n_kept >= n_built


def test_broken_model_folders(model, tmp_path):
    from clinical import ReadmissionModel
    from domainbert.models.storage import MANIFEST_FILE, write_manifest

    chooser = random.Random(5)
    whole = tmp_path / "whole"
    model.save_pretrained(whole)
    loaded = 0
    for number in range(60):
        folder = tmp_path / str(number)
        shutil.copytree(whole, folder)
        file = chooser.choice(
            sorted(path for path in folder.iterdir() if path.suffix != ".md")
        )
        data = bytearray(file.read_bytes())
        kind = chooser.randrange(4)
        if kind == 0:
            file.write_bytes(data[: chooser.randrange(len(data))])
        elif kind == 1:
            data[chooser.randrange(len(data))] = chooser.randrange(256)
            file.write_bytes(data)
        elif kind == 2:
            file.unlink()
        else:
            changed = data.replace(
                *chooser.choice(
                    [
                        (b"32", b"-1"),
                        (b"64", b"null"),
                        (b"true", b"[]"),
                        (b"[", b"{"),
                    ]
                )
            )
            file.write_bytes(changed)
        if file.name != MANIFEST_FILE:
            # What an author wrote is whole, whatever it holds.
            write_manifest(folder, model.manifest)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                broken = ReadmissionModel.from_pretrained(folder)
            except (UserError, OSError) as error:
                assert "\n" not in str(error)
                continue
        loaded += 1
        (risk,) = broken.predict_many(["heart failure"])
        assert risk.status in STATUSES
    assert 0 < loaded < 60  # some damage is harmless, most is not
