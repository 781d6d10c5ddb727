"""Training by a recipe, its data and its validation; measures; the commands."""

import json

import numpy as np
import pandas as pd
import pytest
from sentence_transformers import SentenceTransformer
from typer.testing import CliRunner

from biomed.cli import app
from biomed.sentences.augment import AugmentRecipe, augment
from biomed.sentences.data import Examples, read_examples, read_groups
from biomed.sentences.encoder import CrossEncoder, SentenceEncoder
from biomed.sentences.evaluation import (
    compare,
    evaluate_clusters,
    evaluate_models,
    evaluate_retrieval,
    evaluate_sts,
    plot_models,
    score_rankings,
)
from biomed.sentences.medical import MedicalRecipe
from biomed.sentences.training import SentenceRecipe, scorer, train_from_recipe
from domainbert.errors import UserError
from domainbert.tables import TableError, read_table
from domainbert.training.recipes import read_recipe

run = CliRunner()
QUICK = {
    "training.epochs": 6.0,
    "training.learning_rate": 6e-3,
    "training.dropout": 0.0,
    "training.evaluations": 1,
    "training.patience": 9,
    "data.scale": 5.0,
}


# Data


def test_pairs_come_from_tables_sts_files_and_pubmedqa(tmp_path):
    (tmp_path / "a.csv").write_text('query,passage\nwhat?,"one, two"\nwho?,"none"\n')
    found = read_examples(tmp_path / "a.csv")
    assert (found.first, found.second) == (["what?", "who?"], ["one, two", "none"])
    assert not found.labels
    assert not found.third
    line = 'g\tf\ty\t1\t2.500\tA "man.\tA dog.'
    (tmp_path / "b.tsv").write_text(f"{line}\n{line}\tlicence\n")
    found = read_examples(tmp_path / "b.tsv")
    assert found.first == ['A "man.'] * 2
    assert found.scores(5) == [0.5, 0.5]
    head = "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2"
    (tmp_path / "c.tsv").write_text(f"{head}\n{line}\n")
    assert read_examples(tmp_path / "c.tsv").second == ["A dog."]
    rows = ["sentence1\tsentence2\tgold_label", "x\x85y\tz\tneutral", '"A\tb\tentailment']
    (tmp_path / "x.tsv").write_text("\n".join(rows))
    found = read_examples(tmp_path / "x.tsv")
    assert (found.first, found.labels) == (["x\x85y", '"A'], ["neutral", "entailment"])
    (tmp_path / "l.tsv").write_bytes("café\tthé\tneutral\n".encode("latin-1"))
    with pytest.raises(TableError, match="not in UTF-8"):
        read_examples(tmp_path / "l.tsv")
    document = {"1": {"QUESTION": "was it?", "CONTEXTS": ["a.", "b."], "final_decision": "yes"}}
    (tmp_path / "d.json").write_text(json.dumps(document))
    found = read_examples(tmp_path / "d.json")
    assert (found.second, found.labels) == (["a. b."], ["yes"])
    (tmp_path / "e.csv").write_text("anchor,positive,negative\na,b,c\n")
    assert read_examples(tmp_path / "e.csv").third == ["c"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("first,second\na,\n", "1 rows have no second, the first is row number 0"),
        ("first,second,score\na,b,1\nc,d,\n", "1 rows have no label, the first is row number 1"),
        ("anchor,positive,negative\na,b,c\nd,e,\n", "1 rows have no negative"),
        ("first,second\n", "no rows"),
        ("one,two\na,b\n", "no column 'first'"),
        ('first,second\n"a,b\n', "p.csv line"),
    ],
)
def test_bad_tables_are_one_line(tmp_path, content, message):
    (tmp_path / "p.csv").write_text(content)
    with pytest.raises(TableError, match=message):
        read_examples(tmp_path / "p.csv")


def test_scores_on_another_scale_are_refused(tmp_path):
    (tmp_path / "p.csv").write_text("first,second,score\na,b,4.5\nc,d,x\n")
    with pytest.raises(TableError, match="2 of 2 scores are not numbers from 0 to 1"):
        read_examples(tmp_path / "p.csv").scores(1)


# Training


@pytest.mark.parametrize("kind", ["bi-encoder", "cross-encoder"])
def test_scores_are_learnt(tiny_encoder, write_pairs, tmp_path, kind):
    train, validation = (
        read_examples(write_pairs(name, seed=seed)) for seed, name in enumerate(["a.csv", "b.csv"])
    )
    changes = {**QUICK, "model.kind": kind, "model.encoder": str(tiny_encoder)}
    changes |= {"training.epochs": 20.0 if kind == "cross-encoder" else 6.0}
    model = train_from_recipe(read_recipe(SentenceRecipe, overrides=changes), train, validation)
    found = evaluate_sts(model, validation, scale=5)
    assert found["Spearman"].value > 0.7
    best = model.manifest["validation"]["spearman"]
    assert best == pytest.approx(found["Spearman"].value, abs=0.02)
    model.save_pretrained(tmp_path / "model")
    again = type(model).from_pretrained(tmp_path / "model")
    repeated = evaluate_sts(again, validation, scale=5)["Spearman"].value
    assert repeated == pytest.approx(found["Spearman"].value, abs=1e-4)
    with pytest.raises(UserError, match=f"all {len(train)} pairs are in training and validation"):
        train_from_recipe(read_recipe(SentenceRecipe, overrides=changes), train, train)


@pytest.mark.parametrize("objective", ["contrastive", "classification", "triplet"])
def test_the_other_objectives_train_too(tiny_encoder, write_pairs, tmp_path, objective):
    kind = "label" if objective == "classification" else "score"
    paths = [write_pairs(f"{seed}.csv", seed=seed, kind=kind, count=60) for seed in (0, 1)]
    if objective == "triplet":
        for path in paths:
            _, *lines = path.read_text().splitlines()
            rows = [line.split(",")[:2] + ["left kidney"] for line in lines]
            path.write_text("\n".join(["anchor,positive,negative", *map(",".join, rows)]) + "\n")
    changes = {
        **QUICK,
        "model.encoder": str(tiny_encoder),
        "model.objective": objective,
        "training.epochs": 1.0,
    }
    train, validation = map(read_examples, paths)
    model = train_from_recipe(read_recipe(SentenceRecipe, overrides=changes), train, validation)
    assert isinstance(model, SentenceEncoder)
    (value,) = model.manifest["validation"].values()
    assert 0 <= value <= 1
    expected = scorer(objective, validation, scale=5)(model, None)
    assert list(expected.values()) == pytest.approx([value], abs=0.05)


def test_a_cross_encoder_reads_a_triplet_as_a_right_and_a_wrong_pair(tiny_encoder):
    firsts, right, wrong = ["heart", "kidney"] * 30, ["failure"] * 60, ["edema"] * 60
    train = Examples(firsts, right, wrong, [])
    validation = Examples(["left heart", "left kidney"], right[:2], wrong[:2], [])
    assert validation.labelled().labels == ["1", "1", "0", "0"]
    changes = {**QUICK, "model.kind": "cross-encoder", "model.encoder": str(tiny_encoder)}
    changes |= {"training.epochs": 10.0, "data.scale": 1.0}
    model = train_from_recipe(read_recipe(SentenceRecipe, overrides=changes), train, validation)
    good, bad = (model.predict("left heart", text).score for text in ("failure", "edema"))
    assert good > 0.5 > bad


def test_what_does_not_fit_the_objective_is_refused(tiny_encoder, write_pairs):
    train, validation = (read_examples(write_pairs(f"{seed}.csv", seed=seed)) for seed in (0, 1))
    labelled = read_examples(write_pairs("c.csv", kind="label"))
    new = read_examples(write_pairs("d.csv", kind="label", seed=5))
    new.labels[0] = "unseen"

    def fit(one, two, **changes):
        changes = {f"model.{key}": value for key, value in changes.items()}
        changes |= {**QUICK, "model.encoder": str(tiny_encoder)}
        train_from_recipe(read_recipe(SentenceRecipe, overrides=changes), one, two)

    with pytest.raises(UserError, match="triplets need a column `negative`"):
        fit(train, validation, objective="triplet")
    with pytest.raises(UserError, match="scores are not numbers from 0 to 5"):
        fit(labelled, new)
    with pytest.raises(UserError, match="validation has the class 'unseen', which training has"):
        fit(labelled, new, kind="cross-encoder")
    with pytest.raises(UserError, match="objective: expected"):
        fit(train, validation, objective="cosine")


# Measures


def test_rankings_by_hand():
    found = score_rankings([["a", "b", "c"], ["b", "a"], ["c"]], [{"a"}, {"a", "z"}, {"a"}])
    assert found.ranks.tolist() == [1, 2, 0]
    assert found.scores["MRR@10"].value == pytest.approx((1 + 1 / 2 + 0) / 3)
    ideal = 1 + 1 / np.log2(3)
    assert found.scores["nDCG@10"].value == pytest.approx((1 + (1 / np.log2(3)) / ideal) / 3)
    assert found.scores["recall@1"].value == pytest.approx(1 / 3)
    assert found.scores["recall@10"].value == pytest.approx((1 + 0.5) / 3)
    with pytest.raises(UserError, match="each with at least one right text"):
        score_rankings([["a"]], [set()])


def test_retrieval_is_what_sentence_transformers_measures(encoder, tmp_path):
    pytest.importorskip("bm25s")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    words = "pain fever edema insulin kidney heart chest blood lives home".split()
    lines = [f"{a} {b},{b} {a} {a}" for a in words for b in words[:3] if a != b]
    (tmp_path / "p.csv").write_text("\n".join(["query,passage", *lines]) + "\n")
    pairs = read_examples(tmp_path / "p.csv")
    ways = evaluate_retrieval(encoder, pairs, with_words=True)
    assert list(ways) == ["meaning", "words", "meaning and words"]
    found = ways["meaning"]
    encoder.save_pretrained(tmp_path / "model")
    theirs = InformationRetrievalEvaluator(
        {str(i): text for i, text in enumerate(pairs.first)},
        {str(i): text for i, text in enumerate(pairs.second)},
        {str(i): {str(i)} for i in range(len(pairs))},
        write_csv=False,
    )(SentenceTransformer(str(tmp_path / "model"), device="cpu", local_files_only=True))
    assert found.scores["MRR@10"].value == pytest.approx(theirs["cosine_mrr@10"], abs=1e-6)
    assert found.scores["nDCG@10"].value == pytest.approx(theirs["cosine_ndcg@10"], abs=1e-6)
    assert found.scores["recall@1"].value == pytest.approx(theirs["cosine_recall@1"], abs=1e-6)


def test_clusters_match_groups_that_are_apart(encoder, tmp_path):
    texts = ["heart failure"] * 5 + ["insulin"] * 5 + ["left kidney disease"] * 5
    lines = [f"{text},{'abc'[n // 5]}" for n, text in enumerate(texts)]
    (tmp_path / "g.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    groups = read_groups(tmp_path / "g.csv")
    assert evaluate_clusters(encoder, groups.first, groups.labels)["V-measure"].value == 1
    mixed = evaluate_clusters(encoder, groups.first, ["x", "y", "z"] * 5)["V-measure"]
    assert mixed.value < 0.3
    with pytest.raises(UserError, match="at least two groups, got 1"):
        evaluate_clusters(encoder, ["a", "b"], ["x", "x"])
    (tmp_path / "g.csv").write_text("text,label\na,\n")
    with pytest.raises(TableError, match="the text or its group is empty"):
        read_groups(tmp_path / "g.csv")


def test_any_number_of_models_are_measured_side_by_side(
    encoder, new_network, tokenizer, write_pairs, tmp_path
):
    other = SentenceEncoder(new_network(seed=3).bert, tokenizer)
    pairs = read_examples(write_pairs("p.csv", count=40))
    terms = pd.DataFrame(
        {"first": ["fever", "pain", "edema"], "second": ["pain", "edema", "insulin"]}
    ).assign(rating=[3, 1, 2])
    rows = evaluate_models({"one": encoder, "two": other}, sts=pairs, terms=terms)
    assert list(rows) == ["one", "two"]
    for own in rows.values():
        assert list(own) == ["Spearman", "Pearson", "Spearman of terms", "texts per second"]
        assert 0 < own["texts per second"].low <= own["texts per second"].high
    table = compare(rows)
    assert len(table) == 8
    figure = plot_models(table)
    (legend,) = figure.legends
    rate = rows["two"]["texts per second"].value
    assert [text.get_text() for text in legend.get_texts()][1] == f"two ({rate:,.0f} texts/s)"
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["Spearman", "Pearson", "Spearman of terms"]
    with pytest.raises(UserError, match="nothing to measure: name --sts, --retrieval"):
        evaluate_models({"one": encoder})


# Commands


def invoke(*arguments):
    result = run.invoke(app, ["sentences", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


def test_every_command_has_help():
    for name in "train augment encode index search rerank evaluate".split():
        assert run.invoke(app, ["sentences", name, "--help"]).exit_code == 0


def test_the_commands_work_together(tiny_encoder, write_pairs, tmp_path):
    train, validation = (write_pairs(f"{seed}.csv", seed=seed, count=60) for seed in (0, 1))
    recipe = tmp_path / "r.toml"
    recipe.write_text("[training]\nlearning_rate = 6e-3\ndropout = 0.0\nevaluations = 1\n")
    shared = ("--validation", validation, "--scale", 5, "--epochs", 1, "--encoder", tiny_encoder)
    shared += ("--recipe", recipe)
    said = invoke("train", train, "--out", tmp_path / "bi", "--merged", *shared)
    assert "spearman" in said
    theirs = SentenceTransformer(str(tmp_path / "bi")).encode(["Fever and pneumonia."])
    ours = SentenceEncoder.from_pretrained(tmp_path / "bi").encode(["Fever and pneumonia."])
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    more = ("--kind", "cross-encoder")
    invoke("train", train, "--out", tmp_path / "cross", *shared, *more)
    notes = tmp_path / "notes.csv"
    notes.write_text("id,text\n7,Heart failure with edema.\n8,\n9,Pneumonia and fever.\n")
    model = ("--model", tmp_path / "bi")
    said = invoke("encode", notes, "--out", tmp_path / "v.parquet", *model)
    assert "1 empty, 2 ok" in said
    said = invoke("index", notes, "--out", tmp_path / "i", *model, "--window", 20)
    assert "1 texts could not be indexed" in said
    invoke("index", notes, "--out", tmp_path / "i", *model)
    found = ("--index", tmp_path / "i", *model, "-k", 2)
    assert "Pneumonia" in invoke("search", "Pneumonia and fever.", *found)
    queries = tmp_path / "q.csv"
    queries.write_text("query\nedema\n\nfever\n")
    options = ("--out", tmp_path / "f.csv", "--rerank", tmp_path / "cross")
    invoke("search", queries, *found, *options)
    table = read_table(tmp_path / "f.csv")
    assert table["rank"].dropna().astype(int).tolist() == [1, 2, 1, 2]
    pairs = ("--model", tmp_path / "cross", "--out", tmp_path / "s.csv")
    invoke("rerank", validation, *pairs)
    assert set(read_table(tmp_path / "s.csv")["status"]) == {"ok"}
    report = ("--out", tmp_path / "report", "--sts", validation, "--retrieval", train)
    said = invoke("evaluate", *report, *model, "--rerank", tmp_path / "cross")
    assert "Spearman" in said
    assert "reranked" in said
    assert (tmp_path / "report" / "comparison.png").stat().st_size > 3000


def test_options_that_would_not_be_read_are_refused(write_pairs, tmp_path):
    def refused(*arguments):
        result = run.invoke(app, ["sentences", "train", *map(str, arguments)])
        assert result.exit_code == 1
        return " ".join(result.output.split())

    out = ("--out", tmp_path / "m")
    message = "is not the folder of the public data sets; with pairs, name --validation"
    assert message in refused(write_pairs("p.csv"), *out)
    assert message in refused(tmp_path / "none", *out)
    for option in (("--kind", "cross-encoder"), ("--objective", "triplet"), ("--scale", 5)):
        assert f"{option[0]} is for training on pairs" in refused(tmp_path, *out, *option)


def test_a_failure_is_one_line(tiny_encoder, tmp_path):
    (tmp_path / "p.csv").write_text("one,two\na,b\n")
    arguments = ["train", tmp_path / "p.csv", "--validation", tmp_path / "p.csv"]
    result = run.invoke(app, ["sentences", *map(str, arguments), "--out", str(tmp_path / "m")])
    assert result.exit_code == 1
    assert "no column 'first'" in result.output
    arguments = ["search", "fever", "--index", tmp_path / "none", "--model", tiny_encoder]
    result = run.invoke(app, ["sentences", *map(str, arguments)])
    assert "holds no index" in result.output
    assert run.invoke(app, ["sentences", "evaluate", "--out", str(tmp_path / "x")]).exit_code == 1


@pytest.mark.data
@pytest.mark.slow
def test_the_shared_files_are_read(data_folder):
    pairs = read_examples(data_folder / "sentences" / "stsb_en_dev.tsv")
    assert len(pairs) == 1500
    assert max(pairs.scores(5)) == 1
    assert len(read_examples(data_folder / "sentences" / "korsts_dev.tsv")) == 1500
    assert len(read_examples(data_folder / "qa" / "pubmedqa_labeled.json")) == 1000


def test_a_model_of_the_other_kind_is_refused(encoder, tmp_path):
    encoder.save_pretrained(tmp_path / "model")
    with pytest.raises(UserError, match="is a model for sentences, not for pairs"):
        CrossEncoder.from_pretrained(tmp_path / "model")


SHIPPED = ["sts", "sts-cross", "retrieval", "rerank", "augmented", "sentences"]


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_recipes_are_read(name):
    kinds = {"augmented": AugmentRecipe, "sentences": MedicalRecipe}
    recipe = read_recipe(kinds.get(name, SentenceRecipe), name)
    assert recipe.card.name == name
    assert f"--recipe {name} " in recipe.card.rebuild
    cross = name in ("sts-cross", "rerank")
    assert recipe.model.kind == ("cross-encoder" if cross else "bi-encoder")


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("name", ["sts", "sts-cross", "retrieval", "rerank", "augmented"])
def test_the_shipped_recipes_run_on_real_text(tiny_encoder, data_folder, tmp_path, name):
    source = data_folder / "sentences" / "stsb_en_dev.tsv"
    lines = source.read_text().splitlines()
    if name == "retrieval":  # the most similar pairs, as questions and passages
        lines = [line for line in lines if float(line.split("\t")[4]) > 4.5]
    paths = [tmp_path / "train.tsv", tmp_path / "validation.tsv"]
    for path, part in zip(paths, (lines[:60], lines[60:100]), strict=True):
        path.write_text("\n".join(part) + "\n")
    changes = {"model.encoder": str(tiny_encoder), "training.epochs": 1.0, "model.window": 64}
    sides = [read_examples(path) for path in paths]
    if name == "rerank":
        sides = [Examples(part.first, part.second, part.second[::-1], []) for part in sides]
    if name == "augmented":
        pytest.importorskip("bm25s")
        changes |= {"cross.epochs": 1.0, "silver.bins": 1}
        model = augment(read_recipe(AugmentRecipe, name, changes), *sides).encoder
    else:
        model = train_from_recipe(read_recipe(SentenceRecipe, name, changes), *sides)
    model.save_pretrained(tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"# {model.manifest['card']['title']}" in card
    assert "On 40 validation examples" in card
