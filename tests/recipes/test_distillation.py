"""Students learn from the tags that teachers find likely."""

import gzip
from itertools import islice

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

from biomed.corpora import TaggedText
from biomed.ner.manifest import EntityManifest
from biomed.ner.tagger import EntityTagger
from biomed.ner.training import TagObjective, fit
from domainbert.models.storage import read_manifest
from recipes import distillation
from recipes.distillation import (
    SoftStage,
    SoftTagObjective,
    StudentRecipe,
    fit_student,
    soft_labels,
)
from recipes.notes.real import only_letters
from tests.recipes.test_entities import QUICK, corpus, recipe

WORDS = ("heart", "failure", "was", "insulin", "fever")
FREE = [TaggedText((*WORDS, f"free{n}"), ("O",) * 6) for n in range(12)]


def student_recipe(encoder, **changes):
    plain = recipe(encoder)
    soft = SoftStage(**QUICK.model_dump()).replaced(**changes)
    return StudentRecipe(model=plain.model, training=plain.training, soft=soft)


@pytest.fixture(scope="module")
def teacher(tiny_encoder):
    return fit([corpus("Disease")], recipe(tiny_encoder, epochs=8, seed=3))


def objective(model, plan, teachers, texts=FREE, gold=0.0):
    return SoftTagObjective(
        model,
        [corpus("Disease")],
        plan,
        texts=texts,
        teachers=teachers,
        gold=gold,
    )


def mean_loss(soft, network):
    batches = [soft.collate(batch, epoch=0) for batch in soft.batches.epoch(0)]
    with torch.no_grad():
        losses = [float(soft.loss(network, batch)) for batch in batches]
    return np.mean(losses)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_loss_is_the_divergence_from_the_teachers(
    tiny_encoder, teacher, temperature
):
    plan = student_recipe(tiny_encoder, temperature=temperature)
    other = fit([corpus("Disease")], recipe(tiny_encoder, seed=4))
    text = [TaggedText(WORDS, ("O",) * 5)]
    soft = objective(other, plan, [teacher], texts=text)
    same = objective(teacher, plan, [teacher], texts=text)
    # Half precision of the labels, and windows of several texts, move a word's tags a little.
    assert (
        mean_loss(same, teacher.network)
        < 0.02
        < mean_loss(soft, other.network)
    )
    (example,) = soft.batches._maker._packed(
        soft.batches._maker.sources[-1], np.random.default_rng(0), 30
    )
    codes = np.pad(example.codes, 1, constant_values=-100)
    batch = {
        "input_ids": torch.from_numpy(
            other.word_tokenizer.window(example.ids)
        )[None],
        "codes": torch.from_numpy(codes)[None],
    }
    pieces = [other.word_tokenizer.tokenize(WORDS)]
    wide = [
        torch.tensor(model.log_probabilities(pieces)[0] / temperature).softmax(
            -1
        )
        for model in (teacher, other)
    ]
    divergence = (wide[0] * (wide[0] / wide[1]).log()).sum(-1).mean()
    expected = float(divergence) * temperature**2
    assert soft.loss(other.network, batch).item() == pytest.approx(
        expected, rel=0.02
    )


def test_gold_tags_count_by_their_weight(tiny_encoder, teacher):
    plan = student_recipe(tiny_encoder)
    alone = objective(teacher, plan, [teacher], texts=())
    weighted = objective(teacher, plan, [teacher], texts=(), gold=0.5)
    plain = TagObjective(teacher, [corpus("Disease")], plan)
    gain = mean_loss(weighted, teacher.network) - mean_loss(
        alone, teacher.network
    )
    expected = mean_loss(plain, teacher.network) / 2
    assert gain == pytest.approx(expected, abs=1e-4)


def test_several_teachers_are_averaged(tiny_encoder, teacher):
    plan = student_recipe(tiny_encoder)
    other = fit([corpus("Disease")], recipe(tiny_encoder, seed=4))
    rows = torch.arange(len(FREE[0].words) * len(FREE))
    tags = [
        objective(other, plan, teachers).soft_labels(rows).float().exp()
        for teachers in ([teacher], [other], [teacher, other])
    ]
    expected = (tags[0] + tags[1]) / 2
    assert torch.allclose(tags[2], expected, atol=2e-3)


def test_teachers_read_a_text_once_and_when_it_is_needed(
    tiny_encoder, teacher, monkeypatch
):
    read = []
    monkeypatch.setattr(
        distillation,
        "soft_labels",
        lambda texts, teachers: (
            read.append(len(texts)) or soft_labels(texts, teachers)
        ),
    )
    soft = objective(teacher, student_recipe(tiny_encoder), [teacher])
    (last,) = soft.soft_labels(torch.tensor([len(soft._codes) - 1]))
    every = soft.soft_labels(torch.arange(len(soft._codes)))
    assert read == [1, len(soft._text_words) - 1]
    assert torch.equal(every[-1], last)
    assert (every.float().exp().sum(dim=1) - 1).abs().max() < 0.01


def test_a_student_learns_from_texts_without_tags(tiny_encoder, teacher):
    plan = student_recipe(tiny_encoder, epochs=6)
    corpora = [corpus("Disease")]
    before = EntityTagger.untrained(
        tiny_encoder,
        training=QUICK,
        settings=teacher.settings,
        labels=teacher.labels,
    )
    student = fit_student(corpora, plan, texts=FREE, teachers=[teacher])
    soft = objective(student, plan, [teacher])
    assert (
        mean_loss(soft, student.network) < mean_loss(soft, before.network) / 2
    )
    counts = student.manifest.data.counts
    assert counts["texts with the teachers' tags alone"] == len(FREE)
    facts = student.manifest.training.facts
    assert [fact["gold"] for fact in facts] == [0.3, 0.5]
    assert facts[0]["teachers"] == [teacher.fingerprint()]


def test_tags_of_texts_without_tags_are_not_read(tiny_encoder, teacher):
    plan = student_recipe(tiny_encoder)
    wrong = [TaggedText(text.words, ("B-Disease",) * 6) for text in FREE]
    losses = [
        mean_loss(
            objective(teacher, plan, [teacher], texts=texts), teacher.network
        )
        for texts in (FREE, wrong)
    ]
    assert losses[0] == losses[1]


def test_the_command_writes_a_student(
    tiny_encoder, teacher, tmp_path, monkeypatch
):
    folder = tmp_path / "small"
    folder.mkdir()
    for side, gold in corpus("Disease").sides.items():
        lines = [
            "\n".join(map("\t".join, zip(text.words, text.tags, strict=True)))
            for text in gold.texts
        ]
        (folder / f"{side}.tsv").write_text("\n\n".join(lines) + "\n")
    teacher.save_pretrained(tmp_path / "teacher")
    (tmp_path / "r.toml").write_text(
        f'[model]\nencoder = "{tiny_encoder}"\n'
        "[soft]\nepochs = 1\n[training]\nepochs = 1\n"
    )
    monkeypatch.setattr(distillation, "untagged_texts", lambda _: FREE)
    app = typer.Typer()
    app.command()(distillation.main)
    words = [
        str(folder),
        "--data",
        str(tmp_path),
        "--recipe",
        str(tmp_path / "r.toml"),
    ]
    words += [
        "--teacher",
        str(tmp_path / "teacher"),
        "--out",
        str(tmp_path / "out"),
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    manifest = read_manifest(tmp_path / "out", EntityManifest)
    assert [stage.epochs for stage in manifest.training.stages] == [1.0, 1.0]
    assert list(manifest.scores.devel) == ["small"]


def test_no_text_without_tags_is_measured_on(data_folder):
    from biomed.corpora.corpus import read_gold

    sides = ("ncbi-disease/devel", "ncbi-disease/test", "bc5cdr-disease/devel")
    measured = {
        text.words
        for side in sides
        for text in read_gold(data_folder / "ner" / f"{side}.tsv").texts
    }
    texts = list(islice(distillation.untagged_texts(data_folder), 300))
    assert measured.isdisjoint(text.words for text in texts)
    assert len(texts) == 300


@pytest.mark.slow
@pytest.mark.data
def test_sentences_of_craft_are_not_learned_from(data_folder):
    count = 20_000
    craft = distillation._craft_sentences(data_folder)
    pubmed = data_folder / distillation.PUBMED
    with gzip.open(pubmed, "rt", encoding="utf-8") as lines:
        letters = map(only_letters, islice(lines, count))
        raw = sum(sentence in craft for sentence in letters)
    assert raw > 2000
    texts = islice(distillation.untagged_texts(data_folder), count)
    sentences = (only_letters(" ".join(text.words)) for text in texts)
    assert craft.isdisjoint(sentences)


def test_paragraphs_are_cut_at_empty_lines():
    text = "A first paragraph, long enough.\nIts second line.\n \nShort.\n\n\nThe second long one."
    paragraphs = list(distillation._paragraphs(text))
    assert paragraphs == [
        "A first paragraph, long enough.\nIts second line.",
        "The second long one.",
    ]
