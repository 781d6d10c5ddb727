"""What the shipped model of terms is trained on: nothing that is held out."""

import re

import pandas as pd
import pytest

from biomed.terms.similarity import TermEmbedder
from domainbert.tables import TableError
from domainbert.training.recipes import read_recipe, recipe_file
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
    synonym_pairs,
    vocabulary_relations,
    without_names,
)
from recipes.terms import (
    MedicalTermRecipe,
    all_relations,
    evaluate_synonyms,
    repeated,
    train_medical_terms,
)


@pytest.fixture(scope="module")
def vocabulary():
    return vocabulary_terms()


def test_held_out_terms_are_in_no_relation(vocabulary):
    names = {name.casefold() for name in held_out_names(vocabulary)}
    for level in ("term", "group", "category"):
        relations = vocabulary_relations(vocabulary, level=level)
        assert len(relations) > 900
        assert not names & {text.casefold() for r in relations for text in r.texts}
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
    concept = Concept("C1", ("Gout", "gouty arthritis"), ("Gouty arthritis hurts; gout is old.",))
    assert not concept.is_validation
    (names,) = name_relations([concept], without=())
    assert names.texts == ("Gout", "gouty arthritis")
    (sentence,) = definition_relations([concept], without=())
    assert sentence.texts == ("Gout", "it hurts; it is old.")
    assert name_relations([concept], without={"gout"}) == []
    (left,) = definition_relations([concept], without={"gout"})
    assert left.texts == ("gouty arthritis", "it hurts; it is old.")


def test_sentences_that_contain_a_name_give_it_without_the_name():
    names = {"gout": "C1", "gouty arthritis": "C1", "asthma": "C2"}
    said = ["He has gout, again.", "Asthma is treated.", "Gout is treated.", "No gout at all."]
    found = context_relations(names, said, limit=2)
    # "it is treated." is said of two names, and so of none.
    assert [(r.key, r.texts) for r in found] == [("C1", ("gout", "He has it, again."))]


def test_names_for_contexts_leave_out_what_is_held_out(vocabulary):
    held = vocabulary[vocabulary["held_out"]]["term"].iloc[0]
    concepts = [Concept("C1", ("Gouty tophus", held, "abc", "SIADH"), ())]
    assert "SIADH" in held_out_names(vocabulary)
    assert not concepts[0].is_validation
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
    with pytest.raises(ValueError, match=r"\[relations\] names: expected a number of at least 0"):
        read_recipe(MedicalTermRecipe, overrides={"relations.names": -1.0})


def test_validation_concepts_are_in_no_relation():
    concepts = [Concept(f"C{i}", (f"a{i}", f"b{i}"), ()) for i in range(300)]
    chosen = {key for *_, key in synonym_pairs(concepts)}
    trained = {relation.key for relation in name_relations(concepts, without=())}
    assert 10 < len(chosen) < 60
    assert not chosen & trained
    assert len(chosen | trained) == 300


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
    with pytest.raises(TableError, match="no such file; training needs the long titles"):
        icd9_relations(tmp_path / "absent", without=())


@pytest.mark.data
def test_medquad_is_read(data_folder, vocabulary):
    concepts = read_concepts(data_folder / "text" / "medquad.jsonl.gz")
    assert len(concepts) > 10_000
    assert all(concept.names for concept in concepts)
    assert len(synonym_pairs(concepts)) > 1_000
    with pytest.raises(TableError, match="no such file; training needs MedQuAD"):
        read_concepts(data_folder / "absent.jsonl.gz")


@pytest.mark.data
@pytest.mark.slow
def test_no_text_of_the_training_data_contains_a_held_out_name(data_folder, vocabulary):
    """Today's sources had 589 such definition texts."""
    concepts = read_concepts(data_folder / "text" / "medquad.jsonl.gz")
    held_out = held_out_names(vocabulary)
    raw = definition_relations(concepts, without={name.casefold() for name in held_out})
    assert len(raw) - len(without_names(raw, held_out)) > 500
    names = [name for name in held_out if not name.isupper()]
    words = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, names))})(?!\w)", re.IGNORECASE)
    relations = all_relations(vocabulary, concepts, data_folder, limit=2000)
    texts = {text for part in relations.values() for r in part for text in r.texts}
    assert len(texts) > 10_000
    assert not [number for number, text in enumerate(texts) if words.search(text)]


@pytest.mark.data
@pytest.mark.slow
def test_the_shipped_recipe_runs_on_real_text(tiny_encoder, some_data, tmp_path):
    changes = {"model.encoder": str(tiny_encoder), "training.epochs": 0.01}
    model = train_medical_terms(
        read_recipe(MedicalTermRecipe, recipe_file("terms"), changes), some_data
    )
    model.save_pretrained(tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text()
    for part in ("# Vectors", "Spearman, 224 pairs", "training rows, names"):
        assert part in card


def test_a_synonym_searches_its_own_term_among_all(tiny_encoder):
    embedder = TermEmbedder.from_pretrained(tiny_encoder)
    words = "heart kidney left right pain edema fever insulin clinic mother wife chest".split()
    vocabulary = pd.DataFrame({"term": words})
    pieces = [["heart attack", "cardiac"], [], ["edema"]]
    table = vocabulary.assign(
        synonyms=[*pieces, *[[]] * 9], held_out=[True] * 3 + [False] * 4 + [True] * 5
    )
    found = evaluate_synonyms(embedder, table, bootstrap=50)
    pairs = {(row.synonym, row.term) for row in found.table.itertuples()}
    assert pairs == {("heart attack", "heart"), ("cardiac", "heart"), ("edema", "left")}
    for row in found.table.itertuples():
        cosines = embedder.similarity_matrix([row.synonym], words).iloc[0]
        assert row.found == cosines.idxmax()
        assert row.own_rank == 1 + (cosines > cosines[row.term]).sum()
    (first,) = found.scores.values()
    assert first.value == pytest.approx((found.table["own_rank"] == 1).mean())
    assert first.low <= first.value <= first.high
    assert found.table["own_rank"].is_monotonic_decreasing
    with pytest.raises(ValueError, match="no term of this vocabulary has a synonym"):
        evaluate_synonyms(embedder, table.iloc[3:])
