"""A word in every input of every command is seen in its results alone, with logging at DEBUG."""

import json
import logging
import re
import resource
import sys
import tempfile
import warnings
from pathlib import Path

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from biomed.sentences.encoder import SentenceEncoder
from biomed.sentences.search import SentenceIndex
from domainbert.models.pairs import PairModel
from domainbert.tables import write_table

sys.path.insert(0, str(Path(__file__).parent))
from test_fuzz import random_answerer, random_tagger

pytestmark = pytest.mark.slow

CANARY = "zebrafinch"
NOTE = (
    f"Patient {CANARY} admitted with chest pain. Heart failure [**{CANARY}**], {CANARY}. "
    * 4
)
# What reads no text of a user, and the service, whose privacy has tests of its own.
NO_TEXT = {
    "clinical demo",
    "clinical synthesize",
    "clinical models",
    "biomed models",
    "domainbert serve",
}
# What a random model gives, and what is made below, is not what these can use.
REFUSED = {"clinical monitor", "clinical convert", "clinical recalibrate"}
QUICK = ["--epochs", "0.1", "--encoder", "in/encoder"]
# The commands; what is called in/ is made below, and everything else is written.
COMMANDS = {
    "clinical cohort": ["in/hospital", "--out", "out.parquet"],
    "clinical train": ["in/cohort.parquet", "--out", "model", *QUICK],
    "clinical recalibrate": [
        "in/cohort.parquet",
        "--model",
        "in/risk",
        "--out",
        "model",
    ],
    "clinical score": [
        "in/notes.csv",
        "--model",
        "in/risk",
        "--out",
        "out.jsonl",
    ],
    "clinical discharges": [
        "in/hospital",
        "--model",
        "in/risk",
        "--out",
        "out.jsonl",
    ],
    "clinical trajectory": [
        "in/notes.csv",
        "--model",
        "in/risk",
        "--out",
        "out.csv",
    ],
    "clinical explain": [
        "in/notes.csv",
        "--model",
        "in/risk",
        "--out",
        "out.csv",
    ],
    "clinical evaluate": [
        "in/cohort.parquet",
        "--model",
        "in/risk",
        "--out",
        "report",
    ],
    "clinical monitor": [
        "in/cohort.parquet",
        "--model",
        "in/risk",
        "--out",
        "report",
    ],
    "clinical convert": ["in/notes.csv", "--out", "model"],
    "biomed ner train": ["in/corpus", "--out", "model", *QUICK],
    "biomed ner tag": [
        "in/notes.csv",
        "--model",
        "in/tagger",
        "--out",
        "out.csv",
    ],
    "biomed ner dictionary": ["in/terms.csv", "--out", "out.csv"],
    "biomed ner evaluate": ["in/corpus/devel.tsv", "--model", "in/tagger"],
    "biomed qa train": ["in/questions.json", "--out", "model", *QUICK],
    "biomed qa ask": [
        "in/questions.csv",
        "--model",
        "in/answerer",
        "--out",
        "out.csv",
    ],
    "biomed qa evaluate": ["in/questions.json", "--model", "in/answerer"],
    "biomed terms embed": [
        "in/terms.csv",
        "--model",
        "in/encoder",
        "--out",
        "out.csv",
    ],
    "biomed terms similar": [
        *("--terms", "in/terms.csv", "--vocabulary", "in/terms.csv"),
        *("--model", "in/encoder", "--out", "out.csv"),
    ],
    "biomed terms plot": [
        "in/terms.csv",
        "--model",
        "in/encoder",
        "--out",
        "out.svg",
    ],
    "biomed terms evaluate": [
        "--pairs",
        "in/pairs.csv",
        "--model",
        "in/encoder",
        "--out",
        "scores",
    ],
    "biomed terms train": ["in/terms.csv", "--out", "model", *QUICK],
    "biomed sentences encode": [
        "in/notes.csv",
        "--model",
        "in/encoder",
        "--out",
        "out.parquet",
    ],
    "biomed sentences index": [
        "in/lines.txt",
        "--model",
        "in/encoder",
        "--out",
        "index",
    ],
    "biomed sentences search": [
        *(
            "in/pairs.csv",
            "--index",
            "in/index",
            "--model",
            "in/encoder",
            "--out",
            "out.csv",
        )
    ],
    "biomed sentences rerank": [
        "in/pairs.csv",
        "--model",
        "in/cross",
        "--out",
        "out.csv",
    ],
    "biomed sentences evaluate": [
        "--sts",
        "in/pairs.csv",
        "--model",
        "in/encoder",
        "--out",
        "s",
    ],
    "biomed sentences train": [
        *(
            "in/pairs.csv",
            "--validation",
            "in/others.csv",
            "--out",
            "model",
            *QUICK,
        )
    ],
    "biomed sentences augment": [
        *(
            "in/pairs.csv",
            "--validation",
            "in/others.csv",
            "--out",
            "model",
            *QUICK,
        )
    ],
    "biomed sentences distill": [
        "in/lines.txt",
        "--out",
        "model",
        "--epochs",
        "0.1",
    ],
    "domainbert doctor": ["--identifiers", "in/notes.csv", "--out", "out.csv"],
    "domainbert pretrain": [
        *(
            "in/hospital/NOTEEVENTS.csv",
            "--recipe",
            "in/pretrain.toml",
            "--out",
            "model",
        ),
        *("--encoder", "in/encoder", "--max-steps", "1"),
    ],
}


def applications():
    from biomed.cli import app as biomed
    from clinical.cli import app as clinical
    from domainbert.__main__ import app as domainbert

    return {"biomed": biomed, "clinical": clinical, "domainbert": domainbert}


def names_of(command, path):
    inner = getattr(command, "commands", {})
    return [
        name for n, c in inner.items() for name in names_of(c, f"{path} {n}")
    ] or [path]


def test_every_command_has_its_canary():
    groups = {
        name: typer.main.get_command(app)
        for name, app in applications().items()
    }
    found = [
        name
        for group, command in groups.items()
        for name in names_of(command, group)
    ]
    assert sorted(found) == sorted([*COMMANDS, *NO_TEXT])


@pytest.fixture(scope="module")
def inputs(
    tmp_path_factory, new_network, random_network, tokenizer, tiny_encoder
):
    """Tables, corpora and models; every text has the canary, and some lines are broken."""
    from clinical import ReadmissionModel

    folder = tmp_path_factory.mktemp("canary")
    (folder / "in" / "corpus").mkdir(parents=True)
    (folder / "in" / "hospital").mkdir()
    files = {
        "notes.csv": "patient_id,stay_id,note_id,chart_time,text\n"
        + "".join(
            f'{n // 2},{n // 2},{n},2101-01-0{n % 9 + 1},"{NOTE}{n}"\n'
            for n in range(8)
        )
        + f'9,9,9,{CANARY},{CANARY}\n9,"{CANARY}\n',
        "terms.csv": "term,synonyms,category,id,name\n"
        + "".join(
            f"{CANARY} {n},{n} {CANARY},c{n % 2},{n},{CANARY} {n}\n"
            for n in range(8)
        ),
        "pairs.csv": "first,second,score,query,text\n"
        + "".join(
            f"{CANARY} {n},pain {n},{n % 2},{CANARY} {n},{CANARY}\n"
            for n in range(8)
        ),
        "questions.csv": f'id,question,context\n1,was {CANARY}?,"{NOTE}"\n2,{CANARY}\n',
        "lines.txt": "".join(f"{CANARY} {n}\n" for n in range(8)),
        "hospital/ADMISSIONS.csv": "SUBJECT_ID,HADM_ID,ADMITTIME,DISCHTIME,DEATHTIME,"
        "ADMISSION_TYPE,DISCHARGE_LOCATION,INSURANCE,ETHNICITY,HOSPITAL_EXPIRE_FLAG\n"
        + "".join(
            f"{n},{n},2101-01-01,2101-01-05,,EMERGENCY,HOME,x,y,0\n"
            for n in range(8)
        )
        + f"8,{CANARY}\n",
        "hospital/NOTEEVENTS.csv": "ROW_ID,SUBJECT_ID,HADM_ID,CHARTDATE,CHARTTIME,CATEGORY,"
        "DESCRIPTION,ISERROR,TEXT\n"
        + "".join(
            f'{n},{n},{n},2101-01-05,,Discharge summary,{CANARY},,"{NOTE}{n}"\n'
            for n in range(8)
        )
        + f'9,9,9,{CANARY},,{CANARY},,"{CANARY}\n',
    }
    words = f"{CANARY}\tB-Disease\nfailure\tI-Disease\n{CANARY}\tO\n"
    sides = ("train", "devel", "test")
    files |= {
        f"corpus/{side}.tsv": f"{words}{side}\tO\n\n" * 4 for side in sides
    }
    files["others.csv"] = files["pairs.csv"].replace("pain", "fever")
    files["pretrain.toml"] = (
        "[corpus]\nheld_out = 0.5\n[training]\nlength = 32\n"
    )
    asked = [
        {
            "context": f"{NOTE} {n}",
            "qas": [
                {
                    "id": f"{n}",
                    "question": f"who was {CANARY}?",
                    "answers": [{"text": CANARY, "answer_start": 8}],
                }
            ],
        }
        for n in range(40)
    ]
    articles = [
        {"title": str(n), "paragraphs": [part]} for n, part in enumerate(asked)
    ]
    files["questions.json"] = json.dumps({"data": articles})
    for name, content in files.items():
        (folder / "in" / name).write_text(content)
    rows = [
        (
            f"p{n}",
            f"s{n}",
            [f"{NOTE} {'failure' if n % 2 else 'stable'}"],
            n % 2,
            side,
            None,
        )
        for n, side in enumerate(["train"] * 12 + ["val"] * 44 + ["test"] * 12)
    ]
    columns = [
        "patient_id",
        "stay_id",
        "text",
        "readmitted",
        "split",
        "exclusion",
    ]
    write_table(
        pd.DataFrame(rows, columns=columns), folder / "in" / "cohort.parquet"
    )
    (folder / "in" / "encoder").symlink_to(tiny_encoder)
    ReadmissionModel(new_network(), tokenizer).save_pretrained(
        folder / "in" / "risk"
    )
    PairModel(new_network(), tokenizer).save_pretrained(
        folder / "in" / "cross"
    )
    random_answerer(random_network, tokenizer).save_pretrained(
        folder / "in" / "answerer"
    )
    random_tagger(random_network, tokenizer).save_pretrained(
        folder / "in" / "tagger"
    )
    texts = [f"{CANARY} {n}" for n in range(8)]
    encoder = SentenceEncoder.from_pretrained(folder / "in" / "encoder")
    SentenceIndex.build(texts, encoder, folder=folder / "in" / "index")
    return folder


def told(path):
    """Whether a file is beside the results: a summary, a card, a manifest or a temporary file."""
    is_beside = path.suffix in (".json", ".md", ".log", ".lock", ".svg")
    return path.is_file() and (
        is_beside or any(part.startswith(".") for part in path.parts)
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_the_canary_is_in_the_results_alone(
    command, inputs, caplog, monkeypatch
):
    monkeypatch.chdir(inputs)
    place = inputs / "tmp"
    place.mkdir(exist_ok=True)
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    caplog.set_level(logging.DEBUG)
    for logger in (
        "clinical",
        "biomed",
        "domainbert",
        "transformers",
        "sentence_transformers",
    ):
        caplog.set_level(logging.DEBUG, logger=logger)
    package, *rest = command.split()
    outputs = {
        "out.csv",
        "out.jsonl",
        "out.parquet",
        "out.svg",
        "model",
        "report",
        "scores",
        "s",
    }
    for name in outputs:
        if (inputs / name).exists():
            (inputs / name).rename(inputs / f"{command} {name}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = CliRunner().invoke(
            applications()[package], [*rest, *COMMANDS[command]]
        )
    said = [result.output, result.stderr, repr(result.exception), caplog.text]
    said += [str(warning.message) for warning in caught]
    assert result.exit_code in (0, int(command in REFUSED)), result.output
    assert not [
        line for line in "\n".join(said).splitlines() if CANARY in line
    ]
    written = [
        path for path in inputs.rglob("*") if inputs / "in" not in path.parents
    ]
    left = [
        path
        for path in [*filter(told, written), *place.rglob("*")]
        if path.is_file()
    ]
    assert not [path for path in left if CANARY.encode() in path.read_bytes()]


@pytest.fixture(scope="module")
def locked(inputs, read_only, tmp_path_factory):
    """A folder in which nothing can be written, with the inputs."""
    folder = tmp_path_factory.mktemp("locked")
    (folder / "in").symlink_to(inputs / "in")
    with read_only(folder):
        yield folder


WRITING = sorted(name for name, words in COMMANDS.items() if "--out" in words)


@pytest.mark.parametrize("command", WRITING)
def test_a_read_only_folder_is_one_line(command, locked, monkeypatch):
    monkeypatch.chdir(locked)
    package, *rest = command.split()
    result = CliRunner().invoke(
        applications()[package], [*rest, *COMMANDS[command]]
    )
    assert result.exit_code == 1, result.output
    (line,) = [
        line
        for line in result.stderr.splitlines()
        if line.startswith("error: ")
    ]
    if command not in REFUSED:
        assert re.search("(?i)read-only file system|permission denied", line)
    assert [path.name for path in locked.iterdir()] == ["in"]


@pytest.mark.parametrize(
    ("command", "size", "name"),
    [
        ("clinical cohort", 0, "out.parquet"),
        ("clinical cohort", 500, "out.parquet"),
        ("clinical train", 20_000, "model-checkpoints"),  # a checkpoint
        ("clinical evaluate", 500, "report/calibration.png"),
        ("biomed ner tag", 500, "out.csv.parts/manifest.json"),
        ("biomed terms plot", 500, "out.svg"),
        ("biomed sentences index", 500, "part-00000.arrow"),
        ("domainbert pretrain", 0, "model-work"),
        ("domainbert pretrain", 500, "model-work"),
        ("domainbert pretrain", 20_000, "model-work/run-"),
    ],
)
def test_a_full_disk_is_one_line(
    command, size, name, inputs, tmp_path, monkeypatch
):
    """Files cannot become longer than a size, as with a quota."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").symlink_to(inputs / "in")
    package, *rest = command.split()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        result = CliRunner().invoke(
            applications()[package], [*rest, *COMMANDS[command]]
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert result.exit_code == 1, result.output
    (line,) = [
        line
        for line in result.stderr.splitlines()
        if line.startswith("error: ")
    ]
    assert name in line
    ending = " cannot be written (file too large); correct this and repeat the command"
    assert line.endswith(ending)
    outputs = {"out.parquet", "out.csv", "out.svg", "model", "index"}
    assert outputs.isdisjoint(path.name for path in tmp_path.iterdir())
