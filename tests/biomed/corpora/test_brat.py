import pytest

from biomed.corpora import CorpusError, Span
from biomed.corpora.brat import is_brat, read_brat

TEXT = "No breast\r\nor ovarian cancer; fever\nand chills."


def write(tmp_path, annotations, text=TEXT):
    (tmp_path / "a1.txt").write_bytes(text.encode())
    (tmp_path / "a1.ann").write_text(annotations)
    return tmp_path


def test_contiguous_broken_and_discontinuous_spans(tmp_path):
    annotations = (
        "T1\tDisease 14 28\tovarian cancer\n"
        "T2\tDisease 3 9;22 28\tbreast cancer\n"
        "T3\tSign 30 35;36 39\tfever and\n"
        "R1\tSame Arg1:T1 Arg2:T2\nA1\tNegated T1\n#1\tNote T1\thm\n"
    )
    folder = write(tmp_path, annotations)
    assert is_brat(folder)
    (document,) = read_brat(folder)
    assert (document.id, document.text) == ("a1", TEXT)
    assert document.spans == (
        Span(14, 28, "Disease", assertion="negated"),
        Span(3, 28, "Disease", discontinuous=True),
        Span(30, 39, "Sign"),
    )


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("A1\tNegated T1", "negated"),
        ("M3\tNegation T1", "negated"),
        ("A1\tSpeculated T1", "possible"),
        ("A1\tNegated T1\nA2\tAssertion T1 historical", "historical"),
        ("A1\tConfidence T1 negated", ""),
        ("A1\tNegated E1", ""),
    ],
)
def test_attributes_become_assertions(tmp_path, attributes, expected):
    lines = f"T1\tDisease 14 28\tovarian cancer\n{attributes}\n"
    (document,) = read_brat(write(tmp_path, lines))
    assert document.spans[0].assertion == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "T1\tDisease 14 27\tovarian cancer",
            "a1.ann, line 2: the text at its offsets differs",
        ),
        (
            "T1\tDisease 14 28",
            "a1.ann, line 2: the text at its offsets differs",
        ),
        (
            "T1\tDisease -5 -1\till",
            "a1.ann, line 2: the text at its offsets differs",
        ),
        (
            "T1\tDisease fourteen 28\tovarian",
            "a1.ann, line 2: expected an entity as T-number, tab",
        ),
        ("T1", "a1.ann, line 2: expected an entity as T-number, tab"),
    ],
)
def test_faults_are_named_by_their_line(tmp_path, line, message):
    with pytest.raises(CorpusError, match=message) as caught:
        read_brat(write(tmp_path, f"#1\tNote\n{line}\n"))
    assert "ovarian" not in str(caught.value)


def test_an_annotation_without_its_text(tmp_path):
    (tmp_path / "a1.ann").write_text("")
    with pytest.raises(
        CorpusError, match=r"a1\.ann has no text: expected a1\.txt beside it"
    ):
        read_brat(tmp_path)


def test_a_bad_mention_is_left_out_and_listed(tmp_path):
    good = "T1\tDisease 14 28\tovarian cancer\n"
    (document,) = read_brat(
        write(tmp_path, f"{good}T2\tDisease 14 27\tovarian cancer\n")
    )
    assert document.spans == (Span(14, 28, "Disease"),)
    assert document.faults == (
        "a1.ann, line 2: the text at its offsets differs from the mention in the file",
    )


def test_two_mentions_of_one_name_are_both_read(tmp_path):
    annotations = "T1\tSign 30 35\tfever\nT1\tSign 40 46\tchills\n"
    (document,) = read_brat(write(tmp_path, annotations))
    assert document.spans == (Span(30, 35, "Sign"), Span(40, 46, "Sign"))


def test_references_and_assertions(tmp_path):
    annotations = (
        "N1\tReference T1 MESH:D010051\tOvarian Neoplasms\n"
        "T1\tDisease 14 28\tovarian cancer\nA1\tAssertion T1 negated\n"
        "A2\tAssertion T1 certain\nA3\tScore T1 0.93\nN2\tReference T9 MESH:D1\tx\n"
    )
    (document,) = read_brat(write(tmp_path, annotations))
    expected = Span(14, 28, "Disease", assertion="negated", id="MESH:D010051")
    assert document.spans == (expected,)
