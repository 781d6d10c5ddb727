"""The shipped vocabulary is sound, and your own is read with care."""

import pandas as pd
import pytest

from biomed.terms.names import medical_terms, read_vocabulary
from domainbert.tables import TableError, write_table


@pytest.fixture(scope="module")
def shipped():
    return medical_terms()


def test_it_is_large_enough_and_even(shipped):
    sizes = shipped["category"].value_counts()
    assert len(shipped) >= 300
    assert 12 <= len(sizes) <= 15
    assert sizes.min() >= 40
    assert list(shipped.columns) == ["term", "category", "synonyms"]


def test_every_term_has_one_or_two_synonyms(shipped):
    assert shipped["synonyms"].map(len).between(1, 2).all()


def test_no_name_stands_for_two_things(shipped):
    names = [
        name
        for row in shipped.itertuples()
        for name in (row.term, *row.synonyms)
    ]
    folded = pd.Series(names).str.casefold()
    assert folded[folded.duplicated()].tolist() == []
    assert (folded == folded.str.strip()).all()


def test_a_vocabulary_of_your_own_needs_only_two_columns(tmp_path):
    path = tmp_path / "own.csv"
    rows = [("edema", "signs", "swelling | oedema"), ("gout", "joints", None)]
    write_table(
        pd.DataFrame(rows, columns=["term", "category", "synonyms"]), path
    )
    own = read_vocabulary(path)
    assert own["synonyms"].tolist() == [["swelling", "oedema"], []]
    assert list(own.columns) == [
        "term",
        "category",
        "synonyms",
    ]  # so all are measured
    write_table(own[["term", "category"]], path)
    assert list(read_vocabulary(path).columns) == ["term", "category"]


def test_a_text_file_has_one_term_on_each_line(tmp_path):
    source = tmp_path / "terms.txt"
    source.write_text("edema\n\ninsulin\n")
    assert read_vocabulary(source)["term"].tolist() == ["edema", "insulin"]
    with pytest.raises(TableError, match=r"absent\.txt: no such file"):
        read_vocabulary(tmp_path / "absent.txt")


def test_rows_need_a_term_and_all_or_none_have_a_category(tmp_path):
    path = tmp_path / "terms.csv"
    path.write_text(
        "code,Term,Category\n1,edema,signs\n2,,\n3,insulin,drugs\n"
    )
    expected = [["edema", "signs"], ["insulin", "drugs"]]
    assert read_vocabulary(path).to_numpy().tolist() == expected
    path.write_text("term,category\nedema,\n")
    assert list(read_vocabulary(path).columns) == ["term"]
    path.write_text("term,category\nedema,signs\ninsulin,\n")
    with pytest.raises(
        TableError, match=r"terms\.csv: 1 rows with a term have no category"
    ):
        read_vocabulary(path)
