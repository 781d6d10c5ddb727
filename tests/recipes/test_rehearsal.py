"""What a rehearsal of `make models` changes: the amount of data and of training, nothing else."""

import gzip
import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from recipes import rehearsal

RECIPES = Path(__file__).parents[2] / "recipes"


def test_one_record_of_so_many_is_kept():
    rows = ["header", *range(100)]
    assert rehearsal.evenly(rows, 4) == ["header", *range(3, 100, 4)]
    assert len(rehearsal.evenly(rows, 1000)) >= rehearsal.FEWEST
    assert rehearsal.evenly(rows[:9], 1000) == rows[:9]
    assert rehearsal.evenly(rows, 1) == rows


def test_large_files_are_sampled_by_their_records(tmp_path):
    data = tmp_path / "data"
    blocks = [f"word{n}\tO\nend\tO" for n in range(100)]
    lines = ["name,code", *(f"n{n},{n}" for n in range(100))]
    articles = [
        {"title": str(n), "paragraphs": [{"context": c} for c in "abcde"]}
        for n in range(50)
    ]
    (data / "ner" / "small").mkdir(parents=True)
    for name in ("names", "qa", "notes"):
        (data / name).mkdir()
    (data / "ner" / "small" / "train.tsv").write_text("\n\n".join(blocks))
    (data / "names" / "drugs.csv.gz").write_bytes(
        gzip.compress("\n".join(lines).encode())
    )
    (data / "notes" / "notes.csv.gz").write_bytes(b"whole")
    (data / "qa" / "squad.json").write_text(
        json.dumps({"version": "2.0", "data": articles})
    )
    for file in data.rglob("*.*"):
        file.chmod(0o444)
    rehearsal.sample(data, tmp_path / "out", part=2)
    text = (tmp_path / "out/ner/small/train.tsv").read_text()
    assert text.rstrip("\n").split("\n\n") == [blocks[0], *blocks[2::2]]
    packed = (tmp_path / "out/names/drugs.csv.gz").read_bytes()
    assert gzip.decompress(packed).decode().split() == [
        lines[0],
        *lines[2::2],
    ]
    assert (tmp_path / "out/notes/notes.csv.gz").read_bytes() == b"whole"
    squad = json.loads((tmp_path / "out/qa/squad.json").read_text())
    assert squad["version"] == "2.0"
    assert len(squad["data"]) == 25
    contexts = [p["context"] for p in squad["data"][1]["paragraphs"]]
    assert contexts == ["a", "c", "e"]


@pytest.mark.data
def test_the_large_texts_of_the_public_data_are_sampled(data_folder, tmp_path):
    rehearsal.sample(data_folder, tmp_path, part=40)
    for folder in ("ner", "qa", "readmission", "text"):
        for file in (tmp_path / folder).rglob("*.*"):
            size = (data_folder / file.relative_to(tmp_path)).stat().st_size
            if size > 1_000_000:
                assert file.stat().st_size < size / 2, file.name


def test_a_clone_has_the_same_recipes_with_fewer_passes(tmp_path):
    clone = tmp_path / "clone"
    (clone / "recipes").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    for file in RECIPES.glob("*.toml"):
        (clone / "recipes" / file.name).write_bytes(file.read_bytes())
    app = typer.Typer()
    app.command()(rehearsal.main)
    words = [str(clone), "--data", str(tmp_path / "data"), "--part", "5"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    for file in RECIPES.glob("*.toml"):
        whole = tomllib.loads(file.read_text("utf-8"))
        short = tomllib.loads((clone / "recipes" / file.name).read_text())
        for name, table in whole.items():
            passes = rehearsal.EPOCHS_BY.get(file.stem, 5)
            for key, divisor in (("epochs", passes), ("learning_rate", 2)):
                if key in table:
                    values = np.divide(table.pop(key), divisor)
                    assert short[name].pop(key) == pytest.approx(values)
            if "batch_tokens" in table:
                table["batch_tokens"] = rehearsal.BATCH_TOKENS
        if "card" in whole:
            assert re.match("Rehearsal: ", short["card"].pop("title"))
            whole["card"].pop("title")
        assert short == whole, file.name
