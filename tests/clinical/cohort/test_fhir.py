"""Files of FHIR as servers and Windows write them: packed, marked, named otherwise, damaged."""

import gzip
import json
import re
import time
from collections import UserDict

import pytest

from clinical.cohort.build import build_cohort
from clinical.cohort.definition import SHIPPED, load_schema
from clinical.cohort.fhir.files import entries
from clinical.cohort.fhir.resources import read_resource, section_text
from clinical.cohort.source import left_out
from domainbert.errors import UserError
from domainbert.tables import TableError
from tests.clinical.cohort.conftest import by_stay, list_issues
from tests.clinical.cohort.test_documents import (
    composition,
    document,
    encounter,
    report,
)

PATIENT = {"resourceType": "Patient", "id": "p1", "gender": "female"}
RESOURCES = [PATIENT, encounter(), document("d1", "café")]


def lines(*resources):
    return "".join(
        json.dumps(one, ensure_ascii=False) + "\n" for one in resources
    )


def by_name(ending, encode):
    """A file of two lines for each type of resource."""
    others = [
        PATIENT | {"id": "p2"},
        encounter("e2", subject={"reference": "Patient/p2"}),
        document("d2", "café"),
    ]
    return {
        f"{one['resourceType']}{ending}": encode(lines(one, other))
        for one, other in zip(RESOURCES, others, strict=True)
    }


def bundle(**options):
    entry = [{"resource": one} for one in RESOURCES]
    return json.dumps({"resourceType": "Bundle", "entry": entry}, **options)


FILES = {
    "packed": by_name(".ndjson.gz", lambda text: gzip.compress(text.encode())),
    "packed without a word": by_name(".ndjson", lambda text: gzip.compress(text.encode())),
    "lines named .json": by_name(".json", str.encode),
    "lines named .jsonl": by_name(".jsonl", str.encode),
    "small letters": {name.lower(): raw for name, raw in by_name(".ndjson", str.encode).items()},
    "numbers for names": {f"{number}.ndjson": raw for number, raw in
                          enumerate(by_name("", str.encode).values())},
    "a mark": by_name(".ndjson", lambda text: text.encode("utf-8-sig")),
    "files put together": by_name(
        ".ndjson", lambda text: b"".join(line.encode("utf-8-sig")
                                         for line in text.splitlines(keepends=True))),
    "UTF-16": by_name(".ndjson", lambda text: text.encode("utf-16")),
    "carriage returns": by_name(".ndjson", lambda text: text.replace("\n", "\r\n\r\n").encode()),
    "a bundle": {"export.json": bundle().encode()},
    "a bundle of many lines": {"export.json": bundle(indent=1).encode()},
    "a packed bundle": {"export.json.gz": gzip.compress(bundle().encode())},
    "a list": {"export.json": json.dumps(RESOURCES, indent=1).encode()},
}  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_files_are_read_as_they_are_written(kind, tmp_path):
    for name, raw in FILES[kind].items():
        (tmp_path / name).write_bytes(raw)
    cohort = build_cohort(tmp_path, data_end="none")
    frame = cohort.to_frame().set_index("stay_id")
    assert cohort.summary["schema"] == "fhir"
    assert frame.loc["e1", "sex"] == "F"
    assert set(frame.loc["e1", "text"]) == {"café"}
    assert "Encounter" in set(cohort.issues["source"])  # no admission type
    assert not any("." in source for source in cohort.issues["source"])


def test_what_cannot_be_read_is_listed_once(tmp_path):
    visits = [
        encounter(f"v{n}", **{"class": {"code": "AMB"}}) for n in range(30)
    ]
    mixed = lines(*visits, encounter(), document("d2", "x"))
    (tmp_path / "Encounter.ndjson").write_text(mixed)
    text = lines(composition("c1", "café"), composition("c2", "thé"))
    (tmp_path / "Composition.ndjson").write_bytes(text.encode("cp1252"))
    (tmp_path / "cut.json").write_text('{"resourceType": "Bundle", "entry": [')
    (tmp_path / "settings.json").write_text('{"other": 1}')
    cohort = build_cohort(tmp_path, data_end="none")
    frame = cohort.to_frame().set_index("stay_id")
    assert frame.loc["e1", "text"] == ["café", "thé"]
    listed = cohort.issues[
        cohort.issues["source"].str.contains(".", regex=False)
    ]
    columns = ["source", "problem", "count"]
    assert sorted(listed[columns].itertuples(index=False, name=None)) == [
        ("Composition.ndjson", "bytes that are not UTF-8, read as windows-1252", 1),
        ("Encounter.ndjson", "DocumentReference in a file of other resources, not read", 1),
        ("cut.json", "line that is not a row: JSON that is cut or malformed", 1),
    ]  # fmt: skip


def test_a_file_that_ends_too_early_stops_the_command(tmp_path):
    (tmp_path / "Encounter.ndjson.gz").write_bytes(
        gzip.compress(lines(*[encounter(str(n)) for n in range(99)]).encode())[
            :-20
        ]
    )
    with pytest.raises(
        TableError, match=r"Encounter\.ndjson\.gz cannot be read to its"
    ):
        build_cohort(tmp_path)


def test_two_binaries_with_one_id_give_a_note_once(tmp_path):
    link = {"contentType": "text/plain", "url": "https://ehr/fhir/Binary/b1"}
    binary = {
        "resourceType": "Binary",
        "id": "b1",
        "contentType": "text/plain",
    }
    note = document("d1", "", content=[{"attachment": link}])
    film = report("r1", "", presentedForm=[link])
    for one in (encounter(), note, film):
        (tmp_path / f"{one['resourceType']}.ndjson").write_text(lines(one))
    contents = [binary | {"data": "YQ=="}, binary | {"data": "YQ=="}]
    (tmp_path / "Binary.ndjson").write_text(lines(*contents))
    cohort = build_cohort(tmp_path, data_end="none")
    assert cohort.to_frame()["text"].tolist() == [["a"]]
    assert cohort.summary["notes_read"] == {"copy": 1, "used": 1}


class Shelf(UserDict):
    """Binary resources that are looked up one by one."""

    def __iter__(self):
        pytest.fail("every Binary was visited for one document")


def test_binaries_are_looked_up_and_not_copied_for_each_document():
    """50,000 documents with 60,000 Binary resources took quadratic time."""
    binary = {"contentType": "text/plain", "data": "YQ=="}
    link = {"contentType": "text/plain", "url": "Binary/b1"}
    note = document("d1", "", content=[{"attachment": link}])
    codes = load_schema("fhir").codes
    assert read_resource(note, codes, Shelf(b1=binary))["text"] == "a"


def test_own_codes_in_a_copy_of_the_schema(tmp_path):
    """The classes of admissions and the types of summaries are named once."""
    text = (SHIPPED / "schemas/fhir.toml").read_text()
    text = text.replace('"IMP", "ACUTE"', '"EMER"').replace("18842-5", "DS")
    mapping = tmp_path / "mine.toml"
    mapping.write_text(text)
    folder = tmp_path / "fhir"
    folder.mkdir()
    emergency = {"class": {"code": "EMER"}}
    resources = [
        encounter(**emergency),
        encounter("e2"),
        document("d1", "a", type={"coding": [{"code": "DS"}]}),
        document("d2", "b"),
    ]
    for number, one in enumerate(resources):
        path = folder / f"{one['resourceType']}.{number}.ndjson"
        path.write_text(lines(one))
    cohort = build_cohort(folder, mapping=mapping, data_end="none")
    frame = cohort.to_frame()
    assert frame["stay_id"].tolist() == ["e1"]
    assert frame["text"].tolist() == [["a"]]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("class =", "klass =", r"admissions: expected where = \{ class ="),
        ("[codes]", "[patients]\ntable = 'P'\n[codes]", "patients: not a setting"),
        ("hospice =", "hospices =", r"\[codes\] hospices: no such setting"),
    ],
)  # fmt: skip
def test_a_wrong_copy_of_the_schema(old, new, message, tmp_path):
    text = (SHIPPED / "schemas/fhir.toml").read_text()
    assert old in text
    mapping = tmp_path / "mine.toml"
    mapping.write_text(text.replace(old, new))
    with pytest.raises(UserError, match=message):
        load_schema("generic", mapping=mapping)


def test_entries_of_bundles_lists_and_odd_values():
    assert entries([{"id": "a"}, {"resourceType": "Bundle", "entry": [
        {"fullUrl": "urn:uuid:b", "resource": {}}, {"resource": "odd"}, "odd"]}, 3]
    ) == [{"id": "a"}, {"id": "b"}]  # fmt: skip


def test_the_text_of_nested_sections():
    div = '<div xmlns="http://www.w3.org/1999/xhtml">{}</div>'
    sections = [
        {
            "title": "Course",
            "text": {"div": div.format("Stable.")},
            "section": [{"title": "Day 2"}],
        },
        {"text": {"div": div.format("<ul><li>one</li><li>two</li></ul>")}},
    ]
    assert (
        section_text({"section": sections}).text
        == "Course\n\nStable.\n\nDay 2\n\none\ntwo"
    )


def test_sections_may_have_a_thousand_levels():
    section = {}
    for number in range(1000, 0, -1):
        inner = [section, {"title": f"last {number}"}]
        section = {"title": f"first {number}", "section": inner}
    titles = section_text({"section": section}).text.split("\n\n")
    assert titles[:2] == ["first 1", "first 2"]
    assert titles[-2:] == ["last 2", "last 1"]
    assert len(titles) == 2000


NAME = {"system": "s", "value": "n"}
MANY = 15_000


@pytest.mark.parametrize(
    "changes",
    [
        {"identifier": [{"value": "n"}] * MANY, "subject": [{}] * MANY},
        {"identifier": [NAME] * MANY, "relatesTo": [NAME] * MANY},
    ],
    ids=["identifiers of patients", "identifiers"],
)
def test_a_name_that_comes_often_takes_linear_time(changes):
    """Each name of a document beside each that another replaces would take minutes."""
    older = document("d1", "a") | changes | {"relatesTo": []}
    relations = [
        {"code": "replaces", "target": {"identifier": name}}
        for name in changes.get("relatesTo", [])
    ]
    newer = document("d2", "b", relatesTo=relations)
    began = time.process_time()
    codes = load_schema("fhir").codes
    rows = [
        read_resource(one, codes) | {"source": "DocumentReference"}
        for one in (older, newer)
    ]
    reasons = left_out(rows)
    assert time.process_time() - began < 1.5
    assert reasons == ({0: "replaced"} if relations else {})


def test_a_document_that_replaces_itself_and_others():
    """A document that names itself is read. One that two others replace is left out."""
    codes = load_schema("fhir").codes

    def row(name, *names):
        relations = [
            {"code": "replaces", "target": {"reference": f"D/{other}"}}
            for other in names
        ]
        one = document(name, f"text {name}", relatesTo=relations)
        return read_resource(one, codes) | {"source": "DocumentReference"}

    rows = [row("a", "a"), row("b"), row("c", "b"), row("d", "b", "d")]
    assert left_out(rows) == {1: "replaced"}
    assert left_out([*rows, row("e", "d", "a")]) == {
        0: "replaced",
        1: "replaced",
        3: "replaced",
    }


# -- encounters ---------------------------------------------------------------------------------

KEPT = (None, 0)
DEAD = ("died_in_hospital", None)
TOP = {"reference": "Encounter/e0"}
GROUND = {
    "url": "http://fhir.de/StructureDefinition/Entlassungsgrund",
    "extension": [
        {"url": "ErsteUndZweiteStelle", "valueCoding": {"code": "07"}}
    ],
}
MII = "https://www.medizininformatik-initiative.de/fhir/core/modul-fall/CodeSystem/Entlassungsgrund"
UNKNOWN = {
    "extension": [{"url": "data-absent-reason", "valueCode": "unknown"}]
}


def left_for(**disposition):
    """An encounter with this disposition."""
    return encounter(hospitalization={"dischargeDisposition": disposition})


def at(version, resource):
    return resource | {
        "meta": {"lastUpdated": f"2019-02-0{version}T00:00:00Z"}
    }


def of_class(code, **changes):
    return encounter("e0", **{"class": {"code": code}}, **changes)


# resources, and what becomes of the stays; None for what is no admission
ENCOUNTERS = {
    "part of an emergency visit": (
        [of_class("EMER"), encounter(partOf=TOP)], {"e0": None, "e1": KEPT}),
    "part of what is not exported": ([encounter(partOf=TOP)], {"e1": KEPT}),
    "part of itself": ([encounter(partOf={"reference": "Encounter/e1"})], {"e1": KEPT}),
    "part of a cancelled one": (
        [of_class("IMP", status="cancelled"), encounter(partOf=TOP)], {"e0": None, "e1": KEPT}),
    "a ward of a stay of a case": (
        [of_class("VR"), encounter("e2", partOf={"reference": "Encounter/e1"}),
         encounter(partOf=TOP)], {"e0": None, "e1": KEPT, "e2": None}),
    "the later of two versions": (
        [at(2, encounter()), at(1, encounter(status="in-progress", period={}))], {"e1": KEPT}),
    "a later version in error": (
        [at(1, encounter()), at(2, encounter(status="entered-in-error"))], {"e1": None}),
    "a patient's later version": (
        [at(1, PATIENT), at(2, PATIENT | {"deceasedDateTime": "2019-01-05T09:00:00Z"}),
         encounter()], {"e1": DEAD}),
    "a German death": ([left_for(extension=[GROUND])], {"e1": DEAD}),
    "a German death as a coding": (
        [left_for(coding=[{"system": MII, "code": "079"}])], {"e1": DEAD}),
    "a number of the claim form": ([left_for(coding=[{"code": "07"}])], {"e1": KEPT}),
    "born in hospital": (
        [encounter(hospitalization={"admitSource": {"coding": [{"code": "born"}]}})],
        {"e1": ("newborn", None)}),
}  # fmt: skip


@pytest.fixture(scope="module")
def encounters(tmp_path_factory):
    """The stays of a source with every case, the ids of each behind a prefix."""
    folder = tmp_path_factory.mktemp("encounters")
    by_type = {}
    for number, (resources, _) in enumerate(ENCOUNTERS.values()):
        ids = r'("id": "|"Patient/|"Encounter/)'
        case = json.dumps([*resources, document("d1", "Summary.")])
        for one in json.loads(re.sub(ids, rf"\1k{number}-", case)):
            by_type.setdefault(one["resourceType"], []).append(one)
    for name, of_type in by_type.items():
        (folder / f"{name}.ndjson").write_text(lines(*of_type))
    return by_stay(build_cohort(folder, data_end="none"))


@pytest.mark.parametrize("kind", ENCOUNTERS)
def test_what_an_encounter_is(kind, encounters):
    prefix = f"k{list(ENCOUNTERS).index(kind)}-"
    fates = {
        stay.removeprefix(prefix): (row["exclusion"], row["readmitted"])
        for stay, row in encounters.items()
        if stay.startswith(prefix)
    }
    _, expected = ENCOUNTERS[kind]
    assert fates == {stay: fate for stay, fate in expected.items() if fate}
    if (
        fates.get("e1") == KEPT
    ):  # the note is of the stay, whatever it is part of
        assert list(encounters[f"{prefix}e1"]["text"]) == ["Summary."]


def test_a_death_at_an_unknown_time_is_listed(tmp_path):
    """`_deceasedDateTime` says that the time is absent, not that the patient lives."""
    dead = PATIENT | {"_deceasedDateTime": UNKNOWN}
    for name, one in {"Patient": dead, "Encounter": encounter()}.items():
        (tmp_path / f"{name}.ndjson").write_text(lines(one))
    problems = list_issues(build_cohort(tmp_path, data_end="none"))["problem"]
    assert "birth or death date unreadable" in set(problems)
