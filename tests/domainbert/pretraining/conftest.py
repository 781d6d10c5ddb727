"""Made-up notes that have something to learn: one complaint each, told in a few ways."""

import numpy as np
import pandas as pd
import pytest

from domainbert.pretraining.settings import (
    CorpusSettings,
    ExampleSettings,
    PretrainingRecipe,
    TrainingPlan,
)

WHO = ("The patient", "She", "He", "The mother")
VERBS = ("denies", "had", "was treated for", "has a history of")
COMPLAINTS = (
    "chest pain",
    "heart failure",
    "pneumonia",
    "kidney disease",
    "edema",
    "fever",
)
WHEN = (
    "on admission",
    "at home",
    "in hospital",
    "for weeks",
    "without insulin",
)


def make_note(generator) -> str:
    """Lines of four to nine sentences about one complaint."""
    complaint = generator.choice(COMPLAINTS)
    pick = generator.choice
    return "\n".join(
        f"{pick(WHO)} {pick(VERBS)} {complaint} {pick(WHEN)}, {generator.integers(1000)} days."
        for _ in range(generator.integers(4, 10))
    )


def make_notes(count: int, *, seed: int = 0) -> pd.DataFrame:
    """A table of notes, two of each patient."""
    generator = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "patient_id": [f"p{n // 2}" for n in range(count)],
            "note_id": [f"n{n}" for n in range(count)],
            "text": [make_note(generator) for _ in range(count)],
        }
    )


@pytest.fixture(scope="session")
def notes():
    """A table of 60 notes of 30 patients."""
    return make_notes(60)


@pytest.fixture(scope="session")
def new_notes():
    """`make_notes`, for tests that need their own."""
    return make_notes


@pytest.fixture(scope="session")
def new_recipe(tiny_encoder):
    """Makes a recipe of the tiny encoder; tables of it, or settings of training, may be given."""

    def make(**changes):
        tables = {
            "encoder": str(tiny_encoder),
            "corpus": CorpusSettings(held_out=0.2),
            "examples": ExampleSettings(),
        }
        tables |= {
            name: changes.pop(name) for name in tables if name in changes
        }
        plan = {"length": 32, "steps": 12, "batch_tokens": 256, "warmup": 0.1}
        plan |= {
            "learning_rate": 3e-3,
            "evaluations": 3,
            "evaluation_tokens": 2000,
        }
        return PretrainingRecipe(
            **tables, training=TrainingPlan(**(plan | changes))
        )

    return make


@pytest.fixture
def notes_file(notes, tmp_path):
    """The notes in a file."""
    from domainbert.tables import write_table

    path = tmp_path / "notes.parquet"
    write_table(notes, path)
    return path
