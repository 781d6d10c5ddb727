import fcntl
import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch.nn.functional import binary_cross_entropy_with_logits

from clinical import ReadmissionModel, ReadmissionSettings
from domainbert.cli.training import training_run
from domainbert.errors import UserError
from domainbert.models.storage import read_task_config
from domainbert.text.runner import pad
from domainbert.training import trainer as trainer_module
from domainbert.training.checkpoints import (
    FACTS,
    STATE,
    checkpoint_step,
    last_checkpoint,
    resume_point,
)
from domainbert.training.objective import (
    FreshBatches,
    LengthBatches,
    Objective,
)
from domainbert.training.settings import TrainingSettings
from domainbert.training.train import train

SIGN = 7  # the token that makes an example positive in the toy problem


class Toy(Objective):
    """Windows of random tokens, every other one with the sign.

    Args:
        examples: how many.
        stop: raise at this step, as an interruption would.
        score: what `evaluate` gives; by default the negative loss and the accuracy.
        facts: in place of the usual ones.
    """

    metric = "accuracy"

    def __init__(
        self, examples=24, *, stop=None, score=None, seed=0, facts=None
    ):
        rng = np.random.default_rng(1)
        self.targets = np.arange(examples) % 2
        self.windows = [
            rng.integers(10, 60, rng.integers(6, 12)) for _ in self.targets
        ]
        for target, window in zip(self.targets, self.windows, strict=True):
            window[0], window[rng.integers(1, len(window))] = (
                2,
                SIGN if target else SIGN + 1,
            )
        self.stop, self.seed, self.known, self.given = stop, seed, facts, score
        self.steps, self.epochs = [], []

    @property
    def batches(self):
        sizes = np.array(
            [(1, len(window)) for window in self.windows]
        ).reshape(-1, 2)
        return LengthBatches(
            sizes, batch_size=4, batch_tokens=4096, seed=self.seed
        )

    def collate(self, batch, *, epoch):
        self.epochs.append(epoch)
        ids, mask = pad([self.windows[n] for n in batch], pad_token_id=0)
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "targets": torch.tensor(self.targets[batch], dtype=torch.float32),
        }

    def loss(self, network, batch):
        if self.stop is not None and len(self.steps) == self.stop:
            raise KeyboardInterrupt
        self.steps.append(batch["input_ids"].tolist())
        ids, mask = batch["input_ids"], batch["attention_mask"]
        logits = network(input_ids=ids, attention_mask=mask).logits.squeeze(-1)
        return binary_cross_entropy_with_logits(logits, batch["targets"])

    def evaluate(self, network):
        assert not network.training
        if self.given:
            return {"accuracy": self.given(network)}
        batch = self.collate(range(len(self.windows)), epoch=0)
        ids, mask = batch["input_ids"], batch["attention_mask"]
        with torch.no_grad():
            logits = network(
                input_ids=ids, attention_mask=mask
            ).logits.squeeze(-1)
        loss = binary_cross_entropy_with_logits(logits, batch["targets"])
        return {
            "accuracy": float(
                ((logits > 0) == batch["targets"]).float().mean()
            ),
            "loss": +loss,
        }

    def facts(self):
        return self.known or {
            "data": "abc",
            "split": "def",
            "objective": {"name": "toy"},
        }


QUICK = {"epochs": 4, "batch_size": 4, "patience": 99, "learning_rate": 1e-2}


def runner(tiny_encoder, home):
    """Objectives and settings -> the finished model, with checkpoints in a folder of `home`."""

    def start(
        *objectives,
        folder="run",
        resume=False,
        encoder=tiny_encoder,
        window=32,
        **settings,
    ):
        settings = TrainingSettings(**(QUICK | settings))
        model = ReadmissionModel.untrained(
            encoder,
            training=settings,
            settings=ReadmissionSettings(window=window),
        )
        stages = [(objective, settings) for objective in objectives]
        checkpoints = folder and home / folder
        return train(
            model,
            *stages,
            checkpoints=checkpoints,
            resume=resume,
        )

    return start


@pytest.fixture
def run(tiny_encoder, tmp_path):
    return runner(tiny_encoder, tmp_path)


@pytest.fixture(scope="module")
def whole_runs(tiny_encoder, tmp_path_factory):
    """The objective and the model of a run that nothing stopped, by `full`."""
    run = runner(tiny_encoder, tmp_path_factory.mktemp("whole"))
    objectives = {False: Toy(), True: Toy()}
    return {
        full: (objective, run(objective, full=full, folder=f"full-{full}"))
        for full, objective in objectives.items()
    }


@pytest.fixture(scope="module")
def stopped(tiny_encoder, tmp_path_factory):
    """The folder of a run of full weights that was stopped after 14 steps."""
    home = tmp_path_factory.mktemp("stopped")
    with pytest.raises(KeyboardInterrupt):
        runner(tiny_encoder, home)(Toy(stop=14), full=True, folder="parts")
    return home / "parts"


def weights(model):
    return torch.cat(
        [p.detach().flatten() for p in model.network.parameters()]
    )


def steps_in(folder):
    return sorted(
        checkpoint_step(path) for path in folder.glob("checkpoint-*")
    )


# --- batches


@hypothesis.given(
    sizes=st.lists(
        st.tuples(st.integers(1, 6), st.integers(1, 60)), min_size=1
    ),
    batch_size=st.integers(1, 8),
    batch_tokens=st.integers(1, 1500),
    seed=st.integers(0, 99),
)
def test_length_batches(sizes, batch_size, batch_tokens, seed):
    sizes = np.array(sizes)
    options = {
        "batch_size": batch_size,
        "batch_tokens": batch_tokens,
        "seed": seed,
    }
    plan = LengthBatches(sizes, **options)
    first, second = plan.epoch(0), plan.epoch(1)
    assert len(plan) == len(first) == len(second)
    assert sorted(index for batch in first for index in batch) == list(
        range(len(sizes))
    )
    for batch in first:
        windows, longest = sizes[batch, 0].sum(), sizes[batch, 1].max()
        assert len(batch) <= batch_size
        assert windows * longest <= batch_tokens or len(batch) == 1
    assert sorted(first) == sorted(second)
    assert LengthBatches(sizes, **options).epoch(1) == second


def test_the_order_is_another_in_each_epoch_and_with_each_seed():
    rng = np.random.default_rng(0)
    sizes = np.stack(
        [rng.integers(1, 6, 200), rng.integers(5, 513, 200)], axis=1
    )
    plan, other = (
        LengthBatches(sizes, batch_size=8, batch_tokens=4096, seed=s)
        for s in (0, 1)
    )
    assert plan.epoch(0) != plan.epoch(1)
    assert sorted(plan.epoch(0)) != sorted(other.epoch(0))
    padded = sum(
        sizes[batch, 0].sum() * sizes[batch, 1].max()
        for batch in plan.epoch(0)
    )
    assert padded < 1.15 * (sizes[:, 0] * sizes[:, 1]).sum()


def test_texts_of_similar_length_are_in_one_batch():
    generator = np.random.default_rng(0)
    rows = [("word " * int(n),) * 2 for n in generator.integers(1, 50, 700)]
    plan = LengthBatches.of_texts(rows, batch_size=8, seed=3)
    first = plan.epoch(0)
    assert len(first) == len(plan) == 88
    assert sorted(row for batch in first for row in batch) == list(range(700))
    spread = np.mean(
        [np.ptp([len(rows[row][0]) for row in batch]) for batch in first]
    )
    assert spread < 0.2 * np.ptp([len(row[0]) for row in rows])
    assert plan.epoch(0) == first
    assert plan.epoch(1) != first


class Maker:
    """Examples whose number and lengths differ in every epoch."""

    def __init__(self, counts):
        self.counts = counts

    def make(self, epoch):
        rng = np.random.default_rng(epoch)
        count = self.counts[epoch % len(self.counts)]
        return [
            SimpleNamespace(ids=np.full(rng.integers(1, 40), n))
            for n in range(count)
        ]


@hypothesis.given(
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=3),
    tokens=st.integers(1, 500),
)
def test_fresh_batches(counts, tokens):
    plan = FreshBatches(Maker(counts), batch_tokens=tokens, seed=0)
    for epoch in range(3):
        batches = plan.epoch(epoch)
        assert len(batches) == len(plan) >= 1
        assert all(len(batch) for batch in batches)
        seen = {int(example.ids[0]) for batch in batches for example in batch}
        assert seen == set(range(counts[epoch % len(counts)]))
        again = FreshBatches(Maker(counts), batch_tokens=tokens, seed=0).epoch(
            epoch
        )
        assert [[e.ids.tolist() for e in b] for b in again] == [
            [e.ids.tolist() for e in b] for b in batches
        ]


def test_nothing_to_train_on_is_said(run):
    assert len(FreshBatches(Maker([0]), batch_tokens=100, seed=0)) == 0
    with pytest.raises(
        UserError,
        match="nothing to train on: the training side has no examples",
    ):
        run(Toy(0))


# --- training


@pytest.mark.parametrize("full", [False, True])
def test_training_learns_what_can_be_learnt(run, full):
    objective = Toy(40)
    model = run(
        objective,
        full=full,
        epochs=15,
        learning_rate=3e-3,
        dropout=0.0,
        folder=None,
    )
    scores = objective.evaluate(model.network)
    assert scores["accuracy"] > 0.95
    assert model.manifest.training.validation["accuracy"] == pytest.approx(
        scores["accuracy"], abs=0.03
    )
    assert model.manifest.training.stages[0].epochs == 15
    assert model.manifest.training.facts == [objective.facts()]
    assert (model.adapter is None) == full


@pytest.mark.parametrize(
    ("full", "stop", "by_time", "resumes_at"),
    [
        (False, 4, False, 3),
        (True, 4, False, 3),
        (False, 13, False, 12),
        (True, 20, False, 18),
        (False, 5, True, 5),
        (True, 14, True, 14),
    ],
)
def test_a_resumed_run_ends_where_an_uninterrupted_one_does(
    run, whole_runs, tmp_path, monkeypatch, full, stop, by_time, resumes_at
):
    whole, wanted = whole_runs[full]
    assert len(whole.steps) == 4 * 6
    if by_time:
        monkeypatch.setattr(trainer_module, "SAVE_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        run(Toy(stop=stop), full=full, folder="parts")
    assert steps_in(tmp_path / "parts")[-1] == resumes_at
    rest = Toy()
    found = run(rest, full=full, folder="parts", resume=True)
    assert rest.steps == whole.steps[resumes_at:]
    torch.testing.assert_close(
        weights(found), weights(wanted), atol=1e-5, rtol=0
    )
    assert found.manifest == wanted.manifest


@pytest.mark.parametrize(
    "file", ["model.safetensors", "optimizer.pt", "rng_state.pth", STATE]
)
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_checkpoint_cut_short_falls_back_to_the_one_before(
    run, whole_runs, stopped, tmp_path, caplog, file, damage
):
    if (file, damage) == ("rng_state.pth", "gone"):
        pytest.skip("only the state of dropout: a warning of the Trainer's")
    whole, wanted = whole_runs[True]
    shutil.copytree(stopped, tmp_path / "parts")
    assert steps_in(tmp_path / "parts")[-1] == 12
    before = steps_in(tmp_path / "parts")[-2]
    path = tmp_path / "parts" / "checkpoint-12" / file
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    if damage == "gone":
        path.unlink()
    rest = Toy()
    found = run(rest, full=True, folder="parts", resume=True)
    assert "checkpoint-12 is incomplete and is skipped" in caplog.text
    assert rest.steps == whole.steps[before:]
    torch.testing.assert_close(
        weights(found), weights(wanted), atol=1e-5, rtol=0
    )


def test_two_stages_resume_without_repeating_the_first(run, tmp_path):
    wanted = run(Toy(), Toy(seed=1), folder="whole", epochs=2)
    with pytest.raises(KeyboardInterrupt):
        run(Toy(), Toy(seed=1, stop=8), folder="parts", epochs=2)
    first, second = Toy(), Toy(seed=1)
    found = run(first, second, folder="parts", epochs=2, resume=True)
    assert first.steps == []
    assert len(second.steps) == 12 - 6
    torch.testing.assert_close(
        weights(found), weights(wanted), atol=1e-5, rtol=0
    )
    assert (
        len(found.manifest.training.stages)
        == len(found.manifest.training.facts)
        == 2
    )


def test_only_the_same_run_is_resumed(run, tmp_path, tiny_encoder):
    with pytest.raises(KeyboardInterrupt):
        run(Toy(stop=5))
    facts = Toy().facts()
    other = shutil.copytree(tiny_encoder, tmp_path / "other")
    ReadmissionModel.untrained(
        tiny_encoder, training=TrainingSettings(seed=5)
    ).network.bert.save_pretrained(other)
    from safetensors.torch import load_file, save_file

    tensors = load_file(other / "model.safetensors")
    save_file(
        {name: tensor + 1 for name, tensor in tensors.items()},
        other / "model.safetensors",
    )
    changes = {
        "data": {"facts": facts | {"data": "abd"}},
        "split": {"facts": facts | {"split": "deg"}},
        "objective.name": {"facts": facts | {"objective": {"name": "game"}}},
        "encoder": {"encoder": other},
        "settings.window": {"window": 24},
        "training.epochs": {"epochs": 5},
        "training.seed, new": {"seed": 1, "facts": facts | {"new": 1}},
    }
    for name, change in changes.items():
        objective = Toy(facts=change.pop("facts", None))
        with pytest.raises(
            UserError, match=f"were made with another {name}; repeat the first"
        ):
            run(objective, resume=True, **change)
    with pytest.raises(
        UserError, match="has checkpoints: continue with `resume=True`, or"
    ):
        run(Toy())
    run(Toy(), resume=True)


def test_two_runs_in_one_folder_are_refused(tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom domainbert.files import locked\n"
        "with locked(Path(sys.argv[1])):\n    print('held', flush=True)\n    sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
    ) as other:
        assert other.stdout.readline() == "held\n"
        with (
            pytest.raises(
                UserError, match="is in use by another process; wait for it"
            ),
            resume_point(tmp_path, {}, resume=False),
        ):
            pass
        other.kill()
    with resume_point(tmp_path, {"a": 1}, resume=False) as found:
        assert found is None
        with (
            (tmp_path / ".lock").open() as file,
            pytest.raises(BlockingIOError),
        ):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert json.loads((tmp_path / FACTS).read_text()) == {"a": 1}


def test_a_folder_without_checkpoints_starts_from_the_beginning(
    tmp_path, caplog
):
    assert last_checkpoint(tmp_path / "none") is None
    with resume_point(tmp_path, {}, resume=True) as found:
        assert found is None
    assert "training starts from the beginning" in caplog.text


@pytest.mark.parametrize("full", [False, True])
def test_the_best_weights_are_kept(run, full):
    scores, seen = iter([0.5, 0.9, 0.6, 0.7]), []

    def evaluate(network):
        plain = getattr(network, "get_base_model", lambda: network)()
        seen.append(
            plain.classifier.weight.detach().clone()
            if full
            else plain.classifier.modules_to_save.default.weight.detach().clone()
        )
        return next(scores)

    model = run(Toy(score=evaluate), full=full, epochs=2)
    assert len(seen) == 4
    kept = model.network.classifier.weight
    gaps = [float((kept - weight).abs().max()) for weight in seen]
    assert (
        gaps[1] < 1e-3 < min(gaps[0], gaps[2], gaps[3])
    )  # adapters are kept in half precision
    assert model.manifest.training.validation["accuracy"] == 0.9


def test_training_stops_when_it_no_longer_gets_better_and_stays_so(run):
    """A resumed run has no new patience either."""
    scores = [0.5, 0.6, 0.6, 0.59, 0.99]
    given = iter(scores)
    objective = Toy(score=lambda _: next(given))
    stopped = run(objective, patience=2)
    assert (
        list(given) == scores[4:]
    )  # and a later call would have nothing to give
    assert len(objective.steps) == 4 * 3
    again = Toy(score=lambda _: next(given))
    model = run(again, patience=2, resume=True)
    assert list(given) == []
    assert len(again.steps) <= 1  # Trainer looks whether to stop after a step
    torch.testing.assert_close(
        weights(model), weights(stopped), atol=0, rtol=0
    )


@pytest.mark.parametrize("epochs", [0.5, 1.5, 2])
def test_a_run_that_ended_stays_as_it_was(run, caplog, epochs):
    """Also if it ended within an epoch, where Trainer makes one more step."""
    scores = itertools.count(0.1, 0.1)
    ended = run(Toy(score=lambda _: next(scores)), epochs=epochs)
    caplog.clear()
    caplog.set_level("INFO")
    again = Toy(score=lambda _: next(scores))
    model = run(again, epochs=epochs, resume=True)
    assert len(again.steps) <= 1
    torch.testing.assert_close(weights(model), weights(ended), atol=0, rtol=0)
    validation = model.manifest.training.validation
    assert validation == ended.manifest.training.validation
    assert "left" not in caplog.text


def test_checkpoints_may_be_moved(run, tmp_path):
    """The best of them is found where they are now."""
    given = itertools.chain([0.5, 0.9], itertools.repeat(0.6))
    first = run(Toy(score=lambda _: next(given)))
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    again = run(Toy(), folder="elsewhere", resume=True)
    torch.testing.assert_close(weights(again), weights(first), atol=0, rtol=0)


def test_the_same_seed_gives_the_same_weights_and_another_does_not(run):
    trained = [
        weights(run(Toy(), folder=None, seed=seed, epochs=1))
        for seed in (0, 0, 1)
    ]
    assert torch.equal(trained[0], trained[1])
    assert (trained[0] - trained[2]).abs().max() > 1e-4


def test_an_epoch_reads_every_example_once_and_in_an_order_of_its_own(run):
    objective = Toy(score=lambda _: 0.5)
    run(objective, epochs=3, folder=None)
    epochs = [
        objective.steps[0:6],
        objective.steps[6:12],
        objective.steps[12:18],
    ]
    rows = [sorted(row for step in epoch for row in step) for epoch in epochs]
    assert rows[0] == rows[1] == rows[2]
    assert len(rows[0]) == 24
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    assert objective.epochs == [0] * 6 + [1] * 6 + [2] * 6


# --- silence, and what is said


def test_nothing_is_printed(run, capfd):
    capfd.readouterr()
    run(Toy(), epochs=1)
    assert capfd.readouterr() == ("", "")


def test_without_a_terminal_scores_go_to_the_log(run, caplog):
    with caplog.at_level("INFO", logger="domainbert.training"):
        run(Toy(score=lambda _: 0.625), epochs=1)
    assert "training run: 6 steps" in caplog.text
    assert (
        "6 steps are few, so the model may have learned little" in caplog.text
    )
    assert "step 3 of 6: accuracy 0.625" in caplog.text


def test_the_log_says_how_long_it_takes(run, caplog, monkeypatch):
    monkeypatch.setattr(trainer_module, "LOG_SECONDS", 0)
    with caplog.at_level("INFO", logger="domainbert.training"):
        run(Toy(score=lambda _: 0.625), epochs=1)
    assert re.search(
        r"step 4 of 6: loss [0-9.]+, about 0 min left", caplog.text
    )


def test_the_first_step_says_how_long_it_will_take(run, caplog):
    with caplog.at_level("INFO", logger="domainbert.training"):
        run(Toy(score=lambda _: 0.625), epochs=1)
    assert [
        message for message in caplog.messages if "min left" in message
    ] == ["step 1 of 6: about 0 min left"]


def test_the_bar_goes_away_when_training_is_interrupted(run, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", terminal)
    with pytest.raises(KeyboardInterrupt):
        run(Toy(stop=0))
    hide, show = "\x1b[?25l", "\x1b[?25h"
    assert terminal.getvalue().rindex(show) > terminal.getvalue().rindex(hide)
    assert "training" in terminal.getvalue()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_both_stages_multiply_in_the_precision_of_the_recipe(run, precision):
    seen = []

    class Watched(Toy):
        def loss(self, network, batch):
            layer = network.get_base_model().bert.encoder.layer[0].output.dense
            hook = layer.register_forward_hook(
                lambda *parts: seen.append(parts[-1].dtype)
            )
            value = super().loss(network, batch)
            hook.remove()
            weights = {p.dtype for p in network.parameters()}
            assert weights == {torch.float32}
            return value

    run(Watched(), Watched(), epochs=1, folder=None, precision=precision)
    assert len(seen) == 12
    assert set(seen) == {getattr(torch, precision)}


# --- around a run


def begin(out, **options):
    with training_run(out, **options):
        pass


def test_a_place_that_cannot_be_written_is_refused_before_training(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        UserError, match=r"cannot be written .*; choose another --out"
    ):
        begin(tmp_path / "file" / "model")
    if Path("/proc").is_dir():
        with pytest.raises(UserError, match=r"^/proc/model cannot be written"):
            begin(Path("/proc/model"))
    begin(tmp_path / "new" / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    with pytest.raises(FileExistsError, match="is not a model folder"):
        begin(tmp_path / "file")
    with pytest.raises(
        UserError,
        match=r"no checkpoints in .*model-checkpoints; run without it",
    ):
        begin(tmp_path / "model", resume=True)


def test_default_checkpoints_stay_after_a_failure_and_go_after_success(
    run, tmp_path
):
    out = tmp_path / "model"
    folder = tmp_path / "model-checkpoints"
    with pytest.raises(KeyboardInterrupt), training_run(out) as given:
        run(Toy(stop=5), folder=given.checkpoints)
    assert given.checkpoints == folder
    assert steps_in(folder) == [3]
    with pytest.raises(
        UserError, match=r"has checkpoints: continue with --resume, or delete"
    ):
        begin(out)
    assert steps_in(folder) == [3]
    with training_run(out, resume=True) as given:
        given.save(run(Toy(), folder=given.checkpoints, resume=True))
    assert not folder.exists()
    assert (
        ReadmissionModel.from_pretrained(out)
        .manifest.training.stages[0]
        .epochs
        == 4
    )
    with training_run(out, tmp_path / "named") as given:
        given.checkpoints.mkdir()
    assert given.checkpoints == tmp_path / "named"
    assert given.checkpoints.is_dir()


def content(folder):
    files = filter(Path.is_file, folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.slow
def test_a_death_at_any_moment_leaves_a_whole_model_and_whole_checkpoints(
    model, tmp_path, deaths
):
    """A model is read and replaced, as in `clinical recalibrate` with one name for both."""
    start = tmp_path / "start"
    model.save_pretrained(start / "m")
    for step in (3, 6):
        folder = start / "m-checkpoints" / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        (folder / STATE).write_text(f"{step}")

    settings = ReadmissionSettings(c=4.0)
    changed = ReadmissionModel(
        model.network, model.tokenizer, settings=settings
    )

    def run(folder):
        out = folder / "m"
        is_resumed = (folder / "m-checkpoints").is_dir()
        with training_run(out, resume=is_resumed) as given:
            assert read_task_config(out), "there is no model to read"
            given.save(changed)

    whole = shutil.copytree(start, tmp_path / "whole")
    run(whole)
    killed = shutil.copytree(start, tmp_path / "killed")
    checkpoints = content(start / "m-checkpoints")
    for _ in deaths(lambda: run(killed)):
        assert content(killed / "m-checkpoints") in (checkpoints, {})
        run(killed)
        assert content(killed) == content(whole)
        shutil.rmtree(killed)
        shutil.copytree(start, killed)


def test_default_checkpoints_of_the_working_folder_are_beside_it(
    tmp_path, monkeypatch
):
    (tmp_path / "new").mkdir()
    monkeypatch.chdir(tmp_path / "new")
    with training_run(".") as given:
        assert given.checkpoints == tmp_path / "new-checkpoints"
    with training_run("model") as given:
        assert given.checkpoints == Path("model-checkpoints")


def test_a_stopped_command_says_how_to_resume(run, tmp_path, capsys):
    out = tmp_path / "model"
    with pytest.raises(KeyboardInterrupt), training_run(out):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == ""  # nothing is left to resume
    with pytest.raises(KeyboardInterrupt), training_run(out) as given:
        run(Toy(stop=5), folder=given.checkpoints)
    shown = " ".join(capsys.readouterr().err.split())
    hint = (
        "to resume, repeat the command with --resume; the checkpoints are in"
    )
    assert f"{hint} {out}-checkpoints" in shown


def test_a_command_shows_scores_on_stderr(run, tmp_path, capsys):
    with training_run(tmp_path / "model"):
        run(Toy(score=lambda _: 0.625), epochs=1)
    assert "step 3 of 6: accuracy 0.625" in capsys.readouterr().err
    run(Toy(), epochs=1, folder=None)
    assert capsys.readouterr().err == ""


def test_a_full_disk_is_one_line(tiny_encoder, tmp_path, monkeypatch):
    from domainbert.models.model import Model

    model = ReadmissionModel.untrained(
        tiny_encoder, training=TrainingSettings(full=True)
    )

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Model, "save_pretrained", full)
    with training_run(tmp_path / "model") as run:
        run.checkpoints.mkdir()
        with pytest.raises(UserError) as caught:
            run.save(model)
    assert str(caught.value) == (
        f"{tmp_path}/model could not be written (No space left on device); make room and repeat "
        f"the command with --resume: the trained weights are in {tmp_path}/model-checkpoints"
    )
