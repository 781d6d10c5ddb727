"""Students: another language, fewer layers, static; their vocabulary and their data."""

import gzip

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from typer.testing import CliRunner

from biomed import models
from biomed.cli import app
from biomed.sentences.bitext import (
    evaluate_bitext,
    read_sentences,
    read_translations,
    unseen_translations,
)
from biomed.sentences.distill import DistillRecipe, distill, distill_static, save_static
from biomed.sentences.encoder import SentenceEncoder
from biomed.sentences.vocabulary import align, extend_tokenizer, start_vectors
from domainbert.errors import UserError
from domainbert.tables import TableError
from domainbert.training.distillation import VectorLoss, with_layers
from domainbert.training.embedding import TextModule
from domainbert.training.recipes import read_recipe

# A made-up language: each word has one translation.
WORDS = {
    "pain": "больно", "fever": "жарко", "edema": "отеки", "insulin": "инсулин",
    "kidney": "почка", "blood": "кровь", "chest": "грудь", "patient": "пациент",
}  # fmt: skip
QUICK = {"training.epochs": 2.0, "training.evaluations": 1, "training.learning_rate": 3e-3}


def translations(count=200, *, seed=0):
    generator = np.random.default_rng(seed)
    rows = [generator.choice(list(WORDS), 4, replace=False) for _ in range(count)]
    pairs = dict.fromkeys((" ".join(row), " ".join(WORDS[word] for word in row)) for row in rows)
    return [own for own, _ in pairs], [other for _, other in pairs]


def test_a_student_for_a_language_gives_the_teachers_vectors(tiny_encoder, tmp_path):
    own, other = translations()
    recipe = read_recipe(
        DistillRecipe, "distill-language", {**QUICK, "model.encoder": str(tiny_encoder)}
    )
    teacher = SentenceEncoder.from_pretrained(tiny_encoder)
    student = distill(recipe, own, translations=other)
    new_own, new_other = translations(60, seed=9)
    # The teacher's own language is read as before, to the last digit.
    assert np.array_equal(student.encode(new_own), teacher.encode(new_own))
    assert evaluate_bitext(student, new_own, new_other).value > 0.9
    assert student.manifest["validation"]["translations"] > 0.9
    student.save_pretrained(tmp_path / "m")
    again = SentenceEncoder.from_pretrained(tmp_path / "m")
    library = SentenceTransformer(str(tmp_path / "m"), device="cpu")
    assert np.abs(again.encode(new_other) - student.encode(new_other)).max() < 1e-6
    assert np.abs(library.encode(new_other) - student.encode(new_other)).max() < 1e-5


def test_all_weights_may_be_trained_and_both_sides_are(tiny_encoder):
    own, other = translations(60)
    changes = {**QUICK, "model.encoder": str(tiny_encoder), "model.train": "all"}
    student = distill(
        read_recipe(DistillRecipe, "distill-language", changes), own, translations=other
    )
    assert {"sentences", "translations"} < set(student.manifest["validation"])
    teacher = SentenceEncoder.from_pretrained(tiny_encoder)
    assert not np.array_equal(student.encode(own), teacher.encode(own))


def test_a_student_with_fewer_layers_comes_nearer_to_the_teacher(tiny_encoder, tmp_path):
    own, _ = translations(200)
    changes = {**QUICK, "model.encoder": str(tiny_encoder), "model.layers": 1}
    student = distill(read_recipe(DistillRecipe, "distill-small", changes), own)
    teacher, start = (SentenceEncoder.from_pretrained(tiny_encoder) for _ in range(2))
    with_layers(start, 1)
    new, _ = translations(50, seed=9)
    wanted = teacher.encode(new)
    assert student.network.config.num_hidden_layers == 1
    far = [np.linalg.norm(s.encode(new) - wanted, axis=1).mean() for s in (start, student)]
    assert far[1] < 0.5 * far[0]
    student.save_pretrained(tmp_path / "m")
    again = SentenceEncoder.from_pretrained(tmp_path / "m")
    assert np.abs(again.encode(new) - student.encode(new)).max() < 1e-6


@pytest.mark.parametrize("way", ["language", "layers", "student"])
def test_a_model_with_an_adapter_may_be_teacher_and_student(
    tiny_encoder, write_adapter, tmp_path, monkeypatch, way
):
    own, other = translations(40)
    adapter = write_adapter(SentenceEncoder, tmp_path / "adapter")
    monkeypatch.setattr(models, "shipped", lambda: {"mine": adapter})
    teacher = tiny_encoder if way == "student" else "mine"
    changes = {**QUICK, "model.encoder": str(teacher), "training.epochs": 1.0}
    start = SentenceEncoder.from_pretrained("mine")
    if way == "language":
        recipe = read_recipe(DistillRecipe, "distill-language", changes)
        student = distill(recipe, own, translations=other)
        assert np.array_equal(student.encode(own), start.encode(own))
    elif way == "layers":
        recipe = read_recipe(DistillRecipe, "distill-small", {**changes, "model.layers": 1})
        student = distill(recipe, own)
    else:
        before = start.encode(own)
        changes["model.layers"] = 2
        student = distill(read_recipe(DistillRecipe, "distill-small", changes), own, student=start)
        assert not np.array_equal(student.encode(own), before)
    assert student.config.encoder == str(teacher)
    assert student.manifest["validation"]["cosine"] > 0.5
    student.save_pretrained(tmp_path / "m")
    again = SentenceEncoder.from_pretrained(tmp_path / "m")
    texts = other if way == "language" else own
    assert np.abs(again.encode(texts) - student.encode(texts)).max() < 1e-6


def test_the_loss_is_the_squared_distance_by_hand(tiny_encoder):
    encoder = SentenceEncoder.from_pretrained(tiny_encoder)
    model = SentenceTransformer(modules=[TextModule(encoder, encoder.network)], device="cpu")
    texts = ["pain", "fever and edema", "no insulin"]
    targets = np.random.default_rng(0).normal(size=(3, encoder.dimension)).astype(np.float32)
    features = model[0].preprocess(texts)
    found = VectorLoss(model)([features], torch.from_numpy(targets)).item()
    by_hand = ((encoder.encode(texts) - targets) ** 2).sum(axis=1).mean()
    assert found == pytest.approx(float(by_hand), rel=1e-4)
    mean = losses.MSELoss(model)([model[0].preprocess(texts)], torch.from_numpy(targets)).item()
    assert found == pytest.approx(mean * encoder.dimension, rel=1e-5)


# The vocabulary


def test_new_pieces_leave_the_own_language_as_it_was(tokenizer):
    own, other = translations(50)
    own = [f"{text} zzz" for text in own]  # a piece of both languages
    extended = extend_tokenizer(
        tokenizer, [f"{text} zzz" for text in other], sources=own, pieces=500
    )
    assert len(extended) > len(tokenizer)
    assert extended(own)["input_ids"] == tokenizer(own)["input_ids"]
    assert extended.tokenize("пациент") == ["пациент"]
    assert tokenizer.unk_token in tokenizer.tokenize("пациент")


def test_a_vocabulary_without_a_new_piece_or_of_another_kind_is_refused(tokenizer):
    with pytest.raises(UserError, match="no piece that the teacher's vocabulary lacks"):
        extend_tokenizer(tokenizer, ["a b"], sources=["pain"], pieces=50)
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    other = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), unk_token="<unk>")
    with pytest.raises(UserError, match="not to BPE"):
        extend_tokenizer(other, ["a"], sources=["a"], pieces=50)


def test_alignment_finds_the_translation_of_each_word():
    generator = np.random.default_rng(0)
    first = [generator.permutation(6)[:3] for _ in range(200)]
    second = [generator.permutation(sentence) + 6 for sentence in first]
    chances = align(first, second, size=12).toarray()
    assert chances[:6].sum(axis=1) == pytest.approx(np.ones(6))
    assert chances[:6].argmax(axis=1).tolist() == [6, 7, 8, 9, 10, 11]
    assert chances[np.arange(6), np.arange(6, 12)].min() > 0.8


def test_one_round_of_alignment_is_the_formula():
    # One sentence, a -> x y: each of x and y comes half from a and half from nothing.
    chances = align([np.array([0])], [np.array([1, 2])], size=3, rounds=1).toarray()
    assert chances[0].tolist() == [0, 0.5, 0.5]


def test_a_new_piece_starts_as_the_pieces_it_is_aligned_with(new_network, tokenizer):
    own, other = translations(200)
    network = new_network().bert
    table = network.get_input_embeddings().weight.detach().numpy().copy()
    extended = extend_tokenizer(tokenizer, other, sources=own, pieces=500)
    first = len(table)
    start_vectors(network, extended, first=first, sources=own, translations=other)
    found = network.get_input_embeddings().weight.detach().numpy()
    assert np.array_equal(found[: len(table)], table)
    assert len(found) == len(extended)
    for word, translation in WORDS.items():
        a = table[tokenizer.convert_tokens_to_ids(word)]
        b = found[extended.convert_tokens_to_ids(translation)]
        assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) > 0.8


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
    with pytest.raises(TableError, match=r"a\.txt has 3 sentences and b\.txt has 2; a trans"):
        read_translations(tmp_path / "a.txt", tmp_path / "b.txt")
    (tmp_path / "b.txt").write_text("eins\n\ndrei\n")
    with pytest.raises(TableError, match=r"b\.txt: sentence number 2 is empty"):
        read_translations(tmp_path / "a.txt", tmp_path / "b.txt")
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(TableError, match=r"b\.txt cannot be read as lines of UTF-8"):
        read_translations(tmp_path / "a.txt", tmp_path / "b.txt")
    (tmp_path / "e.txt").write_text("\n")
    with pytest.raises(TableError, match=r"e\.txt has no sentence"):
        read_translations(tmp_path / "e.txt", tmp_path / "e.txt")


def test_only_unseen_pairs_are_measured(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\ntwo\n")
    (tmp_path / "b.txt").write_text("eins\nzwei\ndrei\nzwo\n")
    files = tmp_path / "a.txt", tmp_path / "b.txt"
    assert unseen_translations(*files, seen=["eins"], pairs=9) in (
        (["two", "three"], ["zwei", "drei"]),
        (["three", "two"], ["drei", "zwei"]),
    )
    with pytest.raises(TableError, match="every pair has a sentence that was seen"):
        unseen_translations(*files, seen=["one", "two", "three"], pairs=9)


def test_what_does_not_fit_is_refused(tiny_encoder, random_network, tokenizer):
    from transformers import BertForSequenceClassification

    recipe = read_recipe(DistillRecipe, "distill-language", {"model.encoder": str(tiny_encoder)})
    with pytest.raises(UserError, match="2 sentences but 1 translations"):
        distill(recipe, ["pain", "fever"], translations=["a"])
    with pytest.raises(UserError, match="1 translations are empty, the first is number 1"):
        distill(recipe, ["pain", "fever"], translations=["a", " "])
    for place in (0, 7):  # the number is that of the order given
        own = ["pain"] * place + ["\u200b"] + ["fever"] * 9
        with pytest.raises(UserError, match=f"1 sentences are empty, the first is number {place}"):
            distill(recipe, own)
        with pytest.raises(UserError, match=f"1 translations are empty.* number {place}"):
            distill(recipe, ["pain"] * len(own), translations=own)
    with pytest.raises(UserError, match="text number 4 has no vector: no word of it"):
        distill(recipe, [*["pain"] * 4, "больно", *["fever"] * 9])
    with pytest.raises(UserError, match="at least two sentences, got 1"):
        distill(recipe, ["pain"])
    wide = random_network(BertForSequenceClassification, head="classifier").bert
    wide.config.hidden_size = 48
    with pytest.raises(UserError, match="vectors have 32 numbers, the student's 48; choose a stu"):
        distill(recipe, ["pain", "fever"], student=SentenceEncoder(wide, tokenizer))
    with pytest.raises(UserError, match="layers must be from 1 to 2 for this encoder, got 3"):
        with_layers(SentenceEncoder.from_pretrained(tiny_encoder), 3)


# Static


def test_a_static_student_is_a_model_of_sentence_transformers(tiny_encoder, tmp_path):
    pytest.importorskip("model2vec.distill", reason="needs the extra `static`")
    own, _ = translations(100)
    run = CliRunner()
    out = ["--teacher", str(tiny_encoder), "--out", str(tmp_path / "m")]
    with pytest.raises(UserError, match="dimension must be from 1 to 32 for this teacher, got 99"):
        distill_static(tiny_encoder, dimension=99)
    model = distill_static(tiny_encoder, dimension=16)
    save_static(model, tmp_path / "m")
    again = SentenceTransformer(str(tmp_path / "m"), device="cpu")
    vectors = again.encode(own)
    assert vectors.shape == (len(own), 16)
    assert np.array_equal(vectors, model.encode(own))
    # The mean of the vectors of the words, in any order.
    assert again.encode("pain fever") == pytest.approx(again.encode("fever pain"), abs=1e-6)
    done = run.invoke(app, ["sentences", "distill", "--static", *out])
    assert done.exit_code == 1
    assert "exists already" in done.output
    done = run.invoke(app, ["sentences", "distill", "--out", str(tmp_path / "n")])
    assert done.exit_code == 1
    assert "name SENTENCES to learn from" in done.output


# Commands


def test_the_commands_run_on_real_text(tiny_encoder, data_folder, tmp_path):
    """Both shipped recipes at toy size, and the measure of translations."""
    for name in ("stsb_en_train.tsv", "korsts_train.tsv"):
        head = (data_folder / "sentences" / name).read_text("utf-8").split("\n")[:61]
        head = head if name.startswith("stsb") else head[:62]
        rows = head[:60] if name.startswith("stsb") else head[:61]
        (tmp_path / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
    files = [str(tmp_path / "stsb_en_train.tsv"), str(tmp_path / "korsts_train.tsv")]
    options = ["--teacher", str(tiny_encoder), "--epochs", "1"]
    run = CliRunner()
    out = str(tmp_path / "ko")
    done = run.invoke(
        app, ["sentences", "distill", files[0], "--language", files[1], "--out", out, *options]
    )
    assert done.exit_code == 0, done.output
    done = run.invoke(app, ["sentences", "bitext", *files, "--model", out, "--pairs", "20"])
    assert done.exit_code == 0, done.output
    assert "bitext accuracy among 20" in done.output
    small = [*options, "--layers", "1", "--out", str(tmp_path / "small")]
    done = run.invoke(app, ["sentences", "distill", files[0], *small])
    assert done.exit_code == 0, done.output
    assert SentenceEncoder.from_pretrained(tmp_path / "small").dimension == 32
