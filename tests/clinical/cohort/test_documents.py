"""Which documents of a stay are read: each kind of document in each place that reads them.

A cohort and `clinical score FOLDER` read the files of a folder, and a call of CDS Hooks what it was
sent. All must read the same texts and say what they left out.
"""

import base64
import json
import re

import pandas as pd
import pytest

from clinical.cohort.build import build_cohort
from clinical.cohort.result import issues_path
from clinical.evaluation.baselines import with_history
from clinical.evaluation.comparison import risks_of
from clinical.risk.discharges import SourceOptions, new_discharges
from clinical.risk.exports import export_scores
from clinical.stays.cohorts import read_stays

hooks = pytest.importorskip(
    "clinical.bedside.hooks", reason="needs the extra service"
)
SUMMARY = {"coding": [{"code": "18842-5"}]}
PATIENT = {"reference": "Patient/p1"}
STAY = {"reference": "Encounter/e1"}


def encounter(id="e1", **changes):
    period = {"start": "2019-01-01T08:00:00Z", "end": "2019-01-05T10:00:00Z"}
    base = {"resourceType": "Encounter", "id": id, "status": "finished"}
    return (
        base
        | {"class": {"code": "IMP"}, "subject": PATIENT, "period": period}
        | changes
    )


def content(text, kind="text/plain; charset=utf-8"):
    raw = text if isinstance(text, bytes) else text.encode()
    return {"contentType": kind, "data": base64.b64encode(raw).decode()}


def document(id, text, *, replaces=None, **changes):
    base = {"resourceType": "DocumentReference", "id": id, "status": "current"}
    base |= {
        "type": SUMMARY,
        "subject": PATIENT,
        "date": f"2019-01-05T03:0{id[-1]}:00Z",
    }
    base |= {
        "content": [{"attachment": content(text)}],
        "context": {"encounter": [STAY]},
    }
    if replaces:
        target = (
            replaces if isinstance(replaces, dict) else {"reference": replaces}
        )
        base["relatesTo"] = [{"code": "replaces", "target": target}]
    return base | changes


def report(id, text, **changes):
    base = {
        "resourceType": "DiagnosticReport",
        "id": id,
        "status": "final",
        "subject": PATIENT,
    }
    base |= {
        "code": SUMMARY,
        "encounter": STAY,
        "effectiveDateTime": "2019-01-05T02:00:00Z",
    }
    return base | {"presentedForm": [content(text)]} | changes


def composition(id, text, **changes):
    base = {
        "resourceType": "Composition",
        "id": id,
        "status": "final",
        "type": SUMMARY,
    }
    base |= {
        "subject": PATIENT,
        "encounter": STAY,
        "date": f"2019-01-05T04:0{id[-1]}:00Z",
    }
    return (
        base | {"section": [{"text": {"div": f"<div>{text}</div>"}}]} | changes
    )


def version(number, text, id="d1", **changes):
    return document(id, text, meta={"versionId": str(number)}, **changes)


IDENTIFIER = {"system": "urn:his", "value": "7 b"}
CORRECTED = {"target": {"reference": "Composition/c1"}, "code": "replaces"}
UNNAMED = "is not UTF-8, read as windows-1252"
# kind: resources, the texts that are read, and words of what is told
KINDS = {
    "superseded": ([document("d1", "a", status="superseded"), document("d2", "b")], ["b"],
                   "not current"),
    "in error": ([document("d1", "a", status="entered-in-error")], [], "error"),
    "signed in error": ([document("d1", "a", docStatus="entered-in-error")], [], "error"),
    "draft": ([document("d1", "a", docStatus="preliminary")], [], "not final"),
    "amended": ([document("d1", "a", docStatus="amended")], ["a"], ""),
    "replaced": ([document("d1", "a"), document("d2", "b", replaces="DocumentReference/d1")],
                 ["b"], "replace"),
    "replaced, sent first": ([document("d2", "b", replaces="DocumentReference/d1"),
                              document("d1", "a")], ["b"], "replace"),
    "replaced by a chain": ([document("d1", "a"),
                             document("d2", "b", replaces="DocumentReference/d1"),
                             document("d3", "c", replaces="DocumentReference/d2")],
                            ["c"], "replace"),
    "replaced by the middle of a chain": (
        [document("d1", "a"), document("d3", "c", replaces="DocumentReference/d2"),
         document("d2", "b", status="superseded", replaces="DocumentReference/d1")],
        ["c"], "replace"),
    "replacing each other": (
        [document("d2", "b", replaces="DocumentReference/d1"),
         document("d1", "a", replaces="DocumentReference/d2")],
        ["b"], "it replaces"),
    "replacing each other, by identifier, of one day": (
        [document("d1", "a", identifier=[IDENTIFIER], date="2019-01-05",
                  meta={"lastUpdated": "2019-01-06T00:00:00Z"},
                  replaces="DocumentReference/d2"),
         document("d2", "b", date="2019-01-05", meta={"lastUpdated": "2019-01-05T00:00:00Z"},
                  replaces={"identifier": IDENTIFIER})],
        ["a"], "it replaces"),
    "replacing each other, by the time in UTC": (
        [document("d1", "a", date="2019-01-05T03:00:00-05:00", replaces="DocumentReference/d2"),
         document("d2", "b", date="2019-01-05T07:00:00Z", replaces="DocumentReference/d1")],
        ["a"], "it replaces"),
    "replacing each other, one without a date": (
        [document("d2", "b", date=None, replaces="DocumentReference/d1"),
         document("d1", "a", replaces="DocumentReference/d2")],
        ["a"], "it replaces"),
    "replacing each other, and replaced by a third": (
        [document("d1", "a", replaces="DocumentReference/d2"),
         document("d2", "b", replaces="DocumentReference/d1"),
         document("d3", "c", replaces="DocumentReference/d2")],
        ["c"], "replace"),
    "three that replace each other": (
        [document("d1", "a", replaces="DocumentReference/d2"),
         document("d2", "b", replaces="DocumentReference/d3"),
         document("d3", "c", replaces="DocumentReference/d1")],
        [], "replace"),
    "replacing an error that replaces it": (
        [document("d1", "a", replaces="DocumentReference/d2"),
         document("d2", "b", status="entered-in-error", replaces="DocumentReference/d1")],
        ["a"], "error"),
    "compositions that replace each other": (
        [composition("c1", "a", relatesTo=[
            {"code": "replaces", "targetReference": {"reference": "Composition/c2"}}]),
         composition("c2", "b", relatesTo=[
            {"code": "replaces", "targetReference": {"reference": "Composition/c1"}}])],
        ["b"], "it replaces"),
    "replaced by a version": (
        [document("d1", "a"), document("d2", "b", replaces="DocumentReference/d1/_history/2")],
        ["b"], "replace"),
    "replaced by a url": (
        [document("d1", "a"), document("d2", "b", replaces="https://ehr/fhir/DocumentReference/d1")],
        ["b"], "replace"),
    "replaced by an identifier": (
        [document("d1", "a", masterIdentifier=IDENTIFIER),
         document("d2", "b", replaces={"identifier": IDENTIFIER})], ["b"], "replace"),
    "an identifier of another": (
        [document("d1", "a", identifier=[IDENTIFIER | {"system": "urn:other"}]),
         document("d2", "b", replaces={"identifier": IDENTIFIER})], ["a", "b"], ""),
    "replaced by an error": (
        [document("d1", "a"),
         document("d2", "b", status="entered-in-error", replaces="DocumentReference/d1")],
        ["a"], "error"),
    "replaced by a draft": (
        [document("d1", "a"),
         document("d2", "b", docStatus="preliminary", replaces="DocumentReference/d1")],
        ["a"], "not final"),
    "replaces an earlier version of itself": (
        [document("d1", "a", replaces="DocumentReference/d1/_history/1")], ["a"], ""),
    "appended": ([document("d1", "a"),
                  document("d2", "b", relatesTo=[{"code": "appends",
                           "target": {"reference": "DocumentReference/d1"}}])], ["a", "b"], ""),
    "transformed": ([document("d1", "a"),
                     document("d2", "b", relatesTo=[{"code": "transforms",
                              "target": {"reference": "DocumentReference/d1"}}])], ["a", "b"], ""),
    "another type of that id": (
        [composition("d1", "a"), document("d2", "b", replaces="DocumentReference/d1")],
        ["b", "a"], ""),
    "ids of other case": ([document("dA1", "a"), document("da1", "b"),
                           document("d2", "c", replaces="DocumentReference/dA1")],
                          ["b", "c"], "replace"),
    "versions": ([version(10, "b"), version(9, "a")], ["b"], "older version"),
    "versions without an order but in time": (
        [document("d1", "b", meta={"versionId": "MTA", "lastUpdated": "2019-02-02T00:00:00Z"}),
         document("d1", "a", meta={"versionId": "MTU", "lastUpdated": "2019-02-01T00:00:00Z"})],
        ["b"], "older version"),
    "a version in error": ([version(1, "a"), version(2, "b", status="entered-in-error")], [],
                           "older version"),
    "two of one id": ([document("d1", "a"), document("d1", "b")], ["a", "b"], ""),
    "sent twice": ([document("d1", "a"), document("d1", "a")], ["a"], "cop"),
    "composition, draft": ([composition("c1", "a", status="preliminary")], [], "not final"),
    "composition, replaced": ([composition("c1", "a"),
                               composition("c2", "b", relatesTo=[
                                   {"code": "replaces",
                                    "targetReference": {"reference": "Composition/c1"}}])],
                              ["b"], "replace"),
    "composition, replaced by identifier": (
        [composition("c1", "a", identifier=IDENTIFIER),
         composition("c2", "b", relatesTo=[{"code": "replaces", "targetIdentifier": IDENTIFIER}])],
        ["b"], "replace"),
    "report, cancelled": ([report("r1", "a", status="cancelled")], [], "cancelled"),
    "report, registered": ([report("r1", "a", status="registered")], [], "not final"),
    "report, preliminary": ([report("r1", "a", status="preliminary")], ["a"], ""),
    "report, preliminary and final": (
        [report("r1", "a", status="preliminary"), report("r2", "b")], ["b"], "not final"),
    "report, partial and corrected, by order": (
        [report("r1", "a", status="partial", basedOn=[{"reference": "ServiceRequest/s"}]),
         report("r2", "b", status="corrected", basedOn=[{"reference": "ServiceRequest/s"}],
                effectiveDateTime="2019-01-05T02:30:00Z")], ["b"], "not final"),
    "report, preliminary of another study": (
        [report("r1", "a", status="preliminary"),
         report("r2", "b", effectiveDateTime="2019-01-05T02:30:00Z")], ["a", "b"], ""),
    "one note in two resources": (
        [composition("c1", "same words"), document("d1", "same\n words"), report("r1", "other")],
        ["other", "same\n words"], "cop"),
    "a copy of a replaced one": (
        [document("d1", "a", status="superseded"), report("r1", "a")], ["a"], "not current"),
    "pages": ([document("d1", "", content=[{"attachment": content("a")},
                                           {"attachment": content("b")}])],
              ["a\n\nb"], "joined"),
    "a page that is a link": (
        [document("d1", "", content=[{"attachment": content("a")},
                                     {"attachment": {"contentType": "text/plain", "url": "x"}}])],
        ["a"], "not read"),
    "windows-1252": ([document("d1", "", content=[
        {"attachment": content("é".encode("cp1252"), "text/plain")}])], ["é"], UNNAMED),
    "struck": ([document("d1", "", content=[
        {"attachment": content("<p>a <s>b</s> c", "text/html")}])], ["a c"], "struck"),
    "HTML that is broken": ([document("d1", "", content=[
        {"attachment": content("<![x[ <p>a<!-- b", "text/html")}])], ["a b"], ""),
    "XML": ([document("d1", "", content=[
        {"attachment": content("<ClinicalDocument/>", "application/xml")}])], [], "read"),
    "Binary": (
        [document("d1", "", content=[{"attachment": {"url": "Binary/b1"}}]),
         {"resourceType": "Binary", "id": "b1"} | content("é".encode("cp1252"), "text/plain")],
        ["é"], UNNAMED),
    "three levels": (
        [encounter("ward", partOf={"reference": "Encounter/dept"}),
         encounter("dept", partOf=STAY),
         document("d1", "a", context={"encounter": [{"reference": "Encounter/ward"}]})],
        ["a"], ""),
    "encounters in a circle": (
        [encounter("x", partOf={"reference": "Encounter/y"}),
         encounter("y", partOf={"reference": "Encounter/x"}),
         document("d1", "a", context={"encounter": [{"reference": "Encounter/x"}]})],
        [], "of a"),
}  # fmt: skip


def write(folder, *resources):
    """A file of JSON lines for each type of resource."""
    by_type = {}
    for resource in resources:
        by_type.setdefault(resource["resourceType"], []).append(
            json.dumps(resource)
        )
    for name, lines in by_type.items():
        (folder / f"{name}.ndjson").write_text("\n".join(lines) + "\n")


def ward_of(kind, resources):
    """The resources of a kind with ids of their own, so that one source can hold every kind."""
    number = list(KINDS).index(kind)
    ids = r'("id": "|"value": "|[A-Z][A-Za-z]+/)(?=\w)'
    text = re.sub(ids, rf"\1k{number}-", json.dumps([encounter(), *resources]))
    return f"k{number}-", json.loads(text)


@pytest.fixture(scope="module")
def hospital(tmp_path_factory):
    """The stays of a cohort and of `clinical score FOLDER`, and the problems that are listed."""
    folder = tmp_path_factory.mktemp("hospital")
    wards = [
        ward_of(kind, resources)[1] for kind, (resources, *_) in KINDS.items()
    ]
    write(folder, *[one for ward in wards for one in ward])
    out = folder / "cohort.parquet"
    cohort = build_cohort(folder, schema="fhir", data_end="none", out=out)
    source = SourceOptions(schema="fhir")
    risks = folder / "risks.csv"
    with new_discharges(
        folder, None, out=risks, since=None, options=source
    ) as stays:
        scored = read_stays(stays.path)
    issues = pd.read_csv(issues_path(out), dtype=str)
    return {"cohort": cohort.to_frame(), "score": scored, "issues": issues}


def in_tables(kind, hospital, place):
    """The texts of the stay, and what is listed of its documents."""
    prefix, _ = ward_of(kind, [])
    stays = hospital[place].set_index("stay_id")
    issues = hospital["issues"]
    is_listed = issues["id"].str.startswith(prefix) & (
        issues["source"] != "Encounter"
    )
    return list(stays.loc[f"{prefix}e1", "text"]), set(
        issues["problem"][is_listed]
    )


def in_hooks(kind, hospital, place):
    """The texts of the records in time order, and what the card says of the others."""
    del hospital, place
    resources, *_ = KINDS[kind]
    records, receipt = hooks.read_documents(
        [encounter(), *resources], "p1", "e1"
    )
    assert len({record["note_id"].lower() for record in records}) == len(
        records
    )
    ordered = sorted(records, key=lambda record: record["chart_time"])
    return [record["text"] for record in ordered], set(+receipt)


PLACES = {"cohort": in_tables, "score": in_tables, "hooks": in_hooks}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_place_reads_the_current_documents_and_tells_of_the_others(
    kind, place, hospital
):
    _, texts, words = KINDS[kind]
    read, told = PLACES[place](kind, hospital, place)
    assert read == texts
    assert words in "; ".join(told)
    assert bool(words) == bool(told)


def test_left_out_documents_are_counted_by_reason_in_the_flow(tmp_path):
    resources = [
        document("d1", "a"),
        document("d2", "b", replaces="DocumentReference/d1"),
        document("d3", "c", status="superseded"),
    ]
    write(tmp_path, encounter(), *resources)
    cohort = build_cohort(tmp_path, data_end="none")
    assert cohort.summary["notes_read"] == {
        "not_current": 1,
        "replaced": 1,
        "used": 1,
    }
    assert (
        "Documents that are not read: not current (1), replaced (1)."
        in cohort.caveats
    )


def test_patients_whose_ids_differ_in_case_are_two(tmp_path):
    """A return of `ab` is no readmission of `aB`."""
    later = {"start": "2019-01-20T08:00:00Z", "end": "2019-01-22T08:00:00Z"}
    other = {"reference": "Patient/P1"}
    back = encounter("E1", subject=other, period=later)
    note = document("d1", "a")
    source = tmp_path / "fhir"
    source.mkdir()
    write(source, encounter(), back, note)
    out = tmp_path / "c.parquet"
    cohort = build_cohort(source, data_end="none", out=out)
    frame = cohort.to_frame().set_index("stay_id", drop=False)
    assert frame.loc["e1", "readmitted"] == 0
    assert set(frame.index) == {"e1", "E1"}
    assert set(frame["patient_id"]) == {"p1", "P1"}
    assert with_history(frame)["admissions_12_months"].tolist() == [0, 0]
    risks = {
        "stay_id": ["E1", "e1"],
        "probability": [0.1, 0.2],
        "status": "ok",
    }
    risks = pd.DataFrame(risks).assign(score=0.5)
    assert risks_of(risks, frame) == [
        {"e1": 0.2, "E1": 0.1}[stay] for stay in frame["stay_id"]
    ]
    risks.to_csv(tmp_path / "r.csv", index=False)
    summary = {"model": "0" * 64, "model_name": "tiny", "version": "0.1.0"}
    (tmp_path / "r.csv.summary.json").write_text(json.dumps(summary))
    (path,) = export_scores(tmp_path / "r.csv", out, "fhir")
    lines = map(json.loads, path.read_text().splitlines())
    subjects = {
        line["encounter"]["reference"]: line["subject"]["reference"]
        for line in lines
    }
    assert subjects["Encounter/e1"] == "Patient/p1"
