"""What tests of recipes share: small parts of the public data sets, and our vocabulary."""

import pytest


@pytest.fixture(scope="session")
def vocabulary():
    """The terms that the package knows, with those that are held out."""
    from recipes.categories import vocabulary_terms

    return vocabulary_terms()


@pytest.fixture
def some_data(data_folder, tmp_path):
    """A folder with a small part of the data sets, which is read in seconds."""
    from recipes.rehearsal import sample

    folder = tmp_path / "data"
    sample(data_folder, folder, part=40)
    return folder
