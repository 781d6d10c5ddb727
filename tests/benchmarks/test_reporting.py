"""Ratios, spreads and sections of pages, with numbers worked out by hand."""

import pytest

from benchmarks.reporting import (
    markdown,
    rates,
    ratios,
    spread,
    times,
    write_section,
)


@pytest.mark.parametrize(
    ("values", "text"),
    [([3.0, 1.0, 2.0], "2.0 (1.0–3.0)"), ([1.0, 4.0], "2.5 (1.0–4.0)"), ([7.0], "7.0")],
)  # fmt: skip
def test_a_cell_is_the_median_with_the_smallest_and_the_largest(values, text):
    assert spread(values, ".1f") == text


def test_ratios_are_taken_within_a_round():
    """Both slow down in the second round: the median of ratios is 2, that of medians 1.5."""
    theirs = [2.0, 12.0, 3.0]
    ours = [1.0, 6.0, 2.0]
    assert ratios(theirs, ours) == [2.0, 2.0, 1.5]
    assert times(theirs, ours) == "2.00 (1.50–2.00)"
    assert rates(12, ours) == [12.0, 2.0, 6.0]
    with pytest.raises(ValueError, match="shorter"):
        ratios(theirs, ours[:2])


def test_rows_with_the_same_columns_are_a_markdown_table():
    rows = [{"way": "ours", "s": "1"}, {"way": "theirs", "s": "2"}]
    assert markdown(rows).splitlines() == [
        "| way | s |",
        "| --- | --- |",
        "| ours | 1 |",
        "| theirs | 2 |",
    ]


def test_only_the_named_section_of_a_page_is_replaced(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "a\n<!-- one -->\nold\n<!-- /one -->\n<!-- two -->\nold\n<!-- /two -->\n"
    )
    write_section(page, "one", r"new \1")
    assert page.read_text() == (
        "a\n<!-- one -->\nnew \\1\n<!-- /one -->\n<!-- two -->\nold\n<!-- /two -->\n"
    )
