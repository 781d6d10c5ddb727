import json
import math
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from domainbert.errors import UserError
from domainbert.settings import Names, Settings
from domainbert.training.recipes import (
    ModelTable,
    Recipe,
    read_recipe,
    shipped_recipes,
)
from domainbert.training.settings import TrainingSettings
from domainbert.training.trainer import training_arguments

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("name", "expected", "wrong"),
    [
        (
            "epochs",
            "a number above 0",
            [0, -1, math.nan, math.inf, "3", None, True],
        ),
        ("learning_rate", "a number above 0", [0.0, -1e-4, math.nan, "1e-4"]),
        ("batch_size", "a whole number above 0", [0, -2, 2.5, "16", True]),
        ("batch_tokens", "a whole number above 0", [0, 4096.0]),
        ("max_windows", "a whole number above 0", [0, None]),
        ("evaluations", "a number above 0", [0, -0.5, "2", True]),
        ("patience", "a whole number above 0", [0, -1]),
        ("rank", "a whole number above 0", [0, 1.5]),
        ("warmup", "a number from 0 to below 1", [-0.1, 1.0, 100, math.nan]),
        ("weight_decay", "a number from 0 to below 1", [-0.01, 1.0]),
        ("dropout", "a number from 0 to below 1", [-0.1, 1.0]),
        ("full", "true or false", [1, "yes", None]),
        ("seed", "a whole number from 0 to 4294967295", [-1, 0.5, 2**32]),
        ("attention", "'sdpa' or 'eager'", ["flash", 1]),
    ],
)
def test_settings_out_of_range_are_refused(name, expected, wrong):
    for value in wrong:
        with pytest.raises(
            UserError, match=f"^{name}: expected {expected}, got {value!r}$"
        ):
            TrainingSettings(**{name: value})


def test_evaluations_may_be_fewer_than_epochs():
    assert TrainingSettings(evaluations=0.5).evaluations == 0.5
    # A manifest keeps a whole number as it always did.
    written = json.dumps(TrainingSettings(evaluations=2).model_dump())
    assert '"evaluations": 2,' in written


def test_settings_at_the_edge_of_their_range_are_taken():
    TrainingSettings(
        epochs=0.1,
        warmup=0,
        dropout=0.0,
        weight_decay=0,
        seed=2**32 - 1,
        rank=1,
    )
    TrainingSettings(
        seed=0, warmup=math.nextafter(1, 0), epochs=math.nextafter(0, 1)
    )


def test_numpy_scalars_are_taken_as_pythons():
    settings = TrainingSettings(
        epochs=np.int64(2),
        batch_size=np.int64(4),
        learning_rate=np.float32(0.5),
        full=np.bool_(True),
    )
    assert settings == TrainingSettings(
        epochs=2, batch_size=4, learning_rate=0.5, full=True
    )
    assert type(settings.batch_size) is int
    with pytest.raises(
        UserError, match=r"batch_size: expected a whole number above 0, got 0$"
    ):
        TrainingSettings(batch_size=np.int64(0))
    with pytest.raises(
        UserError, match=r"batch_size: expected a whole number above 0"
    ):
        TrainingSettings(batch_size=np.array([4]))


def test_settings_are_frozen_and_replaced_by_checked_copies():
    settings = TrainingSettings()
    with pytest.raises(ValueError, match="frozen"):
        settings.epochs = 4
    assert settings.replaced(epochs=4).epochs == 4
    with pytest.raises(
        UserError, match=r"epochs: expected a number above 0, got -1$"
    ):
        settings.replaced(epochs=-1)


def test_a_setting_becomes_an_argument_of_the_trainer(tmp_path):
    settings = TrainingSettings(
        epochs=4, warmup=0.1, weight_decay=0.02, seed=3, evaluations=3
    )
    arguments = training_arguments(
        settings, folder=tmp_path, steps=100, metric="f1"
    )
    assert (arguments.num_train_epochs, arguments.warmup_steps) == (4, 40)
    assert arguments.eval_steps == arguments.save_steps == 33
    assert (arguments.weight_decay, arguments.seed) == (0.02, 3)
    assert (arguments.metric_for_best_model, arguments.greater_is_better) == (
        "f1",
        True,
    )
    few = training_arguments(settings, folder=tmp_path, steps=2, metric="f1")
    assert few.eval_steps == few.logging_steps == 1


# --- recipes


class Tagging(ModelTable):
    """A task's own model settings."""

    labels: Names = ("O",)
    window: int = 128


class TagRecipe(Recipe):
    """A task's recipe."""

    model: Tagging = Tagging()


@pytest.fixture
def recipe(tmp_path):
    """Text -> the recipe that is read of it."""

    def read(text, **overrides):
        path = tmp_path / "recipe.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_recipe(
            TagRecipe,
            path,
            {k.replace("__", "."): v for k, v in overrides.items()},
        )

    return read


def test_a_recipe_has_what_the_file_says_and_defaults_for_the_rest(recipe):
    found = recipe(
        '[training]\nepochs = 2.5\nseed = 7\n[model]\nlabels = ["B", "I"]\n'
    )
    assert found.training == TrainingSettings(epochs=2.5, seed=7)
    assert found.model == Tagging(labels=("B", "I"))
    assert recipe("") == read_recipe(TagRecipe) == TagRecipe()
    assert (
        recipe('[card]\ntitle = "30 days – risk"\n').card.title
        == "30 days – risk"
    )


def test_options_override_the_file(recipe):
    found = recipe(
        "[training]\nepochs = 2\nseed = 7\n",
        training__epochs=5,
        training__seed=None,
        model__window=64,
    )
    assert (
        found.training.epochs,
        found.training.seed,
        found.model.window,
    ) == (
        5,
        7,
        64,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[trainin]\nepochs = 2\n",
            "trainin: no such setting; expected one of card, model, training",
        ),
        (
            "epochs = 2\n",
            "epochs: no such setting; expected one of card, model, training",
        ),
        (
            "[training]\nepoch = 2\n",
            "[training] epoch: no such setting; expected one of attention, ",
        ),
        (
            "[training]\nepochs = -1\n",
            "[training] epochs: expected a number above 0, got -1",
        ),
        (
            '[training]\nepochs = "2"\n',
            "[training] epochs: expected a number above 0, got '2'",
        ),
        ("[model]\nlabels = [1]\n", "[model] labels.0: expected text, got 1"),
        (
            "[model]\nwindow = 1.5\n",
            "[model] window: expected a whole number, got 1.5",
        ),
        (
            "training = 3\n",
            "training: expected a table, written [training], got 3",
        ),
        (
            'training = "x"\n',
            "training: expected a table, written [training], got 'x'",
        ),
        (
            "[[training]]\nseed = 1\n",
            "training: expected a table, written [training], got [{'seed",
        ),
    ],
)
def test_a_wrong_recipe_is_one_line_with_its_file(
    recipe, tmp_path, text, message
):
    with pytest.raises(UserError) as caught:
        recipe(text, training__rank=4)
    assert str(caught.value).startswith(
        f"{tmp_path / 'recipe.toml'}: {message}"
    )
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["[training\n", "epochs: 2\n", b"name = 'caf\xe9'\n", b"\x00"]
)
def test_what_is_not_toml(recipe, text):
    with pytest.raises(UserError, match=r"recipe\.toml is not TOML: "):
        recipe(text)


def test_a_missing_recipe_names_the_shipped_ones(tmp_path):
    with pytest.raises(
        UserError,
        match=r"no such recipe file, and no shipped recipe .*entities, ",
    ):
        read_recipe(TagRecipe, tmp_path / "recipe.toml")


def test_a_setting_that_a_class_requires():
    class Needy(Settings):
        name: str

    with pytest.raises(UserError, match="name: this setting is required"):
        Needy()


def test_shipped_recipes_are_found_by_name_where_the_package_is_installed(
    tmp_path,
):
    """The wheel puts recipes/ into the package; here a copy laid out as it does."""
    import shutil

    shutil.copytree(ROOT / "domainbert", tmp_path / "domainbert")
    only_toml = shutil.ignore_patterns("*.py", "*.csv", "__pycache__")
    shutil.copytree(
        ROOT / "recipes", tmp_path / "domainbert" / "recipes", ignore=only_toml
    )
    code = (
        "from domainbert.training.recipes import recipe_file, shipped_recipes\n"
        "print(recipe_file('entities'), *shipped_recipes())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    file, *names = run.stdout.split()
    assert Path(file) == tmp_path / "domainbert" / "recipes" / "entities.toml"
    assert (
        names
        == list(shipped_recipes())
        == sorted(p.stem for p in ROOT.glob("recipes/*.toml"))
    )
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))[
        "tool"
    ]["hatch"]
    wheel = wheel["build"]["targets"]["wheel"]
    assert wheel["sources"] == {"recipes": "domainbert/recipes"}
    assert [path for path in wheel["include"] if "recipes" in path] == [
        "/recipes/*.toml"
    ]
