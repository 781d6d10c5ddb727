import pytest

from biomed.corpora import CorpusError, read_corpus, read_gold

IOB = "heart\tB-Disease\nfailure\tI-Disease\n\nno\tO\n\naspirin\tB-Drug\n"
PUBTATOR = (
    "1|t|Heart failure\n1|a|none\n1\t0\t13\tHeart failure\tDisease\tD1\n"
)


def test_the_three_formats_are_told_apart(tmp_path):
    (tmp_path / "train.conll").write_text(IOB)
    (tmp_path / "dev.PubTator.txt").write_text(PUBTATOR)
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "d.txt").write_text("Heart failure")
    (tmp_path / "test" / "d.ann").write_text(
        "T1\tDisease 0 13\tHeart failure\n"
    )
    (tmp_path / "README.md").write_text("x")
    corpus = read_corpus(tmp_path)
    assert corpus.name == tmp_path.name
    assert corpus.train.types == ("Disease", "Drug")
    assert [
        len(g.texts) for g in (corpus.train, corpus.devel, corpus.test)
    ] == [
        3,
        1,
        1,
    ]
    assert [
        len(g.documents) for g in (corpus.train, corpus.devel, corpus.test)
    ] == [
        0,
        1,
        1,
    ]
    assert corpus.devel.texts[0].tags == ("B-Disease", "I-Disease", "O")


def test_types_are_renamed_or_dropped(tmp_path):
    (tmp_path / "train.tsv").write_text(IOB)
    gold = read_gold(
        tmp_path / "train.tsv", labels={"Disease": "Problem", "Drug": ""}
    )
    assert gold.types == ("Problem",)
    assert gold.texts[2].tags == ("O",)


def test_what_is_not_a_corpus(tmp_path):
    with pytest.raises(
        CorpusError, match="no such folder; expected a folder with train"
    ):
        read_corpus(tmp_path / "absent")
    with pytest.raises(
        CorpusError,
        match=r"has no train, devel or test file, such as train\.tsv",
    ):
        read_corpus(tmp_path)
    with pytest.raises(
        CorpusError, match="no such file, and no folder with BRAT"
    ):
        read_gold(tmp_path)
    (tmp_path / "train.tsv").write_text("\n\n")
    with pytest.raises(CorpusError, match=r"train\.tsv has no sentences"):
        read_corpus(tmp_path)
    (tmp_path / "train.txt").write_text("")
    with pytest.raises(
        CorpusError,
        match=r"several files for its train side: train\.tsv, train",
    ):
        read_corpus(tmp_path)


@pytest.mark.data
def test_the_real_corpora(data_folder):
    corpus = read_corpus(data_folder / "ner" / "ncbi-disease")
    sizes = [
        len(gold.texts) for gold in (corpus.train, corpus.devel, corpus.test)
    ]
    assert sizes == [5424, 923, 940]
    assert corpus.train.types == ("Disease",)
