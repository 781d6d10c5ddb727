"""Texts that belong together: names, definitions and contexts, without held-out names."""

import pytest

from domainbert.tables import TableError
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
