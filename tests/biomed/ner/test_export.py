import gzip
import json
from itertools import count
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from biomed.corpora import read_gold
from biomed.corpora.brat import read_brat
from biomed.corpora.pubtator import read_pubtator
from biomed.ner.commands import app
from biomed.ner.entities import Entity
from biomed.ner.export import export_entities
from biomed.ner.standoff import (
    TaggedDocument,
    to_brat,
    to_pubtator,
    write_tagged,
)
from domainbert.errors import UserError
from domainbert.files import whole_text
from domainbert.tables import TableError

STANDARDS = Path(__file__).parents[4] / "shared" / "data" / "standards"
needs_standards = pytest.mark.skipif(
    not STANDARDS.is_dir(),
    reason="needs the public data: ../shared/data or $DOMAINBERT_DATA",
)
TEXT = "No heart\n failure here.\r\nSjögren |t| x\tinsulin  daily"


def entity(part, label="Disease", **more):
    start = TEXT.index(part)
    return Entity(start, start + len(part), part, label, 0.5, **more)


ENTITIES = [
    entity(
        "heart\n failure",
        assertion="negated",
        id="C1",
        name="Heart failure",
        link_score=1.0,
    ),
    entity("Sjögren", id="umls:C2", name="Sjögren"),
    entity("insulin", "Drug or so"),
]
DOCUMENTS = [
    TaggedDocument("a/1", TEXT, ENTITIES),
    TaggedDocument("b", "stable", []),
]


def labels(spans, kind=lambda name: name):
    return [(s.start, s.end, kind(s.label)) for s in spans]


def test_brat_comes_back(tmp_path):
    assert write_tagged(DOCUMENTS, tmp_path / "brat", form="brat") == 2
    gold = read_gold(tmp_path / "brat")
    assert [d.id for d in gold.documents] == ["a_1", "b"]
    assert gold.documents[0].text == TEXT
    wanted = labels(ENTITIES, lambda name: name.replace(" ", "_"))
    assert labels(gold.documents[0].spans) == wanted
    assert not any(span.discontinuous for span in gold.documents[0].spans)
    lines = to_brat(DOCUMENTS[0]).splitlines()
    assert lines[0] == "T1\tDisease 3 8;10 17\theart failure"
    assert lines[1] == "A1\tAssertion T1 negated"
    assert lines[2] == "A2\tScore T1 0.50"
    assert lines[3] == "N1\tReference T1 Dictionary:C1\tHeart failure"
    assert "umls:C2" in lines[7]
    with pytest.raises(UserError, match="exists already"):
        write_tagged(DOCUMENTS, tmp_path / "brat", form="brat")
    write_tagged(
        [*DOCUMENTS, TaggedDocument("a:1", "x", [])],
        tmp_path / "twice",
        form="brat",
    )
    assert [d.id for d in read_gold(tmp_path / "twice").documents] == [
        "a_1",
        "a_1_2",
        "b",
    ]


def test_pubtator_comes_back(tmp_path):
    write_tagged(DOCUMENTS, tmp_path / "out.txt", form="pubtator")
    gold = read_gold(tmp_path / "out.txt")
    assert [d.id for d in gold.documents] == ["a/1", "b"]
    assert len(gold.documents[0].text) == len(TEXT)
    assert labels(gold.documents[0].spans) == labels(ENTITIES)
    assert to_pubtator(DOCUMENTS[0]).splitlines()[2].endswith("Disease\tC1")
    details = pd.read_csv(tmp_path / "out.txt.assertions.tsv", sep="\t")
    assert details["document"].tolist()[0] == "a/1"
    assert (details["score"][0], details["assertion"][0]) == (0.5, "negated")


def test_bioc_reads_pubtator(tmp_path):
    pubtator = pytest.importorskip("bioc.pubtator")
    text = "Gout\nNo gout here, and insulin."
    spans = [("Gout", "Disease"), ("gout", "Disease"), ("insulin", "Drug")]
    starts = [text.index(name) for name, _ in spans]
    entities = [
        Entity(start, start + len(name), name, label, 0.9, id="D1")
        for start, (name, label) in zip(starts, spans, strict=True)
    ]
    path = tmp_path / "out.txt"
    write_tagged([TaggedDocument("12", text, entities)], path, form="pubtator")
    with path.open(encoding="utf-8") as file:
        (document,) = pubtator.load(file)
    read = [(a.text, a.type, a.start) for a in document.annotations]
    assert read == [
        (name, label, start)
        for start, (name, label) in zip(starts, spans, strict=True)
    ]


@pytest.mark.parametrize("kind", ["bioc", "bioc-json"])
def test_bioc_reads_bioc(tmp_path, kind):
    """Also line breaks of Windows and tabs, at the same offsets."""
    module = {"bioc": "bioc.biocxml", "bioc-json": "bioc.biocjson"}[kind]
    reader = pytest.importorskip(module)
    path = tmp_path / "out"
    fever = Entity(1, 6, "fever", "Disease", 0.5)
    odd = TaggedDocument("c", "\x0bfever <&>", [fever])
    assert write_tagged([*DOCUMENTS, odd], path, form=kind) == 3
    with path.open(encoding="utf-8") as file:
        documents = reader.load(file).documents
    assert [document.id for document in documents] == ["a/1", "b", "c"]
    (passage,) = documents[0].passages
    assert passage.text == TEXT
    read = [
        (a.text, a.infons["type"], a.total_span.offset, a.total_span.length)
        for a in passage.annotations
    ]
    assert read == [
        (e.text, e.label, e.start, e.end - e.start) for e in ENTITIES
    ]
    infons = passage.annotations[0].infons
    assert infons["assertion"] == "negated"
    assert infons["identifier"] == "C1"
    (odd_passage,) = documents[2].passages
    assert odd_passage.text[1:] == "fever <&>"


def written_and_read(documents, path, kind):
    """The texts, and the spans of each, after the way through a file."""
    write_tagged(documents, path, form=kind)
    if not kind.startswith("bioc"):
        read = {"brat": read_brat, "pubtator": read_pubtator}[kind]
        return {d.id: (d.text, labels(d.spans)) for d in read(path)}
    module = {"bioc": "bioc.biocxml", "bioc-json": "bioc.biocjson"}[kind]
    reader = pytest.importorskip(module)
    with path.open(encoding="utf-8", newline="") as file:
        documents = reader.load(file).documents
    passages = {d.id: d.passages[0] for d in documents}
    return {
        name: (
            passage.text,
            [
                (a.total_span.offset, a.total_span.end, a.infons["type"])
                for a in passage.annotations
            ],
        )
        for name, passage in passages.items()
    }


@pytest.mark.parametrize("kind", ["brat", "pubtator", "bioc", "bioc-json"])
def test_every_character_comes_back_in_its_place(tmp_path, kind):
    """Those of Unicode but halves of pairs, in the text and in mentions of 64 of them."""
    documents = []
    for first in range(0, 0x110000, 4096):
        mentions = [
            f"x{whole_text(''.join(map(chr, range(start, start + 64))))}x"
            for start in range(first, first + 4096, 64)
        ]
        entities = [
            Entity(start, start + 66, mention, "X", 0.5)
            for start, mention in zip(count(6, 67), mentions, strict=False)
        ]
        text = f"Title\n{' '.join(mentions)}"
        documents.append(TaggedDocument(str(first), text, entities))
    read = written_and_read(documents, tmp_path / kind, kind)
    not_written = {}
    if kind == "pubtator":  # a line for the abstract
        not_written = dict.fromkeys(map(ord, "\t\r\n"), " ")
    elif kind != "brat":
        no_xml = {*range(32), 0xFFFE, 0xFFFF} - set(map(ord, "\t\r\n"))
        not_written = dict.fromkeys(no_xml, "\ufffd")
    for document in documents:
        read_text, spans = read[document.id]
        written = document.text[:6] + document.text[6:].translate(not_written)
        assert read_text == written, document.id
        assert spans == labels(document.entities), document.id


def test_brat_keeps_the_offsets_of_odd_characters(tmp_path):
    """Line breaks of Windows count two characters, and a mention may contain a tab."""
    text = "a\r\nheart\tfailure\r\nnow"
    entities = [Entity(3, 16, text[3:16], "Disease", 0.5)]
    write_tagged(
        [TaggedDocument("x", text, entities)], tmp_path / "brat", form="brat"
    )
    assert (tmp_path / "brat" / "x.txt").read_bytes() == text.encode()
    (document,) = read_gold(tmp_path / "brat").documents
    assert (document.text, labels(document.spans)) == (text, labels(entities))
    assert document.spans[0].discontinuous is False


def test_brat_names_never_leave_the_folder(tmp_path):
    names = ["../../evil", "/etc/x", "..", "", "a\\b", "C:x"]
    write_tagged(
        [TaggedDocument(name, "x", []) for name in names],
        tmp_path / "brat",
        form="brat",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["brat"]
    files = list((tmp_path / "brat").iterdir())
    assert len(files) == 2 * len(names) + 1, files
    assert all(path.is_file() for path in files)


def test_brat_has_its_configuration(tmp_path):
    write_tagged(DOCUMENTS, tmp_path / "brat", form="brat")
    lines = (tmp_path / "brat" / "annotation.conf").read_text().splitlines()
    assert lines[:3] == ["[entities]", "Disease", "Drug_or_so"]
    assert (
        "Assertion\tArg:<ENTITY>, Value:other|allergy|negated|possible|historical|present"
        in lines
    )
    (scores,) = (line for line in lines if line.startswith("Score"))
    assert {"0.00", "0.50", "1.00"} <= set(
        scores.split("Value:")[1].split("|")
    )


@pytest.fixture
def model(disease, tmp_path):
    disease.save_pretrained(tmp_path / "model")
    return ["--model", str(tmp_path / "model")]


def run(*command, **more):
    result = CliRunner().invoke(app, ["tag", *map(str, command)], **more)
    assert result.exit_code == 0, result.output
    return result


def test_formats_of_the_command(model, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "one.txt").write_text("heart failure")
    (tmp_path / "notes" / "two.txt").write_text("no pneumonia")
    for form, out in (("brat", "o"), ("pubtator", "o.txt")):
        run(
            tmp_path / "notes",
            *model,
            "--format",
            form,
            "--out",
            tmp_path / out,
        )
        gold = read_gold(tmp_path / out)
        assert [d.id for d in gold.documents] == ["one", "two"]
        assert [labels(d.spans) for d in gold.documents] == [
            [(0, 13, "Disease")],
            [(3, 12, "Disease")],
        ]
    (tmp_path / "n.tsv").write_text("note_id\ttext\n7\theart failure\n8\t\n")
    run(
        tmp_path / "n.tsv",
        *model,
        "--format",
        "pubtator",
        "--out",
        tmp_path / "n.txt",
    )
    assert (tmp_path / "n.txt").read_text().startswith("7|t|heart failure\n")


def test_files_with_one_name(model, tmp_path):
    for patient in ("p1", "p2"):
        (tmp_path / "notes" / patient).mkdir(parents=True)
        (tmp_path / "notes" / patient / "note.txt").write_text("heart failure")
    for number, source in enumerate(
        (tmp_path / "notes", tmp_path / "notes" / "p*" / "note.txt")
    ):
        out = tmp_path / str(number)
        run(source, *model, "--format", "brat", "--out", out)
        names = ["p1_note.ann", "p2_note.ann"]
        assert sorted(file.name for file in out.glob("*.ann")) == names


def test_long_repeated_and_hostile_ids(tmp_path):
    """One id of 300 letters ended the export; a line break forged a document."""
    forged = "1\n2|t|forged"
    documents = [
        TaggedDocument(name, "heart failure", [])
        for name in ("x" * 300, "é" * 300, "1", "1")
    ]
    documents.append(TaggedDocument(forged, "pneumonia", []))
    assert write_tagged(iter(documents), tmp_path / "brat", form="brat") == 5
    assert len(list((tmp_path / "brat").glob("*.ann"))) == 5
    assert (
        write_tagged(iter(documents), tmp_path / "o.txt", form="pubtator") == 5
    )
    titles = [
        line.split("|t|")[0]
        for line in (tmp_path / "o.txt").open()
        if "|t|" in line
    ]
    assert titles == ["x" * 300, "é" * 300, "1", "1_2", "1_2_t_forged"]


def test_stdin(model, tmp_path):
    assert (
        "[heart failure](Disease)"
        in run("-", *model, input="heart failure").stdout
    )
    run(
        "-",
        *model,
        "--format",
        "pubtator",
        "--out",
        tmp_path / "o",
        input="no pneumonia\n",
    )
    assert (
        "stdin\t3\t12\tpneumonia\tDisease\t-\n" in (tmp_path / "o").read_text()
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "xml"], "'xml' is not one of"),
        (["--format", "brat"], "name it with --out"),
        (
            ["--format", "pubtator", "--out", "o", "--keep", "age"],
            "--keep: no effect unless --out is a table",
        ),
        (["--restart"], "--restart: no effect unless --out is a table"),
    ],
)
def test_options_that_would_be_ignored_are_refused(
    model, tmp_path, options, message
):
    (tmp_path / "n.txt").write_text("x")
    result = CliRunner().invoke(
        app, ["tag", str(tmp_path / "n.txt"), *model, *options]
    )
    assert (result.exit_code, message in " ".join(result.output.split())) == (
        2,
        True,
    ), result.output


# OMOP and FHIR

ASSERTED = ("present", "negated", "possible", "historical", "other")


@pytest.fixture
def tagged(tmp_path):
    """A table of entities with its summary: each assertion as a disease and as a drug."""
    rows = [
        {
            "note_id": str(100 + n),
            "mrn": f"P{n}",
            "hadm_id": "7" if n else None,
            "row": n,
            "start": 5,
            "end": 15,
            "entity": "x" * 300 if n == 9 else f'"entity\t{n}"',
            "label": "Drug" if n % 2 else "Disease",
            "score": 0.5 + n / 100,
            "assertion": ASSERTED[n // 2],
            "entity_id": {
                0: "317009",
                1: "MONDO:1",
                2: "OMOP:5",
                3: "own:9",
            }.get(n),
            "entity_codes": "MESH:D1|snomed:2" if n == 1 else None,
            "reason": None,
        }
        for n in range(10)
    ]
    table = pd.DataFrame(
        [*rows, {"note_id": "z", "row": 10}]
    )  # without entities
    summary = {
        "model": "0" * 64,
        "model_name": "tiny",
        "version": "0.1.0",
        "finished": 1.8e9,
    }
    (tmp_path / "e.csv.summary.json").write_text(json.dumps(summary))

    def write(changes=None):
        table.assign(**(changes or {})).to_csv(tmp_path / "e.csv", index=False)
        return tmp_path / "e.csv"

    return write


def validate(resources):
    """Check resources by the schema of FHIR R4."""
    jsonschema = pytest.importorskip("jsonschema")
    with gzip.open(STANDARDS / "fhir" / "fhir-r4.schema.json.gz") as file:
        definitions = json.load(file)["definitions"]
    for resource in resources:
        kind = {
            "$ref": f"#/definitions/{resource['resourceType']}",
            "definitions": definitions,
        }
        jsonschema.Draft6Validator(kind).validate(resource)


NOTES = """note_id,person_id,visit_occurrence_id,note_date,text
1,7,70,2020-01-02,Allergic to insulin (edema). Has pneumonia.
2,7,70,2020-01-02,No allergy to furosemide.
3,8,80,2020-03-04,Takes furosemide 40 mg p.o. twice daily for 10 days as needed for edema.
4,8,80,2020-03-04,Hold insulin. We stopped furosemide.
5,9,90,,insulin 10 to 12 units at bedtime
6,9,90,2020-05-06,No known drug allergies.
"""


@pytest.fixture
def notes(both, tmp_path):
    """Exports the notes in a form; returns the files by what follows the name of the table."""
    both.save_pretrained(tmp_path / "both")

    def write(form, text=NOTES):
        (tmp_path / "notes.csv").write_text(text)
        out = tmp_path / "found.csv"
        model = ["--model", tmp_path / "both"]
        result = run(
            tmp_path / "notes.csv", *model, "--format", form, "--out", out
        )
        files = {path.name: path for path in tmp_path.glob(f"found.{form}*")}
        return files, result

    return write


def fhir_resources(notes):
    files, result = notes("fhir")
    assert "denies an allergy" in result.stderr
    lines = files["found.fhir.ndjson"].read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


@needs_standards
def test_allergies_and_dosages_are_valid_fhir(notes):
    validate(fhir_resources(notes))


def test_an_allergy_is_no_medication_in_fhir(notes):
    resources = fhir_resources(notes)
    kinds = [resource["resourceType"] for resource in resources]
    assert kinds == [
        # The edema is the reaction, the second note denies an allergy, and the last has none.
        *("AllergyIntolerance", "Condition"),
        *("MedicationStatement", "Condition"),
        *["MedicationStatement"] * 3,
    ]
    allergy = resources[0]
    assert allergy["patient"] == {"reference": "Patient/7"}
    assert allergy["reaction"] == [{"manifestation": [{"text": "edema"}]}]
    assert allergy["clinicalStatus"]["coding"][0]["code"] == "active"
    assert allergy["verificationStatus"]["coding"][0]["code"] == "unconfirmed"


def test_dosages_and_statuses_in_fhir(notes):
    drugs = [
        r for r in fhir_resources(notes) if "dosage" in r or "status" in r
    ]
    assert [drug["status"] for drug in drugs] == [
        *("active", "on-hold", "stopped", "active")
    ]
    (dosage,) = drugs[0]["dosage"]
    assert dosage["text"] == "40 mg p.o. twice daily 10 days as needed"
    assert dosage["timing"]["repeat"]["frequency"] == 2
    assert dosage["timing"]["repeat"]["boundsDuration"]["value"] == 10
    assert dosage["asNeededCodeableConcept"] == {"text": "edema"}
    assert dosage["route"]["coding"][0]["code"] == "26643006"
    assert dosage["doseAndRate"][0]["doseQuantity"]["value"] == 40
    assert drugs[0]["reasonCode"] == [{"text": "edema"}]
    (bedtime,) = drugs[3]["dosage"]
    assert bedtime["doseAndRate"][0]["doseRange"]["high"]["value"] == 12
    assert "dosage" not in drugs[1]


def test_the_days_of_an_exposure_are_those_of_a_single_dosage(notes):
    sigs = (
        "5 mg daily for 2 weeks",
        "5 mg for 3 doses",
        "5 mg daily for 3 months",
        "4 mg daily for 2 days then 5 mg daily for 3 days",
        "daily",
    )
    rows = [f"1,7,70,2020-01-02,Takes furosemide {sig}." for sig in sigs]
    head = NOTES.splitlines()[0]
    files, _ = notes("omop", "\n".join([head, *rows]))
    exposures = pd.read_csv(files["found.omop.DRUG_EXPOSURE.csv"])
    assert exposures["days_supply"].fillna(0).tolist() == [14, 0, 90, 0, 0]
    assert exposures["drug_exposure_end_date"].tolist() == [
        "2020-01-15",
        "2020-01-02",
        "2020-03-31",
        *["2020-01-02"] * 2,
    ]
    assert exposures["sig"][3] == "4 mg daily 2 days; 5 mg daily 3 days"


@pytest.mark.parametrize("form", ["fhir", "omop"])
def test_another_name_of_a_drug_is_not_exported_again(notes, form):
    head = NOTES.splitlines()[0]
    text = "1,7,70,2020-01-02,Takes furosemide (insulin) 40 mg daily."
    files, _ = notes(form, f"{head}\n{text}\n")
    if form == "fhir":
        content = files["found.fhir.ndjson"].read_text("utf-8").splitlines()
        names = [
            json.loads(line)["medicationCodeableConcept"]["text"]
            for line in content
        ]
    else:
        exposures = pd.read_csv(files["found.omop.DRUG_EXPOSURE.csv"])
        names = exposures["drug_source_value"].tolist()
    assert names == ["furosemide"]


def test_exposures_and_observations_of_omop(notes):
    files, _ = notes("omop")
    exposures = pd.read_csv(files["found.omop.DRUG_EXPOSURE.csv"])
    # Note 5 has no date, and the drugs of note 4 are not taken.
    (exposure,) = exposures.to_dict("records")
    assert exposure["person_id"] == 8
    assert exposure["sig"] == "40 mg p.o. twice daily 10 days as needed"
    assert exposure["days_supply"] == 10
    assert exposure["drug_exposure_end_date"] == "2020-03-13"
    assert exposure["route_concept_id"] == 4132161
    (observation,) = pd.read_csv(files["found.omop.OBSERVATION.csv"]).to_dict(
        "records"
    )
    assert observation["observation_concept_id"] == 439224
    assert observation["observation_source_value"] == "insulin"
    assert observation["value_as_string"] == "edema"
    nlp = pd.read_csv(files["found.omop.NOTE_NLP.csv"])
    assert (
        nlp.loc[nlp["lexical_variant"] == "insulin", "term_exists"].iloc[0]
        == "N"
    )


@needs_standards
@pytest.mark.parametrize("name", ["DRUG_EXPOSURE", "OBSERVATION"])
def test_omop_tables_have_the_columns_of_the_specification(notes, name):
    files, _ = notes("omop")
    table = pd.read_csv(files[f"found.omop.{name}.csv"])
    fields = pd.read_csv(STANDARDS / "omop" / "OMOP_CDMv5.4_Field_Level.csv")
    fields = fields[fields["cdmTableName"].str.upper() == name]
    assert table.columns.tolist() == fields["cdmFieldName"].tolist()
    required = fields.loc[fields["isRequired"] == "Yes", "cdmFieldName"]
    assert table[required].notna().all(axis=None)


@needs_standards
def test_note_nlp_has_the_columns_and_sizes_of_the_specification(tagged):
    (path,) = export_entities(tagged(), "omop", named={})
    assert path.name == "e.omop.NOTE_NLP.csv"
    table = pd.read_csv(
        path, dtype={"offset": str}, keep_default_na=False, na_values=[""]
    )
    fields = pd.read_csv(STANDARDS / "omop" / "OMOP_CDMv5.4_Field_Level.csv")
    fields = fields[fields["cdmTableName"].str.lower() == "note_nlp"]
    assert table.columns.tolist() == [
        n.strip('"') for n in fields["cdmFieldName"]
    ]
    required = fields.loc[fields["isRequired"] == "Yes", "cdmFieldName"]
    assert table[required].notna().all(axis=None)
    assert len(table) == 10
    assert table["lexical_variant"].str.len().max() == 250
    assert table["offset"].unique().tolist() == ["5"]
    assert table["note_nlp_concept_id"].tolist() == [317009, 0, 5, *[0] * 7]
    exists = dict(zip(ASSERTED, ("Y", "N", None, "Y", "N"), strict=True))
    found = (
        table["term_exists"]
        .astype(object)
        .where(table["term_exists"].notna(), None)
    )
    assert found.tolist() == [exists[ASSERTED[n // 2]] for n in range(10)]
    assert table.loc[6:7, "term_temporal"].tolist() == ["past"] * 2
    assert table["snippet"].isna().all()


@needs_standards
def test_fhir_candidates_are_valid(tagged):
    (path,) = export_entities(tagged(), "fhir", named={"patient_id": "mrn"})
    resources = [
        json.loads(line) for line in path.read_text("utf-8").splitlines()
    ]
    assert len(resources) == 8  # what others have is not the patient's
    validate(resources)
    assert "context" not in resources[1]["subject"]
    assert resources[1]["medicationCodeableConcept"] == {
        "text": '"entity\t1"',
        "coding": [
            {
                "system": "http://terminology.hl7.org/CodeSystem/MSH",
                "code": "D1",
            },
            {
                "system": "http://purl.obolibrary.org/obo/mondo.owl",
                "code": "1",
            },
            {"system": "http://snomed.info/sct", "code": "2"},
        ],
    }
    codes = [
        r["verificationStatus"]["coding"][0]["code"] for r in resources[::2]
    ]
    assert codes == ["unconfirmed", "refuted", "provisional", "unconfirmed"]
    statuses = [r["status"] for r in resources[1::2]]
    assert statuses == ["active", "not-taken", "unknown", "completed"]


def test_an_entity_without_the_id_that_a_form_needs_is_refused(
    tagged, tmp_path
):
    with pytest.raises(
        TableError,
        match=r"`form='omop'` needs a whole number as note_id .* 10 of 10",
    ):
        export_entities(tagged({"note_id": "n-1"}), "omop", named={})
    with pytest.raises(
        TableError,
        match="`form='fhir'` needs a patient_id in every row; 10 of 10",
    ):
        export_entities(
            tagged({"mrn": None}), "fhir", named={"patient_id": "mrn"}
        )
    (tmp_path / "n.csv").write_text("text\nfever\n")
    words = [
        "tag",
        str(tmp_path / "n.csv"),
        "--format",
        "omop",
        "--out",
        str(tmp_path / "o.csv"),
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert "no column 'note_id'" in result.output
