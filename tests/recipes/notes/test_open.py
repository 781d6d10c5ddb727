"""Names and abbreviations from the open lists, and corpora of real text."""

import pytest

from domainbert.errors import UserError
from recipes.notes.open_names import abbreviations


def test_abbreviations_of_real_notes_are_told_apart(data_folder):
    by_type, neither = abbreviations(data_folder)
    diseases = set(by_type["Disease"])
    assert {"DKA", "MI", "CKD", "OSA", "HTN", "COPD"} <= diseases
    assert {"cont", "wk", "nebs", "LLL", "CPAP"} <= set(neither)
    assert not {"DKA", "MI", "CHF", "ASA"} & set(neither)


def test_missing_lists_of_abbreviations_are_named(tmp_path):
    with pytest.raises(
        UserError, match=r"abbreviations has no lists .* --data"
    ):
        abbreviations(tmp_path)


@pytest.mark.slow
def test_names_of_real_notes_are_medical(data_folder):
    from recipes.notes.open_names import in_real_notes

    seen = in_real_notes(data_folder)
    assert seen["Disease"]["hypertension"] > 100
    assert seen["Chemical"]["metformin"] > 50
    assert not {"will", "mother", "sterile"} & set(seen["Disease"])
    assert not {"blood", "same", "monitor"} & set(seen["Chemical"])


@pytest.mark.slow
def test_notes_with_open_names_have_abbreviations_that_are_no_entity(
    data_folder, tmp_path
):
    from recipes.notes.generate import write_notes

    outside = {}
    for use_open in (False, True):
        write_notes(tmp_path, data=data_folder, texts=400, use_open=use_open)
        lines = (tmp_path / "train.tsv").read_text().splitlines()
        outside[use_open] = {
            line.removesuffix("\tO") for line in lines if line.endswith("\tO")
        }
    _, no_entities = abbreviations(data_folder)
    new_words = outside[True] - outside[False]
    assert len(new_words.intersection(no_entities)) > 50


@pytest.mark.parametrize(
    ("name", "least", "types"),
    [
        ("biored", 300, {"Disease", "Chemical"}),
        ("bc5cdr-ids", 400, {"Disease", "Chemical"}),
        ("ncbi-disease-ids", 500, {"Disease"}),
    ],
)
def test_no_abstract_is_measured_on(data_folder, name, least, types):
    from biomed.corpora.corpus import read_gold
    from recipes.notes.real import MEASURED, abstracts

    documents = list(abstracts(data_folder, name))
    assert len(documents) > least
    assert {
        span.label for document in documents for span in document.spans
    } == types
    titles = {
        "".join(filter(str.isalnum, d.text.split("\n")[0].casefold()))
        for d in documents
    }
    for side in MEASURED:
        texts = read_gold(data_folder / "ner" / side).texts
        measured = {
            "".join(filter(str.isalnum, "".join(t.words).casefold()))
            for t in texts
        }
        assert len(measured) > 500
        assert not {title for title in titles & measured if len(title) > 50}


def test_abbreviations_of_diseases_are_listed_by_rule(data_folder):
    from recipes.notes.lists import abbreviations

    found = set(abbreviations(data_folder))
    assert {"COPD", "CKD", "HTN", "AFib", "MI"} <= found
    others = {
        "HD",
        "LN",
        "RF",
        "ECT",
        "MMSE",
        "LOC",
        "ONC",
        "RA",
        "PE",
        "SOB",
        "ID",
        "M0",
        "Hep",
    }
    assert not {name.casefold() for name in others} & {
        name.casefold() for name in found
    }
    assert not [name for name in found if name.islower()]
