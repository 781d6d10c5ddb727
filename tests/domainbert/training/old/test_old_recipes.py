import pytest

from domainbert.training.old.recipes import read_recipe_tables, training_names
from domainbert.training.settings import TrainingSettings

LEGAL = {"model": ("name", "title"), "training": ("epochs", "seed")}


@pytest.fixture
def recipe(tmp_path):
    """Text -> the tables that are read of it."""

    def read(text):
        path = tmp_path / "recipe.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_recipe_tables(path, legal=LEGAL)

    return read


def test_every_legal_table_is_there_with_what_the_file_says(recipe):
    found = recipe('[training]\nepochs = 2.5\nseed = 7\n[model]\ntitle = "30 days – risk"\n')
    assert found == {
        "model": {"title": "30 days – risk"},
        "training": {"epochs": 2.5, "seed": 7},
    }
    assert recipe("[training]\nseed = 1\n") == {"model": {}, "training": {"seed": 1}}
    assert recipe("") == read_recipe_tables(None, legal=LEGAL) == {"model": {}, "training": {}}


def test_an_unknown_table_names_the_legal_ones(recipe):
    with pytest.raises(ValueError, match=r"has a table \[trainin\]; legal are model, training$"):
        recipe("[trainin]\nepochs = 2\n")
    with pytest.raises(ValueError, match=r"has a table \[epochs\]"):
        recipe("epochs = 2\n")


def test_an_unknown_name_names_the_legal_ones(recipe):
    with pytest.raises(ValueError, match=r"\[training\] has no 'epoch'; legal are epochs, seed$"):
        recipe("[training]\nepoch = 2\n")


@pytest.mark.parametrize("text", ["training = 3\n", 'training = "x"\n', "[[training]]\nseed = 1\n"])
def test_a_table_that_is_none(recipe, text):
    with pytest.raises(ValueError, match=r"training must be a table, written \[training\]$"):
        recipe(text)


@pytest.mark.parametrize("text", ["[training\n", "epochs: 2\n", b"name = 'caf\xe9'\n", b"\x00"])
def test_what_is_not_toml(recipe, text):
    with pytest.raises(ValueError, match=r"recipe\.toml is not TOML: "):
        recipe(text)


def test_a_missing_recipe(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_recipe_tables(tmp_path / "recipe.toml", legal=LEGAL)


def test_a_training_table_has_the_names_of_the_settings():
    assert training_names() == set(TrainingSettings.model_fields)
    assert {"epochs", "learning_rate", "rank", "full", "seed"} <= training_names()
