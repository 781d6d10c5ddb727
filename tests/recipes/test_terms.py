"""The recipe of the shipped model `terms`: its training sets, its objective, its scores."""

import re
from itertools import count

import numpy as np
import pandas as pd
import pytest

from biomed.sentences.objectives import TextVectorsObjective
from biomed.terms.similarity import TermEmbedder
from domainbert.models.pooling import unit
from domainbert.training.recipes import read_recipe, recipe_file
from domainbert.training.settings import TrainingSettings
from recipes import passages
from recipes.passages import topic_side
from recipes.relations import (
    Concept,
    Relation,
    definition_relations,
    held_out_names,
    read_concepts,
    without_names,
)
from recipes.terms import __main__ as terms
from recipes.terms import training_sets
from recipes.terms.measuring import evaluate_synonyms
from recipes.terms.objective import RatedObjective
from recipes.terms.recipe import MedicalTermRecipe
from recipes.terms.training_sets import HeldOut, all_relations, repeated
from tests.recipes.conftest import run


def test_relations_are_read_as_often_as_the_recipe_says():
    relations = [Relation(str(i), ("a", "b")) for i in range(10)]
    assert repeated(relations, 2, seed=0) == [*relations, *relations]
    assert repeated(relations, 0, seed=0) == []
    some = repeated(relations, 1.5, seed=0)
    assert some[:10] == relations
    assert len({relation.key for relation in some[10:]}) == 5
    with pytest.raises(
        ValueError,
        match=r"\[relations\] names: expected a number of at least 0",
    ):
        read_recipe(MedicalTermRecipe, overrides={"relations.names": -1.0})


@pytest.mark.data
@pytest.mark.slow
def test_no_text_of_the_training_data_contains_a_held_out_name(
    data_folder, vocabulary
):
    """Today's sources had 589 such definition texts."""
    concepts = read_concepts(data_folder / "text" / "medquad.jsonl.gz")
    held_out = held_out_names(vocabulary)
    raw = definition_relations(
        concepts, without={name.casefold() for name in held_out}
    )
    assert len(raw) - len(without_names(raw, held_out)) > 500
    names = [name for name in held_out if not name.isupper()]
    words = re.compile(
        rf"(?<!\w)({'|'.join(map(re.escape, names))})(?!\w)", re.IGNORECASE
    )
    relations = all_relations(vocabulary, concepts, data_folder, limit=2000)
    texts = {
        text for part in relations.values() for r in part for text in r.texts
    }
    assert len(texts) > 10_000
    assert not [
        number for number, text in enumerate(texts) if words.search(text)
    ]


@pytest.mark.data
@pytest.mark.slow
def test_the_command_runs_the_shipped_recipe_on_real_text(
    tiny_encoder, data_sample, tmp_path
):
    recipe = recipe_file("terms").read_text("utf-8")
    recipe = recipe.replace("all-MiniLM-L6-v2", str(tiny_encoder), 1)
    recipe = re.sub(r"(?m)^epochs = .*", "epochs = 0.01", recipe)
    recipe = re.sub(r"(?m)^start = .*", "", recipe)
    (tmp_path / "terms.toml").write_text(recipe, "utf-8")
    words = [data_sample, "--recipe", tmp_path / "terms.toml"]
    run(terms.main, *words, "--out", tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text("utf-8")
    parts = (
        "# Vectors",
        "Spearman, 224 pairs",
        "questions of MedQuAD",
        "training rows, names",
        "training rows, explained",
        "training rows, related",
    )
    for part in parts:
        assert part in card


def test_a_synonym_searches_its_own_term_among_all(tiny_encoder):
    embedder = TermEmbedder.from_pretrained(tiny_encoder)
    words = "heart kidney left right pain edema fever insulin clinic mother wife chest".split()
    vocabulary = pd.DataFrame({"term": words})
    pieces = [["heart attack", "cardiac"], [], ["edema"]]
    table = vocabulary.assign(
        synonyms=[*pieces, *[[]] * 9],
        held_out=[True] * 3 + [False] * 4 + [True] * 5,
    )
    found = evaluate_synonyms(embedder, table, bootstrap=50)
    pairs = {(row.synonym, row.term) for row in found.table.itertuples()}
    assert pairs == {
        ("heart attack", "heart"),
        ("cardiac", "heart"),
        ("edema", "left"),
    }
    for row in found.table.itertuples():
        cosines = embedder.similarity_matrix([row.synonym], words).iloc[0]
        assert row.found == cosines.idxmax()
        assert row.own_rank == 1 + (cosines > cosines[row.term]).sum()
    (first,) = found.scores.values()
    assert first.value == pytest.approx((found.table["own_rank"] == 1).mean())
    assert first.low <= first.value <= first.high
    assert found.table["own_rank"].is_monotonic_decreasing
    with pytest.raises(
        ValueError, match="no term of this vocabulary has a synonym"
    ):
        evaluate_synonyms(embedder, table.iloc[3:])


def test_rows_with_a_held_out_name_are_dropped():
    rows = [
        ("gout", "A disease of joints.", "1"),
        ("Asthma", "A disease of lungs.", "2"),
        ("cough", "Common in heart failure.", "3"),
    ]
    apart = HeldOut(frozenset({"asthma"}), frozenset({"heart failure"}))
    assert apart.drop_from(rows) == rows[:1]


def topic(side):
    """A key of this side, see `topic_side`."""
    return next(key for key in map(str, count()) if topic_side(key) == side)


def test_relations_of_searched_topics_and_held_out_diseases_are_left_out(
    monkeypatch,
):
    measured = topic(passages.MEASURED)
    free = topic(5)
    named = Relation(measured, ("asthma", "wheezing disease"))
    held_out = Relation(free, ("GOUT", "podagra"))
    searched = Relation(measured, ("asthma", "it is a disease of the lungs"))
    defined = Relation(free, ("cough", "it is a sudden noise"))
    relations = {
        "names": [named, held_out],
        "definitions": [searched, defined],
        "contexts": [searched],
    }
    monkeypatch.setattr(training_sets, "all_relations", lambda *_: relations)
    concepts = [Concept(key, ("a",), ()) for key in (measured, free)]
    apart = HeldOut(frozenset({"gout"}), frozenset())
    kept = training_sets.trained_relations(None, concepts, None, apart)
    assert kept == {
        "names": [named],
        "definitions": [defined],
        "contexts": [],
    }


def test_passages_of_held_out_names_and_searched_topics_are_left_out(
    monkeypatch,
):
    concepts = [
        Concept("gout", ("Gout",), ()),
        Concept("cough", ("Cough",), ()),
    ]
    kept = ("What helps a cough?", "x" * 2000, "cough")
    sides = {
        passages.MEASURED: [("Measured?", "answer", "m")],
        passages.CHOOSING: [("Choosing?", "answer", "c")],
        2: [
            ("What helps it?", "answer", "gout"),
            ("Is gout old?", "answer", "other"),
            ("Is heart failure old?", "answer", "other"),
            kept,
        ],
    }
    titles = [("Gout in toes", "abstract", "t"), ("Cough", "abstract", "t")]
    questions = [("Who named gout?", "paragraph", "s")]
    monkeypatch.setattr(passages, "medquad_sides", lambda _: sides)
    monkeypatch.setattr(passages, "titles", lambda _: titles)
    monkeypatch.setattr(passages, "squad", lambda _: questions)
    apart = HeldOut(frozenset({"gout"}), frozenset({"heart failure"}))
    assert training_sets.passage_rows(None, concepts, apart) == {
        "paragraphs": questions,
        "questions": [(kept[0], "x" * passages.LONGEST, "cough")],
        "titles": titles[1:],
    }


def test_rated_pairs_that_choose_or_are_held_out_are_not_trained_on(tmp_path):
    pairs = [("gout", "podagra"), ("toe", "heart failure")]
    pairs += [(f"cough {number}", "fever") for number in range(20)]
    rows = [f"{first}\t{second}\t1.5" for first, second in pairs]
    file = tmp_path / training_sets.RELATED
    file.parent.mkdir()
    file.write_text(
        "\n".join(["snomed_label_1\tsnomed_label_2\tmean_rating", *rows])
    )
    apart = HeldOut(frozenset({"gout"}), frozenset({"heart failure"}))
    table = training_sets.trained_related_pairs(tmp_path, apart)
    trained = [*zip(table["first"], table["second"], strict=True)]
    choosing = {pair for pair in pairs if training_sets.is_apart(*pair)}
    assert 0 < len(choosing) < 10
    assert trained == [pair for pair in pairs[2:] if pair not in choosing]
    assert all(training_sets.is_apart(*reversed(pair)) for pair in choosing)


def test_rated_pairs_are_learned_by_their_order(tiny_encoder):
    embedder = TermEmbedder.from_pretrained(tiny_encoder)
    columns = {
        "first": ["heart", "left pain", "edema"],
        "second": ["kidney", "right pain", "fever"],
    }
    names = pd.DataFrame(columns).assign(key=["1", "2", "3"])
    rated = pd.DataFrame(columns).assign(rating=[0.9, 0.2, 0.5])
    training = TrainingSettings(batch_size=3)

    def objective_of(kind, **sets):
        return kind(
            embedder, sets, names, objective="contrastive", training=training
        )

    def loss(objective, rows):
        batch = objective.collate(rows, epoch=0)
        return objective.loss(embedder.network, batch).item()

    first, second = (
        unit(embedder.embed(columns[name])) for name in ("first", "second")
    )
    cosines = 20 * (first * second).sum(axis=1).astype(float)
    # Each pair that is rated lower should have the lower cosine.
    lower = ((1, 0), (1, 2), (2, 0))
    errors = [np.exp(cosines[a] - cosines[b]) for a, b in lower]
    objective = objective_of(RatedObjective, rated=rated, names=names)
    assert loss(objective, [0, 1, 2]) == pytest.approx(
        np.log(1 + sum(errors)), abs=1e-4
    )
    plain = objective_of(TextVectorsObjective, names=names)
    assert loss(objective, [3, 4, 5]) == pytest.approx(
        loss(plain, [0, 1, 2]), abs=1e-5
    )
