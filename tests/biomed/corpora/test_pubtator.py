import pytest

from biomed.corpora import CorpusError, Span, read_gold
from biomed.corpora.pubtator import is_pubtator, read_pubtator

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
    path = write(
        tmp_path, f"{ONE}{mentions}\n13|t|None\n13|a|\n\n\n14|t|x\n15|t|y\n"
    )
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
        ("Heart", "line 3: expected an abstract"),
        ("12\tT1\tDisease\t0\t12\tHeart failure", "characters 0 to 12 differ"),
        ("12\t0\t13\tHeart failure\t\tD1", "line 3: characters 0 to 13"),
    ],
)
def test_faults_are_named_by_their_line(tmp_path, line, message):
    with pytest.raises(CorpusError, match=message) as caught:
        read_pubtator(write(tmp_path, f"{ONE}{line}\n"))
    assert "Heart" not in str(caught.value)


def test_something_else_is_not_pubtator(tmp_path):
    assert not is_pubtator(write(tmp_path, "heart\tB-Disease\n"))
    assert not is_pubtator(write(tmp_path, ""))


@pytest.mark.parametrize(
    "mention",
    [
        "12\t0\t13\tHeart failure\tDisease\tD1",
        "12\t0\t13\tHeart failure\tDisease\tD1\t0.93\tnegated",
        "12\tT1\t0\t13\tHeart failure\tDisease\tD1",
        "12\t7\t0\t13\tHeart failure\tDisease\tD1",
        "12\tT1\tDisease\t0\t13\tHeart failure\tD1",
        "12\tDisease\t0\t13\theart  FAILURE\tD1",
    ],
)
def test_columns_before_and_after_the_offsets(tmp_path, mention):
    (document,) = read_pubtator(write(tmp_path, f"{ONE}{mention}\n"))
    (span,) = document.spans
    assert (span.start, span.end, span.label, span.id) == (
        0,
        13,
        "Disease",
        "D1",
    )
    assert span.assertion == ("negated" if "negated" in mention else "")


@pytest.mark.parametrize("cells", ["\t-", "\t-1", "\t", ""])
def test_a_mention_without_a_concept(tmp_path, cells):
    row = f"12\t0\t13\tHeart failure\tDisease{cells}\n"
    (document,) = read_pubtator(write(tmp_path, f"{ONE}{row}"))
    assert document.spans == (Span(0, 13, "Disease"),)


def test_a_bad_mention_is_left_out_and_listed(tmp_path):
    good = "12\t0\t13\tHeart failure\tDisease\n"
    path = write(tmp_path, f"{ONE}{good}12\t18\t30\theart failure\tDisease\n")
    gold = read_gold(path)
    assert gold.documents[0].spans == (Span(0, 13, "Disease"),)
    (remark,) = gold.remarks
    assert remark.startswith("corpus.txt, line 4: characters 18 to 30 differ")
    assert remark.endswith("; left out")


@pytest.mark.parametrize("offsets", ["-1\t13", "0.0\t13.0", "\t13"])
def test_offsets_that_are_no_numbers_are_listed(tmp_path, offsets):
    good = "12\t0\t13\tHeart failure\tDisease\n"
    bad = f"12\t{offsets}\tHeart failure\tDisease\n"
    (remark,) = read_gold(write(tmp_path, f"{ONE}{good}{bad}")).remarks
    assert remark.startswith("corpus.txt, line 4: expected a mention")


def test_most_mentions_are_bad(tmp_path):
    rows = "12\t1\t14\tHeart failure\tDisease\n12\t19\t32\theart failure\tDisease\n"
    with pytest.raises(
        CorpusError, match=r"line 3: .*; 2 of 2 mentions cannot be read"
    ):
        read_pubtator(write(tmp_path, f"{ONE}{rows}"))


def test_mentions_in_a_form_that_is_not_known(tmp_path):
    rows = (
        "12\tDisease\tHeart failure\t0-13\n12\tDisease\theart failure\t18-31\n"
    )
    with pytest.raises(
        CorpusError, match=r"no mentions, but 2 lines.* line 3; expected"
    ):
        read_pubtator(write(tmp_path, f"{ONE}{rows}"))


def test_relations_of_numbers_are_no_mentions(tmp_path):
    row = "12\t0\t13\tHeart failure\tDisease\n12\tAssociation\t4514\t3175\tNovel\n"
    (document,) = read_pubtator(write(tmp_path, ONE + row))
    assert len(document.spans) == 1
    assert document.faults == ()


def test_parts_of_an_abstract_and_blank_lines_before_mentions(tmp_path):
    text = "1|t|Asthma.\n1|a|One.\n1|a|Gout.\n\n1\t13\t17\tGout\tDisease\n"
    (document,) = read_pubtator(write(tmp_path, text))
    assert document.text == "Asthma.\nOne.\nGout."
    assert document.spans == (Span(13, 17, "Disease"),)
