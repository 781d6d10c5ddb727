"""One made-up hospital in every form that is read: the cohorts are equal, row for row."""

import base64
import gzip
import json
import shutil
import zipfile
from functools import cache
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from clinical.cohort.build import build_cohort
from clinical.datasets.hospital import FORMS, synthesize
from domainbert.tables import TableError

STANDARDS = Path(__file__).parents[4] / "shared" / "data" / "standards"
LABELS = [
    "patient_id", "stay_id", "admit_time", "discharge_time", "readmitted", "days_to_readmission",
    "readmission_stay_id", "split", "exclusion", "sex", "admission_type", "episode_stay_id",
    "transfer", "died_within_horizon", "censored", "scorable",
]  # fmt: skip


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory):
    folder = (
        tmp_path_factory.mktemp("forms") / "it's [a] hospital"
    )  # no pattern, no end of a text
    folder.mkdir()
    for form in ("mimic3", *FORMS):
        synthesize(folder / form, stays=150, seed=6, dates="real", form=form)
    return folder


def rows(folder, form, **options):
    cohort = build_cohort(folder / form, **{"data_end": "none", **options})
    assert cohort.summary["schema"] == form
    return cohort.to_frame().sort_values("stay_id", ignore_index=True)


@pytest.fixture(scope="module")
def mimic3(hospitals):
    """The cohort of MIMIC-III with some options, built once."""

    @cache
    def build(**options):
        return rows(hospitals, "mimic3", **options)

    return build


CASES = [({}, form) for form in FORMS]
CASES += [({"notes": "early", "hours": 24}, form) for form in FORMS]
# Where the data end is asked of the labels, which know no form.
CASES += [({"data_end": "2019-12-01"}, FORMS[0])]


@pytest.mark.parametrize(("options", "form"), CASES)
def test_every_label_text_and_exclusion_is_the_same(
    hospitals, mimic3, options, form
):
    expected = mimic3(**options)
    found = rows(hospitals, form, **options)
    rare = {"died_in_hospital", "same_day_death", "after_death"}
    assert set(found["exclusion"]) >= (
        rare | {"censored"} if "data_end" in options else rare
    )
    assert found.loc[found["exclusion"] == "censored", "scorable"].all()
    assert found["text"].map(len).sum() > 100
    pd.testing.assert_frame_equal(
        found[LABELS], expected[LABELS], check_dtype=False
    )
    assert found["text"].tolist() == expected["text"].tolist()
    if form == "omop":
        # A birth centuries ago is one of MIMIC's people over 89 only where dates are shifted.
        known = (expected["age"] != 90).to_numpy()
        assert found["age"][known].tolist() == expected["age"][known].tolist()
        assert found["ethnicity"].tolist() == expected["ethnicity"].tolist()


@pytest.mark.parametrize("form", FORMS)
def test_the_same_hospital_has_the_same_risks(hospitals, form):
    risks = [
        (hospitals / name / "TRUE_RISK.csv").read_bytes()
        for name in ("mimic3", form)
    ]
    assert risks[0] == risks[1]


# -- OMOP ---------------------------------------------------------------------------------------


@pytest.mark.skipif(
    not STANDARDS.is_dir(),
    reason="needs the public data: ../shared/data or $DOMAINBERT_DATA",
)
def test_omop_tables_have_the_columns_of_the_specification(hospitals):
    fields = pd.read_csv(STANDARDS / "omop" / "OMOP_CDMv5.4_Field_Level.csv")
    for path in (hospitals / "omop").glob("*.csv"):
        if path.stem != "TRUE_RISK":
            expected = fields[fields["cdmTableName"].str.upper() == path.stem]
            assert (
                pd.read_csv(path, nrows=0).columns.tolist()
                == expected["cdmFieldName"].tolist()
            )


@pytest.mark.skipif(
    not STANDARDS.is_dir(),
    reason="needs the public data: ../shared/data or $DOMAINBERT_DATA",
)
def test_a_real_omop_folder_without_notes(tmp_path):
    with zipfile.ZipFile(
        STANDARDS / "omop" / "Synthea27Nj_5.4.zip"
    ) as archive:
        archive.extractall(tmp_path)
    cohort = build_cohort(tmp_path)
    said = "\n".join(cohort.caveats)
    assert (cohort.summary["schema"], cohort.n_admissions, cohort.n_stays) == (
        "omop",
        13,
        0,
    )
    assert set(cohort.to_frame()["exclusion"]) <= {"no_text", "censored"}
    assert "There are 0 notes" in said
    assert "visit_concept_id 9202 (1,722), visit_concept_id 9203 (56)" in said


@pytest.fixture
def omop(hospitals, tmp_path):
    """Tables of the OMOP hospital to spoil, by name."""
    tables = {
        path.stem: pd.read_csv(path, dtype=str, keep_default_na=False)
        for path in (hospitals / "omop").glob("*.csv")
    }

    def build(**changed):
        for name, table in (tables | changed).items():
            if table is not None:
                table.to_csv(tmp_path / f"{name}.csv", index=False)
        return build_cohort(tmp_path)

    return tables, build


def test_follow_up_ends_with_the_observation_period(omop):
    tables, build = omop
    visits = tables["VISIT_OCCURRENCE"]
    last = visits.groupby("person_id")["visit_end_date"].max()
    # Periods that end with the last visit were made from the visits.
    last = (pd.to_datetime(last) + pd.Timedelta(days=3)).dt.strftime(
        "%Y-%m-%d"
    )
    periods = tables["OBSERVATION_PERIOD"].copy()
    periods["observation_period_end_date"] = periods["person_id"].map(last)
    before = build().to_frame().set_index("stay_id")
    after = build(OBSERVATION_PERIOD=periods).to_frame().set_index("stay_id")
    ends = after.index.map(
        visits.set_index("visit_occurrence_id")["person_id"]
    ).map(last)
    late = (pd.to_datetime(ends) - after["discharge_time"]) < pd.Timedelta(
        days=29
    )
    kept = before["exclusion"].isna()
    assert set(after.loc[kept & late, "exclusion"].dropna()) == {"censored"}
    assert after.loc[
        kept & late & ~after["died_within_horizon"].fillna(False), "censored"
    ].all()
    assert after.loc[kept & ~late, "exclusion"].isna().mean() > 0.9


def test_faults_of_omop_tables_are_listed(omop):
    tables, build = omop
    visits, notes = tables["VISIT_OCCURRENCE"].copy(), tables["NOTE"].copy()
    visits.loc[0, ["visit_end_date", "visit_end_datetime"]] = ""
    visits.loc[1, "visit_concept_id"] = "0"
    notes.loc[0, "visit_occurrence_id"] = ""
    notes.loc[1, "visit_occurrence_id"] = "999999999"
    person = tables["PERSON"]
    merged = pd.concat(
        [person, person.head(1).assign(birth_datetime="1900-01-01 00:00:00")]
    )
    cohort = build(
        VISIT_OCCURRENCE=visits, NOTE=notes, PERSON=merged, DEATH=None
    )
    issues = set(
        zip(cohort.issues["source"], cohort.issues["problem"], strict=True)
    )
    assert issues >= {
        ("VISIT_OCCURRENCE", "no admission or no discharge time"),
        ("NOTE", "note without a stay id"),
        ("NOTE", "note of a stay that is not in the admissions"),
        ("PERSON", "patient id with contradicting rows, none used"),
    }
    said = "\n".join(cohort.caveats)
    assert "visit_concept_id 0 (1)" in said
    assert "No dates of death: deaths after discharge are unknown." in said


# -- MEDS ---------------------------------------------------------------------------------------


def test_meds_tables_are_valid(hospitals):
    meds = pytest.importorskip("meds", reason="pip install meds")
    folder = hospitals / "meds"
    meds.DataSchema.validate(pq.read_table(folder / "data" / "0.parquet"))
    meds.SubjectSplitSchema.validate(
        pq.read_table(folder / meds.subject_splits_filepath)
    )
    meds.CodeMetadataSchema.align(
        pq.read_table(folder / meds.code_metadata_filepath)
    )
    meds.DatasetMetadataSchema.from_dict(
        json.loads((folder / meds.dataset_metadata_filepath).read_text())
    )


@pytest.fixture
def meds_folder(hospitals, tmp_path):
    shutil.copytree(hospitals / "meds", tmp_path / "meds")
    return tmp_path / "meds"


def test_the_splits_of_a_meds_dataset_are_kept(meds_folder):
    path = meds_folder / "metadata" / "subject_splits.parquet"
    splits = pq.read_table(path).to_pandas()
    splits["split"] = ["tuning", "held_out", "train"] * (len(splits) // 3) + [
        "train"
    ] * (len(splits) % 3)
    splits.to_parquet(path, index=False)
    frame = build_cohort(meds_folder).to_frame()
    kept = frame[frame["exclusion"].isna()]
    expected = splits.astype(str).set_index("subject_id")["split"]
    expected = expected.replace({"tuning": "val", "held_out": "test"})
    assert kept["split"].tolist() == expected[kept["patient_id"]].tolist()


def test_meds_without_stay_ids_pairs_admissions_and_discharges(
    meds_folder, mimic3
):
    path = meds_folder / "data" / "0.parquet"
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["hadm_id"]), path)
    key = ["patient_id", "admit_time"]
    found = (
        build_cohort(meds_folder, data_end="none").to_frame().sort_values(key)
    )
    expected = mimic3().sort_values(key)
    # The parts of a transfer overlap: which discharge ends which of them is not known.
    alone = ~expected["patient_id"].isin(
        expected.loc[expected["exclusion"] == "transfer", "patient_id"]
    )
    alone &= expected["exclusion"].isna()
    merged = expected[alone].merge(found, on=key, suffixes=("", "_found"))
    assert len(merged) == alone.sum() > 50
    assert merged["readmitted"].tolist() == merged["readmitted_found"].tolist()
    assert merged["text"].tolist() == merged["text_found"].tolist()


def test_a_shard_with_another_schema_is_listed(meds_folder):
    whole = build_cohort(meds_folder).n_stays
    path = meds_folder / "data" / "0.parquet"
    table = pq.read_table(path)
    half = table.num_rows // 2
    pq.write_table(table.slice(0, half), path)
    # Other types, another order of columns and one column fewer are read.
    rest = (
        table.slice(half)
        .drop_columns(["numeric_value"])
        .select(
            ["code", "subject_id", "time", "text_value", "hadm_id", "note_id"]
        )
    )
    rest = rest.set_column(1, "subject_id", rest["subject_id"].cast("string"))
    pq.write_table(rest, meds_folder / "data" / "1.parquet")
    pq.write_table(
        table.rename_columns(["who", *table.column_names[1:]]),
        meds_folder / "data" / "2.parquet",
    )
    (meds_folder / "data" / "3.parquet").write_bytes(b"PAR1 cut")
    cohort = build_cohort(meds_folder)
    assert cohort.n_stays == whole
    assert {
        (row.source, row.problem) for row in cohort.issues.itertuples()
    } >= {
        ("2.parquet", "file without the columns subject_id, left out"),
        ("3.parquet", "file that cannot be read as Parquet, left out"),
    }


# -- FHIR ---------------------------------------------------------------------------------------


def resources(folder, kind):
    (path,) = folder.rglob(f"{kind}.ndjson*")
    raw = path.read_bytes()
    text = gzip.decompress(raw) if path.suffix == ".gz" else raw
    return [json.loads(line) for line in text.decode().splitlines()]


@pytest.mark.skipif(
    not STANDARDS.is_dir(),
    reason="needs the public data: ../shared/data or $DOMAINBERT_DATA",
)
@pytest.mark.parametrize(
    "kind", ["Patient", "Encounter", "DocumentReference", "Binary"]
)
def test_fhir_resources_are_valid(hospitals, kind):
    jsonschema = pytest.importorskip("jsonschema")
    with gzip.open(STANDARDS / "fhir" / "fhir-r4.schema.json.gz") as file:
        schema = json.load(file)
    validator = jsonschema.Draft6Validator(
        {"$ref": f"#/definitions/{kind}", "definitions": schema["definitions"]}
    )
    for resource in resources(hospitals / "fhir", kind)[::20]:
        validator.validate(resource)


def attachment(text, kind="text/plain"):
    data = base64.b64encode(text.encode()).decode()
    return {"attachment": {"contentType": kind, "data": data}}


def test_shapes_of_the_examples_of_the_specification(tmp_path):
    """References by URL, a child encounter, offsets of time, partial dates, notes of every kind."""

    def write(name, *lines):
        text = "\n".join(
            line if isinstance(line, str) else json.dumps(line)
            for line in lines
        )
        (tmp_path / name).write_text(text + "\n")

    def encounter(id, start, end, **more):
        imp = {
            "system": "http://terminology.hl7.org/CodeSystem/v3-ActCode",
            "code": "IMP",
        }
        base = {
            "resourceType": "Encounter",
            "id": id,
            "status": "finished",
            "class": imp,
        }
        period = {"start": start, "end": end} if end else {"start": start}
        subject = {
            "reference": "https://example.org/fhir/Patient/p1/_history/2"
        }
        return base | {"subject": subject, "period": period} | more

    whole = encounter(
        "whole", "2019-01-01T08:00:00+10:00", "2019-01-05T10:00:00+10:00"
    )
    ward = {"partOf": {"reference": "urn:uuid:whole"}}
    cut = json.dumps(encounter("cut", "2019-05-01T08:00:00Z", None))[:70]
    write(
        "Encounter.000.ndjson",
        whole,
        encounter(
            "ward", "2019-01-02T08:00:00Z", "2019-01-03T08:00:00Z", **ward
        ),
        encounter(
            "clinic", "2019-01-09", "2019-01-09", **{"class": {"code": "AMB"}}
        ),
        cut,
    )
    write(
        "Encounter.001.ndjson",
        encounter("back", "2019-01-20T08:00:00.000Z", "2019-01-22"),
        encounter("open", "2019-02-25T08:00:00Z", None, status="in-progress"),
    )
    write(
        "Patient.ndjson",
        {"resourceType": "Patient", "id": "p1", "gender": "other", "birthDate": "1950-05",
         "deceasedBoolean": False},
    )  # fmt: skip

    def document(id, encounter, content, **more):
        loinc = {"coding": [{"system": "http://loinc.org", "code": "18842-5"}]}
        base = {
            "resourceType": "DocumentReference",
            "id": id,
            "status": "current",
            "type": loinc,
        }
        context = {"context": {"encounter": [{"reference": encounter}]}}
        return (
            base
            | context
            | {"content": content, "date": "2019-01-05T03:00:00Z"}
            | more
        )

    write(
        "DocumentReference.ndjson",
        document("d1", "Encounter/whole", [attachment("summary")]),
        document(
            "d2",
            "Encounter/ward",
            [attachment("of the ward")],
            date="2019-01-05T04:00:00Z",
        ),
        document(
            "d3", "Encounter/whole", [{"attachment": {"url": "Binary/1"}}]
        ),
        document("d4", "Encounter/gone", [attachment("whose?")]),
    )
    write(
        "Composition.ndjson",
        {"resourceType": "Composition", "id": "c1", "status": "final",
         "type": {"coding": [{"code": "11490-0"}]}, "encounter": {"reference": "Encounter/back"},
         "date": "2019-01-22T11:00:00Z",
         "section": [{"title": "Plan", "text": {"div": "<div>rest</div>"}}]},
    )  # fmt: skip
    write(
        "DiagnosticReport.ndjson",
        {"resourceType": "DiagnosticReport", "id": "r1", "status": "final",
         "code": {"text": "Chest film"}, "encounter": {"reference": "Encounter/whole"},
         "effectiveDateTime": "2019-01-01T01:00:00Z", "conclusion": "clear lungs",
         "presentedForm": [{"contentType": "application/pdf", "data": "JVBERg=="}]},
    )  # fmt: skip
    cohort = build_cohort(tmp_path, data_end="none")
    frame = cohort.to_frame().set_index("stay_id")
    assert set(frame.index) == {"whole", "back", "open"}
    assert str(frame.loc["whole", "admit_time"]) == "2018-12-31 22:00:00"
    assert frame.loc["whole", "readmitted"] == 1
    assert frame.loc["whole", "text"] == ["summary", "of the ward"]
    assert frame.loc["back", "text"] == ["Plan\n\nrest"]
    assert frame.loc["whole", "age"] == 68
    assert frame.loc["open", "exclusion"] == "missing_time"
    assert {problem.split(":")[0] for problem in cohort.issues["problem"]} >= {
        "line that is not a row",
        "note whose text cannot be read",
        "no admission or no discharge time",
        "note of a stay that is not in the admissions",
    }
    assert cohort.n_admissions == 4  # with the line that was cut
    early = (
        build_cohort(tmp_path, notes="early", hours=48, data_end="none")
        .to_frame()
        .set_index("stay_id")
    )
    assert early.loc["whole", "text"] == ["clear lungs"]


DIV = '<div xmlns="http://www.w3.org/1999/xhtml">{}</div>'
IMP = {"code": "IMP"}
CLINIC, LATIN = (
    {"reference": "Encounter/clinic"},
    'text/plain; charset="ISO-8859-1"',
)
BINARY = {
    "resourceType": "Binary",
    "id": "b",
    "contentType": "text/plain",
    "data": "YQ==",
}
SUMMARY = {
    "coding": [{"system": "urn:local", "code": "DS"}, {"code": "18842-5"}]
}


def stay(
    id="e1",
    start="2019-01-01T08:00:00Z",
    end="2019-01-05T10:00:00Z",
    **changes,
):
    subject = {"reference": "Patient/p1"}
    base = {
        "resourceType": "Encounter",
        "id": id,
        "status": "finished",
        "class": IMP,
    }
    return (
        base
        | {"subject": subject, "period": {"start": start, "end": end}}
        | changes
    )


def summary(*attachments, **changes):
    base = {
        "resourceType": "DocumentReference",
        "id": "d1",
        "status": "current",
        "type": SUMMARY,
    }
    context = {"encounter": [{"reference": "Encounter/e1"}]}
    base |= {
        "date": "2019-01-05T03:00:00Z",
        "content": list(attachments),
        "context": context,
    }
    return base | changes


@pytest.fixture
def built(tmp_path):
    """The cohort of a folder with these resources, by stay."""

    def build(*given, **options):
        for number, one in enumerate(given):
            kind = one["resourceType"]
            (tmp_path / f"{kind}.{number}.ndjson").write_text(
                json.dumps(one) + "\n"
            )
        cohort = build_cohort(
            tmp_path, schema="fhir", data_end="none", **options
        )
        return cohort, cohort.to_frame().set_index("stay_id")

    return build


@pytest.mark.parametrize(
    ("disposition", "exclusion"),
    [
        ({"coding": [{"system": "urn:x", "code": "7"}, {"code": "exp"}]}, "died_in_hospital"),
        ({"coding": [{"system": "http://snomed.info", "code": "371828006"}]}, "died_in_hospital"),
        ({"text": "Died"}, "died_in_hospital"),
        ({"coding": [{"code": "306689006", "display": "Discharge to home"}]}, ""),
    ],
)  # fmt: skip
def test_an_encounter_tells_the_disposition_in_any_coding_or_in_text(
    built, disposition, exclusion
):
    encounter = stay(hospitalization={"dischargeDisposition": disposition})
    _, frame = built(encounter, summary(attachment("a")))
    assert frame["exclusion"].fillna("").to_dict() == {"e1": exclusion}


def test_a_patient_by_identifier_alone_is_a_patient_and_a_contained_one_is_none(
    built,
):
    """Two stays whose subject is `#p` are not of one patient."""
    known = {"identifier": {"system": "urn:mrn", "value": "M7"}}
    cohort, frame = built(
        stay(subject=known),
        stay(
            "e2", "2019-01-20T08:00:00Z", "2019-01-22T08:00:00Z", subject=known
        ),
        stay("e3", subject={"reference": "#p"}),
        summary(attachment("a")),
    )
    assert frame.loc["e1", "readmitted"] == 1
    assert "e3" not in frame[frame["exclusion"].isna()].index
    assert cohort.n_admissions == 3


def test_a_death_with_a_year_alone_is_listed(built):
    patient = {
        "resourceType": "Patient",
        "id": "p1",
        "deceasedDateTime": "2019",
    }
    cohort, frame = built(stay(), patient, summary(attachment("a")))
    # It may have ended the last stay, whose place of discharge is not known.
    assert frame["exclusion"].tolist() == ["same_day_death"]
    assert any("death" in problem for problem in cohort.issues["problem"])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"context": {"encounter": [CLINIC, {"reference": "Encounter/e1"}]}}, "a"),
        ({"context": {"encounter": [{"reference": "http://x.org/Encounter/e1/_history/3"}]}}, "a"),
        ({"content": [{"attachment": {"contentType": LATIN, "data": "Y2Fm6Q=="}}]}, "café"),
        ({"content": [{"attachment": {"url": "#b"}}], "contained": [BINARY]}, "a"),
        ({"content": [{"attachment": {"contentType": "text/plain", "url": "Binary/9"}},
                      attachment("<p>b</p>", "text/html")]}, "b"),
    ],
)  # fmt: skip
def test_a_document_of_several_encounters_other_characters_or_contained_content(
    built, changes, text
):
    clinic = stay(
        "clinic", "2019-01-09", "2019-01-09", **{"class": {"code": "AMB"}}
    )
    _, frame = built(stay(), clinic, summary(attachment("a")) | changes)
    assert frame.loc["e1", "text"] == [text]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"text": {"div": DIV.format("All<br/>of it")}}, "All\nof it"),
        ({"section": [{"section": [{"title": "Plan", "text": {"div": DIV.format("rest")}}]}]},
         "Plan\n\nrest"),
        ({"section": [{"text": {"div": DIV.format("told")}}], "text": {"div": "made"}}, "told"),
    ],
)  # fmt: skip
def test_a_composition_with_nested_sections_or_none(built, changes, text):
    composition = {
        "resourceType": "Composition",
        "id": "c1",
        "status": "final",
        "type": SUMMARY,
    }
    encounter = {
        "encounter": {"reference": "Encounter/e1"},
        "date": "2019-01-05",
    }
    _, frame = built(stay(), composition | encounter | changes)
    assert frame.loc["e1", "text"] == [text]


def test_a_report_with_a_narrative_and_a_period(built):
    report = {
        "resourceType": "DiagnosticReport",
        "id": "r1",
        "status": "final",
    }
    report |= {
        "code": {"coding": [{"code": "24648-8"}]},
        "encounter": {"reference": "Encounter/e1"},
    }
    report |= {"effectivePeriod": {"start": "2019-01-02T01:00:00Z"}}
    report |= {"text": {"div": DIV.format("<p>clear lungs</p>")}}
    report |= {
        "presentedForm": [
            {"contentType": "application/pdf", "data": "JVBERg=="}
        ]
    }
    _, frame = built(stay(), report, notes="early", hours=48)
    assert frame.loc["e1", "text"] == ["clear lungs"]


def test_bundles_are_read_as_lines_are(hospitals, tmp_path):
    """One file a patient, references by `urn:uuid:`, ids in `fullUrl` alone; other JSON is left."""
    own = [
        one
        for kind in ("Patient", "Encounter", "DocumentReference", "Binary")
        for one in resources(hospitals / "fhir", kind)
    ]
    bundles = {}
    for one in own:
        subject = (
            one.get("subject", {})
            .get("reference", f"Patient/{one['id']}")
            .split("/")[-1]
        )
        entry = {
            "fullUrl": f"urn:uuid:{one['id']}",
            "resource": {k: v for k, v in one.items() if k != "id"},
        }
        bundles.setdefault(subject, []).append(entry)
    for subject, entry in bundles.items():
        text = json.dumps(
            {"resourceType": "Bundle", "type": "collection", "entry": entry},
            indent=1,
        )
        for kind in ("Patient", "Encounter"):
            text = text.replace(f'"{kind}/', '"urn:uuid:')
        (tmp_path / f"{subject}.json").write_text(text)
    (tmp_path / "settings.json").write_text('{"other": 1}')
    (tmp_path / "cut.json").write_text('{"resourceType": "Bundle", "entry": [')
    found = build_cohort(tmp_path, data_end="none")
    assert found.summary["schema"] == "fhir"
    assert "cut.json" in set(found.issues["source"])
    assert "settings.json" not in set(found.issues["source"])
    expected = rows(hospitals, "fhir")
    frame = found.to_frame().sort_values("stay_id", ignore_index=True)
    pd.testing.assert_frame_equal(frame[LABELS], expected[LABELS])
    assert frame["text"].tolist() == expected["text"].tolist()


@pytest.mark.parametrize(
    ("kind", "change", "release"),
    [
        ("Encounter", {"actualPeriod": {}}, "R5"),
        (
            "DocumentReference",
            {"context": [{"reference": "Encounter/1"}]},
            "R5",
        ),
        ("DocumentReference", {"indexed": "2019-01-01"}, "STU3"),
    ],
)
def test_another_release_is_refused(
    hospitals, tmp_path, kind, change, release
):
    shutil.copytree(hospitals / "fhir", tmp_path / "fhir")
    path = tmp_path / "fhir" / f"{kind}.ndjson"
    path.write_text(
        json.dumps(resources(hospitals / "fhir", kind)[0] | change) + "\n"
    )
    with pytest.raises(
        TableError, match=f"{kind}.ndjson is FHIR {release} .*; expected R4"
    ):
        build_cohort(tmp_path / "fhir")


def test_a_patient_without_a_side_of_the_source_is_counted_apart(meds_folder):
    path = meds_folder / "metadata" / "subject_splits.parquet"
    splits = pq.read_table(path).to_pandas()
    kept = build_cohort(meds_folder)
    frame = kept.to_frame()
    patient = frame.loc[frame["exclusion"].isna(), "patient_id"].iloc[0]
    splits[splits["subject_id"].astype(str) != patient].to_parquet(
        path, index=False
    )
    found = build_cohort(meds_folder)
    assert found.n_stays == kept.n_stays
    counts = found.summary["splits"]
    assert counts["none"]["patients"] == 1
    assert sum(side["stays"] for side in counts.values()) == found.n_stays
    assert "No side" in found.flow_svg()
