import importlib.util
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer import Typer
from typer.testing import CliRunner

from domainbert.encoders import EncoderError, find_encoder, load_model
from domainbert.pretraining.fitting import pretrain
from domainbert.pretraining.model import PretrainingNetwork
from domainbert.pretraining.settings import ExampleSettings, Phase
from domainbert.tables import write_table

SCRIPT = Path(__file__).parents[3] / "experiments" / "blend.py"
SPEC = importlib.util.spec_from_file_location("blend", SCRIPT)
script = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(script)
blend = script.blend
PHASE = Phase(length=32, steps=3, batch_tokens=256, learning_rate=1e-2)


@pytest.fixture(scope="module")
def new_trained(notes, tiny_encoder, new_recipe, tmp_path_factory):
    """Pretrains the tiny encoder for three steps."""
    folder = tmp_path_factory.mktemp("trained")
    write_table(notes, folder / "notes.parquet")

    def train(name, *, pairs=True):
        recipe = new_recipe(
            encoder=str(tiny_encoder),
            scratch=None,
            examples=ExampleSettings(pairs=pairs),
            phases={"short": PHASE},
        )
        return pretrain([folder / "notes.parquet"], out=folder / name, recipe=recipe).folder

    return train


@pytest.fixture(scope="module")
def trained(new_trained):
    return new_trained("encoder")


def weights(folder):
    return load_file(Path(folder) / "model.safetensors")


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_each_weight_lies_between_the_two(tiny_encoder, trained, tmp_path, share):
    blend(tiny_encoder, trained, out=tmp_path / "out", share=share)
    old, new, mixed = weights(tiny_encoder), weights(trained), weights(tmp_path / "out")
    assert mixed.keys() == new.keys()
    assert {f"bert.{name}" for name in old} < new.keys()
    for name, weight in mixed.items():
        expected = new[name]
        if name.startswith("bert.") and "pooler" not in name:
            expected = share * old[name.removeprefix("bert.")] + (1 - share) * expected
        torch.testing.assert_close(weight, expected, atol=1e-6, rtol=0)
    moved = "bert.encoder.layer.0.attention.self.query.weight"
    assert torch.equal(mixed[moved], new[moved]) == (share == 0)


def test_it_tells_what_it_is_made_of(tiny_encoder, trained, tmp_path):
    manifest = blend(tiny_encoder, trained, out=tmp_path / "out", share=0.25)
    assert manifest == json.loads((tmp_path / "out" / "pretraining.json").read_text())
    sha256 = {end: manifest["blend"][end]["sha256"] for end in ("start", "trained")}
    assert sha256 == {
        "start": find_encoder(tiny_encoder).sha256,
        "trained": find_encoder(trained).sha256,
    }
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"0.25 x that of `{tiny_encoder}` + 0.75 x that of `{trained}`" in card
    assert "those of the trained weights before they were mixed." in card
    assert (tmp_path / "out" / "config.json").read_text() == (trained / "config.json").read_text()


def test_pretraining_goes_on_from_it(notes_file, tiny_encoder, trained, new_recipe, tmp_path):
    blend(tiny_encoder, trained, out=tmp_path / "half")
    recipe = new_recipe(encoder=str(tmp_path / "half"), scratch=None, phases={"short": PHASE})
    made = pretrain([notes_file], out=tmp_path / "on", recipe=recipe)
    assert not made.manifest["encoder"]["fresh_head"]
    assert "blend" not in made.manifest


def test_without_a_head_for_pairs(new_trained, tiny_encoder, tmp_path):
    blend(tiny_encoder, new_trained("words", pairs=False), out=tmp_path / "out")
    assert not [name for name in weights(tmp_path / "out") if "seq_relationship" in name]
    load_model(find_encoder(tmp_path / "out"), PretrainingNetwork)


def test_the_command(tiny_encoder, trained, tmp_path):
    arguments = [str(tiny_encoder), str(trained), "--out", str(tmp_path / "out")]
    app = Typer()
    app.command()(script.main)
    done = CliRunner().invoke(app, [*arguments, "--share", "0.75"])
    assert done.exit_code == 0, done.output
    assert f"use it as --encoder {tmp_path / 'out'}" in done.output
    manifest = json.loads((tmp_path / "out" / "pretraining.json").read_text())
    assert manifest["blend"]["share"] == 0.75


# --- bad input


def test_what_cannot_be_mixed(tiny_encoder, trained, notes_file, new_recipe, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(EncoderError, match="was not written by `domainbert pretrain`: it has no"):
        blend(trained, tiny_encoder, out=out)
    with pytest.raises(EncoderError, match="was not written by `domainbert pretrain`"):
        blend(tiny_encoder, tmp_path / "nothing", out=out)
    one_step = {"short": PHASE.replaced(steps=1)}
    other = pretrain([notes_file], out=tmp_path / "other", recipe=new_recipe(phases=one_step))
    with pytest.raises(EncoderError, match="have different vocabularies; neither came from"):
        blend(tiny_encoder, other.folder, out=out)
    smaller = new_recipe().scratch.replaced(layers=1)
    less = pretrain(
        [notes_file], out=tmp_path / "less", recipe=new_recipe(phases=one_step, scratch=smaller)
    )
    with pytest.raises(EncoderError, match="have weights of different shapes"):
        blend(other.folder, less.folder, out=out)
    blend(tiny_encoder, trained, out=tmp_path / "half")
    with pytest.raises(EncoderError, match="is a blend already; blend its two encoders again"):
        blend(tiny_encoder, tmp_path / "half", out=out)
    with pytest.raises(ValueError, match=r"share must be in \[0, 1\], got 1.5"):
        blend(tiny_encoder, trained, out=out, share=1.5)
    assert not out.exists()
    with pytest.raises(FileExistsError, match="exists already"):
        blend(tiny_encoder, trained, out=trained)
