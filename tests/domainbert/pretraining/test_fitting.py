import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file
from transformers import AutoModel, BertForSequenceClassification

from domainbert.encoders.loading import (
    EncoderError,
    find_encoder,
    load_config,
    load_model,
    load_tokenizer,
)
from domainbert.errors import UserError
from domainbert.files import locked
from domainbert.pretraining.corpus import TextCorpusError
from domainbert.pretraining.fitting import pretrain
from domainbert.pretraining.settings import PretrainingRecipe
from domainbert.tables import write_table
from domainbert.training.recipes import read_recipe
from domainbert.training.trainer import ObjectiveTrainer

ROOT = Path(__file__).parents[3]
SECRET = "zebrafinch"


@pytest.fixture(scope="module")
def made(notes, new_recipe, tmp_path_factory):
    """The tiny encoder, trained for twelve steps."""
    folder = tmp_path_factory.mktemp("made")
    write_table(notes, folder / "notes.parquet")
    pretrain(
        [folder / "notes.parquet"], out=folder / "encoder", recipe=new_recipe()
    )
    return folder / "encoder"


def manifest_of(folder):
    return json.loads((folder / "pretraining.json").read_text())


def weights(folder):
    return load_file(folder / "model.safetensors")


def assert_equal(first, second, *, atol=1e-5):
    one, other = weights(first), weights(second)
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], atol=atol, rtol=0)


# --- the result


def test_it_says_how_it_was_made(made, notes):
    manifest = manifest_of(made)
    counts = manifest["corpus"]["counts"]
    assert counts["documents"] == len(notes)
    assert counts["train documents"] + counts["held-out documents"] == len(
        notes
    )
    assert manifest["encoder"]["fresh_head"]
    assert manifest["before"]["tokens"] == manifest["after"]["tokens"] > 30
    card = (made / "README.md").read_text()
    assert "| before, 32 tokens | " in card
    assert "| after, 32 tokens | " in card


def test_it_is_an_encoder_like_any_other(made):
    found = find_encoder(made)
    assert load_config(found).architectures == ["BertForPreTraining"]
    assert load_config(found).attention_probs_dropout_prob == 0.1
    tokenizer = load_tokenizer(found)
    network = load_model(found, BertForSequenceClassification, num_labels=2)
    plain = AutoModel.from_pretrained(made)
    ids = torch.tensor(
        [tokenizer("The patient denies chest pain.")["input_ids"]]
    )
    hidden = network.bert(ids).last_hidden_state
    torch.testing.assert_close(plain.eval()(ids).last_hidden_state, hidden)
    with pytest.raises(EncoderError, match="without a trained head"):
        load_model(
            found,
            BertForSequenceClassification,
            train_command="train {encoder}",
        )


def test_a_readmission_model_trains_on_it(made, notes, tmp_path):
    import clinical

    texts = list(notes["text"])
    cohort = pd.DataFrame(
        {
            "patient_id": [f"p{n}" for n in range(24)],
            "text": [texts[2 * n : 2 * n + 2] for n in range(24)],
            "readmitted": [n % 2 for n in range(24)],
            "split": ["train"] * 16 + ["val"] * 8,
        }
    )
    recipe = clinical.ReadmissionRecipe().replaced(
        model={"encoder": str(made)},
        training={"epochs": 1.0, "batch_tokens": 512},
    )
    model = clinical.ReadmissionModel.fit(cohort, recipe)
    model.save_pretrained(tmp_path / "model")
    again = clinical.ReadmissionModel.from_pretrained(tmp_path / "model")
    assert again.predict(texts[0]).probability == pytest.approx(
        model.predict(texts[0]).probability, abs=1e-3
    )


def test_one_goes_on_from_it(made, notes_file, new_recipe, tmp_path):
    recipe = new_recipe(
        encoder=str(made),
        steps=2,
    )
    again = pretrain([notes_file], out=tmp_path / "again", recipe=recipe)
    assert again["before"] == pytest.approx(
        manifest_of(made)["after"], rel=1e-5
    )
    assert not again["encoder"]["fresh_head"]
    assert load_tokenizer(find_encoder(tmp_path / "again")).get_vocab() == (
        load_tokenizer(find_encoder(made)).get_vocab()
    )


# --- what must not be read


def test_nothing_of_an_excluded_patient_is_in_any_example(
    notes, new_recipe, tmp_path
):
    marked = notes.assign(
        text=[
            text.replace(" days.", f" days, said {SECRET} {n}.")
            if patient in ("p3", "p9")
            else text
            for n, (text, patient) in enumerate(
                zip(notes["text"], notes["patient_id"], strict=True)
            )
        ]
    )
    write_table(marked, tmp_path / "notes.parquet")
    write_table(
        pd.DataFrame({"patient_id": ["p3", "p9"]}), tmp_path / "list.csv"
    )
    recipe = new_recipe(steps=1)

    def mentions(name, **options):
        made = pretrain(
            [tmp_path / "notes.parquet"],
            out=tmp_path / name,
            recipe=recipe,
            **options,
        )
        tokenizer = load_tokenizer(find_encoder(tmp_path / name))
        files = list((tmp_path / f"{name}-work").rglob("*.arrow"))
        assert len(files) == 3  # documents, and examples of both sides
        texts = [
            tokenizer.decode(tokens).replace(" ", "")
            for file in files
            for tokens in Dataset.from_file(str(file))["tokens"]
        ]
        return sum(SECRET in text for text in texts), made

    assert mentions("all")[0] > 0
    found, made = mentions("some", exclude=[tmp_path / "list.csv"])
    assert found == 0
    corpus = made["corpus"]
    assert corpus["counts"]["documents excluded by patient_id"] == 4
    assert corpus["exclusions"] == {
        "patient_id": {"listed": 2, "not found": 0}
    }
    assert (
        "| documents excluded by patient_id | 4 |"
        in (tmp_path / "some" / "README.md").read_text()
    )


# --- again, and on


def test_the_same_seed_gives_the_same_encoder_and_another_does_not(
    made, notes_file, new_recipe, tmp_path
):
    pretrain([notes_file], out=tmp_path / "again", recipe=new_recipe())
    assert_equal(tmp_path / "again", made)
    pretrain([notes_file], out=tmp_path / "other", recipe=new_recipe(seed=1))
    name = "bert.encoder.layer.0.attention.self.query.weight"
    assert not torch.equal(
        weights(tmp_path / "other")[name], weights(made)[name]
    )


def test_examples_are_used_again(notes_file, new_recipe, tmp_path):
    work = tmp_path / "work"

    def files():
        return {
            path.name: path.stat().st_mtime_ns
            for path in work.rglob("*.arrow")
        }, len(list(work.rglob("*.arrow")))

    pretrain(
        [notes_file], out=tmp_path / "a", recipe=new_recipe(steps=1), work=work
    )
    before = files()
    assert before[1] == 3
    other = new_recipe(steps=2, learning_rate=1e-5)
    pretrain([notes_file], out=tmp_path / "b", recipe=other, work=work)
    assert files() == before
    longer = new_recipe(steps=1, length=48)
    pretrain([notes_file], out=tmp_path / "c", recipe=longer, work=work)
    assert files()[1] == 5  # examples of both sides


@pytest.fixture
def killed(notes_file, new_recipe, tmp_path, monkeypatch):
    """Pretrains and is interrupted after so many passes; returns the folder of the run."""
    whole = ObjectiveTrainer.compute_loss

    def run(passes):
        seen = []

        def interrupted(self, *args, **kwargs):
            seen.append(0)
            if len(seen) > passes:
                raise KeyboardInterrupt
            return whole(self, *args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(ObjectiveTrainer, "compute_loss", interrupted)
            with pytest.raises(KeyboardInterrupt):
                pretrain(
                    [notes_file], out=tmp_path / "out", recipe=new_recipe()
                )
        assert not (tmp_path / "out").exists()
        (folder,) = (tmp_path / "out-work").glob("run-*")
        return folder

    return run


@pytest.mark.parametrize("passes", [5, 10])
def test_killed_it_resumes_where_it_was(
    made, killed, notes_file, new_recipe, tmp_path, passes
):
    assert killed(passes).stat().st_mode & 0o777 == 0o700
    again = pretrain([notes_file], out=tmp_path / "out", recipe=new_recipe())
    assert_equal(tmp_path / "out", made)
    for when in ("before", "after"):
        assert again[when] == pytest.approx(manifest_of(made)[when], rel=1e-4)


@pytest.mark.parametrize(
    "cut", ["model.safetensors", "optimizer.pt", "trainer_state.json"]
)
def test_a_checkpoint_cut_short_falls_back_to_the_one_before(
    made, killed, notes_file, new_recipe, tmp_path, cut
):
    folder = killed(10)
    assert {path.name for path in folder.glob("checkpoint-*")} == {
        "checkpoint-4",
        "checkpoint-8",
    }
    content = (folder / "checkpoint-8" / cut).read_bytes()
    (folder / "checkpoint-8" / cut).write_bytes(content[: len(content) // 2])
    pretrain([notes_file], out=tmp_path / "out", recipe=new_recipe())
    assert_equal(tmp_path / "out", made)


def test_the_same_run_twice_at_once_is_refused(
    killed, notes_file, new_recipe, tmp_path
):
    with (
        locked(killed(5)),
        pytest.raises(
            UserError, match="is in use by another process; wait for it, or"
        ),
    ):
        pretrain([notes_file], out=tmp_path / "out", recipe=new_recipe())


RUN = """
import sys
from domainbert.pretraining.fitting import pretrain
from domainbert.pretraining.settings import PretrainingRecipe
from domainbert.training.recipes import read_recipe
import torch
torch.set_num_threads(1)
pretrain([sys.argv[1]], out=sys.argv[2], recipe=read_recipe(PretrainingRecipe, sys.argv[3]))
"""
RECIPE = """
encoder = "{encoder}"
[corpus]
held_out = 0.2
[training]
evaluations = 20
evaluation_tokens = 500
length = 32
steps = 60
batch_tokens = 512
learning_rate = 3e-3
"""


@pytest.mark.slow
def test_sigkill_at_a_random_step_and_another_process(
    notes_file, tiny_encoder, tmp_path
):
    (tmp_path / "recipe.toml").write_text(RECIPE.format(encoder=tiny_encoder))
    recipe = read_recipe(PretrainingRecipe, tmp_path / "recipe.toml")
    pretrain([notes_file], out=tmp_path / "whole", recipe=recipe)
    arguments = [notes_file, tmp_path / "killed", tmp_path / "recipe.toml"]
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *map(str, arguments)], cwd=ROOT
    )
    reached = np.random.default_rng().integers(2, 40)
    pattern = "killed-work/run-*/checkpoint-*"
    while process.poll() is None:
        checkpoints = tmp_path.glob(pattern)
        steps = [int(path.name.split("-")[1]) for path in checkpoints]
        if max(steps, default=0) > reached:
            process.send_signal(signal.SIGKILL)
        time.sleep(0.01)
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "killed").exists()
    # This process is another one.
    pretrain([notes_file], out=tmp_path / "killed", recipe=recipe)
    assert_equal(tmp_path / "killed", tmp_path / "whole")


# --- bad input


def test_a_length_that_the_encoder_cannot_read(
    notes_file, tiny_encoder, new_recipe, tmp_path
):
    wanted = r"^\[training\] has examples of 128 tokens, .* at most 64; set length = 64 there$"
    with pytest.raises(ValueError, match=wanted):
        pretrain(
            [notes_file], out=tmp_path / "out", recipe=new_recipe(length=128)
        )
    assert not (tmp_path / "out-work").exists()


def test_a_name_that_is_taken(made, notes_file, new_recipe):
    with pytest.raises(
        FileExistsError, match="exists already; move it away or choose another"
    ):
        pretrain([notes_file], out=made, recipe=new_recipe())


def test_a_folder_that_was_filled_meanwhile_is_kept(
    notes_file, new_recipe, tmp_path, monkeypatch
):
    out = tmp_path / "out"

    def fill(trainer):
        out.mkdir()
        (out / "theirs").write_text("kept")
        return trained(trainer)

    trained = ObjectiveTrainer.trained
    monkeypatch.setattr(ObjectiveTrainer, "trained", fill)
    with pytest.raises(FileExistsError, match="exists already; move it away"):
        pretrain([notes_file], out=out, recipe=new_recipe(steps=1))
    assert [path.name for path in out.iterdir()] == ["theirs"]
    assert list(
        (tmp_path / "out-work").glob("run-*/checkpoint-*")
    )  # to be resumed


def test_a_place_that_cannot_be_written_is_refused_before_training(
    notes_file, new_recipe, tmp_path
):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        pretrain(
            [notes_file],
            out=tmp_path / "file" / "out",
            recipe=new_recipe(),
            work=tmp_path / "work",
        )
    assert not (tmp_path / "work").exists()


def test_nothing_to_read_leaves_nothing_behind(new_recipe, tmp_path, notes):
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(TextCorpusError, match="no document to read"):
        pretrain(
            [tmp_path / "empty.txt"], out=tmp_path / "out", recipe=new_recipe()
        )
    write_table(notes, tmp_path / "notes.csv")
    with pytest.raises(
        TextCorpusError,
        match=r"no document to read: 60 documents, 60 documents excluded",
    ):
        pretrain(
            [tmp_path / "notes.csv"],
            out=tmp_path / "out",
            recipe=new_recipe(),
            exclude=[tmp_path / "notes.csv"],
        )
    assert not [
        path
        for path in (tmp_path / "out-work").rglob("*")
        if path.suffix == ".arrow"
    ]


def test_words_that_no_tokenizer_reads(new_recipe, tmp_path):
    texts = ["\x01 " + "\x03" * n for n in range(1, 40)]
    write_table(pd.DataFrame({"text": texts}), tmp_path / "notes.jsonl")
    with pytest.raises(
        TextCorpusError,
        match="the documents on the train side have no word in them",
    ):
        pretrain(
            [tmp_path / "notes.jsonl"],
            out=tmp_path / "out",
            recipe=new_recipe(),
        )


def test_a_stopped_run_says_how_to_resume(killed, tmp_path, caplog):
    killed(5)
    hint = f"to resume, repeat the same command; {tmp_path}/out-work keeps the text as"
    assert hint in caplog.text


def test_other_kinds_of_encoder(notes_file, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(EncoderError):
        pretrain(
            [notes_file],
            out=tmp_path / "out",
            recipe=PretrainingRecipe(encoder=str(tmp_path / "other")),
        )
    shutil.rmtree(tmp_path / "other")
    with pytest.raises(EncoderError, match="no encoder"):
        pretrain(
            [notes_file],
            out=tmp_path / "out",
            recipe=PretrainingRecipe(encoder="nothing"),
        )
