"""Patients who were merged: all ids that links join are one patient, under the current id."""

import json
import re

import pandas as pd
import pytest

from clinical.cohort.build import build_cohort

from .conftest import by_stay, list_issues
from .sources import Cases, rebuild
from .test_documents import document, encounter

MERGED = "patient who was merged, read as the current one"
CIRCLE = "patients who replace each other in a circle: all are read as one"
SEVERAL = (
    "one of several patients who replace the same one: all are read as one"
)
ABSENT = "link to a patient who is not in the table of patients"
OTHER_SEX = (
    "sex or birth date differs from that of the current patient, not used"
)
NO_DEATH = (
    "no date of death, but another row of the patient has one: it counts"
)
OLDER = "older version with another date of death, not read"
DIFFER = "dates of the patient's death differ: the earliest counts"
BACK = [(None, 1), (None, 0)]
ALONE = [(None, 0), (None, 0)]


def person(id, **links):
    """A patient; links are ids by their type, other values are those of the resource."""
    resource = {"resourceType": "Patient", "id": id}
    resource["link"] = [
        {"type": kind.replace("_", "-"), "other": {"reference": f"{other}"}}
        for kind, others in links.items()
        for other in others.split()
    ]
    return resource


def at(version, resource):
    return resource | {"meta": {"versionId": str(version)}}


def stays(first, second):
    """Two stays ten days apart, each with a summary, of these patients."""
    dates = {
        "1": ("2019-01-01", "2019-01-05"),
        "2": ("2019-01-15", "2019-01-20"),
    }
    resources = []
    for patient, (id, (start, end)) in zip(
        (first, second), dates.items(), strict=True
    ):
        subject = {"reference": f"Patient/{patient}"}
        times = {"start": f"{start}T08:00:00Z", "end": f"{end}T08:00:00Z"}
        stay = {"reference": f"Encounter/e{id}"}
        resources += [
            encounter(f"e{id}", subject=subject, period=times),
            document(
                f"d{id}",
                f"Summary {id}.",
                subject=subject,
                date=times["end"],
                context={"encounter": [stay]},
            ),
        ]
    return resources


A, B, C = person("A"), person("B"), person("C")
A_TO_B = person("A", replaced_by="Patient/B")
DIED = {"deceasedDateTime": "2019-01-18"}
# The patients, whose stays, their ids in the cohort, what becomes of the stays, and issues.
CASES = {
    "replaced by": ([A_TO_B, B], "AB", "B", BACK, {(MERGED, "A")}),
    "replaces": ([A, person("B", replaces="Patient/A")], "AB", "B", BACK, {(MERGED, "A")}),
    "both say so": ([A_TO_B, person("B", replaces="Patient/A")], "BA", "B", BACK, {(MERGED, "A")}),
    "a chain of both": (
        [A_TO_B, B, person("C", replaces="Patient/B", replaced_by="Patient/D"), person("D")],
        "AD", "D", BACK, {(MERGED, "A"), (MERGED, "B"), (MERGED, "C")}),
    "a circle": (
        [A_TO_B, person("B", replaced_by="Patient/A")], "BA", "A", BACK,
        {(MERGED, "B"), (CIRCLE, "A"), (CIRCLE, "B")}),
    "a circle with a way out": (
        [A_TO_B, person("B", replaced_by="Patient/A Patient/C"), C], "AC", "C", BACK,
        {(MERGED, "A"), (MERGED, "B"), (CIRCLE, "A"), (CIRCLE, "B")}),
    "a way into a circle": (
        [A_TO_B, person("B", replaced_by="Patient/C"), person("C", replaced_by="Patient/B")],
        "AC", "B", BACK, {(MERGED, "A"), (MERGED, "C"), (CIRCLE, "B"), (CIRCLE, "C")}),
    "itself": ([person("A", replaced_by="Patient/A")], "AA", "A", BACK, {(CIRCLE, "A")}),
    "by several": (
        [person("A", replaced_by="Patient/B Patient/C"), B, C], "CB", "B", BACK,
        {(MERGED, "A"), (MERGED, "C"), (SEVERAL, "B"), (SEVERAL, "C")}),
    "by one that was not exported": (
        [person("A", replaced_by="Patient/Z"), person("C", replaced_by="Patient/Z")],
        "AC", "Z", BACK, {(MERGED, "A"), (MERGED, "C"), (ABSENT, "A"), (ABSENT, "C")}),
    "one that was not exported": (
        [person("B", replaces="Patient/A")], "AB", "B", BACK, {(MERGED, "A"), (ABSENT, "B")}),
    "see also, refer": (
        [person("A", seealso="Patient/B"), person("B", refer="Patient/A")], "AB", "A B", ALONE,
        set()),
    "a relative": ([person("A", replaced_by="RelatedPerson/B"), B], "AB", "A B", ALONE, set()),
    "an address": (
        [person("A", replaced_by="https://a.org/fhir/Patient/B/_history/3"), B],
        "AB", "B", BACK, {(MERGED, "A")}),
    "upper and lower case": ([A_TO_B, B, person("a")], "aB", "a B", ALONE, {(MERGED, "A")}),
    "no longer": ([at(1, A_TO_B), at(2, A), B], "AB", "A B", ALONE, set()),
    "another sex": (
        [A_TO_B | {"gender": "female"}, B | {"gender": "male"}], "AB", "B", BACK,
        {(MERGED, "A"), (OTHER_SEX, "A")}),
    "a death of the merged one": (
        [A_TO_B | DIED, B], "AB", "B", [(None, 1), ("died_in_hospital", None)],
        {(MERGED, "A"), (NO_DEATH, "B")}),
    "two deaths": (
        [A_TO_B | DIED, B | {"deceasedDateTime": "2019-01-19"}], "AB", "B",
        [(None, 1), ("died_in_hospital", None)],
        {(MERGED, "A"), (DIFFER, "e1"), (DIFFER, "e2")}),
    "one death on two clocks": (
        [A_TO_B | {"deceasedDateTime": "2019-01-25T23:30:00-05:00"},
         B | {"deceasedDateTime": "2019-01-26T04:30:00Z"}], "AB", "B", BACK, {(MERGED, "A")}),
    "a death that was corrected": (
        [at(1, A | DIED), at(2, A | {"deceasedDateTime": "2019-01-25"})], "AA", "A", BACK,
        {(OLDER, "A")}),
    "a hundred": (
        [person(f"P{n}", replaced_by=f"Patient/P{n + 1}") for n in range(100)] + [person("P100")],
        ("P0", "P50"), "P100", BACK, {(MERGED, f"P{n}") for n in range(100)}),
}  # fmt: skip


@pytest.fixture(scope="module")
def merged(tmp_path_factory):
    """The stays and issues of a source with every case, the ids of each behind a prefix."""
    folder = tmp_path_factory.mktemp("merged")
    by_type = {}
    for number, (patients, whose, *_) in enumerate(CASES.values()):
        ids = r'("id": "|Patient/|Encounter/|RelatedPerson/)'
        case = re.sub(
            ids, rf"\1k{number}-", json.dumps([*patients, *stays(*whose)])
        )
        for resource in json.loads(case):
            by_type.setdefault(resource["resourceType"], []).append(resource)
    for name, resources in by_type.items():
        lines = "\n".join(map(json.dumps, resources))
        (folder / f"{name}.ndjson").write_text(lines)
    cohort = build_cohort(folder, data_end="none")
    return by_stay(cohort), list_issues(cohort)


@pytest.mark.parametrize("case", CASES)
def test_which_ids_are_one_patient(case, merged):
    rows, issues = merged
    prefix = f"k{list(CASES).index(case)}-"
    _, _, ids, fates, problems = CASES[case]
    first, second = (rows[f"{prefix}e{number}"] for number in "12")
    expected = [prefix + id for id in ids.split()]
    patients = list(dict.fromkeys([first["patient_id"], second["patient_id"]]))
    assert patients == expected
    assert [
        (row["exclusion"], row["readmitted"]) for row in (first, second)
    ] == fates
    if len(expected) == 1:
        assert len({row["split"] for row in (first, second)} - {None}) == 1
    usual = "discharged alive|no admission type"
    listed = issues[
        issues["id"].str.startswith(prefix)
        & ~issues["problem"].str.contains(usual)
    ]
    assert {
        (problem, id.removeprefix(prefix))
        for problem, id in zip(listed["problem"], listed["id"], strict=True)
    } == problems  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_notes_of_each_id_are_read(case, merged):
    rows, _ = merged
    prefix = f"k{list(CASES).index(case)}-"
    for number in "12":
        row = rows[f"{prefix}e{number}"]
        if row["exclusion"] is None:
            assert list(row["text"]) == [f"Summary {number}."]


def test_own_tables_may_say_whom_a_patient_was_merged_into(tmp_path):
    """Ids are compared as everywhere: without regard to spaces, case and ".0"."""
    spans = [("2020-03-01 08:00:00", "2020-03-05 11:00:00", ""),
             ("2020-03-15 08:00:00", "2020-03-18 11:00:00", "")]  # fmt: skip
    cases = Cases({"merged": spans[:1], "current": spans[1:]})
    cases.write(tmp_path, "generic")
    mapping = tmp_path / "columns.toml"
    patients = """
[patients]
table = "people"
patient_id = "id"
replaced_by = "into"
"""
    mapping.write_text(mapping.read_text() + patients)
    people = pd.DataFrame({"id": ["100", "101"], "into": [" 101.0", ""]})
    people.to_csv(tmp_path / "people.csv", index=False)
    cohort = rebuild(tmp_path, "generic")
    assert cases.fates(cohort) == {
        "merged": [(None, 1)],
        "current": [(None, 0)],
    }
    assert set(cohort.to_frame()["patient_id"]) == {"101"}
    issues = list_issues(cohort)
    assert list(issues["id"][issues["problem"] == MERGED]) == ["100"]


def test_merged_patients_are_on_one_side_by_time(tmp_path):
    patients = [A_TO_B, B, *(person(f"p{n}") for n in range(20))]
    resources = [*patients, *stays("A", "B")]
    for n in range(20):
        day = f"2019-01-{n % 9 + 5:02}"
        times = {"start": f"{day}T08:00:00Z", "end": f"{day}T20:00:00Z"}
        subject = {"reference": f"Patient/p{n}"}
        resources.append(encounter(f"x{n}", subject=subject, period=times))
    for kind in ("Patient", "Encounter"):
        lines = [
            json.dumps(one) for one in resources if one["resourceType"] == kind
        ]
        (tmp_path / f"{kind}.ndjson").write_text("\n".join(lines))
    rows = by_stay(build_cohort(tmp_path, data_end="none", split_by="time"))
    assert rows["e1"]["exclusion"] == "earlier_period"
    assert (rows["e2"]["patient_id"], rows["e2"]["split"]) == ("B", "test")
