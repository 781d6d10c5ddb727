"""Notes in several rows of a table that is scored."""

import pytest

from clinical.stays.pieces import contradicting_ids, join_pieces, separator
from domainbert.tables import Row


def rows(*cells):
    return [
        Row(
            number,
            dict(zip(("note_id", "line", "text"), row, strict=True)),
            f"row {number}",
        )
        for number, row in enumerate(cells, start=1)
    ]


@pytest.mark.parametrize(
    ("lengths", "between"),
    [
        ([[60, 60, 12], [60, 3]], ""),
        ([[59, 60, 12], [60, 3]], ""),  # a space at a cut was lost
        ([[60, 22, 35], [8, 40]], "\n"),
        ([[5]], ""),
        ([], ""),
    ],
)
def test_pieces_were_cut_at_a_length_or_are_lines(lengths, between):
    assert separator(lengths) == between


def test_pieces_are_joined_in_the_order_of_their_lines():
    notes = join_pieces(
        rows(("a", "10", "c."), ("A ", "2", "bbbb"), ("b", "1", "x"), ("a", "1", "aaaa"))
    )  # fmt: skip
    assert [note.cells["text"] for note in notes] == ["aaaabbbbc.", "x"]


@pytest.mark.parametrize(
    ("cells", "fault"),
    [
        ([("a", "1", "x"), ("a", "1", "y")], "a note has the same line twice"),
        ([("a", "one", "x")], "a line is not a number"),
        ([(None, "1", "x")], "no note_id"),
    ],
)
def test_what_cannot_be_put_together_is_said(cells, fault):
    assert fault in join_pieces(rows(*cells))


def test_one_id_with_other_texts_is_counted():
    cells = [
        ("a", None, "x"),
        ("A", None, "y"),
        ("b", None, "z"),
        ("b", None, "z"),
    ]
    assert contradicting_ids(rows(*cells)) == 2
