import gzip
import json
import re
import tomllib

import pytest

from biomed.corpora import read_corpus
from biomed.corpora.documents import spans_of
from biomed.terms.names import abbreviations
from domainbert.errors import UserError
from recipes.notes.generate import DATA, write_notes
from recipes.notes.names import brands, read_names


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    """A small corpus from the shipped tables alone."""
    folder = tmp_path_factory.mktemp("generated") / "notes"
    assert write_notes(folder, texts=600) == (600, 60)
    return read_corpus(folder)


def mentions(gold, kind):
    return {
        " ".join(text.words[start:end]).casefold()
        for text in gold.texts
        for start, end, label in spans_of(text.tags)
        if label == kind
    }


def test_notes_have_both_types_and_texts_without_any(notes):
    assert notes.train.types == notes.devel.types == ("Chemical", "Disease")
    assert any(not spans_of(text.tags) for text in notes.train.texts)
    for kind in notes.train.types:
        assert len(mentions(notes.train, kind)) > 100


def test_devel_has_names_of_its_own(notes):
    """Only symptoms, which fill templates like any other word, are on both sides."""
    fillers = tomllib.loads((DATA / "fillers.toml").read_text("utf-8"))
    symptoms = {
        " ".join(re.findall(r"\w+|[^\w\s]", s[1:].casefold()))
        for s in fillers["symptom"]
    }
    assert not mentions(notes.train, "Chemical") & mentions(
        notes.devel, "Chemical"
    )
    assert (
        mentions(notes.train, "Disease") & mentions(notes.devel, "Disease")
        <= symptoms
    )


def test_the_same_seed_gives_the_same_notes(tmp_path):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        write_notes(tmp_path / name, texts=20, seed=seed)
    a, b, c = ((tmp_path / name / "train.tsv").read_text() for name in "abc")
    assert a == b != c


def test_more_names_from_public_data(tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "readmission").mkdir()
    page = {
        "semantic_types": ["T047"],
        "synonyms": ["Zeta syndrome", "Living with zeta, a guide"],
    }
    pages = [
        {
            **page,
            "focus": "Zeta disease",
            "semantic_group": "Disorders",
            "category": None,
        },
        {
            **page,
            "focus": "Zetamab",
            "semantic_group": None,
            "category": "Drug",
            "synonyms": [],
        },
        {
            **page,
            "focus": "Zeta test",
            "semantic_group": "Disorders",
            "category": None,
        },
    ]
    with gzip.open(tmp_path / "text" / "medquad.jsonl.gz", "wt") as handle:
        handle.writelines(json.dumps(page) + "\n" for page in pages)
    titles = "0010  Other zeta fever\n78099 Zeta pain\nV100  Zeta history\n"
    (tmp_path / "readmission" / "icd9_diagnosis_long_titles.txt").write_text(
        titles
    )
    pools = read_names(tmp_path).pools
    assert pools["Disease"]["medquad"] == ("Zeta disease", "Zeta syndrome")
    assert pools["Chemical"]["medquad"] == ("Zetamab",)
    assert pools["Disease"]["icd9"] == ("zeta fever",)


def test_a_folder_without_the_data_is_refused(tmp_path):
    with pytest.raises(
        UserError, match="no such file; training needs MedQuAD"
    ):
        write_notes(tmp_path / "notes", data=tmp_path)
    assert not (tmp_path / "notes").exists()


def test_the_tables_are_clean():
    short, sold = abbreviations(), brands()
    assert set(short["label"]) == {"Disease", "Chemical"}
    assert not short.duplicated(["abbreviation", "expansion"]).any()
    assert not sold["brand"].duplicated().any()
    for table in (short, sold):
        assert (table.map(str.strip) == table).all(axis=None)
        assert (table != "").all(axis=None)
