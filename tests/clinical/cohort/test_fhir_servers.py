"""FHIR as different servers write it: deletions, levels of encounters, births, references."""

import json

import pytest

from clinical.cohort.build import build_cohort
from domainbert.errors import UserError
from tests.clinical.cohort.conftest import by_stay, list_issues
from tests.clinical.cohort.test_documents import document, encounter

DELETED = "resource that was deleted, not read"


@pytest.fixture
def build(tmp_path):
    """Build a cohort of resources, and of files by their names."""

    def build_of(resources, files=None, **options):
        by_type = {}
        for one in resources:
            by_type.setdefault(one["resourceType"], []).append(one)
        for resource_type, of_type in by_type.items():
            lines = "\n".join(map(json.dumps, of_type))
            (tmp_path / f"{resource_type}.ndjson").write_text(lines)
        for name, content in (files or {}).items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(content))
        options = {"data_end": "none", "out": tmp_path / "c.parquet"} | options
        return build_cohort(tmp_path, schema="fhir", **options)

    return build_of


def deletion(url, kind="transaction", **response):
    entry = {"request": {"method": "DELETE", "url": url}, "response": response}
    return {"resourceType": "Bundle", "type": kind, "entry": [entry]}


def later(number, day):
    """A stay of the patient that begins on this day of January 2019."""
    period = {
        "start": f"2019-01-{day}T08:00:00Z",
        "end": f"2019-01-{day}T20:00:00Z",
    }
    return encounter(f"e{number}", period=period)


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("deleted/1.Bundle.ndjson", "Encounter/e2"),
        ("deleted/1.Bundle.ndjson", "https://ehr.org/r4/Encounter/e2"),
        ("1.Bundle.ndjson", "Encounter/e2/_history/3"),
        ("history.json", "Encounter/e2"),
    ],
)
def test_a_deleted_stay_is_no_return(build, name, url):
    cohort = build(
        [encounter(), later(2, 20), document("d1", "a")], {name: deletion(url)}
    )
    rows = by_stay(cohort)
    assert set(rows) == {"e1"}
    assert rows["e1"]["readmitted"] == 0
    problems = list_issues(cohort)
    assert problems["problem"].tolist().count(DELETED) == 1


def test_a_deleted_document_and_a_deleted_death(build):
    patient = {
        "resourceType": "Patient",
        "id": "p1",
        "deceasedDateTime": "2019-01-04",
    }
    resources = [
        encounter(),
        patient,
        document("d1", "wrong"),
        document("d2", "right"),
    ]
    files = {
        "a.json": deletion("DocumentReference/d1"),
        "b.json": deletion("Patient/p1"),
    }
    rows = by_stay(build(resources, files))
    assert list(rows["e1"]["text"]) == ["right"]
    assert rows["e1"]["exclusion"] is None


def test_what_was_written_again_after_its_deletion_is_read(build):
    """Deletions have a time, and count for the versions before it."""
    old = {"meta": {"lastUpdated": "2019-02-01T00:00:00Z"}}
    new = {"meta": {"lastUpdated": "2019-02-03T01:00:00+01:00"}}
    resources = [encounter() | new, later(2, 20) | old, document("d1", "a")]
    files = {
        "a.json": deletion(
            "Encounter/e1", lastModified="2019-02-02T00:00:00Z"
        ),
        "b.json": deletion(
            "Encounter/e2", lastModified="2019-02-02T00:00:00Z"
        ),
    }
    assert set(by_stay(build(resources, files))) == {"e1"}


def test_a_deletion_by_a_search_is_listed(build):
    files = {"a.json": deletion("Encounter?identifier=7")}
    cohort = build([encounter(), document("d1", "a")], files)
    assert set(by_stay(cohort)) == {"e1"}
    problems = set(list_issues(cohort)["problem"])
    assert "deletion by a search, not applied" in problems


def ward(number, **changes):
    """A stay of a patient in hospital, and one on a ward inside of it."""
    ids = {"subject": {"reference": f"Patient/p{number}"}}
    hospital = encounter(f"h{number}", **ids, **{"class": {"code": "EMER"}})
    period = {"start": "2019-01-02T08:00:00Z", "end": "2019-01-03T10:00:00Z"}
    part = {"partOf": {"reference": f"Encounter/h{number}"}}
    inner = encounter(f"i{number}", period=period, **ids, **part)
    return [hospital, inner | {"class": {"code": "ACUTE"}} | changes]


def test_wards_are_not_taken_for_admissions(build):
    """MIMIC-IV on FHIR: stays in intensive care are ACUTE, those in hospital EMER."""
    message = (
        r"2 of 3 encounters of the class IMP or ACUTE are part of longer encounters of the "
        r"class EMER \(2\).*add their classes to where"
    )
    with pytest.raises(UserError, match=message):
        build([*ward(1), *ward(2), encounter()])


@pytest.mark.parametrize(
    "changes",
    [
        {"partOf": {"reference": "Encounter/other"}},
        {"subject": {"reference": "Patient/another"}},
        {
            "period": {
                "start": "2019-01-02T08:00:00Z",
                "end": "2019-01-05T10:00:00Z",
            }
        },
        {
            "period": {
                "start": "2019-01-04T08:00:00Z",
                "end": "2019-01-09T10:00:00Z",
            }
        },
    ],
)
def test_an_emergency_visit_before_an_admission_encloses_nothing(
    build, changes
):
    rows = by_stay(build([*ward(1, **changes), document("d1", "a")]))
    assert set(rows) == {"i1"}


NUBC = "https://www.nubc.org/CodeSystem/PriorityTypeOfAdmitOrVisit"


@pytest.mark.parametrize(
    "changes",
    [
        {"priority": {"text": "Newborn"}},
        {"priority": {"coding": [{"system": NUBC, "code": "4"}]}},
        {"type": [{"text": "Surgery"}, {"text": "Well newborn"}]},
        {"type": [{"coding": [{"code": "x", "display": "Newborn admission"}]}]},
        {"hospitalization": {"admitSource": {"text": "Born outside this hospital"}}},
        {"hospitalization": {"admitSource": {"coding": [{"code": "x"}, {"code": "born"}]}}},
    ],
)  # fmt: skip
def test_births_by_the_source_the_priority_or_the_type(build, changes):
    rows = by_stay(build([encounter(**changes), document("d1", "a")]))
    assert rows["e1"]["exclusion"] == "newborn"


@pytest.mark.parametrize(
    "changes",
    [
        {"priority": {"coding": [{"system": "urn:own", "code": "4"}]}},
        {"type": [{"text": "Stubborn pain"}]},
    ],
)
def test_other_stays_are_no_births(build, changes):
    rows = by_stay(build([encounter(**changes), document("d1", "a")]))
    assert rows["e1"]["exclusion"] is None


def visits(*names):
    references = [{"reference": f"Encounter/{name}"} for name in names]
    return {"context": {"encounter": references}}


def clinic(number):
    return encounter(f"c{number}", **{"class": {"code": "AMB"}})


def test_a_document_may_name_any_number_of_encounters(build):
    clinics = [clinic(number) for number in range(9)]
    names = [one["id"] for one in clinics]
    note = document("d1", "a", **visits(*names, "e1"))
    cohort = build([*clinics, encounter(), note, document("d2", "b")])
    assert set(by_stay(cohort)["e1"]["text"]) == {"a", "b"}


@pytest.mark.parametrize(
    "names", [("e1", "e2"), ("e2", "e1"), ("c1", "e1", "e2")]
)
def test_of_several_admissions_the_one_in_which_a_note_was_written(
    build, names
):
    note = document("d1", "a", date="2019-01-20T19:00:00Z", **visits(*names))
    rows = by_stay(build([clinic(1), encounter(), later(2, 20), note]))
    assert [list(rows[name]["text"]) for name in ("e1", "e2")] == [[], ["a"]]


def test_an_episode_of_care_is_no_encounter(build):
    """Its id may be that of an encounter."""
    note = document("d1", "a")
    note["context"]["encounter"] = [
        {"reference": "EpisodeOfCare/e2"},
        {"reference": " Encounter/e1 "},
    ]
    rows = by_stay(build([encounter(), later(2, 20), note]))
    assert [list(rows[name]["text"]) for name in ("e1", "e2")] == [["a"], []]
