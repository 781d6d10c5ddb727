import pytest
from hypothesis import given
from hypothesis import strategies as st

from biomed.corpora import CorpusError, TaggedText, read_gold
from biomed.corpora.conll import read_conll, read_tags, to_iob2
from biomed.corpora.documents import spans_of, tags_of

HEART = TaggedText(("heart", "failure"), ("B-Disease", "I-Disease"))
NO = TaggedText(("no",), ("O",))


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
        "# sent_id = 1\nheart\tB-Disease\nfailure\tI-Disease\n\n# text = no\nno\tO\n",
    ],
)
def test_variants(tmp_path, text):
    assert read_conll(write(tmp_path, text)) == ([HEART, NO], [])


@pytest.mark.parametrize(
    "text",
    [
        "1\theart\tB-Disease\n2\tfailure\tI-Disease\n\n1\tno\tO\n",  # restarts
        "0 heart NN B-Disease\n1 failure NN I-Disease\n\n2 no DT O\n",  # does not
        "1-1\t0-5\theart\tB-Disease\n1-2\t6-13\tfailure\tI-Disease\n\n2-1\t14-16\tno\tO",
        "7 0 heart B-Disease\n7 6 failure I-Disease\n\n8 14 no O",
    ],
)
def test_columns_that_count_are_passed_over(tmp_path, text):
    texts, remarks = read_conll(write(tmp_path, text))
    assert texts == [HEART, NO]
    assert "train.tsv: column 1 counts lines or repeats an id" in remarks[0]


def test_a_column_with_the_id_of_the_document_is_passed_over(tmp_path):
    text = "d1 heart B-x\nd1 failure I-x\nd1 . O\n\nd2 no O\n"
    texts, remarks = read_conll(write(tmp_path, text))
    assert texts[0].words == ("heart", "failure", ".")
    assert "words are read from column 2" in remarks[0]


def test_without_a_column_of_words(tmp_path):
    path = write(tmp_path, "1\tB-Disease\n2\tI-Disease\n\n1\tO\n")
    with pytest.raises(
        CorpusError, match=r"the first column counts lines.*expected a"
    ):
        read_conll(path)


def test_a_header_is_skipped(tmp_path):
    path = write(
        tmp_path, "token\tner\nheart\tB-Disease\nfailure\tI-Disease\n"
    )
    assert read_conll(path) == (
        [HEART],
        ["train.tsv, line 1: read as a header"],
    )


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("I-x I-x O I-y I-x", "B-x I-x O B-y B-x"),  # IOB1
        ("S-x B-x E-x I-x O", "B-x B-x I-x B-x O"),  # IOBES
        ("U-x B-x L-x U-x O", "B-x B-x I-x B-x O"),  # BILOU
        ("x-B x-I O y-B x-I", "B-x I-x O B-y B-x"),
        ("B_x I_x O B_y I_x", "B-x I-x O B-y B-x"),
        ("b-x i-x o b-y i-x", "B-x I-x O B-y B-x"),
        ("B I O B I", "B-Entity I-Entity O B-Entity I-Entity"),
    ],
)
def test_other_schemes_are_converted_with_a_remark(tmp_path, tags, expected):
    lines = [
        f"{word}\t{tag}\n"
        for word, tag in zip("abcde", tags.split(), strict=True)
    ]
    (text,), remarks = read_conll(write(tmp_path, "".join(lines)))
    assert text.tags == tuple(expected.split())
    assert "train.tsv: tags are converted to IOB2, " in remarks[0]
    assert len(remarks) == 1 + ("Entity" in expected)


def test_entities_without_a_type_get_one_with_label(tmp_path):
    path = write(tmp_path, "gout\tB\nand\tO\n")
    gold = read_gold(path, labels={"Entity": "Disease"})
    assert gold.types == ("Disease",)
    assert (
        "the type is called Entity. Rename it with `labels={'Entity': 'NAME'}`"
        in gold.remarks[1]
    )


def test_odd_line_ends_and_spaces_are_in_words(tmp_path):
    text = "a\u2028b\tO\nc\x85d\tO\n\ne\u00a0f O\n"
    texts, _ = read_conll(write(tmp_path, text))
    assert [text.words for text in texts] == [
        ("a\u2028b", "c\x85d"),
        ("e\u00a0f",),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a\tO\nsecret\n",
            "line 2: expected a word and a tag, separated by a tab",
        ),
        ("a\tO\n\tO\n", "line 2: expected a word and a tag"),
        *(
            (
                f"a\tB-Drug\nb\t{tag}\n",
                "line 2: expected a tag such as O, B-Disease",
            )
            for tag in ("secret", "X", "B-", "I-", "b-Drug", "B", "Drug")
        ),
        (
            "B-x\theart\nI-x\tfailure\n",
            "line 1: expected a tag .* in the last column",
        ),
        ("heart\tDisease\nno\tO\n", "line 1: expected a tag"),
    ],
)
def test_faults_are_named_by_their_line(tmp_path, text, message):
    with pytest.raises(CorpusError, match=message) as caught:
        read_conll(write(tmp_path, text))
    assert "secret" not in str(caught.value)


def test_a_faulty_sentence_is_left_out_and_listed(tmp_path):
    path = write(
        tmp_path, "heart\tB-Disease\nfailure\tI-Disease\n\n\tO\n\nno\tO\n"
    )
    texts, (remark,) = read_conll(path)
    assert texts == [HEART, NO]
    assert remark.startswith("train.tsv, line 4: expected a word and a tag")
    assert remark.endswith("; the sentence is left out")


def test_not_utf8(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_bytes(b"caf\xe9\tO\n")
    with pytest.raises(CorpusError, match=r"train\.tsv is not UTF-8"):
        read_conll(path)


@pytest.mark.parametrize("separator", ["\t", " "])
def test_every_character_of_a_word_is_kept(tmp_path, separator):
    """Within a word, and alone unless it is white space; of the planes with words."""
    path = tmp_path / "words.tsv"
    for first in range(0, 0x20000, 4096):
        letters = [
            letter
            for letter in map(chr, range(first, first + 4096))
            if not "\ud800" <= letter <= "\udfff"
            if letter not in ("\t", "\r", "\n", separator)
        ]
        words = [f"a{letter}b" for letter in letters]
        words += [letter for letter in letters if not letter.isspace()]
        if separator == " " and not first:
            words.remove("#")  # begins a comment
        lines = [f"{word}{separator}O\n" for word in words]
        path.write_text("".join(lines), encoding="utf-8", newline="")
        sentences, _ = read_conll(path)
        read = [word for sentence in sentences for word in sentence.words]
        assert read == words


def test_one_spelling_holds_for_all_names():
    assert read_tags(["B-x", "I-x", "O", "y-B"])["y-B"] == ("", "y-B")
    assert read_tags(["x-B", "x-I", "O"])["x-I"] == ("I", "x")
    assert read_tags(["x-B", "Drug"])["x-B"] == ("", "x-B")
    assert read_tags(["O", "Disease", "Drug"])["Drug"] == ("", "Drug")
    assert read_tags(["O", "hepatitis-C", "B"])["B"] == ("", "B")
    assert read_tags(["o", "disease-b"]) == {
        "o": ("O", ""),
        "O": ("O", ""),
        "disease-b": ("B", "disease"),
    }


@given(st.lists(st.sampled_from("xy"), min_size=1), st.integers(1, 3))
def test_every_scheme_gives_the_same_entities(kinds, length):
    """Entities side by side, as IOBES and BILOU, become IOB2 with the same spans."""
    spans = [
        (number * length, (number + 1) * length, kind)
        for number, kind in enumerate(kinds)
    ]
    iob2 = tags_of(spans, words=len(kinds) * length)
    assert to_iob2((tag[0], tag[2:]) for tag in iob2) == iob2
    for single, last in ("SE", "UL"):
        marks = [single] if length == 1 else ["B", *"I" * (length - 2), last]
        tags = [(mark, kind) for kind in kinds for mark in marks]
        assert spans_of(to_iob2(tags)) == spans
