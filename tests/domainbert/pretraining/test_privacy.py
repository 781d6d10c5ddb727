"""A canary goes through every stage with logging at DEBUG and errors forced."""

import gzip
import hashlib
import logging
import warnings

import pandas as pd
import pytest

from domainbert.pretraining.corpus import (
    CorpusFile,
    TextCorpus,
    read_exclusions,
)
from domainbert.pretraining.fitting import pretrain
from domainbert.pretraining.settings import CorpusSettings
from domainbert.tables import write_table

CANARY = "zebrafinch"


@pytest.mark.parametrize("seed", [0])
def test_nothing_says_what_it_read(
    new_notes, new_recipe, tmp_path, caplog, capfd, seed
):
    said: list[str] = []

    def attempt(call, *args, **kwargs):
        try:
            said.append(repr(call(*args, **kwargs)))
        except Exception as error:
            while error is not None:
                said.append(f"{error!r} {error}")
                error = error.__cause__ or error.__context__

    notes = new_notes(40, seed=seed)
    notes["text"] = notes["text"].str.replace("pain", CANARY)
    write_table(notes, tmp_path / "notes.parquet")
    bad = {
        "a.csv": f"note\n{CANARY}\n",
        "b.csv": f'text,patient_id\n"{CANARY}\n',
        "c.jsonl": f'{{"text": "{CANARY}"\n',
        "d.txt": f"{CANARY}\n",
        "e.txt": CANARY + "\ufffd" * 100,
        "g.csv": f"{CANARY} was here and there,b\n1,2\n",
    }
    for name, content in bad.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "f.txt.gz").write_bytes(
        gzip.compress(CANARY.encode() * 99)[:-9]
    )
    recipe = new_recipe(steps=2)
    with (
        warnings.catch_warnings(record=True) as caught,
        caplog.at_level(logging.DEBUG),
    ):
        warnings.simplefilter("always")
        for name in [*bad, "f.txt.gz"]:
            attempt(
                pretrain,
                [tmp_path / name],
                out=tmp_path / f"{name}-out",
                recipe=recipe,
            )
            attempt(read_exclusions, [tmp_path / name])
            attempt(lambda name=name: list(TextCorpus([tmp_path / name])))
        attempt(
            pretrain,
            [tmp_path / "notes.parquet"],
            out=tmp_path / "out",
            recipe=recipe,
        )
        attempt(TextCorpus, [tmp_path / "notes.parquet"])
        attempt(read_exclusions, [tmp_path / "notes.parquet"])
        file = CorpusFile(tmp_path / "notes.parquet")
        attempt(lambda: next(file.documents(CorpusSettings())))
        attempt(
            pretrain,
            [tmp_path],
            out=tmp_path / "all",
            recipe=recipe,
            exclude=["x"],
        )
    said += [str(warning.message) for warning in caught]
    said += [record.getMessage() for record in caplog.records]
    said += [
        str(record.exc_info) for record in caplog.records if record.exc_info
    ]
    said += list(capfd.readouterr())
    assert (tmp_path / "out" / "config.json").is_file()
    said += [
        (tmp_path / "out" / name).read_text()
        for name in ("README.md", "pretraining.json")
    ]
    assert len(said) > 20
    assert not [text for text in said if CANARY in text]
    assert isinstance(notes, pd.DataFrame)


def mode(path):
    return path.stat().st_mode & 0o777


def test_all_that_an_encoder_folder_holds_of_the_patients(
    new_notes, new_recipe, tmp_path
):
    """Weights, words of several patients, counts and scores; see docs/pretraining.md."""
    notes = tmp_path / "Saint-Quetzal-Hospital"
    notes.mkdir()
    for number, text in enumerate(new_notes(60)["text"]):
        (notes / f"quetzal{number}.txt").write_text(text)
    (notes / "quetzal7.txt").write_text(
        f"Mr. {CANARY} came, {CANARY} left. " * 30
    )
    (tmp_path / "quetzals.csv").write_text("note_id\nquetzal3\n=QUETZAL900\n")
    out = tmp_path / "out"
    pretrain(
        [notes],
        out=out,
        recipe=new_recipe(steps=2),
        exclude=[tmp_path / "quetzals.csv"],
    )
    texts = ["README.md", "config.json", "pretraining.json", "tokenizer.json"]
    held = {*texts, "tokenizer_config.json", "model.safetensors"}
    assert {path.name for path in out.iterdir()} == held
    for name in held:
        content = (out / name).read_bytes().lower()
        assert CANARY.encode() not in content
        assert b"quetzal" not in content
        for path in [*notes.iterdir(), tmp_path / "quetzals.csv"]:
            for text in (path.read_text(), " ".join(path.read_text().split())):
                assert (
                    hashlib.sha256(text.encode()).hexdigest().encode()
                    not in content
                )
    card = (out / "README.md").read_text()
    assert "the vocabulary of its start, unchanged" in card
    assert "| excluded note_id values not found in the text | 1 |" in card


def test_how_many_excluded_ids_were_not_found_is_said(
    notes_file, new_recipe, tmp_path, caplog
):
    (tmp_path / "list.csv").write_text("patient_id\np3\n=P0003\n")
    recipe = new_recipe(steps=1)
    for out in (
        "first",
        "again",
    ):  # of the second run the tokens are there already
        caplog.clear()
        options = {
            "exclude": [tmp_path / "list.csv"],
            "work": tmp_path / "work",
        }
        pretrain([notes_file], out=tmp_path / out, recipe=recipe, **options)
        assert (
            "1 of 2 excluded patient_id values were not found in the corpus"
            in caplog.text
        )
        assert "P0003" not in caplog.text


def test_the_work_folder_is_private(notes_file, new_recipe, tmp_path):
    recipe = new_recipe(steps=1)
    pretrain([notes_file], out=tmp_path / "out", recipe=recipe)
    assert mode(tmp_path / "out-work") == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    pretrain(
        [notes_file],
        out=tmp_path / "out2",
        recipe=recipe,
        work=tmp_path / "open",
    )
    assert {mode(path) for path in (tmp_path / "open").iterdir()} == {0o700}
