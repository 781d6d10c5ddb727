import io
import itertools
import math
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import torch
from accelerate.data_loader import BatchSamplerShard, SkipBatchSampler
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from torch.nn.functional import binary_cross_entropy_with_logits
from transformers import TrainerCallback

from domainbert.inference import pad
from domainbert.lora import LoRA, add_lora
from domainbert.training.old.batches import TokenBudgetBatches, WindowGroups
from domainbert.training.old.checkpoints import (
    STATE,
    checkpoint_step,
    last_checkpoint,
    resume_point,
)
from domainbert.training.old.trainer import GroupTrainer, training_arguments
from domainbert.training.settings import TrainingSettings

SIGN = 7  # the token that makes a window positive in the toy problem


# --- settings


@pytest.mark.parametrize(
    ("name", "legal", "wrong"),
    [
        ("epochs", "a number above 0", [0, -1, math.nan, math.inf, "3", None]),
        ("learning_rate", "a number above 0", [0.0, -1e-4, math.nan, "1e-4"]),
        ("batch_size", "a whole number above 0", [0, -2, 2.5, "16"]),
        ("batch_tokens", "a whole number above 0", [0, 4096.0]),
        ("max_windows", "a whole number above 0", [0, None]),
        ("evaluations", "a whole number above 0", [0, 0.5]),
        ("patience", "a whole number above 0", [0, -1]),
        ("rank", "a whole number above 0", [0, 1.5]),
        ("warmup", r"a share in \[0, 1\)", [-0.1, 1.0, 100, math.nan]),
        ("weight_decay", r"a share in \[0, 1\)", [-0.01, 1.0]),
        ("dropout", r"a share in \[0, 1\)", [-0.1, 1.0]),
        ("full", "true or false", [1, "yes", None]),
        ("seed", "a whole number from 0 to", [-1, 0.5, 2**32]),
    ],
)
def test_settings_out_of_range_are_refused(name, legal, wrong):
    for value in wrong:
        with pytest.raises(ValueError, match=f"^{name} must be {legal}.*, got {value!r}$"):
            TrainingSettings(**{name: value})


def test_settings_at_the_edge_of_their_range_are_taken():
    TrainingSettings(epochs=0.1, warmup=0, dropout=0.0, weight_decay=0, seed=2**32 - 1, rank=1)
    TrainingSettings(epochs=2, batch_size=np.int64(4), learning_rate=np.float64(1e-4))


def test_a_setting_becomes_an_argument_of_the_trainer(tmp_path):
    settings = TrainingSettings(epochs=4, warmup=0.1, weight_decay=0.02, seed=3, evaluations=3)
    arguments = training_arguments(settings, folder=tmp_path, steps=100, metric="f1")
    assert (arguments.num_train_epochs, arguments.warmup_steps) == (4, 40)
    assert arguments.eval_steps == arguments.save_steps == 33
    assert (arguments.weight_decay, arguments.seed) == (0.02, 3)
    assert (arguments.metric_for_best_model, arguments.greater_is_better) == ("f1", True)
    few = training_arguments(settings, folder=tmp_path, steps=2)
    assert few.eval_steps == few.logging_steps == 1


# --- groups


def test_groups_need_a_window_each():
    window = np.array([2, 9, 3])
    with pytest.raises(ValueError, match=r"each group needs a window; 2 of 3 groups have none$"):
        WindowGroups([[], [window], []], np.zeros(3))
    with pytest.raises(ValueError, match=r"each group needs a window; 0 of 0 groups have none$"):
        WindowGroups([], np.zeros(0))


def test_groups_need_as_many_targets():
    with pytest.raises(ValueError, match=r"^1 groups but 2 targets$"):
        WindowGroups([[np.array([2, 3])]], np.zeros(2))


def test_a_group_comes_with_its_number_and_target():
    windows = [np.array([2, 9, 3]), np.array([2, 3])]
    groups = WindowGroups([windows[:1], windows], np.array([0, 1]))
    assert len(groups) == 2
    assert groups[1] == (1, windows, 1.0)


# --- batches

sizes_of_groups = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 60)), min_size=1)


@hypothesis.given(
    sizes=sizes_of_groups,
    batch_size=st.integers(1, 8),
    batch_tokens=st.integers(1, 1500),
    seed=st.integers(0, 99),
    multiple_of=st.integers(1, 4),
)
def test_batches(sizes, batch_size, batch_tokens, seed, multiple_of):
    sizes = np.array(sizes)
    options = {"batch_size": batch_size, "batch_tokens": batch_tokens, "seed": seed}
    once = list(TokenBudgetBatches(sizes, **options))
    assert sorted(index for batch in once for index in batch) == list(range(len(sizes)))
    for batch in once:
        windows, longest = sizes[batch, 0].sum(), sizes[batch, 1].max()
        assert len(batch) <= batch_size
        assert windows * longest <= batch_tokens or len(batch) == 1
    assert list(TokenBudgetBatches(sizes, **options)) == once

    filled = TokenBudgetBatches(sizes, **options, multiple_of=multiple_of)
    assert len(filled) == len(list(filled)) == math.ceil(len(once) / multiple_of) * multiple_of
    assert {tuple(batch) for batch in filled} == {tuple(batch) for batch in once}


@pytest.fixture
def sizes():
    """Of 200 groups."""
    rng = np.random.default_rng(0)
    return np.stack([rng.integers(1, 6, 200), rng.integers(5, 513, 200)], axis=1)


def test_the_order_is_another_in_each_epoch_and_with_each_seed(sizes):
    def batches(*, epoch=0, seed=0):
        made = TokenBudgetBatches(
            sizes, batch_size=8, batch_tokens=4096, seed=seed, epoch=lambda: epoch
        )
        return [tuple(batch) for batch in made]

    first, second = batches(), batches(epoch=1)
    assert first != second
    assert sorted(first) == sorted(second)
    assert first == batches(epoch=0)
    assert sorted(batches(seed=1)) != sorted(first)


def test_the_epoch_is_asked_at_its_start(sizes):
    epochs = iter([0, 1, 0])
    batches = TokenBudgetBatches(
        sizes, batch_size=8, batch_tokens=4096, seed=0, epoch=lambda: next(epochs)
    )
    first, second, again = list(batches), list(batches), list(batches)
    assert first == again != second


def test_groups_of_like_length_travel_together(sizes):
    batches = TokenBudgetBatches(sizes, batch_size=8, batch_tokens=4096, seed=0)
    padded = sum(sizes[batch, 0].sum() * sizes[batch, 1].max() for batch in batches)
    assert padded < 1.15 * (sizes[:, 0] * sizes[:, 1]).sum()


@pytest.mark.parametrize("epoch", [0, 3])
def test_processes_share_an_epoch_and_resume_in_the_middle_of_it(sizes, epoch):
    batches = TokenBudgetBatches(
        sizes, batch_size=8, batch_tokens=4096, seed=0, epoch=lambda: epoch, multiple_of=2
    )
    shards = [
        BatchSamplerShard(batches, num_processes=2, process_index=process, even_batches=False)
        for process in range(2)
    ]
    shares = [list(shard) for shard in shards]
    assert len(shares[0]) == len(shares[1]) == len(batches) // 2
    together = [batch for pair in zip(*shares, strict=True) for batch in pair]
    assert together == list(batches)
    for shard, share in zip(shards, shares, strict=True):
        assert list(SkipBatchSampler(shard, skip_batches=5)) == share[5:]


# --- the trainer


def toy_groups(*, groups=24, windows=(1, 4)):
    """Groups of random windows, every other one with the sign in each of its windows."""
    rng = np.random.default_rng(1)
    targets = np.arange(groups) % 2
    made = []
    for target in targets:
        group = [rng.integers(10, 60, rng.integers(6, 12)) for _ in range(rng.integers(*windows))]
        for window in group:
            window[0], window[rng.integers(1, len(window))] = 2, SIGN if target else SIGN + 1
        made.append(group)
    return WindowGroups(made, targets)


def toy_loss(logits, group, targets):
    return binary_cross_entropy_with_logits(logits, targets[group])


class Stop(TrainerCallback):
    """Ends training when the checkpoint of a step is written, as an interruption would."""

    def __init__(self, step):
        self.step = step

    def on_save(self, args, state, control, **_):
        control.should_training_stop = state.global_step >= self.step


@pytest.fixture
def new_trainer(new_network, tmp_path):
    """A trainer of a tiny network on the toy problem."""

    def make(
        *,
        network=None,
        data=None,
        lora=False,
        evaluate=None,
        folder="run",
        loss=toy_loss,
        **settings,
    ):
        is_new = network is None
        network = new_network() if is_new else network
        if lora and is_new:
            torch.manual_seed(0)
            network = add_lora(network, LoRA(rank=4))
        given = {"epochs": 4, "batch_size": 4, "patience": 99, "full": not lora} | settings
        trainer = GroupTrainer(
            network,
            data=data or toy_groups(),
            settings=TrainingSettings(**given),
            loss=loss,
            # Later is better, unless a test says otherwise.
            evaluate=evaluate or (lambda _: {"auroc": float(trainer.state.global_step)}),
            pad_token_id=0,
            folder=tmp_path / folder,
        )
        return trainer

    return make


def weights(trainer):
    return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])


def watch(trainer):
    """The window ids of every step from now on."""
    seen = []

    def note(_, __, inputs):
        seen.append(inputs["input_ids"].tolist())

    trainer.model.register_forward_pre_hook(note, with_kwargs=True)
    return seen


@pytest.mark.parametrize("lora", [False, True])
def test_training_learns_what_can_be_learnt(new_trainer, lora):
    data = toy_groups(groups=40)
    windows = [window for group in data.groups for window in group]
    outcome = np.repeat(data.targets, [len(group) for group in data.groups])

    def evaluate(model):
        ids, mask = pad(windows, pad_token_id=0)
        with torch.no_grad():
            logits = model.eval()(input_ids=ids, attention_mask=mask).logits.squeeze(-1)
        loss = binary_cross_entropy_with_logits(logits, torch.tensor(outcome))
        return {"auroc": float(roc_auc_score(outcome, logits)), "loss": float(loss)}

    trainer = new_trainer(
        data=data, lora=lora, evaluate=evaluate, epochs=15, learning_rate=1e-2, dropout=0.0
    )
    before = evaluate(trainer.model)
    trainer.train()
    after = evaluate(trainer.model)
    assert after["loss"] < before["loss"] / 2
    assert after["auroc"] > 0.95


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize(("stop", "evaluations"), [(3, 2), (9, 2), (6, 1)])
def test_a_resumed_run_ends_where_an_uninterrupted_one_does(new_trainer, lora, stop, evaluations):
    data = toy_groups(windows=(1, 8))
    options = {"data": data, "lora": lora, "evaluations": evaluations, "max_windows": 4}
    whole = new_trainer(**options, folder="whole")
    steps = watch(whole)
    whole.train()
    assert whole.state.max_steps == 4 * 6 == len(steps)

    first = new_trainer(**options, folder="parts")
    first.add_callback(Stop(stop))
    first.train()
    assert first.state.global_step == stop
    assert (weights(first) - weights(whole)).abs().max() > 1e-3

    rest = new_trainer(**options, folder="parts")
    later = watch(rest)
    rest.train(resume_from_checkpoint=True)
    assert rest.state.global_step == whole.state.global_step
    assert later == steps[stop:]
    torch.testing.assert_close(weights(rest), weights(whole), atol=1e-6, rtol=0)


def test_a_checkpoint_that_was_not_finished_is_passed_over(tmp_path):
    assert last_checkpoint(tmp_path / "none") is None
    for step, state in ((5, "{}"), (10, "{}"), (15, '{"epo'), (100, None), ("x", "{}")):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        if state:
            (folder / STATE).write_text(state)
    found = last_checkpoint(tmp_path)
    assert checkpoint_step(found) == 10
    assert not (tmp_path / "checkpoint-100").exists()
    assert (tmp_path / "checkpoint-5").exists()


def test_the_same_seed_gives_the_same_weights_and_another_does_not(new_trainer):
    trained = []
    for number, seed in enumerate([0, 0, 1]):
        trainer = new_trainer(folder=str(number), seed=seed, epochs=1)
        trainer.train()
        trained.append(weights(trainer))
    assert torch.equal(trained[0], trained[1])
    assert (trained[0] - trained[2]).abs().max() > 1e-4


def test_a_second_stage_multiplies_as_the_first_did(new_trainer, monkeypatch):
    monkeypatch.setattr("domainbert.training.old.trainer._multiplies_bf16", lambda: True)
    seen, network = [], None
    for stage in ("first", "second"):
        trainer = new_trainer(network=network, folder=stage, epochs=1, lora=True)
        network = trainer.model
        layer = network.get_base_model().bert.encoder.layer[0].output.dense
        hook = layer.register_forward_hook(lambda *parts: seen.append(parts[-1].dtype))
        trainer.train()
        hook.remove()
        network = trainer.trained()
    assert set(seen) == {torch.bfloat16}


@pytest.mark.parametrize("lora", [False, True])
def test_the_best_weights_are_kept(new_trainer, lora):
    scores, seen = iter([0.5, 0.9, 0.6, 0.7]), []

    def evaluate(model):
        seen.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
        return {"auroc": next(scores)}

    trainer = new_trainer(lora=lora, evaluate=evaluate, epochs=2, learning_rate=1e-2)
    trainer.train()
    assert len(seen) == 4
    assert torch.equal(weights(trainer), seen[1])
    assert all((weights(trainer) - seen[n]).abs().max() > 1e-3 for n in (0, 2, 3))
    assert trainer.state.best_metric == 0.9


def test_training_stops_when_it_no_longer_gets_better(new_trainer):
    scores = [0.5, 0.6, 0.6, 0.59, 0.99]
    given = iter(scores)
    trainer = new_trainer(evaluate=lambda _: {"auroc": next(given)}, patience=2)
    trainer.train()
    assert list(given) == scores[4:]
    assert trainer.state.global_step == 4 * 3 < trainer.state.max_steps


def test_a_run_that_had_stopped_does_not_go_on(new_trainer):
    """Nor does a resumed run have new patience."""
    scores = [0.5, 0.6, 0.6, 0.59, 0.99]
    given = iter(scores)
    stopped = new_trainer(evaluate=lambda _: {"auroc": next(given)}, patience=2)
    stopped.train()
    again = new_trainer(evaluate=lambda _: {"auroc": next(given)}, patience=2)
    again.train(resume_from_checkpoint=str(last_checkpoint(Path(stopped.args.output_dir))))
    assert list(given) == scores[4:]
    torch.testing.assert_close(weights(again), weights(stopped), atol=0, rtol=0)


def test_checkpoints_may_be_moved(new_trainer, tmp_path):
    """The best of them is found where they are now."""
    given = itertools.chain([0.5, 0.9], itertools.repeat(0.6))
    first = new_trainer(evaluate=lambda _: {"auroc": next(given)}, epochs=4)
    first.train()
    folder = Path(first.args.output_dir).rename(tmp_path / "elsewhere")
    again = new_trainer(evaluate=lambda _: {"auroc": next(given)}, epochs=4)
    again.train(resume_from_checkpoint=str(last_checkpoint(folder)))
    torch.testing.assert_close(weights(again), weights(first), atol=0, rtol=0)


def test_a_training_goes_on_with_its_own_settings(tmp_path, caplog):
    settings = TrainingSettings(epochs=2)
    assert resume_point(tmp_path, settings, resume=False) is None
    assert resume_point(tmp_path, settings, resume=True) is None
    assert "begins at its start" in caplog.text
    (tmp_path / "checkpoint-3").mkdir()
    (tmp_path / "checkpoint-3" / "trainer_state.json").write_text("{}")
    assert resume_point(tmp_path, settings, resume=True) == tmp_path / "checkpoint-3"
    with pytest.raises(ValueError, match="with another epochs, seed; give the same settings"):
        resume_point(tmp_path, TrainingSettings(epochs=3, seed=1), resume=True)
    with pytest.raises(ValueError, match="has checkpoints: go on from them with --resume"):
        resume_point(tmp_path, settings, resume=False)


def test_an_epoch_reads_every_window_once_and_in_an_order_of_its_own(new_trainer):
    trainer = new_trainer(epochs=3)
    steps = watch(trainer)
    trainer.train()
    epochs = [steps[0:6], steps[6:12], steps[12:18]]
    rows = [sorted(row for step in epoch for row in step) for epoch in epochs]
    assert rows[0] == rows[1] == rows[2]
    assert len(rows[0]) == sum(len(group) for group in toy_groups().groups)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


def test_a_group_above_the_limit_is_sampled_anew_each_epoch(new_trainer):
    rng = np.random.default_rng(0)
    large = [np.array([2, *rng.integers(10, 60, 6), 3]) for _ in range(9)]
    small = [np.array([2, *rng.integers(10, 60, 6), 3])]
    trainer = new_trainer(
        data=WindowGroups([large, small], np.array([1, 0])), max_windows=4, epochs=12
    )
    steps = watch(trainer)
    trainer.train()
    rows = [window.tolist() for window in large]
    draws = []
    for step in steps:
        drawn = [row for row in step if row in rows]
        assert len(step) == 5
        assert len({tuple(row) for row in drawn}) == 4
        draws.append(sorted(map(tuple, drawn)))
    assert len({tuple(draw) for draw in draws}) > 3
    assert {row for draw in draws for row in draw} == {tuple(row) for row in rows}


def test_a_batch_is_padded_and_says_which_group_each_window_is_of(new_trainer):
    windows = [np.array([2, 9, 3]), np.array([2, 9, 8, 7, 3]), np.array([2, 3])]
    trainer = new_trainer(data=WindowGroups([windows[:2], windows[2:]], np.array([1, 0])))
    batch = next(iter(trainer.get_train_dataloader()))
    order = batch["targets"].tolist()
    assert sorted(order) == [0, 1]
    for row, group, mask in zip(
        batch["input_ids"].tolist(),
        batch["group"].tolist(),
        batch["attention_mask"].tolist(),
        strict=True,
    ):
        members = windows[:2] if order[group] == 1 else windows[2:]
        ids = [token for token, is_token in zip(row, mask, strict=True) if is_token]
        assert ids in [window.tolist() for window in members]
        assert row == ids + [0] * (5 - len(ids))


def test_padding_is_no_part_of_the_loss(new_trainer):
    trainer = new_trainer()
    model = trainer.model.eval()
    alone, together = [], trainer._collate([trainer.train_dataset[n] for n in range(5)])
    for n in range(5):
        _, windows, target = trainer.train_dataset[n]
        for window in windows:
            logit = model(input_ids=torch.tensor(window)[None]).logits[0, 0]
            alone.append(binary_cross_entropy_with_logits(logit, torch.tensor(target)))
    assert (together["attention_mask"] == 0).any()
    loss = trainer.compute_loss(model, together)
    torch.testing.assert_close(loss, torch.stack(alone).mean(), atol=1e-5, rtol=0)


def test_the_budget_counts_sampled_windows(new_trainer):
    rng = np.random.default_rng(0)
    groups = [[np.array([2, *rng.integers(10, 60, 8)]) for _ in range(40)] for _ in range(6)]
    trainer = new_trainer(
        data=WindowGroups(groups, np.arange(6) % 2), max_windows=4, batch_tokens=2 * 4 * 9, epochs=1
    )
    steps = watch(trainer)
    trainer.train()
    assert [len(step) for step in steps] == [8, 8, 8]


# --- silence


def test_nothing_is_printed(new_trainer, capfd):
    trainer = new_trainer(epochs=1)
    capfd.readouterr()
    trainer.train()
    assert capfd.readouterr() == ("", "")


def test_the_bar_goes_away_when_training_is_interrupted(new_trainer, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", terminal)

    def interrupted(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        new_trainer(loss=interrupted).train()
    hide, show = "\x1b[?25l", "\x1b[?25h"
    assert terminal.getvalue().rindex(show) > terminal.getvalue().rindex(hide)
    assert "training" in terminal.getvalue()


def test_scores_go_to_the_log(new_trainer, caplog):
    with caplog.at_level("INFO", logger="domainbert.training.old.callbacks"):
        new_trainer(epochs=1, evaluate=lambda _: {"auroc": 0.625}).train()
    assert "step 3: {'eval_auroc': 0.625, " in caplog.text
