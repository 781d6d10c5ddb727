"""A canary goes through every public call with logging at DEBUG and errors forced."""

import contextlib
import io
import logging
import warnings

import pandas as pd
import pytest
from typer.testing import CliRunner

import clinical
from clinical.evaluation.baselines import baselines
from clinical.evaluation.comparison import compare
from clinical.evaluation.monitoring import monitor
from clinical.evidence.task import ExplainTask
from clinical.report.facts import gather
from clinical.report.page import write_monitoring, write_report
from clinical.risk.manifest import QuantityProfile
from clinical.risk.task import ReadmissionTask
from clinical.stays.stays import clean
from clinical.training.training import ReadmissionRecipe, ReadmissionTable, fit
from domainbert.scoring import score_file
from domainbert.tables import read_table, write_table
from domainbert.text.windows import Windower
from domainbert.training.settings import TrainingSettings

CANARY = "zebrafinch"
NOTE = (
    f"Patient {CANARY} admitted with chest pain. Heart failure [**{CANARY}**]. "
    * 8
)


@pytest.fixture
def overheard(caplog, capsys):
    """Everything said anywhere while the block runs: logs, warnings, prints, errors, reprs."""
    said: list[str] = []

    @contextlib.contextmanager
    def listen():
        with (
            warnings.catch_warnings(record=True) as caught,
            caplog.at_level(logging.DEBUG),
        ):
            warnings.simplefilter("always")
            for name in ("clinical", "domainbert", "transformers", "peft"):
                caplog.set_level(
                    logging.DEBUG, logger=name
                )  # until the test is over
            yield said
        said.extend(str(warning.message) for warning in caught)
        said.append(caplog.text)
        said.extend(capsys.readouterr())

    return listen


def attempt(said, call, *args, **kwargs):
    """Run a call; keep its repr, or its error with everything chained to it."""
    try:
        result = call(*args, **kwargs)
        if hasattr(result, "__next__"):
            result = list(result)
        if not isinstance(result, pd.DataFrame | str):
            said.append(repr(result))
        return result
    except Exception as error:
        while error is not None:
            said.append(f"{error!r} {error}")
            error = error.__cause__ or (
                None if error.__suppress_context__ else error.__context__
            )
        return None


def cohort():
    rows = [
        (
            f"p{n}",
            f"s{n}",
            [f"{NOTE} {'failure' if n % 2 else 'stable'}"],
            n % 2,
            side,
            None,
        )
        for n, side in enumerate(["train"] * 20 + ["val"] * 12 + ["test"] * 12)
    ]
    columns = [
        "patient_id",
        "stay_id",
        "text",
        "readmitted",
        "split",
        "exclusion",
    ]
    return pd.DataFrame(rows, columns=columns)


def test_predictions_and_their_errors_keep_the_note_to_themselves(
    model, overheard
):
    with overheard() as said:
        for stay in (
            NOTE,
            [NOTE, NOTE],
            [NOTE, 3],
            NOTE.encode(),
            [NOTE, None],
            {"text": NOTE},
        ):
            attempt(said, model.predict, stay)
            attempt(said, model.predict_many, [stay])
        attempt(said, model.token_ids, [NOTE])
        attempt(said, clinical.aggregate, [NOTE])
        attempt(said, clinical.ReadmissionModel.from_pretrained, "nowhere")
        attempt(
            said, Windower(model.tokenizer, limit=64, window=64).split, NOTE
        )
        attempt(said, Windower(model.tokenizer, limit=64, window=64).split, 7)
        attempt(
            said, model.score_frame, pd.DataFrame({"text": [NOTE, 5, None]})
        )
        attempt(said, model.score_frame, pd.DataFrame({"texts": [NOTE]}))
        said.append(repr(model))
    assert CANARY in clean(NOTE)
    assert not [line for line in said if CANARY in line]


def test_files_and_their_errors_keep_the_note_to_themselves(
    model, overheard, tmp_path
):
    frame = pd.DataFrame(
        {"stay_id": ["1", "1"], "text": [NOTE, NOTE], "note_id": ["a", "a"]}
    )
    write_table(frame, tmp_path / "in.parquet")
    (tmp_path / "broken.jsonl").write_text(
        f'{{"text": "{NOTE}"}}\n{{"text": "{NOTE}\n'
    )
    (tmp_path / "broken.csv").write_text(
        f'stay_id,text\n1,{NOTE}\n2,"{NOTE},3,4,5\n3,{NOTE},6,7\n'
    )
    (tmp_path / "broken.parquet").write_text(NOTE)
    (tmp_path / "wrong.csv").write_text(NOTE)
    with overheard() as said:
        for name in (
            "in.parquet",
            "broken.jsonl",
            "broken.csv",
            "broken.parquet",
            "wrong.csv",
        ):
            attempt(
                said,
                score_file,
                ReadmissionTask(model),
                tmp_path / name,
                tmp_path / "out.csv",
            )
            attempt(said, read_table, tmp_path / name)
            result = CliRunner().invoke(
                __import__("clinical.cli").cli.app,
                [
                    "score",
                    str(tmp_path / name),
                    "--model",
                    "nowhere",
                    "--out",
                    "x.csv",
                ],
            )
            said.append(result.output)
    assert not [line for line in said if CANARY in line]


def test_training_and_evaluation_keep_the_notes_to_themselves(
    tiny_encoder, overheard, tmp_path
):
    table = cohort()
    recipe = ReadmissionRecipe(
        model=ReadmissionTable(encoder=str(tiny_encoder), window=32),
        training=TrainingSettings(
            epochs=1, learning_rate=1e-3, batch_tokens=600
        ),
    )
    with overheard() as said:
        model = attempt(said, fit, table, recipe)
        assert model is not None
        attempt(said, model.save_pretrained, tmp_path / "model")
        attempt(
            said, clinical.ReadmissionModel.from_pretrained, tmp_path / "model"
        )
        attempt(said, fit, table.assign(patient_id="one"), recipe)
        attempt(said, fit, table.assign(readmitted=table["text"]), recipe)
        attempt(
            said, fit, table.assign(text=[{"note": NOTE}] * len(table)), recipe
        )
        attempt(
            said,
            fit,
            table.assign(text=[[{"note": NOTE}]] * len(table)),
            recipe,
        )
        attempt(said, fit, table.assign(target=table["text"]), recipe)
        sides = [
            table[table["split"] == side] for side in ("train", "val", "test")
        ]
        attempt(said, baselines, *sides)
        attempt(
            said,
            clinical.evaluate,
            table["text"],
            table["text"],
            patients=table["text"],
        )
        attempt(said, clinical.ReadmissionClassifier().fit, [NOTE], [2, 3])
        attempt(said, clinical.check_disjoint, table.assign(patient_id=NOTE))
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert CANARY.encode() not in file.read_bytes()
    assert not [line for line in said if CANARY in line]


def test_documents_show_the_notes_only_where_they_are_asked_for(
    model, overheard, tmp_path
):
    table = cohort()
    notes = table[["stay_id", "text"]].explode("text").head(3)
    write_table(notes, tmp_path / "notes.parquet")
    model.manifest.data.profile = {
        "probability": QuantityProfile(
            n=100, median=0.5, edges=[0.5], shares=[0.5, 0.5]
        )
    }
    with overheard() as said:
        found = compare(model, table, bootstrap=0)
        about = gather(model, found, name="tiny")
        said += [repr(about), repr(found)]
        write_report(found, tmp_path / "report", title="T", about=about)
        watched = monitor(model, table.drop(columns="split"), bootstrap=0)
        said.append(repr(watched))
        write_monitoring(watched, tmp_path / "monitor")
        for name, text in (("places.csv", False), ("words.csv", True)):
            score_file(
                ExplainTask(model, text=text),
                tmp_path / "notes.parquet",
                tmp_path / name,
            )
        said.append(repr(model.explain(NOTE)))
        said.append(repr(model.explain(NOTE).show()))
        model.show(NOTE).save_html(tmp_path / "page.html")
    assert not [line for line in said if CANARY in line]
    asked = {"notes.parquet", "words.csv", "page.html"}
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    holding = {path for path in files if CANARY.encode() in path.read_bytes()}
    assert {path.relative_to(tmp_path).parts[0] for path in holding} == asked


def test_the_listener_hears(overheard):
    with overheard() as said:
        logging.getLogger("clinical.x").debug("a %s in a log", CANARY)
        warnings.warn(f"a {CANARY} in a warning", stacklevel=1)
        attempt(said, io.StringIO.read, CANARY)
        attempt(said, int, f"{CANARY} in an error")
        attempt(said, list, [f"a {CANARY} in a repr"])
    assert sum(CANARY in line for line in said) >= 4
