"""Students: another language, fewer layers, and their data."""

import gzip

import numpy as np
import pandas as pd
import pytest
from sentence_transformers import SentenceTransformer
from transformers import BertConfig, BertModel
from typer.testing import CliRunner

from biomed.cli import app
from biomed.sentences.data import read_sentences, read_translations
from biomed.sentences.distill import (
    DistillRecipe,
    TeacherObjective,
    distill,
    with_layers,
)
from biomed.sentences.encoder import SentenceEncoder
from biomed.sentences.evaluation import evaluate_retrieval
from domainbert.errors import UserError
from domainbert.tables import TableError
from domainbert.training.recipes import read_recipe
from domainbert.training.settings import TrainingSettings

WORDS = [
    "pain",
    "fever",
    "edema",
    "insulin",
    "kidney",
    "blood",
    "chest",
    "patient",
]
# A made-up language, in words that the tokenizer has.
TRANSLATED = [
    "left",
    "right",
    "home",
    "wife",
    "mother",
    "weeks",
    "lives",
    "denies",
]
QUICK = {
    "training.epochs": 2.0,
    "training.evaluations": 1,
    "training.learning_rate": 3e-3,
}


def translations(count=200, *, seed=0):
    generator = np.random.default_rng(seed)
    rows = [
        generator.choice(len(WORDS), 4, replace=False) for _ in range(count)
    ]
    pairs = dict.fromkeys(
        (" ".join(WORDS[n] for n in row), " ".join(TRANSLATED[n] for n in row))
        for row in rows
    )
    return [own for own, _ in pairs], [other for _, other in pairs]


def test_a_student_reads_translations_as_the_teacher_reads_sentences(
    tiny_encoder, tmp_path
):
    own, other = translations()
    changes = {
        **QUICK,
        "model.encoder": str(tiny_encoder),
        "training.epochs": 8.0,
    }
    student = distill(
        read_recipe(DistillRecipe, "distill-language", changes),
        own,
        translations=other,
    )
    teacher = SentenceEncoder.from_pretrained(tiny_encoder)
    new_own, new_other = translations(60, seed=9)
    pairs = pd.DataFrame({"first": new_other, "second": new_own})

    def accuracy(encoder):
        return (
            evaluate_retrieval(encoder, pairs)["meaning"]
            .scores["recall@1"]
            .value
        )

    assert accuracy(student) > accuracy(teacher) + 0.2
    assert {"sentences", "translations"} < set(
        student.manifest.training.validation
    )
    student.save_pretrained(tmp_path / "m")
    again = SentenceEncoder.from_pretrained(tmp_path / "m")
    library = SentenceTransformer(str(tmp_path / "m"), device="cpu")
    assert (
        np.abs(again.encode(new_other) - student.encode(new_other)).max()
        < 1e-6
    )
    assert (
        np.abs(library.encode(new_other) - student.encode(new_other)).max()
        < 1e-5
    )


def test_a_student_with_fewer_layers_comes_nearer_to_the_teacher(
    tiny_encoder, tmp_path
):
    own, _ = translations(200)
    changes = {**QUICK, "model.encoder": str(tiny_encoder), "model.layers": 1}
    student = distill(
        read_recipe(DistillRecipe, "distill-small", changes), own
    )
    teacher, start = (
        SentenceEncoder.from_pretrained(tiny_encoder) for _ in range(2)
    )
    with_layers(start, 1)
    new, _ = translations(50, seed=9)
    wanted = teacher.encode(new)
    assert student.network.config.num_hidden_layers == 1
    far = [
        np.linalg.norm(s.encode(new) - wanted, axis=1).mean()
        for s in (start, student)
    ]
    assert far[1] < 0.5 * far[0]
    student.save_pretrained(tmp_path / "m")
    again = SentenceEncoder.from_pretrained(tmp_path / "m")
    assert np.abs(again.encode(new) - student.encode(new)).max() < 1e-6


@pytest.mark.parametrize("way", ["layers", "student"])
def test_a_model_with_an_adapter_may_be_teacher_and_student(
    tiny_encoder, write_adapter, tmp_path, monkeypatch, way
):
    own, _ = translations(40)
    adapter = write_adapter(SentenceEncoder, tmp_path / "adapter")
    monkeypatch.setattr(
        "domainbert.models.storage.shipped_models", lambda _: {"mine": adapter}
    )
    teacher = tiny_encoder if way == "student" else "mine"
    changes = {**QUICK, "model.encoder": str(teacher), "training.epochs": 1.0}
    if way == "layers":
        recipe = read_recipe(
            DistillRecipe, "distill-small", {**changes, "model.layers": 1}
        )
        student = distill(recipe, own)
    else:
        changes["model.layers"] = 2
        recipe = read_recipe(DistillRecipe, "distill-small", changes)
        student = distill(recipe, own, student="mine")
        before = SentenceEncoder.from_pretrained("mine").encode(own)
        assert not np.array_equal(student.encode(own), before)
    assert student.config.encoder == str(teacher)
    assert student.manifest.training.validation["cosine"] > 0.5
    student.save_pretrained(tmp_path / "m")
    again = SentenceEncoder.from_pretrained(tmp_path / "m")
    assert np.abs(again.encode(own) - student.encode(own)).max() < 1e-6


def test_the_loss_is_the_squared_distance_by_hand(tiny_encoder):
    encoder = SentenceEncoder.from_pretrained(tiny_encoder)
    texts = ["pain", "fever and edema", "no insulin"]
    targets = (
        np.random.default_rng(0)
        .normal(size=(3, encoder.dimension))
        .astype(np.float32)
    )
    objective = TeacherObjective(
        encoder, {"texts": texts}, targets, TrainingSettings()
    )
    found = objective.loss(
        encoder.network, objective.collate([0, 1], epoch=0)
    ).item()
    rows = [texts.index(text) for text in objective.texts]
    by_hand = ((encoder.encode(texts) - targets) ** 2).sum(axis=1)[rows].mean()
    assert found == pytest.approx(float(by_hand), rel=1e-4)


def test_another_student_of_the_same_size_is_another_run(
    new_network, tokenizer
):
    """Only its size was compared, so that a run resumed with another student."""
    texts = {"sentences": ["pain", "fever"]}
    students = [
        SentenceEncoder(new_network(seed=seed).bert, tokenizer)
        for seed in (0, 1)
    ]
    facts = [
        TeacherObjective(
            student,
            texts,
            student.encode(["pain", "fever"]),
            TrainingSettings(),
        ).facts()
        for student in students
    ]
    assert facts[0] != facts[1]


# Data and bad input


def test_sentences_come_from_lines_and_tables(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\n two \n")
    assert read_sentences(tmp_path / "a.txt") == ["one", "", "two"]
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one\ntwo"))
    assert read_sentences(tmp_path / "a.txt.gz") == ["one", "two"]
    (tmp_path / "p.csv").write_text("first,second\na,b\nc,d\n")
    assert read_sentences(tmp_path / "p.csv") == ["a", "c", "b", "d"]


def test_unaligned_translations_are_refused_with_both_counts(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "b.txt").write_text("eins\nzwei\n")
    with pytest.raises(
        TableError, match=r"a\.txt has 3 sentences and b\.txt has 2; a trans"
    ):
        read_translations(tmp_path / "a.txt", tmp_path / "b.txt")
    (tmp_path / "b.txt").write_text("eins\n\ndrei\n")
    with pytest.raises(
        TableError, match=r"b\.txt: sentence number 2 is empty"
    ):
        read_translations(tmp_path / "a.txt", tmp_path / "b.txt")
    (tmp_path / "e.txt").write_text("\n")
    with pytest.raises(TableError, match=r"e\.txt has no sentence"):
        read_translations(tmp_path / "e.txt", tmp_path / "e.txt")


def test_what_does_not_fit_is_refused(tiny_encoder, tokenizer, tmp_path):
    recipe = read_recipe(
        DistillRecipe, "distill-language", {"model.encoder": str(tiny_encoder)}
    )
    with pytest.raises(UserError, match="2 sentences but 1 translations"):
        distill(recipe, ["pain", "fever"], translations=["a"])
    with pytest.raises(
        UserError, match=r"translations: 1 texts have no char.* number 1"
    ):
        distill(recipe, ["pain", "fever"], translations=["a", " "])
    for place in (0, 7):  # the number is that of the order given
        own = ["pain"] * place + ["\u200b"] + ["fever"] * 9
        with pytest.raises(
            UserError,
            match=f"sentences: 1 texts have no char.* number {place}",
        ):
            distill(recipe, own)
        with pytest.raises(
            UserError,
            match=f"translations: 1 texts have no char.* number {place}",
        ):
            distill(recipe, ["pain"] * len(own), translations=own)
    with pytest.raises(
        UserError, match="text number 4 has no vector: no word of it"
    ):
        distill(recipe, [*["pain"] * 4, "больно", *["fever"] * 9])
    with pytest.raises(UserError, match="at least two sentences, got 1"):
        distill(recipe, ["pain"])
    sizes = {
        "hidden_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    wide = BertConfig(vocab_size=len(tokenizer), intermediate_size=64, **sizes)
    BertModel(wide).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(
        UserError,
        match="vectors have 32 numbers, the student's 48; choose a stu",
    ):
        distill(recipe, ["pain", "fever"], student=tmp_path)
    with pytest.raises(
        UserError, match="layers must be from 1 to 2 for this encoder, got 3"
    ):
        with_layers(SentenceEncoder.from_pretrained(tiny_encoder), 3)


# Commands


def test_the_commands_run_on_real_text(tiny_encoder, data_folder, tmp_path):
    """Both shipped recipes of distillation."""
    for name in ("stsb_en_train.tsv", "korsts_train.tsv"):
        head = (
            (data_folder / "sentences" / name)
            .read_text("utf-8")
            .split("\n")[:61]
        )
        head = head if name.startswith("stsb") else head[:62]
        rows = head[:60] if name.startswith("stsb") else head[:61]
        (tmp_path / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
    files = [
        str(tmp_path / "stsb_en_train.tsv"),
        str(tmp_path / "korsts_train.tsv"),
    ]
    options = ["--encoder", str(tiny_encoder), "--epochs", "1"]
    run = CliRunner()
    out = str(tmp_path / "ko")
    done = run.invoke(
        app,
        [
            "sentences",
            "distill",
            files[0],
            "--language",
            files[1],
            "--out",
            out,
            *options,
        ],
    )
    assert done.exit_code == 0, done.output
    small = [*options, "--layers", "1", "--out", str(tmp_path / "small")]
    done = run.invoke(app, ["sentences", "distill", files[0], *small])
    assert done.exit_code == 0, done.output
    assert SentenceEncoder.from_pretrained(tmp_path / "small").dimension == 32
