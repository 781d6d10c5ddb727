"""A canary goes through every stage with logging at DEBUG and errors forced."""

import gzip
import logging
import warnings

import numpy as np
import pandas as pd
import pytest

from domainbert.pretraining.corpus import Corpus, CorpusFile, read_documents, read_exclusions
from domainbert.pretraining.fitting import pretrain
from domainbert.pretraining.settings import CorpusSettings, Phase
from domainbert.pretraining.tokens import train_vocabulary
from domainbert.tables import write_table

CANARY = "zebrafinch"


@pytest.mark.parametrize("seed", [0])
def test_nothing_says_what_it_read(new_notes, new_recipe, tmp_path, caplog, capfd, seed):
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
    (tmp_path / "f.txt.gz").write_bytes(gzip.compress(CANARY.encode() * 99)[:-9])
    recipe = new_recipe(phases={"short": Phase(length=32, steps=2, batch_tokens=256)})
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.DEBUG):
        warnings.simplefilter("always")
        for name in [*bad, "f.txt.gz"]:
            attempt(pretrain, [tmp_path / name], out=tmp_path / f"{name}-out", recipe=recipe)
            attempt(read_exclusions, [tmp_path / name])
            attempt(lambda name=name: list(Corpus([tmp_path / name])))
        attempt(pretrain, [tmp_path / "notes.parquet"], out=tmp_path / "out", recipe=recipe)
        attempt(Corpus, [tmp_path / "notes.parquet"])
        attempt(read_exclusions, [tmp_path / "notes.parquet"])
        file = CorpusFile(tmp_path / "notes.parquet")
        attempt(lambda: next(read_documents(file, settings=CorpusSettings())))
        attempt(train_vocabulary, [CANARY, np.array([CANARY])], size=50, lower_case=True)
        attempt(pretrain, [tmp_path], out=tmp_path / "all", recipe=recipe, exclude=["x"])
    said += [str(warning.message) for warning in caught]
    said += [record.getMessage() for record in caplog.records]
    said += [str(record.exc_info) for record in caplog.records if record.exc_info]
    said += list(capfd.readouterr())
    assert (tmp_path / "out" / "config.json").is_file()
    said += [(tmp_path / "out" / name).read_text() for name in ("README.md", "pretraining.json")]
    assert len(said) > 20
    assert not [text for text in said if CANARY in text]
    assert isinstance(notes, pd.DataFrame)
