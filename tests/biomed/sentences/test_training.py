"""Training by a recipe, its data and its validation; measures; the commands."""

import numpy as np
import pandas as pd
import pytest
from sentence_transformers import SentenceTransformer
from typer.testing import CliRunner

from biomed.cli import app
from biomed.sentences.augment import AugmentRecipe, augment
from biomed.sentences.data import labelled, read_pairs, scores
from biomed.sentences.encoder import CrossEncoder, SentenceEncoder
from biomed.sentences.evaluation import (
    evaluate_models,
    evaluate_pairs,
    evaluate_retrieval,
    measure_rankings,
)
from biomed.sentences.objectives import METRICS
from biomed.sentences.training import SentenceRecipe, fit
from domainbert.errors import UserError
from domainbert.models.pooling import unit
from domainbert.tables import TableError, read_table
from domainbert.training.recipes import read_recipe, recipe_file

run = CliRunner()
QUICK = {
    "training.epochs": 6.0,
    "training.learning_rate": 6e-3,
    "training.dropout": 0.0,
    "training.evaluations": 1,
    "training.patience": 9,
    "model.scale": 5.0,
}


# Data


def rows(path):
    return read_pairs(path).to_numpy().tolist()


def test_pairs_come_from_tables_and_sts_files(tmp_path):
    (tmp_path / "a.csv").write_text(
        'query,passage\nwhat?,"one, two"\nwho?,"none"\n'
    )
    assert list(read_pairs(tmp_path / "a.csv").columns) == ["first", "second"]
    assert rows(tmp_path / "a.csv") == [
        ["what?", "one, two"],
        ["who?", "none"],
    ]
    line = 'g\tf\ty\t1\t2.500\tA "man.\tA dog.'
    (tmp_path / "b.tsv").write_text(f"{line}\n{line}\tlicence\n")
    found = read_pairs(tmp_path / "b.tsv")
    assert found["first"].tolist() == ['A "man.'] * 2
    assert scores(found, 5).tolist() == [0.5, 0.5]
    head = "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2"
    (tmp_path / "c.tsv").write_text(f"{head}\n{line}\n")
    assert rows(tmp_path / "c.tsv") == [['A "man.', "A dog.", "2.500"]]
    lines = [
        "sentence1\tsentence2\tgold_label",
        "x\x85y\tz\tneutral",
        '"A\tb\tentailment',
    ]
    (tmp_path / "x.tsv").write_text("\n".join(lines))
    assert rows(tmp_path / "x.tsv") == [
        ["x\x85y", "z", "neutral"],
        ['"A', "b", "entailment"],
    ]
    (tmp_path / "l.tsv").write_bytes("café\tthé\tneutral\n".encode("latin-1"))
    with pytest.raises(TableError, match="not in UTF-8"):
        read_pairs(tmp_path / "l.tsv")
    (tmp_path / "e.csv").write_text("anchor,positive,negative\na,b,c\n")
    assert rows(tmp_path / "e.csv") == [["a", "b", "c"]]
    (tmp_path / "u.csv").write_text(
        "Mean,Stdev,Term1,Term2\n9.5,1,gout,arthritis\n"
    )
    assert rows(tmp_path / "u.csv") == [["gout", "arthritis", "9.5"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "first,second\na,\n",
            "1 rows have no second, the first is row number 0",
        ),
        (
            "first,second,score\na,b,1\nc,d,\n",
            "1 rows have no label, the first is row number 1",
        ),
        ("anchor,positive,negative\na,b,c\nd,e,\n", "1 rows have no negative"),
        ("first,second\n", "no rows"),
        ("one,two\na,b\n", "no column 'first'"),
        ('first,second\n"a,b\n', "p.csv line"),
    ],
)
def test_bad_tables_are_one_line(tmp_path, content, message):
    (tmp_path / "p.csv").write_text(content)
    with pytest.raises(TableError, match=message):
        read_pairs(tmp_path / "p.csv")


def test_scores_on_another_scale_are_refused(tmp_path):
    (tmp_path / "p.csv").write_text("first,second,score\na,b,4.5\nc,d,x\n")
    with pytest.raises(
        TableError, match="2 of 2 scores are not numbers from 0 to 1"
    ):
        scores(read_pairs(tmp_path / "p.csv"))


# Training


@pytest.mark.parametrize("kind", ["bi-encoder", "cross-encoder"])
def test_scores_are_learnt(tiny_encoder, write_pairs, tmp_path, kind):
    train, validation = (
        read_pairs(write_pairs(name, seed=seed))
        for seed, name in enumerate(["a.csv", "b.csv"])
    )
    changes = {**QUICK, "model.kind": kind, "model.encoder": str(tiny_encoder)}
    changes |= {"training.epochs": 20.0 if kind == "cross-encoder" else 6.0}
    model = fit(
        train,
        read_recipe(SentenceRecipe, overrides=changes),
        validation=validation,
    )
    found = evaluate_pairs(model, validation).scores
    assert found["Spearman"].value > 0.7
    best = model.manifest.training.validation["spearman"]
    assert best == pytest.approx(found["Spearman"].value, abs=0.02)
    model.save_pretrained(tmp_path / "model")
    again = type(model).from_pretrained(tmp_path / "model")
    repeated = evaluate_pairs(again, validation).scores["Spearman"].value
    assert repeated == pytest.approx(found["Spearman"].value, abs=1e-4)
    with pytest.raises(
        UserError,
        match=f"all {len(train)} pairs are in training and validation",
    ):
        fit(
            train,
            read_recipe(SentenceRecipe, overrides=changes),
            validation=train,
        )


@pytest.mark.parametrize(
    "objective", ["contrastive", "classification", "triplet"]
)
def test_the_other_objectives_train_too(
    tiny_encoder, write_pairs, tmp_path, objective
):
    kind = "label" if objective == "classification" else "score"
    paths = [
        write_pairs(f"{seed}.csv", seed=seed, kind=kind, count=60)
        for seed in (0, 1)
    ]
    if objective == "triplet":
        for path in paths:
            _, *lines = path.read_text().splitlines()
            rows = [line.split(",")[:2] + ["left kidney"] for line in lines]
            path.write_text(
                "\n".join(["anchor,positive,negative", *map(",".join, rows)])
                + "\n"
            )
    changes = {
        **QUICK,
        "model.encoder": str(tiny_encoder),
        "model.objective": objective,
        "training.epochs": 1.0,
    }
    train, validation = map(read_pairs, paths)
    model = fit(
        train,
        read_recipe(SentenceRecipe, overrides=changes),
        validation=validation,
    )
    assert isinstance(model, SentenceEncoder)
    found = model.manifest.training.validation
    assert list(found) == [METRICS[objective]]
    first, second = (
        unit(model.encode(validation[c].tolist())) for c in ("first", "second")
    )
    cosine = (first * second).sum(axis=1)
    if objective == "classification":
        same = (validation["label"] == "same").to_numpy()
        share = same.mean()
        apart = cosine[same].mean() - cosine[~same].mean()
        expected = share * (1 - share) * apart**2 / cosine.var()
    elif objective == "triplet":
        a, p, n = (
            model.encode(validation[c].tolist()) for c in validation.columns
        )
        expected = (
            np.linalg.norm(a - p, axis=1) < np.linalg.norm(a - n, axis=1)
        ).mean()
    else:
        all_seconds = unit(model.encode(sorted(set(validation["second"]))))
        ranks = 1 + (first @ all_seconds.T > cosine[:, None] + 1e-6).sum(
            axis=1
        )
        expected = (1 / ranks).mean()
    assert found[METRICS[objective]] == pytest.approx(expected, abs=0.05)


def test_a_cross_encoder_reads_a_triplet_as_a_right_and_a_wrong_pair(
    tiny_encoder,
):
    firsts, right, wrong = (
        ["heart", "kidney"] * 30,
        ["failure"] * 60,
        ["edema"] * 60,
    )
    train = pd.DataFrame({"first": firsts, "second": right, "negative": wrong})
    validation = train[:2].assign(first=["left heart", "left kidney"])
    assert labelled(validation)["label"].tolist() == ["1", "1", "0", "0"]
    changes = {
        **QUICK,
        "model.kind": "cross-encoder",
        "model.encoder": str(tiny_encoder),
    }
    changes |= {"training.epochs": 10.0, "model.scale": 1.0}
    model = fit(
        train,
        read_recipe(SentenceRecipe, overrides=changes),
        validation=validation,
    )
    good, bad = (
        model.predict("left heart", text).score
        for text in ("failure", "edema")
    )
    assert good > 0.5 > bad


def test_what_does_not_fit_the_objective_is_refused(tiny_encoder, write_pairs):
    train, validation = (
        read_pairs(write_pairs(f"{seed}.csv", seed=seed)) for seed in (0, 1)
    )
    classes = read_pairs(write_pairs("c.csv", kind="label"))

    def train_on(one, two, **changes):
        changes = {f"model.{key}": value for key, value in changes.items()}
        changes |= {**QUICK, "model.encoder": str(tiny_encoder)}
        fit(
            one, read_recipe(SentenceRecipe, overrides=changes), validation=two
        )

    with pytest.raises(UserError, match="triplets need a column `negative`"):
        train_on(train, validation, objective="triplet")
    with pytest.raises(UserError, match="scores are not numbers from 0 to 5"):
        train_on(classes, validation)
    with pytest.raises(UserError, match="scores are not numbers from 0 to 5"):
        train_on(classes, validation, kind="cross-encoder")
    with pytest.raises(UserError, match="objective: expected"):
        train_on(train, validation, objective="cosine")


# Measures


def test_rankings_by_hand():
    ranked = [["a", "b", "c"], ["b", "a"], ["c"]]
    right = pd.Series({"1": {"a"}, "2": {"a", "z"}, "3": {"a"}})
    found = measure_rankings(ranked, right)
    assert found.table["MRR@10"].tolist() == [1, 0.5, 0]
    assert found.scores["MRR@10"].value == pytest.approx((1 + 1 / 2 + 0) / 3)
    ideal = 1 + 1 / np.log2(3)
    assert found.scores["nDCG@10"].value == pytest.approx(
        (1 + (1 / np.log2(3)) / ideal) / 3
    )
    assert found.scores["recall@1"].value == pytest.approx(1 / 3)
    assert found.scores["recall@10"].value == pytest.approx((1 + 0.5) / 3)
    assert found.table["query"].tolist() == ["1", "2", "3"]


def test_retrieval_is_what_sentence_transformers_measures(encoder, tmp_path):
    pytest.importorskip("bm25s")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.evaluation import (
        InformationRetrievalEvaluator,
    )

    words = (
        "pain fever edema insulin kidney heart chest blood lives home".split()
    )
    lines = [
        f"{a} {b},{b} {a} {a}" for a in words for b in words[:3] if a != b
    ]
    (tmp_path / "p.csv").write_text(
        "\n".join(["query,passage", *lines]) + "\n"
    )
    pairs = read_pairs(tmp_path / "p.csv")
    ways = evaluate_retrieval(encoder, pairs, with_words=True)
    assert list(ways) == ["meaning", "words", "meaning and words"]
    found = ways["meaning"]
    encoder.save_pretrained(tmp_path / "model")
    theirs = InformationRetrievalEvaluator(
        {str(i): text for i, text in enumerate(pairs["first"])},
        {str(i): text for i, text in enumerate(pairs["second"])},
        {str(i): {str(i)} for i in range(len(pairs))},
        write_csv=False,
    )(
        SentenceTransformer(
            str(tmp_path / "model"), device="cpu", local_files_only=True
        )
    )
    assert found.scores["MRR@10"].value == pytest.approx(
        theirs["cosine_mrr@10"], abs=1e-6
    )
    assert found.scores["nDCG@10"].value == pytest.approx(
        theirs["cosine_ndcg@10"], abs=1e-6
    )
    assert found.scores["recall@1"].value == pytest.approx(
        theirs["cosine_recall@1"], abs=1e-6
    )


def test_any_number_of_models_are_measured_side_by_side(
    encoder, new_network, tokenizer, cross
):
    other = SentenceEncoder(new_network(seed=3).bert, tokenizer)
    words = "fever pain edema insulin".split()
    pairs = pd.DataFrame(
        {
            "first": words,
            "second": words[1:] + words[:1],
            "label": list("3124"),
        }
    )
    found = evaluate_models(
        {"one": encoder, "two": other}, sts=pairs, cross=cross
    )
    models = {"one": encoder, "two": other, "cross-encoder": cross}
    assert found == {
        name: evaluate_pairs(model, pairs).scores
        for name, model in models.items()
    }
    with pytest.raises(
        UserError, match="nothing to measure: expected rated pairs"
    ):
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
    train, validation = (
        write_pairs(f"{seed}.csv", seed=seed, count=60) for seed in (0, 1)
    )
    recipe = tmp_path / "r.toml"
    recipe.write_text(
        "[training]\nlearning_rate = 6e-3\ndropout = 0.0\nevaluations = 1\n"
    )
    shared = (
        "--validation",
        validation,
        "--scale",
        5,
        "--epochs",
        1,
        "--encoder",
        tiny_encoder,
    )
    shared += ("--recipe", recipe)
    said = invoke(
        "train", train, "--out", tmp_path / "bi", "--merged", *shared
    )
    assert "spearman" in said
    theirs = SentenceTransformer(str(tmp_path / "bi")).encode(
        ["Fever and pneumonia."]
    )
    ours = SentenceEncoder.from_pretrained(tmp_path / "bi").encode(
        ["Fever and pneumonia."]
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    more = ("--kind", "cross-encoder")
    invoke("train", train, "--out", tmp_path / "cross", *shared, *more)
    notes = tmp_path / "notes.csv"
    notes.write_text(
        "id,text\n7,Heart failure with edema.\n8,\n9,Pneumonia and fever.\n"
    )
    model = ("--model", tmp_path / "bi")
    said = invoke("encode", notes, "--out", tmp_path / "v.parquet", *model)
    assert "1 empty, 2 ok" in said
    said = invoke(
        "index", notes, "--out", tmp_path / "i", *model, "--window", 20
    )
    assert "1 of the texts could not be indexed; the first has the id" in said
    later_notes = tmp_path / "later.csv"
    later_notes.write_text("id,text\n10,Fracture of the hip.\n")
    invoke("index", later_notes, "--out", tmp_path / "i", *model)
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
    report = (
        "--out",
        tmp_path / "report",
        "--sts",
        validation,
        "--retrieval",
        train,
    )
    said = invoke("evaluate", *report, *model, "--rerank", tmp_path / "cross")
    assert "Spearman" in said
    assert "reranked" in said
    assert (tmp_path / "report" / "comparison.csv").is_file()


def test_a_failure_is_one_line(tiny_encoder, tmp_path):
    (tmp_path / "p.csv").write_text("one,two\na,b\n")
    arguments = [
        "train",
        tmp_path / "p.csv",
        "--validation",
        tmp_path / "p.csv",
    ]
    result = run.invoke(
        app, ["sentences", *map(str, arguments), "--out", str(tmp_path / "m")]
    )
    assert result.exit_code == 1
    assert "no column 'first'" in result.output
    arguments = [
        "search",
        "fever",
        "--index",
        tmp_path / "none",
        "--model",
        tiny_encoder,
    ]
    result = run.invoke(app, ["sentences", *map(str, arguments)])
    assert "no such index folder" in result.output
    assert (
        run.invoke(
            app, ["sentences", "evaluate", "--out", str(tmp_path / "x")]
        ).exit_code
        == 1
    )


@pytest.mark.data
@pytest.mark.slow
def test_the_shared_files_are_read(data_folder):
    pairs = read_pairs(data_folder / "sentences" / "stsb_en_dev.tsv")
    assert len(pairs) == 1500
    assert max(scores(pairs, 5)) == 1
    assert (
        len(read_pairs(data_folder / "sentences" / "korsts_dev.tsv")) == 1500
    )


def test_a_model_of_the_other_kind_is_refused(encoder, tmp_path):
    encoder.save_pretrained(tmp_path / "model")
    with pytest.raises(
        UserError, match="is a model for sentences, not for pairs"
    ):
        CrossEncoder.from_pretrained(tmp_path / "model")


SHIPPED = ["sts", "sts-cross", "retrieval", "augmented"]


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_recipes_are_read(name):
    kinds = {"augmented": AugmentRecipe}
    recipe = read_recipe(kinds.get(name, SentenceRecipe), recipe_file(name))
    by_name = read_recipe(kinds.get(name, SentenceRecipe), name)
    assert not any(
        by_name.card.model_dump().values()
    )  # it tells of data that was not read here
    assert by_name.training == recipe.training
    assert recipe.card.name == name
    assert f"--recipe {name} " in recipe.card.rebuild
    assert recipe.model.kind == (
        "cross-encoder" if name == "sts-cross" else "bi-encoder"
    )


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_recipes_run_on_real_text(
    tiny_encoder, data_folder, tmp_path, name
):
    source = data_folder / "sentences" / "stsb_en_dev.tsv"
    lines = source.read_text().splitlines()
    if (
        name == "retrieval"
    ):  # the most similar pairs, as questions and passages
        lines = [line for line in lines if float(line.split("\t")[4]) > 4.5]
    paths = [tmp_path / "train.tsv", tmp_path / "validation.tsv"]
    for path, part in zip(paths, (lines[:60], lines[60:100]), strict=True):
        path.write_text("\n".join(part) + "\n")
    changes = {
        "model.encoder": str(tiny_encoder),
        "training.epochs": 1.0,
        "model.window": 64,
    }
    sides = [read_pairs(path) for path in paths]
    if name == "augmented":
        pytest.importorskip("bm25s")
        changes |= {"cross.epochs": 1.0, "silver.bins": 1}
        model = augment(
            read_recipe(AugmentRecipe, name, changes), *sides
        ).encoder
    else:
        model = fit(
            sides[0],
            read_recipe(SentenceRecipe, name, changes),
            validation=sides[1],
        )
    model.save_pretrained(tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"# {model.manifest.card.title}" in card
    assert "On 40 validation examples" in card
