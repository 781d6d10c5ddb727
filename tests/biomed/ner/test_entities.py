import html
import re

from biomed.ner.entities import Entity, TaggedView
from biomed.notes.assertion import ASSERTIONS

TEXT = 'A <b>heart & failure</b>\n"insulin" \x1b[31m'


def entity(part, label, score=0.5):
    start = TEXT.index(part)
    return Entity(start, start + len(part), part, label, score)


def view(*entities):
    return TaggedView(TEXT, entities, ("Disease", "Drug"))


def test_html_is_escaped_and_whole():
    shown = view(
        entity("heart & failure", "Disease", 0.912), entity("insulin", "Drug")
    )
    page = shown._repr_html_()
    plain = re.sub(r"<sub.*?</sub>|<[^>]+>", "", page)
    assert html.unescape(plain) == TEXT
    assert 'title="Disease 0.91"' in page
    assert "<b>" not in page
    assert "<script" not in page
    assert len(re.findall("<mark", page)) == 2
    assert len(set(re.findall("background:(#[0-9a-f]+)", page))) == 2


def test_its_repr_counts_the_entities_without_the_text():
    shown = view(
        entity("heart & failure", "Disease"),
        entity("insulin", "Drug"),
        entity("A", "Disease"),
    )
    assert repr(shown) == (
        "TaggedView: 3 entities in 40 characters (2 Disease, 1 Drug)"
    )
    assert repr(view()) == "TaggedView: 0 entities in 40 characters (none)"


def test_overlapping_entities_show_both():
    shown = view(
        entity("heart & failure", "Disease"), entity("failure</b>\n", "Drug")
    )
    page = shown._repr_html_()
    assert html.unescape(re.sub(r"<sub.*?</sub>|<[^>]+>", "", page)) == TEXT
    assert 'title="Disease 0.50; Drug 0.50"' in page
    assert re.findall("<sub[^>]*>([^<]+)", page) == ["Disease", "Drug"]


def test_a_terminal_gets_colours_but_no_orders():
    shown = str(view(entity("insulin", "Drug")))
    assert "\x1b[" in shown
    assert "\x1b[31m" not in shown
    assert "\ufffd[31m" in shown
    plain = re.sub("\x1b\\[[0-9;]*m", "", shown)
    assert plain == TEXT.replace("insulin", "[insulin](Drug)").replace(
        "\x1b", "\ufffd"
    )


def test_labels_are_escaped_too():
    page = TaggedView(
        "a", (Entity(0, 1, "a", "<x>", 1.0),), ("<x>",)
    )._repr_html_()
    assert "<x>" not in page


def test_a_text_without_entities(tagger):
    assert "<mark" not in tagger.show("stable")._repr_html_()
    assert "stable" in str(tagger.show("stable"))
    assert tagger.show("")._repr_html_().startswith("<div")
    assert [e.text for e in tagger.show("heart failure").entities] == [
        "heart failure"
    ]


def test_assertions_and_ids_are_marked():
    shown = view(Entity(0, 1, "A", "Disease", 0.5, "negated", "C<1>"))
    page = shown._repr_html_()
    assert "line-through" in page
    assert 'title="Disease, negated, C&lt;1&gt; 0.50"' in page
    plain = re.sub("\x1b\\[[0-9;]*m", "", str(shown))
    assert plain.startswith("[A](Disease, negated, C<1>)")
    pages = {
        view(Entity(0, 1, "A", "Drug", 0.5, a))._repr_html_()
        for a in ASSERTIONS
    }
    assert len(pages) == len(ASSERTIONS)


def test_the_words_that_decided_are_underlined():
    text = "Denies fever."
    decided = Entity(
        7,
        12,
        "fever",
        "Disease",
        0.9,
        "negated",
        cue="Denies",
        cue_start=0,
        cue_end=6,
        cue_rule="before",
    )
    shown = TaggedView(text, (decided,), ("Disease",))
    assert '<u title="cue: negated">Denies</u> <mark' in shown._repr_html_()
    assert re.match("\x1b\\[[0-9;]*4mDenies\x1b", str(shown))
