"""Tables as files, written and compared."""

import gzip

import pandas as pd
import pytest

from domainbert.tables import (
    TableError,
    read_table,
)
from domainbert.tables.options import FORMATS

CANARY = "QUETZALCOATL"


every_format = pytest.mark.parametrize("ending", FORMATS)


def same(found, wanted):
    pd.testing.assert_frame_equal(
        found.reset_index(drop=True),
        wanted.reset_index(drop=True),
        check_dtype=False,
    )


def write_text(path, text):
    """Text as it stands, compressed where the name says so."""
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def error_of(path, **options):
    with pytest.raises(TableError) as caught:
        read_table(path, **options)
    assert not shows_another(caught.value)
    return str(caught.value)


def shows_another(error):
    """Whether a traceback would show the error beneath this one too."""
    return error.__cause__ or (
        error.__context__ and not error.__suppress_context__
    )


def names_in(folder):
    return [path.name for path in folder.iterdir()]
