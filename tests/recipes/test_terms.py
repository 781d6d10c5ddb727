"""What the shipped model of terms is trained on: nothing that is held out."""

import gzip
import re

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from biomed.sentences.objectives import TextVectorsObjective
from biomed.terms.similarity import TermEmbedder
from domainbert.models.pooling import unit
from domainbert.tables import TableError
from domainbert.training.recipes import read_recipe, recipe_file
from domainbert.training.settings import TrainingSettings
from recipes import terms
from recipes.categories import vocabulary_terms
from recipes.relations import (
    Concept,
    Relation,
    context_relations,
    definition_relations,
    held_out_names,
    icd9_relations,
    name_keys,
    name_relations,
    read_concepts,
    vocabulary_relations,
    without_names,
)
from recipes.terms import (
    MOST_SYNONYMS,
    MedicalTermRecipe,
    RatedObjective,
    all_relations,
    evaluate_synonyms,
    repeated,
    without_held_out,
)
from recipes.vocabularies import (
    CHOOSING,
    MEASURED,
    MESH,
    MONDO,
    Entry,
    concept_keys,
    definition_rows,
    drug_rows,
    family_rows,
    held_out,
    look_alikes,
    name_key,
    read_vocabularies,
    synonym_rows,
    without,
)


@pytest.fixture(scope="module")
def vocabulary():
    return vocabulary_terms()


def test_held_out_terms_are_in_no_relation(vocabulary):
    names = {name.casefold() for name in held_out_names(vocabulary)}
    for level in ("term", "group", "category"):
        relations = vocabulary_relations(vocabulary, level=level)
        assert len(relations) > 900
        assert not names & {
            text.casefold() for r in relations for text in r.texts
        }
    assert len(names) > 300


def test_a_relation_is_of_one_group_or_category(vocabulary):
    keys = {"term": "group", "group": "group", "category": "category"}
    for level, key in keys.items():
        relations = vocabulary_relations(vocabulary, level=level)
        assert {relation.key for relation in relations} <= set(vocabulary[key])
        assert all(len(relation.texts) > 1 for relation in relations)


def test_texts_that_contain_a_held_out_name_are_dropped():
    relations = [
        Relation("a", ("gout", "It hurts in all joints.")),
        Relation("b", ("asthma", "Often with Heart  Failure, or alone.")),
        Relation("c", ("leukemia", "Children with ALL recover.")),
        Relation("d", ("cough", "heartfailure is no word")),
        Relation("e", ("one", "heart failure, chronic", "two")),
    ]
    kept = without_names(relations, {"heart failure", "ALL"})
    assert [relation.key for relation in kept] == ["a", "d", "e"]
    assert kept[-1].texts == ("one", "two")
    assert without_names(relations, set()) == relations


def test_concepts_give_names_and_sentences_without_the_name():
    concept = Concept(
        "C1",
        ("Gout", "gouty arthritis"),
        ("Gouty arthritis hurts; gout is old.",),
    )
    (names,) = name_relations([concept], without=())
    assert names.texts == ("Gout", "gouty arthritis")
    (sentence,) = definition_relations([concept], without=())
    assert sentence.texts == ("Gout", "it hurts; it is old.")
    assert name_relations([concept], without={"gout"}) == []
    (left,) = definition_relations([concept], without={"gout"})
    assert left.texts == ("gouty arthritis", "it hurts; it is old.")


def test_sentences_that_contain_a_name_give_it_without_the_name():
    names = {"gout": "C1", "gouty arthritis": "C1", "asthma": "C2"}
    said = [
        "He has gout, again.",
        "Asthma is treated.",
        "Gout is treated.",
        "No gout at all.",
    ]
    found = context_relations(names, said, limit=2)
    # "it is treated." is said of two names, and so of none.
    assert [(r.key, r.texts) for r in found] == [
        ("C1", ("gout", "He has it, again."))
    ]


def test_names_for_contexts_leave_out_what_is_held_out(vocabulary):
    held = vocabulary[vocabulary["held_out"]]["term"].iloc[0]
    concepts = [Concept("C1", ("Gouty tophus", held, "abc", "SIADH"), ())]
    assert "SIADH" in held_out_names(vocabulary)
    keys = name_keys(concepts, vocabulary)
    assert keys["gouty tophus"] == "C1"
    assert keys["lisinopril"] == "medication/ACE inhibitor"
    assert not {held.casefold(), "abc", "siadh"} & set(keys)


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


def test_icd9_titles_of_one_category_stand_together(tmp_path):
    path = tmp_path / "titles.txt"
    path.write_text(
        "0010  Cholera A\n0011  Cholera B\n0020  Typhoid\nE0010 Walking\nE0011 Running\n"
    )
    relations = icd9_relations(path, without=())
    assert {relation.texts for relation in relations} == {
        ("Cholera A", "Cholera B"),
        ("Cholera B", "Cholera A"),
    }
    assert icd9_relations(path, without={"cholera a"}) == []
    with pytest.raises(
        TableError, match="no such file; training needs the long titles"
    ):
        icd9_relations(tmp_path / "absent", without=())


@pytest.mark.data
def test_medquad_is_read(data_folder, vocabulary):
    concepts = read_concepts(data_folder / "text" / "medquad.jsonl.gz")
    assert len(concepts) > 10_000
    assert all(concept.names for concept in concepts)
    with pytest.raises(
        TableError, match="no such file; training needs MedQuAD"
    ):
        read_concepts(data_folder / "absent.jsonl.gz")


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
    tiny_encoder, some_data, tmp_path
):
    recipe = recipe_file("terms").read_text("utf-8")
    recipe = recipe.replace("all-MiniLM-L6-v2", str(tiny_encoder), 1)
    recipe = re.sub(r"(?m)^epochs = .*", "epochs = 0.01", recipe)
    recipe = re.sub(r"(?m)^start = .*", "", recipe)
    (tmp_path / "terms.toml").write_text(recipe, "utf-8")
    app = typer.Typer()
    app.command()(terms.main)
    words = [some_data, "--recipe", tmp_path / "terms.toml"]
    words += ["--out", tmp_path / "model"]
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
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


def entry(*names, source=MESH, **codes):
    return Entry(source, names, **codes)


def test_spellings_of_one_name_are_one_name():
    assert name_key("Diseases, Peripheral Artery") == name_key(
        "peripheral artery disease"
    )
    assert name_key("hypotension") != name_key("hypertension")


def test_entries_that_share_a_name_are_one_concept():
    entries = [
        entry("Sprue", "celiac disease"),
        entry("gluten enteropathy", "Disease, Celiac", source=MONDO),
        entry("tropical sprue"),
    ]
    first, second, third = concept_keys(entries)
    assert first == second != third
    assert without(entries, {name_key("Celiac diseases")}) == entries[2:]


def test_synonyms_stand_with_the_preferred_name_and_another_concept(
    tiny_encoder,
):
    entries = [
        entry(f"heart pain {i}", f"cardiac edema {i}", f"left edema {i}")
        for i in range(20)
    ]
    rows = synonym_rows(entries, most={MESH: 1}, seed=0)
    assert sorted(second for _, second, _ in rows) == sorted(
        e.names[0] for e in entries
    )
    embedder = TermEmbedder.from_pretrained(tiny_encoder)
    near = look_alikes(rows, entries, embedder, seed=0)
    assert all(
        other != own for (_, own, _), other in zip(rows, near, strict=True)
    )


def test_families_are_parents_and_children_of_one_parent():
    entries = [
        entry("heart disease", codes=("C1",)),
        entry("heart failure", codes=("C1.2",), parents=("C1",)),
        entry("heart attack", codes=("C1.3",), parents=("C1",)),
        entry("fever", codes=("C9.1",), parents=("C9",)),
    ]
    rows = {(*sorted(row[:2]), row[2]) for row in family_rows(entries, seed=0)}
    assert rows == {
        ("heart disease", "heart failure", "C1"),
        ("heart attack", "heart disease", "C1"),
        ("heart attack", "heart failure", "C1"),
    }


@pytest.mark.data
def test_no_name_of_a_held_out_mesh_disease_is_trained_on(
    data_folder, vocabulary, tiny_encoder
):
    entries = read_vocabularies(data_folder)
    apart = [*held_out(entries, MEASURED), *held_out(entries, CHOOSING)]
    names = {name_key(name) for each in apart for name in each.names}
    assert len(apart) > 1_000
    left = without(entries, names)
    assert 30_000 < len(left) < len(entries) - len(apart)
    rows = synonym_rows(left, most=MOST_SYNONYMS, seed=0)
    texts = {
        text for row in (*rows, *family_rows(left, seed=0)) for text in row[:2]
    }
    assert len(texts) > 50_000
    assert names.isdisjoint(map(name_key, texts))


def test_a_definition_stands_with_the_names_that_it_does_not_tell():
    text = "Gout is a disease in which gouty arthritis of one joint begins at night."
    entries = [
        entry("gout", "gouty arthritis", definition=text),
        entry("rash", definition="Short."),
        entry("cough"),
    ]
    rows = definition_rows(entries, seed=0)
    assert {name for name, *_ in rows} <= set(entries[0].names)
    assert "gout" in {name for name, *_ in rows}
    assert {definition for _, definition, _ in rows} == {
        "it is a disease in which it of one joint begins at night."
    }


def test_other_names_and_brands_stand_with_the_drug(tmp_path):
    tables = {
        "drugbank": "id,name,synonyms\n1,Warfarin,warfarin|Coumafene|ab\n",
        "rxnorm_brands": "rxcui,ingredient,brands\n1,warfarin,Coumadin\n2,rest,\n",
    }
    (tmp_path / "names").mkdir()
    for name, text in tables.items():
        file = tmp_path / "names" / f"{name}.csv.gz"
        file.write_bytes(gzip.compress(text.encode()))
    assert drug_rows(tmp_path, seed=0) == [
        ("Coumafene", "Warfarin", "warfarin"),
        ("Coumadin", "warfarin", "warfarin"),
    ]


def test_rows_with_a_held_out_name_are_dropped():
    rows = [
        ("gout", "A disease of joints.", "1"),
        ("Asthma", "A disease of lungs.", "2"),
        ("cough", "Common in heart failure.", "3"),
    ]
    kept = without_held_out(rows, {name_key("asthma")}, {"heart failure"})
    assert kept == rows[:1]


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
            embedder, sets, names, kind="contrastive", training=training
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
