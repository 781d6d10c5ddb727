import re
from html.parser import HTMLParser

from clinical.evidence.explain import explain

NASTY = "He lives alone <script>alert(1)</script> & \"home\". <img src=x onerror='x'> No fever."


class Reader(HTMLParser):
    """The tags of a page and its text in <mark>."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.marked, self.text, self._open = [], [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "mark":
            self.marked.append("")
            self._open = True

    def handle_endtag(self, tag):
        self._open = self._open and tag != "mark"

    def handle_data(self, data):
        self.text.append(data)
        if self._open:
            self.marked[-1] += data


def test_the_page_is_escaped_and_self_contained(evidence_model, tmp_path):
    found = explain(evidence_model, NASTY)
    page = found.show().save_html(tmp_path / "stay.html").read_text("utf-8")
    read = Reader(page)
    tags = {tag for tag, _ in read.tags}
    assert not tags & {"script", "img", "link", "iframe"}
    assert not re.search(r"https?:|src=\"|url\(", page)
    assert ("html", {"lang": "en"}) in read.tags
    assert [tag for tag, _ in read.tags if re.fullmatch("h[1-6]", tag)] == [
        "h1",
        "h2",
    ]
    assert "<script>alert(1)</script>" in "".join(read.text)


def test_every_passage_is_marked_with_its_direction(
    evidence_model_of_words, notes
):
    found = explain(evidence_model_of_words, notes, top=2)
    assert found.raising
    page = found.show()._repr_html_()
    read = Reader(page)
    marked = "".join(read.marked)
    for passage in found.passages:
        assert passage.text in marked
    n_lowering = len(found.passages) - len(found.raising)
    styles = [
        attributes["style"] for tag, attributes in read.tags if tag == "mark"
    ]
    assert sum("solid" in style for style in styles) == len(found.raising)
    assert sum("dashed" in style for style in styles) == n_lowering
    assert all("print-color-adjust:exact" in style for style in styles)
    assert page.count("▲</sub>") == len(found.raising)
    assert page.count("▼</sub>") == n_lowering
    assert f"{found.without_raising:.0%}" in page


def test_a_model_shows_the_notes_with_their_passages(evidence_model, notes):
    view, found = evidence_model.show(notes), explain(evidence_model, notes)
    assert view == found.show()
    assert len(found.passages) > 0
    assert repr(view) == (
        f"StayView: risk {found.risk.probability:.1%}, "
        f"{len(found.passages)} passages in {len(found.texts)} notes"
    )


def test_half_a_character_is_written(evidence_model, tmp_path):
    page = (
        explain(evidence_model, "He lives alone \ud83d.")
        .show()
        .save_html(tmp_path / "a.html")
    )
    assert "He lives alone" in page.read_text("utf-8")
