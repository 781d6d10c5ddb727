import pytest

from biomed.corpora import CorpusError, Span
from biomed.corpora.formats import is_pubtator, read_pubtator

ONE = "12|t|Heart failure.\n12|a|No heart failure | here.\n"
TEXT = "Heart failure.\nNo heart failure | here."


def write(tmp_path, text):
    path = tmp_path / "corpus.txt"
    path.write_text(text)
    return path


def test_documents_and_spans(tmp_path):
    mentions = (
        "12\t0\t13\tHeart failure\tDisease\tD006333\n12\t18\t31\theart failure\tDisease\tD006333\n"
        "12\tCID\tD1\tD2\n"
    )
    path = write(tmp_path, f"{ONE}{mentions}\n13|t|None\n13|a|\n\n\n14|t|x\n15|t|y\n")
    assert is_pubtator(path)
    first, second, third, fourth = read_pubtator(path)
    assert (first.id, first.text) == ("12", TEXT)
    assert first.spans == (
        Span(0, 13, "Disease", id="D006333"),
        Span(18, 31, "Disease", id="D006333"),
    )
    assert [TEXT[s.start : s.end] for s in first.spans] == [
        "Heart failure",
        "heart failure",
    ]
    assert (second.id, second.text, second.spans) == ("13", "None\n", ())
    assert (third.id, fourth.id) == ("14", "15")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "12\t0\t12\tHeart failure\tDisease\tD1",
            "line 3: characters 0 to 12 differ from the mention",
        ),
        (
            "12\t5\t5\t\tDisease\tD1",
            "line 3: characters 5 to 5 differ from the mention",
        ),
        (
            "13\t0\t13\tHeart failure\tDisease\tD1",
            "line 3: a mention of document '13' under",
        ),
        (
            "12\t0\tx\tHeart failure\tDisease",
            "line 3: expected a mention as id, start, end, text",
        ),
        (
            "12\t0\t13\tHeart failure",
            "line 3: expected a mention as id, start, end, text",
        ),
        ("Heart", "line 3: expected a title"),
    ],
)
def test_faults_are_named_by_their_line(tmp_path, line, message):
    with pytest.raises(CorpusError, match=message) as caught:
        read_pubtator(write(tmp_path, f"{ONE}{line}\n"))
    assert "Heart" not in str(caught.value)


def test_something_else_is_not_pubtator(tmp_path):
    assert not is_pubtator(write(tmp_path, "heart\tB-Disease\n"))
    assert not is_pubtator(write(tmp_path, ""))
