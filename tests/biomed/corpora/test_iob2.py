import pytest

from biomed.corpora import CorpusError, TaggedText
from biomed.corpora.formats import read_iob2

ILLEGAL = ("secret", "X", "B-", "I-", "b-Drug", "B", "S-Drug")


def write(tmp_path, text):
    path = tmp_path / "train.tsv"
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        "heart\tB-Disease\nfailure\tI-Disease\n\nno\tO\n",
        "heart B-Disease\nfailure I-Disease\n\nno O",
        "heart NN x B-Disease\nfailure NN x I-Disease\n \nno DT x O\n\n\n",
        "-DOCSTART- O\n\nheart\tB-Disease\r\nfailure\tI-Disease\r\n\r\nno\tO\r\n",
        "\ufeffheart\tB-Disease \nfailure\tI-Disease\n-DOCSTART-\tO\nno\tO\n",
    ],
)
def test_variants(tmp_path, text):
    assert read_iob2(write(tmp_path, text)) == [
        TaggedText(("heart", "failure"), ("B-Disease", "I-Disease")),
        TaggedText(("no",), ("O",)),
    ]


def test_odd_line_ends_are_words(tmp_path):
    (text,) = read_iob2(
        write(tmp_path, "a\u2028b\tO\n\x85\x1d\tO\n".replace("\x85\x1d", "c\x85d"))
    )
    assert text.words == ("a\u2028b", "c\x85d")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tO\nsecret\n", "line 2: expected a word and a tag, separated by a tab"),
        ("a\tO\n\tO\n", "line 2: expected a word and a tag"),
        *(
            (f"a\tB-Drug\nb\t{tag}\n", "line 2: expected a tag O, B-type, or")
            for tag in ILLEGAL
        ),
        (
            "a\tO\n\nb\tI-Disease\n",
            "line 3: expected a tag O, B-type, or I-type that continues",
        ),
        (
            "a\tB-Drug\nb\tI-Disease\n",
            "line 2: expected a tag O, B-type, or I-type that",
        ),
    ],
)
def test_faults_are_named_by_their_line(tmp_path, text, message):
    with pytest.raises(CorpusError, match=message) as caught:
        read_iob2(write(tmp_path, text))
    assert "secret" not in str(caught.value)


def test_not_utf8(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_bytes(b"caf\xe9\tO\n")
    with pytest.raises(CorpusError, match=r"train\.tsv is not UTF-8"):
        read_iob2(path)
