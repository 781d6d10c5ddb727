"""Small parts of the public data sets."""

import gzip
from functools import partial
from itertools import islice

import pytest


@pytest.fixture
def some_data(data_folder, tmp_path):
    """A folder with a small part of the data sets, which is read in seconds."""
    from recipes.terms import ICD9, MEDQUAD, PUBMED, RATED_PAIRS

    names = (
        "names/mondo.csv.gz",
        "names/mesh_diseases.csv.gz",
        "names/hp_2013-11-30.obo.gz",
    )
    folder = tmp_path / "data"
    # Of each file the lines up to one, and every so many of them.
    parts = {
        MEDQUAD: (None, 20),
        PUBMED: (2000, 1),
        ICD9: (1000, 1),
        RATED_PAIRS: (None, 1),
    }
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
    return folder
