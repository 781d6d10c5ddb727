import pytest

from domainbert.encoders.loading import DEFAULT_ENCODER
from domainbert.errors import UserError
from domainbert.pretraining.settings import (
    ExampleSettings,
    PretrainingRecipe,
    TrainingPlan,
)
from domainbert.training.recipes import read_recipe, recipe_file


def written(tmp_path, text):
    (tmp_path / "recipe.toml").write_text(text)
    return tmp_path / "recipe.toml"


@pytest.mark.parametrize(
    ("name", "length"),
    [
        ("clinicalbert", 128),
        ("biobert", 512),
        ("pubmed", 128),
        ("medical", 128),
    ],
)
def test_the_recipes_are_legal(name, length):
    recipe = read_recipe(PretrainingRecipe, recipe_file(name))
    assert recipe.card.title
    assert not read_recipe(
        PretrainingRecipe, name
    ).card.title  # which is that of our model
    assert recipe.encoder == DEFAULT_ENCODER
    assert recipe.training.length == length


def test_clinicalbert_erases_what_clinical_erases():
    import re

    from clinical.stays.stays import clean

    erase = read_recipe(PretrainingRecipe, "clinicalbert").corpus.erase
    lines = (
        "1. Aspirin 81 mg p.o. daily",
        "Seen by [**Name (NI) 12**] on [**2151-7-16**] at ___.",
        "-----------",
        "WBC-12.3 ==== see 3. above",
        "- metoprolol 25 mg",
    )
    for line in lines:
        assert re.sub(erase, " ", line).split() == clean(line).split()


def test_options_win(tmp_path):
    path = written(
        tmp_path, 'encoder = "a/b"\n[training]\nseed = 3\nsteps = 7\n'
    )
    assert read_recipe(PretrainingRecipe, path).encoder == "a/b"
    options = {"encoder": "c/d", "training.seed": None, "corpus.text": "note"}
    assert read_recipe(PretrainingRecipe, path, options).encoder == "c/d"
    assert read_recipe(PretrainingRecipe, path, options).corpus.text == "note"
    recipe = read_recipe(PretrainingRecipe, path, {"training.seed": 5})
    assert recipe.training == TrainingPlan(seed=5, steps=7)


def test_without_a_recipe_there_are_defaults():
    assert read_recipe(PretrainingRecipe) == PretrainingRecipe()
    assert PretrainingRecipe().encoder == DEFAULT_ENCODER


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "[training]\nstep = 3\n",
            r"\[training\] step: no such setting; expected one of attention, batch_tokens, ",
        ),
        (
            '[training]\nattention = "fast"\n',
            r"\[training\] attention: expected 'sdpa' or 'eager', got 'fast'$",
        ),
        (
            "[middle]\nsteps = 3\n",
            r"middle: no such setting; expected one of card, corpus, ",
        ),
        (
            "[training]\nsteps = 0\n",
            r"\[training\] steps: expected a whole number above 0, got 0$",
        ),
        (
            "[training]\nlength = 8\n",
            r"\[training\] length: expected a number of at least 16, got 8$",
        ),
        (
            "[training]\nlearning_rate = 0\n",
            r"\[training\] learning_rate: expected a number above 0, got 0$",
        ),
        (
            "[examples]\nmasked = 1.0\n",
            r"\[examples\] masked: expected a number below 1, got 1.0$",
        ),
        (
            "[training]\nseed = -1\n",
            r"\[training\] seed: expected a whole number from 0 to 4294967295, got -1$",
        ),
        (
            "[training]\ndropout = true\n",
            r"\[training\] dropout: expected a number from 0 to below 1, got True$",
        ),
    ],
)
def test_what_is_not_legal_is_named(tmp_path, text, wanted):
    with pytest.raises(UserError, match=wanted):
        read_recipe(PretrainingRecipe, written(tmp_path, text))


def test_settings_at_the_edge_of_their_range_are_taken():
    TrainingPlan(dropout=0, seed=2**32 - 1)
    ExampleSettings(masked=0.99)
    TrainingPlan(length=16, warmup=0, steps=1)
