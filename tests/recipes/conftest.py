"""Small parts of the public data sets."""

import pytest


@pytest.fixture
def some_data(data_folder, tmp_path):
    """A folder with a small part of the data sets, which is read in seconds."""
    from recipes.rehearsal import sample

    folder = tmp_path / "data"
    sample(data_folder, folder, part=40)
    return folder
