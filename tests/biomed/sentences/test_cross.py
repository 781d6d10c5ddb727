"""Training cross-encoders: it learns, reads the windows of prediction, and can be repeated."""

import numpy as np
import pandas as pd
import pytest

from biomed.sentences.encoder import CrossEncoder
from biomed.sentences.objectives import PairsObjective
from biomed.sentences.training import SentenceRecipe, SentenceTable
from domainbert.errors import UserError
from domainbert.models.pairs import PairSettings
from domainbert.training.settings import TrainingSettings

QUICK = TrainingSettings(
    epochs=16.0,
    learning_rate=3e-3,
    batch_size=8,
    dropout=0.0,
    evaluations=1,
    patience=9,
    seed=1,
)
LONG = "patient with heart failure at home, " * 6


def made_up(count, *, seed=0, start="patient"):
    """A high score where the second text has "pain"."""
    generator = np.random.default_rng(seed)
    pairs = []
    for _ in range(count):
        first, second = (
            str(generator.choice(["pain", "fever"])) for _ in range(2)
        )
        pairs.append(
            (
                f"{start} {first}",
                f"the {second}",
                0.9 if second == "pain" else 0.1,
            )
        )
    return pd.DataFrame(pairs, columns=["first", "second", "label"])


def fit(train, encoder, **changes):
    model = SentenceTable(
        kind="cross-encoder", encoder=str(encoder), window=32
    )
    recipe = SentenceRecipe(model=model, training=QUICK.replaced(**changes))
    return CrossEncoder.fit(
        train, recipe, validation=made_up(40, seed=1, start="home")
    )


@pytest.mark.slow
def test_training_learns_and_the_model_comes_back_from_its_folder(
    tiny_encoder, tmp_path
):
    model = fit(made_up(320), tiny_encoder)
    same = model.predict("patient pain", "the pain")
    other = model.predict("patient pain", "the fever")
    assert (
        same.score > 0.5 > other.score
    )  # at least 0.59 and at most 0.38 with seeds 0 to 3
    assert model.manifest.data.counts["pairs for training"] == 320
    model.save_pretrained(tmp_path / "model")
    again = CrossEncoder.from_pretrained(tmp_path / "model")
    assert again.settings == PairSettings(window=32)
    assert again.predict("patient pain", "the pain").logit == pytest.approx(
        same.logit, abs=1e-6
    )


def test_training_reads_the_windows_of_prediction(new_network, tokenizer):
    network = new_network(labels=1)
    model = CrossEncoder(network, tokenizer, settings=PairSettings(window=24))
    pairs = pd.DataFrame(
        [("was it?", LONG, 1.0), ("pain", "at home", 0.25)],
        columns=["first", "second", "label"],
    )

    def batch(**settings):
        objective = PairsObjective(
            model, pairs, pairs, training=QUICK.replaced(**settings)
        )
        return objective, objective.collate([0, 1], epoch=0)

    objective, whole = batch()
    texts = zip(pairs["first"], pairs["second"], strict=True)
    p = np.array([result.score for result in model.predict_many(texts)])
    y = np.array([1.0, 0.25])
    expected = -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean()
    assert objective.loss(network, whole).item() == pytest.approx(
        expected, abs=1e-5
    )
    assert batch(max_windows=2)[1]["counts"].tolist() == [2, 1]


def test_bad_training_pairs_are_refused_before_training(tiny_encoder):
    bad = pd.DataFrame({"first": ["a"], "second": [" "], "label": [0.5]})
    with pytest.raises(
        UserError, match="the second text of pair number 0 is empty"
    ):
        fit(bad, tiny_encoder)


def test_the_same_seed_gives_the_same_model(tiny_encoder):
    first, second = (
        fit(made_up(60), tiny_encoder, epochs=1.0) for _ in range(2)
    )
    pair = "patient pain", "the fever"
    assert first.predict(*pair).logit == second.predict(*pair).logit
