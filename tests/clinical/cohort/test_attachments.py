"""Attachments as text: character sets, HTML, RTF, several contents, and time by size."""

import base64
import gzip
import time
from itertools import zip_longest

import pytest

from clinical.cohort.fhir.attachments import (
    JOINED,
    LONGEST,
    UNREAD,
    read_attachments,
)
from clinical.cohort.fhir.charsets import (
    LEFT_OUT,
    Reading,
    decode,
    find_codec,
)
from clinical.cohort.fhir.html import html_text
from clinical.cohort.fhir.rtf import rtf_text


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


def not_read(form):
    return (f"content in {form}, not read",)


@pytest.mark.parametrize(
    ("attachments", "text", "remarks"),
    [
        ([attachment("as it is\n")], "as it is\n", ()),
        ([attachment(HTML, "text/html")], "Heart failure,\nNYHA < III\nHome", ()),
        ([attachment(RTF, "text/rtf")], "Café au lait\n€ 5, bold\tdone {x}", ()),
        ([attachment("%PDF-", "application/pdf"), attachment("plain")], "plain", ()),
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
        ([attachment("%PDF-1.4", "text/plain")], None, not_read("PDF")),
        ([attachment("<ClinicalDocument/>", "application/xml")], None,
         not_read("C-CDA without a narrative")),
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


CDA = """<?xml version="1.0"?><?xml-stylesheet type="text/xsl" href="CDA.xsl"?><!-- of a -->
<ClinicalDocument xmlns="urn:hl7-org:v3"><title>Document</title>
<component><structuredBody><component><section><title>Course</title><text><paragraph>Given
<content revised="delete">warfarin</content> <content styleCode="Bold">apixaban</content>.
</paragraph><list><item>one</item><item>two &lt; 3</item></list>
<table><tr><th>BP</th><th>HR</th></tr><tr><td>1</td><td>2</td></tr></table></text>
<component><section><title>Day 2</title><text>up<br/>home</text></section></component>
</section></component><component><section nullFlavor="NI"><title>Allergies</title>
<text>No information</text></section></component></structuredBody></component></ClinicalDocument>
"""
NARRATIVE = "Course\n\nGiven apixaban.\none\ntwo < 3\nBP\tHR\n1\t2\n\nDay 2\n\nup\nhome"
NO_STRUCTURE = (
    '<ClinicalDocument xmlns="urn:hl7-org:v3"><component><nonXMLBody>'
    '<text mediaType="{}" representation="B64">{}</text></nonXMLBody></component>'
    "</ClinicalDocument>"
)


@pytest.mark.parametrize(
    "content",
    [
        attachment(CDA, "text/xml"),
        attachment(CDA, "application/hl7-v3+xml; charset=utf-8"),
        attachment(CDA, "text/plain"),
        attachment(CDA.encode("utf-16"), "application/xml"),
        attachment(gzip.compress(CDA.encode()), "text/xml"),
    ],
)
def test_the_narrative_of_c_cda(content):
    """Sections in order with their titles; no revisions that were deleted, no null sections."""
    assert read_attachments([content]) == Reading(NARRATIVE, (LEFT_OUT,))


def test_a_c_cda_may_hold_another_document():
    def document(kind, raw):
        data = base64.b64encode(raw).decode()
        content = attachment(NO_STRUCTURE.format(kind, data), "text/xml")
        return read_attachments([content])

    assert document("text/rtf", RTF.encode()).text.startswith("Café au lait")
    assert document("application/pdf", b"%PDF-1.7") == Reading(
        None, not_read("PDF")
    )


@pytest.mark.parametrize(
    "markup",
    [
        '<!DOCTYPE a [<!ENTITY b "c">]><ClinicalDocument>&b;</ClinicalDocument>',
        CDA[:-30],
        "<ClinicalDocument>" + "<component>" * 5000 + "</component>" * 5000,
    ],
)
def test_a_c_cda_that_is_not_well_formed_is_listed(markup):
    reading = read_attachments([attachment(markup, "text/xml")])
    assert reading.text is None
    assert reading.remarks[0].startswith("content in ")


SENTENCE = "Discharged home on oxygen. He does not take aspirin."
TWICE = base64.b64encode(SENTENCE.encode()).decode()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (attachment(f"data:text/plain;base64,{TWICE}"), SENTENCE),
        (attachment("data:text/html,%3Cp%3Eat%20home%3C/p%3E"), "at home"),
        ({"contentType": "text/plain", "data": f"data:text/plain;base64,{TWICE}"}, SENTENCE),
        ({"url": f"data:text/plain;base64,{TWICE}"}, SENTENCE),
        (attachment(TWICE), SENTENCE),
        (attachment(base64.encodebytes(3 * SENTENCE.encode())), 3 * SENTENCE),
        (attachment(gzip.compress(SENTENCE.encode())), SENTENCE),
        (attachment(b"\xef\xbb\xbf" + RTF.encode()), "Café au lait\n€ 5, bold\tdone {x}"),
        (attachment(r"{\rtf1 at home}".encode("utf-16")), "at home"),
        (attachment("<p>One</p><p>Two</p>"), "One\nTwo"),
        (attachment("Plain.", "ASCII Text"), "Plain."),
        (attachment("# Plain.", "text/markdown"), "# Plain."),
        (attachment("[**2101-3-4**] seen by [**Name**]"), "[**2101-3-4**] seen by [**Name**]"),
        (attachment("{see the list}"), "{see the list}"),
        (attachment('"He is well."'), '"He is well."'),
        (attachment("< 5 mg, then > 3"), "< 5 mg, then > 3"),
        (attachment("Sodium" * 10), "Sodium" * 10),
    ],
)  # fmt: skip
def test_contents_are_read_as_what_they_are(content, text):
    assert read_attachments([content]) == Reading(text)


@pytest.mark.parametrize(
    ("content", "form"),
    [
        ('{"note": "at home"}', "JSON"),
        (' [{"note": "at home"}]\n', "JSON"),
        (r'"at home\nwith oxygen"', "JSON"),
        ("MSH|^~\\&|HIS|A\rOBX|1|TX|note||at home", "HL7 v2"),
        ("\x0bMSH|^~\\&|HIS", "HL7 v2"),
        ('<?xml version="1.0"?><note>at home</note>', "XML"),
        ("<FlowSheet><row>1</row></FlowSheet>", "XML"),
        (b"\x89PNG\r\n\x1a\n at home", "an image format"),
        (b"PK\x03\x04word/document.xml", "an Office or ZIP format"),
        (b"\x1f\x8bcut", "gzip"),
        ("\n%PDF-1.4 at home", "PDF"),
        (base64.b64encode(b"%PDF-1.4 at home, at home"), "PDF"),
        ("at\1\2\3 home", "a binary format"),
    ],
)
def test_contents_that_are_no_text_are_listed_by_their_form(content, form):
    """Never as words, whatever type they claim."""
    reading = read_attachments([attachment(content, "text/plain")])
    assert reading == Reading(None, not_read(form))


def test_contents_inside_contents_end():
    data = SENTENCE.encode()
    for _ in range(9):
        data = gzip.compress(data)
    assert read_attachments([attachment(data)]) == Reading(None)
    assert (
        read_attachments([attachment(gzip.compress(bytes(LONGEST + 1)))]).text
        is None
    )


CHANGING = [
    letter
    for letter in map(chr, range(0x110000))
    if len(letter.lower()) != 1 or len(letter.upper()) != 1 or len(letter.casefold()) != 1
]  # fmt: skip


@pytest.mark.parametrize("mark", ["<!--", "<style>", "<SCRIPT>", "<title>"])
def test_letters_whose_case_has_another_length_hide_nothing(mark):
    """Positions in a text in lower case are not those in the text."""
    assert "İ" in CHANGING
    closed = "<!-- x --><style></style><script></script><title></title>"
    letters = "".join(CHANGING) * 99
    words = html_text(f"<p>{letters}<p>{closed}a {mark} b<p>c").text.split()
    assert words == [letters, "a", "b", "c"]


def block(first, count):
    """Characters in the order of Unicode, without halves of pairs."""
    numbers = range(first, first + count)
    return "".join(
        chr(number) for number in numbers if not 0xD800 <= number < 0xE000
    )


# All that differ in case, form or width; of planes without such letters, both ends.
BLOCKS = [block(first, 4096) for first in range(0, 0x20000, 4096)] + [
    block(first, 512) + block(first + 0xF800, 2048)
    for first in range(0x20000, 0x110000, 0x10000)
]


def first_difference(kept, expected):
    """Where two texts first differ, with the characters there; None if they are equal."""
    if kept == expected:
        return None
    pairs = zip_longest(kept or "", expected)
    return next(
        (number, *map(ascii, pair))
        for number, pair in enumerate(pairs)
        if pair[0] != pair[1]
    )


def test_every_letter_of_html_is_kept_in_order():
    """As a line, verbatim, without tags, by its number, and after signs that begin no mark."""
    for block in BLOCKS:
        letters = [
            letter
            for letter in block
            if not letter.isspace() and letter not in "<&\0"
        ]
        words = "".join(letters)
        # HTML reads the numbers of these as those of windows-1252.
        unnumbered = dict.fromkeys(range(0x80, 0xA0))
        numbers = "".join(
            f"&#{ord(letter)};" for letter in words.translate(unnumbered)
        )
        readings = [
            ("<p>" + "<br>".join(letters) + "<title>", "\n".join(letters)),
            (f"<pre>{words}<!-- a", f"{words} a"),
            (words, words),
            (f"<pre>{numbers}</pre>", words.translate(unnumbered)),
            (f"<p><{'<'.join(letters)}</p>", f"<{'<'.join(letters)}"),
            (f"<p>&{' &'.join(letters)}</p>", f"&{' &'.join(letters)}"),
        ]
        for markup, expected in readings:
            reading = html_text(markup)
            assert reading.remarks == ()
            assert first_difference(reading.text, expected) is None


def test_every_letter_of_rtf_and_c_cda_is_kept_in_order():
    """RTF as bytes and as numbers of UTF-16 units; C-CDA between tags."""
    not_in_xml = dict.fromkeys([*range(32), 0xFFFE, 0xFFFF, *map(ord, "<&")])
    for block in BLOCKS:
        units = memoryview(block.encode("utf-16-le")).cast("H")
        numbers = "".join(rf"\u{unit}?" for unit in units)
        reading = rtf_text(rf"{{\rtf1 x{numbers}x}}".encode())
        assert first_difference(reading.text, f"x{block}x") is None
        letters = block.translate(dict.fromkeys(map(ord, "\r\n\\{}")))
        reading = rtf_text(rf"{{\rtf1 x{letters}x}}".encode())
        assert first_difference(reading.text, f"x{letters}x") is None
        letters = "".join(block.translate(not_in_xml).split())
        markup = CDA.replace("apixaban", letters)
        kept = read_attachments([attachment(markup, "text/xml")]).text
        kept = kept.partition("Given ")[2].partition(".\none")[0]
        assert first_difference(kept, letters) is None


def test_every_letter_of_a_plain_text_is_kept_in_order():
    """In each form of Unicode; only a first U+FEFF is the mark of the form."""
    text = "Text: " + "".join(BLOCKS)
    for form in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        reading = decode(text.encode(form), form.removesuffix("-sig"))
        assert reading.remarks == ()
        assert first_difference(reading.text, text) is None


def test_characters_that_no_xml_may_have_are_told():
    for number in [*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF]:
        markup = CDA.replace("apixaban", f"api{chr(number)}xaban")
        reading = read_attachments([attachment(markup, "text/xml")])
        assert reading.text is None
        assert len(reading.remarks) == 1


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("weight <kg", "weight <kg"),
        ("line 1, <half\nline 2", "line 1, <half\nline 2"),
        ("K > 3, then <half", "K > 3, then <half"),
        ("<p>takes <half a tablet daily</p>", "takes <half a tablet daily"),
        ("<p>takes <half of \"his\" wife's</p>", "takes <half of \"his\" wife's"),
        ("<p>pain </ 3 of 10</p>", "pain </ 3 of 10"),
        ("<p>pain <!half of it<br>no", "pain <!half of it\nno"),
        ("<p>pain <?half of it<br>no", "pain <?half of it\nno"),
        ("<p title='a <b' class=\"c < d\">e</p>", "e"),
        ("<p title = 'a <b'>c</p>", "c"),
        ("<!DOCTYPE html><!-- a <b> -->c<![CDATA[ <d> ]]>", "c ]]>"),
        ("tab&#9;&#1;&#xfdd0;&#X7F;&#38;lt;", "tab\t\ufffd\ufffd\ufffd&lt;"),
    ],
)  # fmt: skip
def test_signs_that_begin_no_mark_are_words(markup, text):
    assert html_text(markup).text == text


def test_characters_by_a_number_that_no_character_has():
    """Python refuses to read a number of 4,301 digits."""
    markup = f"at home &#{'9' * 4301}; and &#x{'f' * 4301}; well &#65;"
    assert html_text(markup).text == "at home \ufffd and \ufffd well A"


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
