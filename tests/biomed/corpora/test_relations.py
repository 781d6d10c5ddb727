"""Relations in all formats of documents: read, written, and read back."""

import json

import pytest

from biomed.corpora import (
    CorpusError,
    Document,
    Relation,
    Span,
    gold_of,
    read_gold,
)
from biomed.ner.entities import Entity
from biomed.ner.standoff import TaggedDocument, write_tagged
from biomed.notes.attributes import Attribute, Medication

TEXT = (
    "Naproxen and ulcers.\nUlcers bled under naproxen; iron treated anaemia."
)


def at(part, label, concept, *, last=False):
    start = TEXT.index(part)
    if last:
        start = TEXT.rindex(part)
    return Span(start, start + len(part), label, id=concept)


SPANS = (
    at("Naproxen", "Chemical", "D009288"),
    at("ulcers", "Disease", "D014456"),
    at("Ulcers", "Disease", "D014456"),
    at("naproxen", "Chemical", "D009288", last=True),
    at("iron", "Chemical", "D007501"),
    at("anaemia", "Disease", "D000740|D018798"),
)
RELATIONS = (
    Relation("CID", "D009288", "D014456"),
    Relation("Negative_Correlation", "D007501", "D018798", novelty="Novel"),
)
DOCUMENT = Document("12", TEXT, SPANS, relations=RELATIONS)
FORMATS = ["pubtator", "brat", "bioc", "bioc-json"]


def read_back(document, form, tmp_path):
    write_tagged([document], tmp_path / form, form=form)
    gold = read_gold(tmp_path / form)
    assert gold.remarks == ()
    (read,) = gold.documents
    return read


@pytest.mark.parametrize("form", FORMATS)
def test_relations_come_back(tmp_path, form):
    read = read_back(TaggedDocument.of_gold(DOCUMENT), form, tmp_path)
    assert read.text == TEXT
    assert [(s.start, s.end, s.label, s.id) for s in read.spans] == [
        (s.start, s.end, s.label, s.id) for s in SPANS
    ]
    if form != "brat":
        assert read.relations == RELATIONS
        return
    # BRAT relates mentions: of each concept the nearest ones, with their ids.
    (induces, treats) = read.relations
    assert (induces.label, induces.first, induces.second) == (
        "CID",
        "D009288",
        "D014456",
    )
    texts = [TEXT[start:end] for start, end in induces.mentions]
    assert texts == ["Naproxen", "ulcers"]
    assert (treats.label, treats.second) == (
        "Negative_Correlation",
        "D000740|D018798",
    )


@pytest.mark.parametrize("form", ["brat", "bioc", "bioc-json"])
def test_relations_of_mentions_without_concepts_come_back(tmp_path, form):
    spans = tuple(Span(s.start, s.end, s.label) for s in SPANS)
    extents = [(s.start, s.end) for s in SPANS]
    relations = (
        Relation("causes", "", "", mentions=(extents[3], extents[2])),
        Relation("treats", "", "", mentions=(extents[4], extents[5])),
    )
    document = Document("12", TEXT, spans, relations=relations)
    read = read_back(TaggedDocument.of_gold(document), form, tmp_path)
    assert read.relations == relations


def tagged(part, label, medication=None, concept=None):
    start = TEXT.index(part)
    return Entity(
        start,
        start + len(part),
        part,
        label,
        0.9,
        id=concept,
        medication=medication,
    )


def test_reasons_and_reactions_of_drugs_are_written_as_relations(tmp_path):
    ulcers = tagged("ulcers", "Disease", concept="C1")
    reaction = Attribute("reaction", ulcers.start, ulcers.end, "ulcers")
    dose = Attribute("dose", ulcers.start, ulcers.end, "ulcers")
    line = Medication(0, 8, "Naproxen", attributes=(reaction, dose))
    drug = tagged("Naproxen", "Chemical", line, "C2")
    iron = tagged("iron", "Chemical", Medication(50, 54, "iron"))
    document = TaggedDocument.of_tags("12", TEXT, [drug, ulcers, iron])
    assert document.relations == (
        Relation("reaction", "C2", "C1", mentions=((0, 8), (13, 19))),
    )
    for form in FORMATS:
        (relation,) = read_back(document, form, tmp_path).relations
        assert (relation.label, relation.first, relation.second) == (
            "reaction",
            "C2",
            "C1",
        )
    configuration = (tmp_path / "brat" / "annotation.conf").read_text()
    assert "[relations]\nreaction\tArg1:<ENTITY>" in configuration


def test_a_relation_without_ids_is_no_line_of_pubtator(tmp_path):
    ulcers = tagged("ulcers", "Disease")
    reaction = Attribute("reaction", ulcers.start, ulcers.end, "ulcers")
    line = Medication(0, 8, "Naproxen", attributes=(reaction,))
    drug = tagged("Naproxen", "Chemical", line)
    document = TaggedDocument.of_tags("12", TEXT, [drug, ulcers])
    assert len(document.relations) == 1
    assert read_back(document, "pubtator", tmp_path).relations == ()


def pubtator(tmp_path, rows):
    path = tmp_path / "corpus.txt"
    path.write_text(
        "12|t|Naproxen.\n12|a|Ulcers.\n12\t0\t8\tNaproxen\tChemical\tD1\n"
        f"12\t10\t16\tUlcers\tDisease\tD2\n{rows}\n"
    )
    return read_gold(path)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("12\tCID\tD1\tD2", [Relation("CID", "D1", "D2")]),
        (
            "12\tAssociation\t4514\t3175\tNo",
            [Relation("Association", "4514", "3175", novelty="No")],
        ),
        ("12\tCID\tD1\t D2 ", [Relation("CID", "D1", "D2")]),
    ],
)
def test_relations_of_pubtator(tmp_path, row, expected):
    (document,) = pubtator(tmp_path, row).documents
    assert list(document.relations) == expected
    assert document.faults == ()


@pytest.mark.parametrize("row", ["12\tCID\tD1", "12\tCID\tD1\t", "12\tCID"])
def test_a_relation_with_one_concept_is_listed(tmp_path, row):
    gold = pubtator(tmp_path, row)
    (remark,) = gold.remarks
    assert remark == (
        "corpus.txt, line 5: expected a relation as id, type, concept, concept, "
        "separated by tabs; left out"
    )


@pytest.mark.parametrize(
    ("rows", "faults", "count"),
    [
        ("R1\tCauses Arg1:T1 Arg2:T2\t", 0, 1),
        ("R1\tCauses Drug:T1 Event:E2", 0, 0),
        ("R1\tCauses Arg1:T1 Arg2:T9", 1, 0),
        ("R1\tCauses Arg1:T1", 1, 0),
        ("*\tEquiv T1 T2", 0, 0),
    ],
)
def test_relations_of_brat(tmp_path, rows, faults, count):
    (tmp_path / "a.txt").write_text("Naproxen. Ulcers.")
    (tmp_path / "a.ann").write_text(
        f"T1\tDrug 0 8\tNaproxen\nT2\tDisease 10 16\tUlcers\n{rows}\n"
    )
    (document,) = read_gold(tmp_path).documents
    assert len(document.faults) == faults
    assert len(document.relations) == count


def test_dropping_a_type_drops_its_relations():
    gold = gold_of([DOCUMENT], labels={"Chemical": ""})
    assert gold.documents[0].relations == ()
    mention = Relation("x", "", "", mentions=((0, 8), (13, 19)))
    document = Document("1", TEXT, SPANS, relations=(mention,))
    assert gold_of([document]).documents[0].relations == (mention,)
    gold = gold_of([document], labels={"Disease": ""})
    assert gold.documents[0].relations == ()


BIOC = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE collection SYSTEM "BioC.dtd">
<collection><source>x</source><document><id>7</id>
<passage><infon key="type">title</infon><offset>0</offset><text>Naproxen.</text>
<annotation id="0"><infon key="type">Chemical</infon><infon key="MESH">D1</infon>
<location offset="0" length="8"/><text>Naproxen</text></annotation></passage>
<passage><offset>10</offset><sentence><offset>10</offset><text>Big ulcers.</text>
<annotation id="1"><infon key="type">Disease</infon><infon key="MESH">-1</infon>
<location offset="10" length="3"/><location offset="14" length="6"/>
<text>Big ulcers</text></annotation>
<annotation id="2"><infon key="type">Disease</infon><infon key="MESH">D2</infon>
<location offset="OFFSET" length="6"/><text>ulcers</text></annotation>
</sentence></passage>
<relation id="R0"><infon key="relation">CID</infon><infon key="Chemical">D1</infon>
<infon key="Disease">D2</infon></relation>
<relation id="R1"><infon key="type">x</infon><node refid="0" role="a"/>
<node refid="2" role="b"/></relation>
</document></collection>
"""


def test_bioc_with_sentences_and_the_relations_of_bc5cdr(tmp_path):
    path = tmp_path / "corpus.xml"
    path.write_text(BIOC.replace("OFFSET", "14"))
    (document,) = read_gold(path).documents
    assert (document.id, document.text) == ("7", "Naproxen.\nBig ulcers.")
    assert document.spans == (
        Span(0, 8, "Chemical", id="D1"),
        Span(10, 20, "Disease"),
        Span(14, 20, "Disease", id="D2"),
    )
    assert document.relations == (
        Relation("CID", "D1", "D2"),
        Relation("x", "D1", "D2", mentions=((0, 8), (14, 20))),
    )


def test_faults_of_bioc_are_named_without_text(tmp_path):
    path = tmp_path / "corpus.xml"
    path.write_text(BIOC.replace("OFFSET", "15"))
    first, second = read_gold(path).remarks
    assert first.startswith(
        "document 7, annotation 3: characters 15 to 21 differ"
    )
    assert second.startswith("document 7, relation 2: a node that is no")
    assert "ulcers" not in first + second


@pytest.mark.parametrize(
    "content",
    [
        BIOC[:300],
        BIOC.replace("utf-8", "no-such-encoding"),
        BIOC.replace("utf-8", "gb2312"),
        json.dumps({"documents": [{}]})[:-1],
        json.dumps([{"documents": [{}]}])[1:],
    ],
)
def test_a_cut_bioc_file(tmp_path, content):
    path = tmp_path / "corpus"
    path.write_text(content)
    with pytest.raises(
        CorpusError, match="corpus is no whole BioC collection"
    ):
        read_gold(path)


@pytest.mark.parametrize(
    "document",
    [
        "text",
        {"passages": ["text"]},
        {"passages": [{"offset": "ten", "text": "x"}]},
        {"passages": [{"offset": 0, "text": ["x"]}]},
        {"passages": [{"offset": 0, "annotations": "x"}]},
        {"passages": [{"offset": 0, "annotations": [{"infons": "x"}]}]},
        {"relations": [{"nodes": ["x"]}]},
    ],
)
def test_a_bioc_document_of_another_form_is_named(tmp_path, document):
    path = tmp_path / "corpus.json"
    path.write_text(json.dumps({"documents": [{"id": "1"}, document]}))
    with pytest.raises(
        CorpusError, match=r"corpus.json, document 2: expected"
    ):
        read_gold(path)


def test_bioc_with_a_number_as_identifier(tmp_path):
    mention = {
        "infons": {"type": "Gene", "identifier": 7157, "assertion": None},
        "text": "TP53",
        "locations": [{"offset": 0, "length": 4}],
    }
    passage = {"offset": 0, "text": "TP53", "annotations": [mention]}
    path = tmp_path / "corpus.json"
    path.write_text(json.dumps({"documents": [{"passages": [passage]}]}))
    (document,) = read_gold(path).documents
    assert document.spans == (Span(0, 4, "Gene", id="7157"),)


def test_bioc_with_empty_lists_left_out(tmp_path):
    path = tmp_path / "corpus.json"
    passage = {"offset": 0, "text": "Gout.", "annotations": None}
    path.write_text(json.dumps({"documents": [{"passages": [passage]}]}))
    (document,) = read_gold(path).documents
    assert (document.text, document.spans) == ("Gout.", ())
