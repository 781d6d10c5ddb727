"""Small parts of the public data sets."""

import gzip
import json
from functools import partial
from itertools import islice

import pytest


@pytest.fixture
def some_data(data_folder, tmp_path):
    """A folder with a small part of the data sets, which is read in seconds."""
    from recipes.passages import ABSTRACTS, PUBMEDQA, SQUAD
    from recipes.terms import ICD9, MEDQUAD, PUBMED, RATED_PAIRS, RELATED, STS

    names = (
        "names/mondo.csv.gz",
        "names/mesh_diseases.csv.gz",
        "names/hp_2013-11-30.obo.gz",
        "names/drugbank.csv.gz",
        "names/rxnorm_brands.csv.gz",
    )
    folder = tmp_path / "data"
    # Of each file the lines up to one, and every so many of them.
    parts = {
        MEDQUAD: (None, 20),
        PUBMED: (2000, 1),
        ICD9: (1000, 1),
        RATED_PAIRS: (None, 1),
        RELATED: (100, 1),
        STS.format("train"): (100, 1),
        STS.format("dev"): (100, 1),
    }
    abstracts = (f"ner/{name}.pubtator" for name in ABSTRACTS)
    parts |= dict.fromkeys(abstracts, (40, 1))
    parts |= dict.fromkeys(names, (1500, 1))
    for name, (stop, step) in parts.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        opened = partial(
            gzip.open if file.suffix == ".gz" else open, mode="rb"
        )
        with opened(data_folder / name) as handle:
            text = b"".join(islice(handle, 0, stop, step))
        file.write_bytes(gzip.compress(text) if file.suffix == ".gz" else text)
    squad = json.loads((data_folder / SQUAD).read_text())
    pubmedqa = json.loads((data_folder / PUBMEDQA).read_text())
    small = {
        SQUAD: {
            "data": [
                {
                    **squad["data"][0],
                    "paragraphs": squad["data"][0]["paragraphs"][:2],
                }
            ]
        },
        PUBMEDQA: dict(islice(pubmedqa.items(), 8)),
    }
    (folder / "qa").mkdir()
    for name, document in small.items():
        (folder / name).write_text(json.dumps(document))
    return folder
