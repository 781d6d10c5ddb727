"""Names of concepts in public vocabularies: spellings, synonyms, families, definitions."""

import gzip
from itertools import combinations

import numpy as np
import pytest

from biomed.terms.similarity import TermEmbedder
from domainbert.models.pooling import unit
from recipes.terms.training_sets import MOST_SYNONYMS
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

WORDS = "heart kidney left pain edema fever insulin".split()


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
        entry(f"{first} {second}", f"{first} {second} clinic")
        for first, second in combinations(WORDS, 2)
    ]
    rows = synonym_rows(entries, most={MESH: 1}, seed=0)
    assert sorted(second for _, second, _ in rows) == sorted(
        e.names[0] for e in entries
    )
    embedder = TermEmbedder.from_pretrained(tiny_encoder)
    near = look_alikes(rows, entries, embedder, seed=0)
    names = [entry.names[0] for entry in entries]
    vectors = unit(embedder.embed(names))
    for (synonym, preferred, _), name in zip(rows, near, strict=True):
        cosines = vectors @ unit(embedder.embed([synonym]))[0]
        cosines[names.index(preferred)] = -1
        third_nearest = np.sort(cosines)[-3]
        assert cosines[names.index(name)] >= third_nearest - 1e-6


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
    data_folder,
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
