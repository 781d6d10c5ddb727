"""The narrative of C-CDA documents: the sections with their titles, in order."""

import base64
import re
from collections.abc import Callable, Iterator

from lxml import etree

from clinical.cohort.fhir.charsets import Reading
from clinical.cohort.fhir.html import WordTarget

# Elements of a narrative as those of HTML; other elements are parts of a line.
_BLOCKS = {
    "paragraph": "p", "list": "ul", "item": "li", "caption": "caption", "table": "table",
    "thead": "thead", "tbody": "tbody", "tfoot": "tfoot", "tr": "tr", "th": "th", "td": "td",
    "br": "br", "footnote": "p",
}  # fmt: skip
_DECLARATION = re.compile(r"\s*<\?xml[^>]{0,300}\?>")


def cda_text(
    markup: str,
    read_body: Callable[[bytes, str], Reading],
) -> Reading:
    """The narrative of each section with its title.

    Sections with a `nullFlavor` and deleted revisions are left out. A body that is another
    document is read by `read_body`, of its bytes and type. None if it is no well-formed XML.
    """
    root = _parsed(markup)
    if root is None:
        return Reading(None)
    for body in root.iter("{*}nonXMLBody"):
        for content in body.iter("{*}text"):
            return _body_text(content, read_body)
    target = WordTarget()
    parts = []
    for section in _sections(root):
        for name in ("title", "text"):
            parts += [
                _narrative(element, target)
                for element in section.iterchildren(f"{{*}}{name}")
                if not element.get("nullFlavor")
            ]
    text = "\n\n".join(filter(None, parts))
    return Reading(text or None, target.remarks)


def is_xml(markup: str) -> bool:
    """Whether a text is one whole element of XML."""
    return _parsed(markup) is not None


def _parsed(markup: str) -> etree._Element | None:
    """The root of well-formed XML without declarations of its own; else None."""
    if "<!DOCTYPE" in markup:  # it may have entities, which no C-CDA has
        return None
    parser = etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        remove_comments=True,
        remove_pis=True,
        huge_tree=True,
    )
    markup = _DECLARATION.sub("", markup, count=1).strip()
    try:
        return etree.fromstring(markup.encode(), parser)
    except (etree.XMLSyntaxError, ValueError):
        return None


def _body_text(
    content: etree._Element,
    read_body: Callable[[bytes, str], Reading],
) -> Reading:
    words = "".join(content.itertext())
    raw = words.encode()
    if content.get("representation") == "B64":
        try:
            raw = base64.b64decode("".join(words.split()), validate=True)
        except ValueError:
            return Reading(None)
    return read_body(raw, content.get("mediaType") or "text/plain")


def _sections(root: etree._Element) -> Iterator[etree._Element]:
    """The sections in order, each before those inside it."""
    elements = [root]
    while elements:  # no recursion: a document may nest a thousand of them
        element = elements.pop()
        name = etree.QName(element).localname
        if name == "section":
            if element.get("nullFlavor"):
                continue
            yield element
        if name in (
            "ClinicalDocument",
            "component",
            "structuredBody",
            "section",
        ):
            elements += element.iterchildren("{*}*", reversed=True)


def _narrative(element: etree._Element, target: WordTarget) -> str:
    """The words of a title or a narrative block."""
    for event, inner in etree.iterwalk(element, events=("start", "end")):
        tag = _BLOCKS.get(etree.QName(inner).localname, "span")
        if event == "start":
            attributes = {}
            if inner.get("revised") == "delete":
                attributes["hidden"] = ""
            target.start(tag, attributes)
            target.data(inner.text or "")
        else:
            target.end(tag)
            if inner is not element:
                target.data(inner.tail or "")
    return target.take()
