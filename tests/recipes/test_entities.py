"""Training of the shipped entity model: seeds, and corpora of the same texts."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

from biomed.corpora import Corpus, Gold, TaggedText
from biomed.ner.manifest import EntityManifest
from biomed.ner.tagger import EntityTagger
from biomed.ner.training import EntityRecipe, EntityTable, fit
from domainbert.models.storage import read_manifest
from domainbert.training.settings import TrainingSettings
from recipes.entities import fit_seeds, joined, main

QUICK = TrainingSettings(
    epochs=1, learning_rate=6e-3, batch_tokens=96, dropout=0.0, evaluations=1
)
WORDS = ("heart", "failure", "was", "insulin")
TAGS = {
    "Disease": ("B-Disease", "I-Disease", "O", "O"),
    "Drug": ("O", "O", "O", "B-Drug"),
}


def corpus(kind):
    sides = [
        Gold(
            side,
            tuple(
                TaggedText((*WORDS, f"{side}{n}"), (*TAGS[kind], "O"))
                for n in range(20)
            ),
        )
        for side in ("train", "devel")
    ]
    return Corpus(kind, *sides, None)


def recipe(encoder, **changes):
    model = EntityTable(encoder=str(encoder), window=32)
    return EntityRecipe(model=model, training=QUICK.replaced(**changes))


def test_corpora_of_the_same_texts_are_learnt_from_as_one(tiny_encoder):
    parts = [corpus(kind) for kind in TAGS]
    model = fit(joined(parts), recipe(tiny_encoder))
    assert (
        "train" not in model.manifest.training.facts[0]["corpora"]["Disease"]
    )
    assert list(model.manifest.scores.devel) == ["Disease", "Drug"]
    assert model.manifest.data.counts == {
        "Disease+Drug, texts for training": 20
    }
    alone = [parts[0]]
    assert joined(alone) == alone


def test_the_best_of_several_seeds_is_kept(tiny_encoder):
    f1_of_seeds = {3: 0.5, 4: 0.9, 5: 0.7}

    def trainer(_, seeded, **__):
        seed = seeded.training.seed
        manifest = EntityManifest()
        manifest.scores.devel = {"small": {"all": {"f1": f1_of_seeds[seed]}}}
        manifest.scores.note = "It chose the weights, so it is optimistic."
        return SimpleNamespace(manifest=manifest, seed=seed)

    models = fit_seeds(
        [], recipe(tiny_encoder), seeds=list(f1_of_seeds), trainer=trainer
    )
    best_seeds = []
    for model in models:
        best_seeds.append(model.seed)
    assert best_seeds == [3, 4, 4]
    scores = model.manifest.scores
    assert scores.table["f1, mean of 3 seeds"]["small devel"] == pytest.approx(
        0.7
    )
    assert scores.note.startswith(
        "It chose the weights and the best of several"
    )
    assert [run.seed for run in model.manifest.seeds] == [3, 4, 5]


def test_all_seeds_are_reported_and_a_resumed_run_only_measures_them(
    tiny_encoder, tmp_path
):
    folder = tmp_path / "small"
    folder.mkdir()
    for side, count in {"train": 20, "devel": 5}.items():
        lines = [
            f"{side}{n}\tO\nheart\tB-x\nfailure\tI-x\nwas\tO\n"
            for n in range(count)
        ]
        (folder / f"{side}.tsv").write_text("\n".join(lines))
    (tmp_path / "r.toml").write_text(
        f'[model]\nencoder = "{tiny_encoder}"\n[training]\nepochs = 1\nlearning_rate = 0.01\n'
    )
    app = typer.Typer()
    app.command()(main)

    def run(out, *options):
        command = [
            str(folder),
            "--recipe",
            str(tmp_path / "r.toml"),
            "--out",
            str(tmp_path / out),
        ]
        result = CliRunner().invoke(app, [*command, *options])
        assert result.exit_code == 0, result.output
        return read_manifest(tmp_path / out, EntityManifest)

    checkpoints = ["--checkpoints", str(tmp_path / "checkpoints")]
    manifest = run("both", "--seed", "3", "--seed", "4", *checkpoints)
    devel = {run.seed: run.devel["small"] for run in manifest.seeds}
    assert list(devel) == [3, 4]
    assert devel[manifest.training.stages[0].seed] == max(devel.values())
    assert manifest.scores.devel["small"]["all"]["f1"] == max(devel.values())
    card = (tmp_path / "both" / "README.md").read_text()
    assert "mean of 2 seeds" in card
    assert "the best of several seeds" in card
    # A run that is resumed only measures the seeds that are done.
    again = run(
        "again", "--seed", "3", "--seed", "4", "--resume", *checkpoints
    )
    assert again.seeds == manifest.seeds


def test_the_average_is_that_of_all_seeds_and_the_start(
    tiny_encoder, tmp_path
):
    corpora = [corpus("Disease")]
    fit(corpora, recipe(tiny_encoder)).save_pretrained(tmp_path / "start")
    table = EntityTable(
        encoder=str(tiny_encoder), window=32, start=str(tmp_path / "start")
    )
    plan = EntityRecipe(model=table, training=QUICK)
    *runs, soup = fit_seeds(corpora, plan, seeds=[0, 1], average=0.3)
    seeded = [
        plan.replaced(training=QUICK.replaced(seed=seed)) for seed in (0, 1)
    ]
    parts = [
        EntityTagger.from_pretrained(tmp_path / "start"),
        *(fit(corpora, p) for p in seeded),
    ]
    for name, tensor in soup.adapter.tensors.items():
        expected = sum(
            share * part.adapter.tensors[name].float()
            for share, part in zip((0.3, 0.35, 0.35), parts, strict=True)
        )
        assert torch.allclose(tensor.float(), expected, atol=2e-3), name
    assert (len(runs), soup.manifest.average) == (2, 0.3)
    assert len(soup.manifest.seeds) == 2
    texts = [soup.word_tokenizer.tokenize(WORDS)]
    merged, own = (
        each.log_probabilities(texts)[0] for each in (soup, parts[1])
    )
    assert not np.allclose(merged, own)  # the network is that of the average
