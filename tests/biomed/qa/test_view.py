import io

from rich.console import Console

LONG = (
    "Patient was stable. " * 100
    + "On <insulin> & home\x1b[31m. "
    + "Stable. " * 100
)


def plain(view):
    console = Console(file=io.StringIO(), width=10_000)
    console.print(view)
    return console.file.getvalue()


def test_the_answer_is_marked_in_its_sentence(answerer):
    view = answerer.show("was it?", LONG)
    html = view._repr_html_()
    assert ">insulin</mark>" in html
    assert "&lt;" in html
    assert "<insulin" not in html
    assert "table" not in html.casefold()
    shown = plain(view)
    assert "On <[insulin](answer)> & home" in shown
    assert "\x1b" not in shown
    assert "insulin" in str(view)


def test_a_short_text_is_shown_whole(answerer):
    shown = plain(answerer.show("was it?", "on insulin at home"))
    assert (
        shown.strip() == "on [insulin](answer) at home"
    )  # marked at both ends


def test_several_answers_and_none(answerer):
    view = answerer.show(
        "was it?", "On insulin. " + "X. " * 900 + "heart failure.", top_k=2
    )
    assert view._repr_html_().count("<mark") == 2
    assert {entity.text for entity in view.entities} == {
        "insulin",
        "heart failure",
    }
    none = answerer.show("was it?", "patient at home")
    assert "No answer" in none._repr_html_()
    assert "No answer" in plain(none)
