import pytest

from biomed.corpora import CorpusError, TaggedText, read_corpus
from biomed.corpora.conll import read_conll
from recipes.corpora import overlaid, write_iob2


def test_corpora_of_the_same_texts_are_joined(tmp_path):
    """The longest of overlapping entities stays; a side that only one part has is left out."""
    words = "heparin induced thrombocytopenia after heparin".split()
    tags = {
        "a": ["B-Disease", "I-Disease", "I-Disease", "O", "O"],
        "b": ["B-Drug", "O", "O", "O", "B-Drug"],
        "c": ["O", "O", "O", "O", "B-Drug"],
    }
    for name, marks in tags.items():
        (tmp_path / name).mkdir()
        used = ["other", *words[1:]] if name == "c" else words
        lines = "".join(
            f"{word}\t{tag}\n" for word, tag in zip(used, marks, strict=True)
        )
        for side in ("train", "devel") if name == "a" else ("train",):
            (tmp_path / name / f"{side}.tsv").write_text(lines)
    both, alone = overlaid([read_corpus(tmp_path / name) for name in tags])
    assert (both.name, alone.name) == ("a+b", "c")
    assert both.train.types == ("Disease", "Drug")
    assert both.train.texts[0].tags == (
        "B-Disease",
        "I-Disease",
        "I-Disease",
        "O",
        "B-Drug",
    )
    assert both.devel is None


def test_what_is_written_is_what_is_read(tmp_path):
    texts = [
        TaggedText(("heart", "\u00e9"), ("B-x", "O")),
        TaggedText(("a\u2028b",), ("B-x",)),
    ]
    write_iob2(iter(texts), tmp_path / "out.tsv")
    assert read_conll(tmp_path / "out.tsv") == (texts, [])


def test_nothing_is_left_where_writing_failed(tmp_path):
    def broken():
        yield TaggedText(("a",), ("O",))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_iob2(broken(), tmp_path / "out.tsv")
    for word in ("", " a", "a\tb", "a\n", "-DOCSTART-", "\ufeffa"):
        with pytest.raises(CorpusError, match="a word that IOB2 cannot hold"):
            write_iob2([TaggedText((word,), ("O",))], tmp_path / "out.tsv")
    with pytest.raises(CorpusError, match="no text"):
        write_iob2([], tmp_path / "out.tsv")
    assert not list(tmp_path.iterdir())
