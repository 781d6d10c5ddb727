"""What tests of recipes share: our vocabulary, a small part of the public data, and commands."""

import pytest
import typer
from typer.testing import CliRunner


def run(main, *words):
    """The output of a recipe's command, which must succeed."""
    app = typer.Typer()
    app.command()(main)
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="session")
def vocabulary():
    """The terms that the package knows, with those that are held out."""
    from recipes.categories import vocabulary_terms

    return vocabulary_terms()


@pytest.fixture
def data_sample(data_folder, tmp_path):
    """A folder with a small part of the data sets, which is read in seconds."""
    from recipes.rehearsal import sample

    folder = tmp_path / "data"
    sample(data_folder, folder, part=40)
    return folder
