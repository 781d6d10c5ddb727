"""The experiments on corpora: marks in texts, and what a gold standard shares with training."""

import pytest
from typer import Typer
from typer.testing import CliRunner

from biomed.corpora import Document, TaggedText, read_corpus
from biomed.corpora.documents import Span
from biomed.ner.entities import Entity
from experiments import marked, overlap

TEXT = TaggedText(
    ("Hereditary", "breast", "cancer", "and", "COPD"),
    ("B-Disease", "I-Disease", "I-Disease", "O", "B-Disease"),
)


def test_a_text_is_marked_with_its_corpus():
    text = marked.with_corpus(TEXT, "ncbi")
    assert text.words == ("ncbi", *TEXT.words)
    assert text.tags == ("O", *TEXT.tags)


def test_the_longest_names_are_marked_and_a_mark_within_an_entity_is_part_of_it():
    names = frozenset({("breast", "cancer"), ("cancer",), ("copd",)})
    text = marked.with_names(TEXT, names)
    assert text.words == ("Hereditary", "¤", "breast", "cancer", "and", "¤", "COPD")
    assert text.tags == ("B-Disease", "I-Disease", "I-Disease", "I-Disease", "O", "O", "B-Disease")


def test_short_names_are_left_out(tmp_path):
    (tmp_path / "names.csv").write_text("name,id\nIS,1\nBreast  Cancer,2\n")
    assert marked.read_names(tmp_path / "names.csv") == {("breast", "cancer")}


@pytest.mark.parametrize("what", ["corpus", "dictionary"])
def test_marked_corpora_keep_training_and_devel_apart(what, tmp_path):
    sentence, other = "breast\tB-Disease\ncancer\tI-Disease\n\n", "kidney\tO\nfailure\tO\n\n"
    for name, devel in (("one", sentence), ("two", other)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.tsv").write_text(sentence + other + "fever\tO\n\n" * 3)
        (tmp_path / name / "devel.tsv").write_text(devel)
    (tmp_path / "names.csv").write_text("name\nbreast cancer\nfever\n")
    app = Typer()
    app.command()(marked.main)
    out = tmp_path / "marked"
    command = [what, str(tmp_path / "one"), str(tmp_path / "two"), "--out", str(out)]
    names = ["--names", str(tmp_path / "names.csv")]
    result = CliRunner().invoke(app, command + (names if what == "dictionary" else []))
    assert result.exit_code == 0, result.output
    corpus = read_corpus(out / "two")
    # Both sentences are in a devel side, so only the fevers are left to train on.
    words = [text.words for text in corpus.train.texts]
    mark = ("two",) if what == "corpus" else ("¤",)
    assert words == [(*mark, "fever"), ("two", "fever") if what == "corpus" else ("fever",),
                     (*mark, "fever")]  # fmt: skip
    assert read_corpus(out / "one").devel.texts[0].words == (
        ("one", "breast", "cancer") if what == "corpus" else ("¤", "breast", "cancer")
    )
    assert CliRunner().invoke(app, ["dictionary", str(tmp_path / "one"), "--out", "x"]).exit_code


def test_what_a_gold_standard_shares_with_training():
    train = [TaggedText(("No", "breast", "cancer", "today"), ("O", "B-D", "I-D", "O"))]
    assert overlap.shared_runs([TEXT], train, length=2) == (1, 4)
    assert overlap.shared_runs([TEXT], train, length=3) == (0, 3)


def test_recall_by_whether_a_name_was_trained_on():
    class Finds:
        def tag_many(self, texts):
            for text in texts:
                end = text.index("cancer") + 6
                yield [Entity(0, end, text[:end], "D", 0.9)]

    text = "Breast cancer, and COPD"
    document = Document("a", text, (Span(0, 13, "D"), Span(19, 23, "D")))
    train = [TaggedText(("breast", "cancer"), ("B-D", "I-D"))]
    counts = overlap.recall_by_name(Finds(), [document], train)
    assert counts == {("D", True, True): 1, ("D", False, False): 1}
