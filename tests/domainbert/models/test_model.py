"""Model: its fingerprint and the settings it accepts."""

import inspect
import pkgutil

import pandas as pd
import pytest
import torch

import biomed
import clinical
from biomed.ner.tagger import EntityTagger
from domainbert import scoring
from domainbert.encoders.loading import EncoderError
from domainbert.errors import UserError
from domainbert.models.embedder import Embedder
from domainbert.models.model import Model
from domainbert.settings import Settings


class Checked(Settings):
    window: int | None = None


class Task(Model):
    task, train_command, settings_class = "task", "train", Checked

    def prepare(self):
        """Nothing to add."""

    @classmethod
    def network_class(cls):
        from domainbert.encoders.classifier import CLSClassifier

        return CLSClassifier

    def card(self, config, adapter=None):
        return config.task


def test_settings_are_saved_and_read(network, tokenizer, tmp_path):
    settings = Checked(window=32)
    model = Task(network, tokenizer, settings=settings, device="cpu")
    model.save_pretrained(tmp_path / "model")
    again = Task.from_pretrained(tmp_path / "model", device="cpu")
    assert again.settings == settings
    assert again.window_tokens() == 32
    assert again.fingerprint() == model.fingerprint()
    with pytest.raises(
        EncoderError,
        match="settings: windw: no such setting; expected one of win",
    ):
        Task.read_settings({"windw": 3})


def test_wrong_settings_of_a_folder_are_one_line():
    with pytest.raises(
        UserError, match="window: expected a whole number, got 'many'"
    ):
        Task.read_settings({"window": "many"})


def test_a_fingerprint_differs_where_weights_tokenizer_or_settings_do(
    new_network, new_tokenizer
):
    def fingerprint(network=None, tokenizer=None, **settings):
        settings = Checked(**settings)
        return Task(
            network or new_network(),
            tokenizer or new_tokenizer(),
            settings=settings,
        )

    other = new_network()
    with torch.no_grad():
        other.bert.encoder.layer[1].output.dense.bias[3] += 1e-6
    sharper = new_network()
    sharper.config.layer_norm_eps = 1e-3
    models = [
        fingerprint(),
        fingerprint(other),
        fingerprint(sharper),
        fingerprint(tokenizer=new_tokenizer(lower_case=False)),
        fingerprint(window=32),
    ]
    assert len({model.fingerprint() for model in models}) == 5
    assert fingerprint().fingerprint() == models[0].fingerprint()
    assert len(models[0].fingerprint()) == 64
    models[0].settings = Checked(window=32)
    assert models[0].fingerprint() == models[4].fingerprint()


def test_a_fingerprint_does_not_depend_on_earlier_calls_of_the_tokenizer(
    network, new_tokenizer
):
    tokenizer = new_tokenizer()
    before = Task(network, tokenizer).fingerprint()
    tokenizer(
        "chest pain", truncation=True, max_length=9, padding="max_length"
    )
    assert Task(network, tokenizer).fingerprint() == before


MODELS = [
    clinical.ReadmissionModel,
    EntityTagger,
    biomed.QuestionAnswerer,
    biomed.TermEmbedder,
    biomed.SentenceEncoder,
    biomed.CrossEncoder,
]


@pytest.mark.parametrize("kind", MODELS)
def test_every_model_is_trained_by_the_same_call(kind):
    parameters = inspect.signature(
        pkgutil.resolve_name(kind.trainer)
    ).parameters
    assert list(parameters)[1] == "recipe"
    assert {"model_class"} <= parameters.keys()
    assert {
        "checkpoints",
        "resume",
    } <= parameters.keys() or "resuming" in parameters


@pytest.mark.parametrize("kind", MODELS)
def test_every_model_names_its_scoring_tasks(kind):
    assert kind.tasks
    for name, target in kind.tasks.items():
        task = pkgutil.resolve_name(target)
        assert issubclass(task, scoring.Task)
        assert task.name == name
        first, *options = inspect.signature(task).parameters.values()
        assert first.default is inspect.Parameter.empty
        # A table is scored without any option.
        assert all(
            option.default is not inspect.Parameter.empty
            or option.kind is inspect.Parameter.VAR_KEYWORD
            for option in options
        )


def test_unknown_tasks_and_options_are_refused(network, tokenizer):
    model = clinical.ReadmissionModel(network, tokenizer)
    frame = pd.DataFrame({"text": ["fever"]})
    with pytest.raises(
        UserError, match="unknown task 'risk'; expected one of"
    ):
        model.score_frame(frame, task="risk")
    with pytest.raises(UserError, match="did you mean 'trajectory'"):
        model.score_frame(frame, task="trajectories")
    with pytest.raises(
        UserError,
        match="unexpected keyword argument 'note'; its options: notes",
    ):
        model.score_frame(frame, note="as-given")
    with pytest.raises(
        UserError, match="unknown notes 'all'; expected one of"
    ):
        model.score_frame(frame, notes="all")
    with pytest.raises(
        UserError, match="Task cannot score tables; use a class"
    ):
        Task(network, tokenizer).score_frame(frame)


def test_a_model_without_a_trainer_has_no_fit():
    with pytest.raises(
        UserError, match="Embedder cannot be trained; use a class for"
    ):
        Embedder.fit([])
