"""Attachments as text: character sets, HTML, RTF, several contents, and time by size."""

import base64
import time

import pytest

from clinical.cohort.fhir.attachments import (
    JOINED,
    LEFT_OUT,
    LONGEST,
    UNREAD,
    Reading,
    decode,
    find_codec,
    html_text,
    read_attachments,
    rtf_text,
)


def attachment(data, kind="text/plain", **changes):
    raw = data if isinstance(data, bytes) else data.encode()
    return {
        "contentType": kind,
        "data": base64.b64encode(raw).decode(),
    } | changes


RTF = r"""{\rtf1\ansi{\fonttbl{\f0 Arial;}}{\*\generator Riched20;}\f0\fs20 Caf\'e9 au lait\par
\u8364? 5, \b bold\b0\tab done \{x\}}"""
HTML = "<html><style>p {}</style><body><p>Heart&nbsp;failure,<br/>NYHA &lt; III</p><p>Home</p>"
WORDS = "Größe 180 cm, Café, naïve."
UNNAMED = (
    "text that names no character set and is not UTF-8, read as windows-1252",
)
MISNAMED = "text whose character set is unknown or wrongly named, read as "


@pytest.mark.parametrize(
    ("attachments", "text", "remarks"),
    [
        ([attachment("as it is\n")], "as it is\n", ()),
        ([attachment(HTML, "text/html")], "Heart failure,\nNYHA < III\nHome", ()),
        ([attachment(RTF, "text/rtf")], "Café au lait\n€ 5, bold\tdone {x}", ()),
        ([attachment("%PDF", "application/pdf"), attachment("plain")], "plain", ()),
        ([attachment("<p>b</p>", "text/html"), attachment("a")], "a", ()),
        ([attachment("page 1"), attachment("page 2")], "page 1\n\npage 2", (JOINED,)),
        ([attachment("a"), attachment("a", "TEXT/PLAIN; charset=UTF-8")], "a", ()),
        ([attachment("a"), {"contentType": "text/plain", "url": "x"}], "a", (UNREAD,)),
        ([attachment("a", "text/plain", url="#b")], "inner", ()),
        ([{"url": "https://ehr/fhir/Binary/b2/_history/3"}], "linked", ()),
        ([{"contentType": "text/plain", "data": "no base64!"}], None, ()),
        ([{"contentType": "text/plain", "data": "YWI"}], "ab", ()),  # no padding
        ([{"contentType": "text/plain", "data": "YW\r\nJj\n"}], "abc", ()),
        ([{"contentType": "text/plain", "url": "Binary/1"}], None, ()),
        ([attachment("%PDF-1.4", "text/plain")], None, ()),
        ([attachment("<ClinicalDocument/>", "application/xml")], None, ()),
        ([attachment(HTML, "text/xml")], "Heart failure,\nNYHA < III\nHome", ()),
        ([attachment(RTF, "application/octet-stream")], "Café au lait\n€ 5, bold\tdone {x}", ()),
        ([attachment("Plain words.", "text/rtf")], "Plain words.", ()),
        ([attachment("x" * (LONGEST + 1))], None, ()),
        (["no attachment", None], None, ()),
        ([], None, ()),
    ],
)  # fmt: skip
def test_the_text_of_attachments(attachments, text, remarks):
    binaries = {"#b": attachment("inner"), "b2": attachment("linked")}
    assert read_attachments(attachments, binaries) == Reading(text, remarks)


@pytest.mark.parametrize(
    ("raw", "charset", "remarks"),
    [
        (WORDS.encode(), None, ()),
        (WORDS.encode(), "UTF_8", ()),
        (WORDS.encode(), "us-ascii", ()),
        (WORDS.encode("utf-8-sig"), "windows-1252", ()),  # the mark wins
        (WORDS.encode("cp1252"), None, UNNAMED),
        (WORDS.encode("cp1252"), "windows-1252", ()),
        (WORDS.encode("cp1252"), "Windows1252", ()),
        (WORDS.encode("cp1252"), "x-cp1252", ()),
        (WORDS.encode("cp1252"), "ISO_8859-1:1987", ()),
        (WORDS.encode("cp1252"), "ansi", ()),
        (WORDS.encode("cp1252"), "klingon", (f"{MISNAMED}windows-1252",)),
        (WORDS.encode("cp1252"), "utf-8", (f"{MISNAMED}windows-1252",)),
        (WORDS.encode(), "klingon", (f"{MISNAMED}UTF-8",)),
        (WORDS.encode(), "punycode", (f"{MISNAMED}UTF-8",)),
        (WORDS.encode("utf-16"), "utf-16", ()),
        (WORDS.encode("utf-16"), None, ()),
        (WORDS.encode("utf-16-le"), "UTF-16", ()),
        (WORDS.encode("utf-16-be"), "UTF-16", ()),
        (WORDS.encode("utf-16-le"), "utf-8", (f"{MISNAMED}UTF-16-LE",)),
        (WORDS.encode("utf-32"), None, ()),
    ],
)
def test_a_character_set_is_read_as_named_or_told(raw, charset, remarks):
    assert decode(raw, charset) == Reading(WORDS, remarks)


def test_bytes_that_no_character_set_has_are_no_text():
    assert decode(b"caf\xe9 \x81", None) == Reading(None)
    assert decode("“5 €”".encode("cp1252"), "iso-8859-1").text == "“5 €”"


def test_names_of_character_sets():
    assert find_codec("windows-1250") == "cp1250"
    assert find_codec("KOI8-R") == "koi8-r"
    assert find_codec("base64") is None
    html = '<html><meta charset="windows-1250"><p>Zażółć'.encode("cp1250")
    assert read_attachments([attachment(html, "text/html")]) == Reading(
        "Zażółć"
    )


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        (r"{\rtf1\ansi\ansicpg1250{\fonttbl{\f0 A;}}\f0 Za\'bf\'f3\'b3\'e6}", "Zażółć"),
        (r"{\rtf1\ansi{\fonttbl{\f0\fcharset0 A;}{\f1\fcharset204 B;}}\f0\'e9 \f1\'e4\'e0}",
         "é да"),
        (r"{\rtf1\mac caf\'8e}", "café"),
        ("{\\rtf1\\ansi\\ansicpg932 \\'82\\'a0\r\n\\'82\\'a2}", "あい"),
        ("{\\rtf1 Größe}", "Größe"),
        ("{\\rtf1 Größe \\'e9 x}", "Größe é x"),
        (r"{\rtf1\ansi\uc1 W\u322?adek. {\uc0 W\u322 adek}, \u322\'b3x}", "Władek. Władek, łx"),
        (r"{\rtf1\uc2 \u322\'a3\'a3x, {\uc1\u-10179?\u-8704?y}}", "łx, 😀y"),
        (r"{\rtf1\uc1 \u-10179\u-8704?y}", "😀y"),
        (r"{\rtf1 takes {\deleted not }aspirin {\v X}\v Y\v0 {\strike no}Z \v H\plain I}",
         "takes aspirin Z I"),
        (r"{\rtf1{\*\bkmkstart a}Kept{\field{\*\fldinst HYPERLINK x}{\fldrslt link}}}", "Keptlink"),
        (r"{\rtf1{\headerl h}{\footerf f}{\info{\title t}}body{\footnote note}}", "body note"),
        (r"{\rtf1{\*\shpinst{\sp{\sn a}{\sv b}}{\shptxt box}} text}", "box text"),
        (r"{\rtf1{\pict\bin5 {{{{{}x}", "x"),
        (r"{\rtf1 a\bin99 b}", "ab"),
        ("{\\rtf1 a\\\nb\\~c\\_d\\-e\\emdash f\\'zz \\", "a\nb c-de\u2014fzz"),
        (r"{\rtf1\trowd BP\cell 120/80\cell\row HR\cell 88\cell\row}", "BP\t120/80\t\nHR\t88"),
        ("}}{\\rtf1 a}", "}}{\\rtf1 a}"),  # no RTF
    ],
)  # fmt: skip
def test_the_words_of_rtf(markup, text):
    reading = read_attachments([attachment(markup, "text/rtf")])
    assert reading.text == text
    has_left_out = any(
        word in markup for word in ("deleted", "\\v ", "strike")
    )
    assert reading.remarks == ((LEFT_OUT,) if has_left_out else ())


def test_a_byte_that_the_code_page_lacks_is_told():
    reading = rtf_text(rb"{\rtf1\ansi a\'81b}")
    assert reading.text == "a\ufffdb"
    assert "code page" in reading.remarks[0]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<html><body></style></script></p>Lives alone", "Lives alone"),
        ("<p>a</p>b<div>c</div>d<hr>e", "a\nb\nc\nd\ne"),
        ("<table>\n<tr>\n<td>BP</td>\n <td>1</td>\n</tr><tr><th>HR<td>2</table>",
         "BP\t1\nHR\t2"),
        ("<pre>Meds:\n  furosemide\n\n  metoprolol</pre>end",
         "Meds:\n  furosemide\n\n  metoprolol\nend"),
        ("<div style='white-space: pre-wrap'>a\n b</div>", "a\n b"),
        ("<head><title>t</title><script>s</script></head><!-- c --><b>b</b>", "b"),
        ("H<sub>2</sub>O <b>is</b>, <i>so</i> <st1:place>here</st1:place>", "H2O is, so here"),
        ("<ul><li>a<li>b</ul><select><option>c<option>d</select>", "a\nb\nc\nd"),
        ("O2&nbsp;&lt; 90 &#8364; &#150;<br>&unknown; a < b", "O2 < 90 € –\n&unknown; a < b"),
        ("<![x[ <p>b", "b"),
        ("a<![if !x]>b<![endif]><![CDATA[>c", "abc"),
        ("<p>kept<!-- not closed", "kept not closed"),
        ("<style>p {}<p>kept", "p {}\nkept"),
        ("<p>ends in <a href", "ends in <a href"),
        ("line 1\nline 2 &lt; 3", "line 1\nline 2 < 3"),
        ("<p>a\0b \ud800", "ab \ufffd"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_words_of_html(markup, text):
    reading = html_text(markup)
    assert " ".join(reading.text.split(" ")) == text
    assert reading.remarks == ()


@pytest.mark.parametrize(
    "markup",
    ["<s>x</s>", "<del>x</del>", "<p hidden>x</p>", "<p style='DISPLAY : none'>x</p>",
     "<b style='text-decoration:line-through'>x</b>"],
)  # fmt: skip
def test_words_that_html_strikes_out_or_hides_are_left_out_and_told(markup):
    reading = html_text(f"<p>Takes {markup} apixaban.</p>")
    assert " ".join(reading.text.split()) == "Takes apixaban."
    assert reading.remarks == (LEFT_OUT,)


@pytest.mark.parametrize(
    "piece",
    ["<b><p></b>",
     "<a ", "<td>", "<!--", "<![x[", "<div>", "<p><b>", "<table><b>", "<a href='", "<",
     "<style>", "&#", "</x>", "<s>", r"\'e9", "{", r"{\v ", r"\u322?", "\\", r"\bin1 ", r"\f1"],
)  # fmt: skip
def test_time_grows_linearly_with_the_size(piece):
    """Quadratic time would be four times as long, and a minute for a note."""
    read = (
        html_text if piece[0] in "<&" else lambda text: rtf_text(text.encode())
    )
    start = "" if piece[0] in "<&" else r"{\rtf1 "

    def seconds(count):
        text = start + piece * count
        times = []
        for _ in range(3):
            began = time.process_time()
            read(text)
            times.append(time.process_time() - began)
        return min(times)

    count = 4_000
    assert seconds(4 * count) < max(10 * seconds(count), 0.2)


@pytest.mark.parametrize("tag", ["</i>", "</p>", "</br>"])
def test_end_tags_that_close_nothing_take_linear_time(tag):
    """The parser looks for each of them in all that is open."""

    def seconds(count):
        began = time.process_time()
        html_text("<div>" * count + tag * count)
        return time.process_time() - began

    count = 16_000
    assert seconds(4 * count) < max(10 * seconds(count), 0.2)


def test_a_binary_is_read_once_however_many_links_it_has():
    reads = []

    class Binary(dict):
        def get(self, name, default=None):
            reads.append(name)
            return super().get(name, default)

    data = base64.b64encode(b"chest pain").decode()
    binary = Binary(contentType="text/plain", data=data)
    links = [{"url": "Binary/b"}] * 1000
    reading = read_attachments([*links, {"url": "#c"}], {"b": binary})
    assert reading.text == "chest pain"
    assert reads.count("data") == 1


def test_names_of_character_sets_do_not_fill_the_memory():
    for number in range(300):
        assert find_codec(f"utf-x{number}") is None
    assert find_codec.cache_info().currsize <= 128
