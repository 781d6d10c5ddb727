import importlib.util
import json
import pickle
import re
import shlex
import sqlite3
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from biomed.ner.commands import app
from biomed.ner.dictionaries import Dictionary
from biomed.ner.linking import EntityLinker, vectors_of, write_vectors
from biomed.ner.name_files import build_file
from biomed.ner.releases import Choices
from domainbert.errors import UserError
from domainbert.tables import TableError

# pytest imports tests by path, and so is their helper.
_SPEC = importlib.util.spec_from_file_location(
    "made_up_releases", Path(__file__).with_name("releases.py")
)
made_up = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(made_up)

GUIDE = Path(__file__).parents[3] / "docs" / "howto" / "own_vocabulary.md"


def built(tmp_path, *names, **choices):
    """The dictionary of made-up releases."""
    folders = [made_up.ALL[name](tmp_path / name) for name in names]
    out = tmp_path / "names.sqlite"
    build_file(folders, out, choices=Choices(**choices))
    return Dictionary.read(out)


def found(dictionary, name, label=None):
    return [link.id for link in dictionary.find_all(name, label)]


# --- what is read of each release


def test_umls(tmp_path):
    names = built(tmp_path, "umls")
    (link,) = names.find_all("cardiac FAILURE")
    assert (link.id, link.name) == ("UMLS:C9000001", "Heart failure")
    assert link.codes == ("ICD10CM:I99.1", "SNOMED:900184")
    # Both concepts of a name stay, first the one whose preferred name it is.
    assert found(names, "cold") == ["UMLS:C9000004", "UMLS:C9000003"]
    assert names.find("cold").score == 0.5
    for unread in ("pump weakness", "Herzinsuffizienz", "genus gene", "HF"):
        assert found(names, unread) == []
    assert found(names, 'furosemide "plain"') == ["UMLS:C9000005"]
    assert names.facts["systems"] == {
        "UMLS": "2031AA",
        "SNOMED": "http://snomed.info/sct/731000124108/version/20310301",
        "ICD10CM": "2031",
    }


@pytest.mark.parametrize(
    ("choices", "name", "expected"),
    [
        ({"suppressed": True}, "pump weakness", ["UMLS:C9000001"]),
        ({"language": "de"}, "herzinsuffizienz", ["UMLS:C9000001"]),
        ({"language": "GER"}, "herzinsuffizienz", ["UMLS:C9000001"]),
        ({"vocabularies": ["ICD10CM"]}, "cardiac failure", []),
        ({"term_types": ["PT"]}, "cardiac failure", []),
        ({"types": {"Gene": ["T028"]}}, "genus gene", ["UMLS:C9000006"]),
        ({"system": "SNOMED"}, "cardiac failure", ["SNOMED:900184"]),
        ({"system": "SNOMED"}, "gout", []),
    ],
)
def test_choices(tmp_path, choices, name, expected):
    assert found(built(tmp_path, "umls", **choices), name) == expected


def test_windows_line_ends(tmp_path):
    made_up.umls(tmp_path / "windows", end="\r\n")
    build_file([tmp_path / "windows"], tmp_path / "names.sqlite")
    windows = Dictionary.read(tmp_path / "names.sqlite")
    assert windows.digest == built(tmp_path, "umls").digest


@pytest.mark.parametrize("kind", ["Snapshot", "Full"])
def test_snomed(tmp_path, kind):
    made_up.snomed(tmp_path / "snomed", kind=kind, module="900999")
    build_file([tmp_path / "snomed"], tmp_path / "names.sqlite")
    names = Dictionary.read(tmp_path / "names.sqlite")
    assert found(names, "Cardiac failure") == ["SNOMED:900184"]
    for unread in (
        "dropsy",
        "pump weakness",
        "heart valve",
        "British heart slowness",
    ):
        assert found(names, unread) == []
    version = "http://snomed.info/sct/900999/version/20310301"
    assert names.codings(["SNOMED:900184"]) == {
        "SNOMED:900184": (version, "Heart failure")
    }


def test_a_language_reference_set_of_snomed(tmp_path):
    names = built(tmp_path, "snomed", language=made_up.GB)
    assert found(names, "british heart slowness") == ["SNOMED:900184"]


def test_athena_keeps_the_source_of_a_name(tmp_path):
    names = built(tmp_path, "athena")
    own = names.find("weak heart")
    assert (own.id, own.codes) == ("OMOP:3160001", ("SNOMED:900184",))
    source = names.find("heart failure, unspecified")
    assert source.id == "OMOP:3160001"
    assert source.codes[1:] == ("ICD10CM:I99.1", "OMOP:4500001")
    assert found(names, "Serum gout level") == []
    assert found(names, "Herzinsuffizienz") == []
    # A mapping that is no longer valid is not one.
    assert names.find("heart failure unspecified").score == 0.95


def test_rxnorm_and_icd10cm(tmp_path):
    drugs = built(tmp_path, "rxnorm")
    assert found(drugs, "glucoplain") == ["RXNORM:9007"]
    assert found(drugs, "furosemide from elsewhere") == []
    assert found(drugs, "furosemide old tablet") == []
    codes = built(tmp_path, "icd10cm")
    assert found(codes, "cardiac failure NOS") == ["ICD10CM:I99.1"]
    assert found(codes, "struck by a heart") == []


def test_files_are_recognised_by_their_columns(tmp_path):
    folder = made_up.athena(tmp_path / "vocabulary")
    for number, path in enumerate(sorted(folder.iterdir())):
        text = path.read_text().replace("failure, un", "failure un")
        lines = text.replace("\t", ",").splitlines()
        text = "\n".join([lines[0].upper(), *lines[1:]])
        (folder / f"table{number}.tsv").write_text(text)
        path.unlink()
    build_file([folder], tmp_path / "names.sqlite")
    names = Dictionary.read(tmp_path / "names.sqlite")
    assert names.find("heart failure unspecified").codes[-1] == "OMOP:4500001"


def test_with_athena_the_concepts_of_others_are_standard_ones(tmp_path):
    names = built(tmp_path, "umls", "athena")
    assert found(names, "cardiac failure") == ["OMOP:3160001"]
    assert "UMLS:C9000001" in names.find("cardiac failure").codes
    # What has no standard concept keeps its id.
    assert found(names, "gout") == ["UMLS:C9000002"]


# --- what is looked up


def test_types_and_short_names(tmp_path):
    names = built(tmp_path, "umls")
    assert found(names, "furosemide", "Disease") == []
    assert found(names, "furosemide", "Medication") == ["UMLS:C9000005"]
    assert found(names, "furosemide", "Gene") == ["UMLS:C9000005"]
    assert EntityLinker(names).link(["HF"]) == [None]
    ours = tmp_path / "ours.csv"
    ours.write_text("id,name\nSNOMED:900184,HF\nOURS:1,sugar\n")
    build_file([tmp_path / "umls"], names.path, listed=[ours])
    linker = EntityLinker(Dictionary.read(names.path))
    links = linker.link(["HF", "hf", "Sugar"], labels=["Disease"] * 3)
    assert [link and link.id for link in links] == [
        "UMLS:C9000001",
        "UMLS:C9000001",
        "OURS:1",
    ]


def test_tables_give_the_same_links_in_a_file(tmp_path):
    table = tmp_path / "own.csv"
    table.write_text(
        "id,name,synonyms\nM:1,heart failure,cardiac failure|HF\nM:2,gout,\nM:3,MS,flu\nM:4,ms,\n"
    )
    mappings = tmp_path / "mappings.csv"
    mappings.write_text("a,b\nM:1,mesh:D1\nM:1,SCTID:84\n")
    runner = CliRunner()
    for ending in ("csv", "sqlite"):
        words = [
            "dictionary",
            table,
            "--mappings",
            mappings,
            "--out",
            tmp_path / f"names.{ending}",
        ]
        result = runner.invoke(app, list(map(str, words)))
        assert result.exit_code == 0, result.output
    memory = Dictionary.read(tmp_path / "names.csv")
    file = Dictionary.read(tmp_path / "names.sqlite")
    for name in (
        "Heart  failure",
        "failures of the heart",
        "HF",
        "ms",
        "flu",
        "x",
    ):
        assert file.find_all(name) == memory.find_all(name)
    assert {id_: list(codes) for id_, codes in file.concepts()} == {
        id_: list(codes) for id_, codes in memory.concepts()
    }
    assert sorted(file.pairs) == sorted(set(memory.pairs))


def test_vectors_are_of_the_preferred_names_first(tmp_path):
    names = built(tmp_path, "umls")
    assert names.names_for_vectors(3) == [
        "Heart failure",
        "Gout",
        "Common cold",
    ]
    linker = EntityLinker.from_table(names.path)
    assert linker.embedder is None  # no vectors were written
    assert write_vectors(names.path, limit=5) == 5
    linker = EntityLinker.from_table(names.path)
    (link,) = linker.link(["gouty disease"])
    assert link is None or link.id.startswith("UMLS:")
    (link,) = linker.nearest(["gouty"])
    assert link.id == "UMLS:C9000002"
    built(tmp_path, "umls", suppressed=True)
    with pytest.raises(
        UserError, match=r"is of other names than names.sqlite"
    ):
        EntityLinker.from_table(names.path).nearest(["gouty"])
    assert vectors_of(names.path).is_dir()


# --- what is wrong with a release


def wrong(tmp_path, *, match):
    with pytest.raises(TableError, match=match) as caught:
        build_file([tmp_path / "umls"], tmp_path / "names.sqlite")
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["umls"]


def test_a_cut_line(tmp_path):
    path = made_up.umls(tmp_path / "umls") / "META" / "MRCONSO.RRF"
    path.write_bytes(path.read_bytes()[:-30])
    wrong(
        tmp_path,
        match=r"MRCONSO.RRF line 15 is not a whole row \(missing columns\)",
    )


def test_latin_1(tmp_path):
    path = made_up.umls(tmp_path / "umls") / "META" / "MRCONSO.RRF"
    text = path.read_text().replace("Gout", "Sjögren gout")
    path.write_bytes(text.encode("latin-1"))
    wrong(
        tmp_path,
        match="MRCONSO.RRF line 9 is not in UTF-8: name the encoding, such as --encoding latin-1",
    )
    choices = Choices(encoding="latin-1")
    build_file([tmp_path / "umls"], tmp_path / "n.sqlite", choices=choices)
    names = Dictionary.read(tmp_path / "n.sqlite")
    assert found(names, "sjogren gout") == ["UMLS:C9000002"]


def test_a_missing_column_and_file(tmp_path):
    folder = made_up.umls(tmp_path / "umls") / "META"
    text = folder.joinpath("MRCONSO.RRF").read_text()
    folder.joinpath("MRCONSO.RRF").write_text(text.replace("|ENG|", "|"))
    wrong(tmp_path, match="MRCONSO.RRF has 17 columns, expected 18: CUI, LAT")
    folder.joinpath("MRCONSO.RRF").write_text(text)
    folder.joinpath("MRSTY.RRF").unlink()
    wrong(tmp_path, match="UMLS: MRSTY.RRF is missing in ")
    folder = made_up.athena(tmp_path / "athena")
    path = folder / "CONCEPT.csv"
    path.write_text(path.read_text().replace("domain_id", "domain"))
    with pytest.raises(
        TableError,
        match=r"CONCEPT.csv lacks the column domain_id; it has concept_id",
    ):
        build_file([folder], tmp_path / "names.sqlite")


def test_no_name_of_the_chosen_types(tmp_path):
    folder = made_up.umls(tmp_path / "umls")
    choices = Choices(types={"Disease": ["T999"]})
    with pytest.raises(
        TableError,
        match=r"UMLS in .* has no name of the types T999 in the language en",
    ):
        build_file([folder], tmp_path / "names.sqlite", choices=choices)


def test_two_concepts_with_one_id(tmp_path):
    folder = made_up.athena(tmp_path / "athena")
    path = folder / "CONCEPT.csv"
    lines = path.read_text().splitlines()
    other = lines[1].replace("Heart failure", "Another heart")
    path.write_text("\n".join([*lines, other]) + "\n")
    with pytest.raises(
        TableError, match="two concepts have the id OMOP:3160001"
    ):
        build_file([folder], tmp_path / "names.sqlite")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["umls", "--out", "n.csv"], "need a file that ends in .sqlite"),
        (
            ["nothing", "--out", "n.sqlite"],
            "has no release of a vocabulary; expected mrconso.rrf",
        ),
        (
            ["two", "--out", "n.sqlite"],
            "has releases of UMLS and Athena; name the folder of each",
        ),
        (["absent", "--out", "n.sqlite"], "absent: no such file"),
        (["x.zip", "--out", "n.sqlite"], "x.zip is a zip file: unpack it"),
        (
            ["umls", "--types", "T047", "--out", "n.sqlite"],
            "--types: expected LABEL=TYPE,TYPE, got 'T047'",
        ),
    ],
)
def test_commands_that_end_with_one_line(
    tmp_path, monkeypatch, words, message
):
    made_up.umls(tmp_path / "umls")
    made_up.umls(tmp_path / "two" / "one")
    made_up.athena(tmp_path / "two" / "other")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "x.zip").write_bytes(b"PK")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["dictionary", *words])
    assert result.exit_code in (1, 2)
    assert message in re.sub(r"[\s│]+", " ", result.output)


def test_another_file_is_no_dictionary(tmp_path):
    path = tmp_path / "other.sqlite"
    with pytest.raises(TableError, match="is missing or damaged"):
        Dictionary.read(path)
    with sqlite3.connect(path) as con:
        con.execute("CREATE TABLE facts (name, value)")
    with pytest.raises(TableError, match="or is no file of names; write it"):
        Dictionary.read(path)
    path.write_text("no database at all, but long enough to be one")
    with pytest.raises(TableError, match="is missing or damaged"):
        Dictionary.read(path)


# --- the guide: from a release to FHIR and OMOP by two commands


@pytest.fixture(scope="module")
def guide(tmp_path_factory):
    """The folder in which the commands of the guide ran, on made-up releases."""
    folder = tmp_path_factory.mktemp("guide")
    for name, make in made_up.ALL.items():
        make(folder / name)
    text = GUIDE.read_text("utf-8")
    tables = re.findall(r"^:caption: (\S+)\n(.*?)^```", text, re.S | re.M)
    for name, content in tables:
        codes = content.replace("84114007", "900184")
        (folder / name).write_text(codes)
    lines = re.findall(r"^biomed ner (.*)$", text, re.M)
    assert len(lines) == 17
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in lines:
            result = CliRunner().invoke(app, shlex.split(line))
            assert result.exit_code == 0, result.output
    return folder


def codings(folder, name):
    lines = (folder / f"{name}.fhir.ndjson").read_text("utf-8").splitlines()
    codes = {}
    for resource in map(json.loads, lines):
        code = resource.get("code") or resource["medicationCodeableConcept"]
        codes[code["text"]] = code.get("coding", [])
    return codes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "umls",
            "cardiac failure",
            {
                "system": "http://snomed.info/sct",
                "code": "900184",
                "display": "Heart failure",
                "version": "http://snomed.info/sct/731000124108/version/20310301",
            },
        ),
        (
            "umls",
            "furosemide",
            {
                "system": "http://www.nlm.nih.gov/research/umls/rxnorm",
                "code": "9005",
                "display": "Furosemide",
            },
        ),
        (
            "snomed",
            "heart failure",
            {
                "system": "http://snomed.info/sct",
                "code": "900184",
                "display": "Heart failure",
                "version": f"http://snomed.info/sct/{made_up.CORE}/version/20310301",
            },
        ),
        (
            "rxnorm",
            "furosemide",
            {
                "system": "http://www.nlm.nih.gov/research/umls/rxnorm",
                "code": "9005",
                "display": "furosemide",
                "version": "31AA_310301F",
            },
        ),
        (
            "athena",
            "heart failure",
            {
                "system": "http://snomed.info/sct",
                "code": "900184",
                "display": "Heart failure",
                "version": "2031-03-01 SNOMED CT",
            },
        ),
    ],
)
def test_the_guide_writes_coded_fhir(guide, name, text, expected):
    assert expected in codings(guide, name)[text]


@pytest.mark.parametrize("name", ["umls", "snomed", "athena"])
def test_the_guide_writes_standard_concepts(guide, name):
    file = f"{name}-omop.omop"
    conditions = pd.read_csv(guide / f"{file}.CONDITION_OCCURRENCE.csv")
    first = conditions.iloc[0]
    assert first["condition_concept_id"] == 3160001
    assert first["condition_source_value"] == "heart failure"
    assert first["condition_start_date"] == "2031-04-02"
    assert (first["person_id"], first["visit_occurrence_id"]) == (7, 70)
    nlp = pd.read_csv(guide / f"{file}.NOTE_NLP.csv")
    concepts = dict(
        zip(nlp["lexical_variant"], nlp["note_nlp_concept_id"], strict=True)
    )
    assert concepts["heart failure"] == 3160001
    assert concepts["furosemide"] == 1500001
    # What is negated is in NOTE_NLP alone.
    assert "pneumonia" in set(nlp["lexical_variant"].str.casefold())
    assert len(conditions) == 2


def test_the_guide_writes_standard_drugs_of_rxnorm(guide):
    drugs = pd.read_csv(guide / "rxnorm-omop.omop.DRUG_EXPOSURE.csv")
    assert drugs["drug_concept_id"].tolist() == [1500001]


def test_the_source_of_a_name_is_in_the_tables(guide, monkeypatch):
    monkeypatch.chdir(guide)
    Path("brand.csv").write_text(
        "note_id,person_id,note_date,text\n1,7,2031-04-02,He takes Glucoplain 40 mg daily.\n"
    )
    line = "tag brand.csv --dictionary athena.sqlite --format omop --out b.csv"
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == 0, result.output
    (row,) = pd.read_csv("b.omop.DRUG_EXPOSURE.csv").to_dict("records")
    assert row["drug_concept_id"] == 1500001
    assert row["drug_source_concept_id"] == 1500002


def test_another_process_opens_the_file_again(tmp_path):
    linker = EntityLinker(built(tmp_path, "umls"))
    copied = pickle.loads(pickle.dumps(linker))
    assert copied.link(["gout"]) == linker.link(["gout"])
    assert copied.facts() == linker.facts()
