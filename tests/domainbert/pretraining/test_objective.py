import numpy as np
import pytest
import torch

from domainbert.pretraining.corpus import TRAIN, TextCorpus
from domainbert.pretraining.examples import IGNORED, Masker, Prepared
from domainbert.pretraining.fitting import MaskedWords, train
from domainbert.pretraining.model import load_start
from domainbert.pretraining.settings import TrainingPlan
from domainbert.tables import write_table
from domainbert.training.checkpoints import checkpoint_step, last_checkpoint


@pytest.fixture(scope="module")
def prepared(notes, new_recipe, tokenizer, tmp_path_factory):
    """Examples of the made-up notes."""
    folder = tmp_path_factory.mktemp("prepared")
    write_table(notes, folder / "notes.parquet")
    recipe = new_recipe()
    corpus = TextCorpus([folder / "notes.parquet"], settings=recipe.corpus)
    return Prepared(
        corpus, plan=recipe.training, tokenizer=tokenizer, work=folder
    )


class Run:
    """A training of the tiny network on the made-up notes."""

    def __init__(self, examples, start, folder, plan):
        self.examples, self.network, self.folder = (
            examples,
            start.network,
            folder,
        )
        self.tokenizer, self.plan = start.tokenizer, plan

    def train(self):
        objective = MaskedWords(
            self.examples, plan=self.plan, masker=Masker(self.tokenizer)
        )
        _, self.before, self.after = train(
            self.network, objective, folder=self.folder
        )


@pytest.fixture
def new_trainer(prepared, tiny_encoder, new_recipe, tmp_path):
    """Makes a `Run`."""

    def make(*, folder="run", **plan):
        plan = {
            "steps": 24,
            "learning_rate": 5e-3,
            "evaluations": 4,
            "evaluation_tokens": 1500,
        } | plan
        plan = new_recipe(**plan).training
        start = load_start(tiny_encoder, plan=plan)
        return Run(prepared.examples, start, tmp_path / folder, plan)

    return make


def weights(trainer):
    return torch.cat(
        [p.detach().flatten() for p in trainer.network.parameters()]
    )


def watch(trainer):
    """What every pass shows and wants from now on."""
    seen = []

    def note(_, __, inputs):
        if torch.is_grad_enabled():
            seen.append(
                (inputs["input_ids"].tolist(), inputs["labels"].tolist())
            )

    trainer.network.register_forward_pre_hook(note, with_kwargs=True)
    return seen


def test_held_out_loss_falls(new_trainer):
    trainer = new_trainer(steps=40, batch_tokens=1024, dropout=0.0)
    trainer.train()
    before, after = trainer.before, trainer.after
    assert after["mlm_loss"] < 0.8 * before["mlm_loss"]
    assert 0 <= after["nsp_accuracy"] <= 1
    assert after["perplexity"] == pytest.approx(np.exp(after["mlm_loss"]))


@pytest.mark.parametrize(
    ("stop", "options"),
    [
        (7, {}),
        (13, {"batch_tokens": 512, "device_tokens": 200}),
    ],
)
def test_a_killed_run_ends_where_an_uninterrupted_one_does(
    new_trainer, monkeypatch, stop, options
):
    whole = new_trainer(**options, folder="whole")
    passes = watch(whole)
    whole.train()
    each = len(passes) // 24

    first = new_trainer(**options, folder="parts")
    seen = iter(range(10**6))
    loss = MaskedWords.loss

    def stopping(*args):
        if next(seen) == stop * each:
            raise KeyboardInterrupt
        return loss(*args)

    with monkeypatch.context() as patch:
        patch.setattr(MaskedWords, "loss", stopping)
        with pytest.raises(KeyboardInterrupt):
            first.train()
    checkpoint = last_checkpoint(first.folder)
    saved = checkpoint_step(checkpoint)
    assert saved == stop // 6 * 6

    rest = new_trainer(**options, folder="parts")
    later = watch(rest)
    rest.train()
    assert later == passes[saved * each :]
    torch.testing.assert_close(
        weights(rest), weights(whole), atol=1e-5, rtol=0
    )
    assert rest.after == pytest.approx(whole.after, abs=1e-4)


def test_the_same_seed_gives_the_same_weights_and_another_does_not(
    new_trainer,
):
    trained = []
    for number, seed in enumerate([0, 0, 1]):
        trainer = new_trainer(folder=str(number), seed=seed, steps=4)
        trainer.train()
        trained.append(weights(trainer))
    assert torch.equal(trained[0], trained[1])
    assert (trained[0] - trained[2]).abs().max() > 1e-3


def test_an_epoch_hides_other_words_of_the_same_texts(new_trainer):
    trainer = new_trainer(steps=12, batch_tokens=4096)
    passes = watch(trainer)
    trainer.train()
    lengths = trainer.examples[TRAIN]["length"][:]
    epoch = -(-int(np.sum(lengths)) // 4096)
    assert len(passes) >= 2 * epoch

    def texts(part):
        """The rows as they were before words were hidden."""
        whole = []
        for shown, labels in part:
            for row, wanted in zip(shown, labels, strict=True):
                kept = [
                    w if w != IGNORED else s
                    for s, w in zip(row, wanted, strict=True)
                ]
                whole.append(
                    (tuple(kept), tuple(w != IGNORED for w in wanted))
                )
        return sorted(whole)

    first, second = texts(passes[:epoch]), texts(passes[epoch : 2 * epoch])
    assert [text for text, _ in first] == [text for text, _ in second]
    assert (
        np.mean([a == b for (_, a), (_, b) in zip(first, second, strict=True)])
        < 0.2
    )


def test_a_step_has_its_tokens_in_as_many_passes_as_it_takes(new_trainer):
    trainer = new_trainer(steps=6, batch_tokens=512, device_tokens=256)
    passes = watch(trainer)
    trainer.train()
    assert len(passes) == 12
    assert max(len(shown) * len(shown[0]) for shown, _ in passes) <= 256


def test_a_batch(prepared, tokenizer):
    data = prepared
    rows = data.examples[TRAIN][:30]
    batch = Masker(tokenizer).batch(rows, seed=(0,))
    for row, (length, tokens) in enumerate(
        zip(rows["length"], rows["tokens"], strict=True)
    ):
        wanted, shown = batch["labels"][row], batch["input_ids"][row]
        whole = torch.where(wanted == IGNORED, shown, wanted)
        assert whole[:length].tolist() == tokens.tolist()
        assert not whole[length:].any()
        assert batch["attention_mask"][row].tolist() == [1] * length + [0] * (
            len(shown) - length
        )
        second = [0] * rows["second"][row] + [1] * (
            length - rows["second"][row]
        )
        assert batch["token_type_ids"][row].tolist() == second + [0] * (
            len(shown) - length
        )
        assert batch["next_sentence_label"][row] == rows["label"][row]


def test_held_out_scores_are_of_the_same_words_each_time(
    prepared, new_trainer, tokenizer
):
    network = new_trainer().network.train()
    data, masker = prepared.examples, Masker(tokenizer)
    objective = MaskedWords(
        data, masker=masker, plan=TrainingPlan(evaluation_tokens=1500)
    )
    first = objective.evaluate(network)
    assert objective.evaluate(network) == first
    assert network.training
    assert first["tokens"] > 50
    assert first["pairs"] > 10
    few = MaskedWords(
        data, masker=masker, plan=TrainingPlan(evaluation_tokens=1)
    )
    assert few.evaluate(network)["pairs"] == 1


def test_nothing_is_printed(new_trainer, capfd):
    trainer = new_trainer(steps=4)
    capfd.readouterr()
    trainer.train()
    assert capfd.readouterr() == ("", "")
