"""Training on your own synonyms: names that find each other, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest

from biomed.sentences.training import SentenceRecipe, fit_encoder
from biomed.terms.names import percent
from biomed.terms.similarity import TermEmbedder
from biomed.terms.training import fit, name_pairs, read_names
from domainbert.tables import TableError
from domainbert.training.settings import TrainingSettings

WORDS = """heart kidney renal pulmonary pneumonia edema fever insulin pain chest dyspnea
mother""".split()
PAIRS = [(WORDS[i], WORDS[i + 1]) for i in range(0, 12, 2)]
QUICK = TrainingSettings(
    epochs=12.0,
    learning_rate=1e-2,
    batch_size=6,
    evaluations=1,
    patience=99,
    dropout=0.0,
)


ROWS = [(b, a, a) for a, b in PAIRS]


def margin(embedder):
    """Mean cosine of the pairs less that of all words."""
    cosines = embedder.similarity_matrix(WORDS)
    return (
        np.mean([cosines.loc[a, b] for a, b in PAIRS])
        - cosines.to_numpy().mean()
    )


@pytest.mark.parametrize("full", [False, True])
def test_names_of_one_concept_come_together(tiny_encoder, tmp_path, full):
    settings = QUICK.replaced(full=full, learning_rate=1e-3 if full else 1e-2)
    recipe = SentenceRecipe(
        training=settings,
        model={"encoder": str(tiny_encoder), "objective": "contrastive"},
    )
    pairs = pd.DataFrame(ROWS, columns=["first", "second", "key"])
    sets = {"names": pd.concat([pairs] * 6, ignore_index=True)}
    trained = fit_encoder(sets, pairs, recipe, model_class=TermEmbedder)
    assert (
        margin(trained)
        > margin(TermEmbedder.from_pretrained(tiny_encoder)) + 0.1
    )
    trained.save_pretrained(tmp_path / "model")
    again = TermEmbedder.from_pretrained(tmp_path / "model")
    assert again.embed(WORDS) == pytest.approx(trained.embed(WORDS), abs=1e-5)
    document = json.loads((tmp_path / "model" / "config.json").read_text())[
        "domainbert"
    ]
    assert document["task"] == "terms"
    assert again.manifest.training.stages[0].full == full


def test_it_needs_pairs_to_learn_from_and_to_choose_by():
    names = pd.DataFrame(
        {"name": ["pain", "ache", "fever"], "id": ["a", "a", "b"]}
    )
    with pytest.raises(ValueError, match="both are needed"):
        fit(names, SentenceRecipe())
    train, held = name_pairs(names)
    assert sorted([len(train), len(held)]) == [0, 2]


def test_your_own_names_train_a_model(tiny_encoder, tmp_path):
    rows = [
        f"{name} {n},C{n}" for n in range(40) for name in ("pain", "fever")
    ]
    file = tmp_path / "names.csv"
    file.write_text("\n".join(["name,id", *rows, "edema,C99"]))
    held = sum(percent(f"C{n}") < 10 for n in range(40))
    names = read_names(file)
    assert len(names) == 81
    training = QUICK.replaced(epochs=1.0)
    recipe = SentenceRecipe(
        training=training,
        model={"encoder": str(tiny_encoder), "objective": "contrastive"},
    )
    trained = TermEmbedder.fit(names, recipe)
    assert type(trained) is TermEmbedder
    assert trained.manifest.data.counts == {
        "training rows, names": 2 * (40 - held)
    }
    assert f"On {2 * held} validation examples" in trained.manifest.scores.note
    file.write_text("term,synonyms\npain,ache|soreness\nfever,\n")
    assert read_names(file).to_numpy().tolist() == [
        *(["pain", "pain"], ["ache", "pain"]),
        *(["soreness", "pain"], ["fever", "fever"]),
    ]
    file.write_text("name\npain\n")
    with pytest.raises(TableError, match="id"):
        read_names(file)
