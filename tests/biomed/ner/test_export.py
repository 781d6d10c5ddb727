import pytest
from typer.testing import CliRunner

from biomed.corpora import read_gold
from biomed.ner.commands import app
from biomed.ner.entities import Entity
from biomed.ner.export import to_brat, to_pubtator, write_tagged
from domainbert.errors import UserError

TEXT = "No heart\n failure here.\r\nSjögren |t| x\tinsulin  daily"


def entity(part, label="Disease", **more):
    start = TEXT.index(part)
    return Entity(start, start + len(part), part, label, 0.5, **more)


ENTITIES = [
    entity("heart\n failure", assertion="negated", id="C1", name="Heart failure", link_score=1.0),
    entity("Sjögren", id="umls:C2", name="Sjögren"),
    entity("insulin", "Drug or so"),
]
DOCUMENTS = [("a/1", TEXT, ENTITIES), ("b", "stable", [])]


def labels(spans, kind=lambda name: name):
    return [(s.start, s.end, kind(s.label)) for s in spans]


def test_brat_comes_back(tmp_path):
    assert write_tagged(DOCUMENTS, tmp_path / "brat", kind="brat") == 2
    gold = read_gold(tmp_path / "brat")
    assert [d.id for d in gold.documents] == ["a_1", "b"]
    assert gold.documents[0].text == TEXT
    wanted = labels(ENTITIES, lambda name: name.replace(" ", "_"))
    assert labels(gold.documents[0].spans) == wanted
    assert not any(span.discontinuous for span in gold.documents[0].spans)
    lines = to_brat(TEXT, ENTITIES).splitlines()
    assert lines[0] == "T1\tDisease 3 8;10 17\theart failure"
    assert lines[1] == "A1\tAssertion T1 negated"
    assert lines[2] == "A2\tScore T1 0.50"
    assert lines[3] == "N1\tReference T1 Dictionary:C1\tHeart failure"
    assert "umls:C2" in lines[7]
    with pytest.raises(UserError, match="is there already"):
        write_tagged(DOCUMENTS, tmp_path / "brat", kind="brat")
    write_tagged([*DOCUMENTS, ("a:1", "x", [])], tmp_path / "twice", kind="brat")
    assert [d.id for d in read_gold(tmp_path / "twice").documents] == ["a_1", "a_1_2", "b"]


def test_pubtator_comes_back(tmp_path):
    write_tagged(DOCUMENTS, tmp_path / "out.txt", kind="pubtator")
    gold = read_gold(tmp_path / "out.txt")
    assert [d.id for d in gold.documents] == ["a/1", "b"]
    assert len(gold.documents[0].text) == len(TEXT)
    assert labels(gold.documents[0].spans) == labels(ENTITIES)
    assert to_pubtator(*DOCUMENTS[0]).splitlines()[2].endswith("Disease\tC1\t0.5000\tnegated")


def test_brat_names_never_leave_the_folder(tmp_path):
    names = ["../../evil", "/etc/x", "..", "", "a\\b", "C:x"]
    write_tagged([(name, "x", []) for name in names], tmp_path / "brat", kind="brat")
    assert [path.name for path in tmp_path.iterdir()] == ["brat"]
    files = list((tmp_path / "brat").iterdir())
    assert len(files) == 2 * len(names) + 1, files
    assert all(path.is_file() for path in files)


def test_brat_has_its_configuration(tmp_path):
    write_tagged(DOCUMENTS, tmp_path / "brat", kind="brat")
    lines = (tmp_path / "brat" / "annotation.conf").read_text().splitlines()
    assert lines[:3] == ["[entities]", "Disease", "Drug_or_so"]
    assert "Assertion\tArg:<ENTITY>, Value:other|negated|possible|historical|present" in lines
    (scores,) = (line for line in lines if line.startswith("Score"))
    assert {"0.00", "0.50", "1.00"} <= set(scores.split("Value:")[1].split("|"))


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
        run(tmp_path / "notes", *model, "--format", form, "--out", tmp_path / out)
        gold = read_gold(tmp_path / out)
        assert [d.id for d in gold.documents] == ["one", "two"]
        assert [labels(d.spans) for d in gold.documents] == [
            [(0, 13, "Disease")],
            [(3, 12, "Disease")],
        ]
    (tmp_path / "n.tsv").write_text("note_id\ttext\n7\theart failure\n8\t\n")
    run(tmp_path / "n.tsv", *model, "--format", "pubtator", "--out", tmp_path / "n.txt")
    assert (tmp_path / "n.txt").read_text().startswith("7|t|heart failure\n")


def test_files_with_one_name(model, tmp_path):
    for patient in ("p1", "p2"):
        (tmp_path / "notes" / patient).mkdir(parents=True)
        (tmp_path / "notes" / patient / "note.txt").write_text("heart failure")
    for number, source in enumerate((tmp_path / "notes", tmp_path / "notes" / "p*" / "note.txt")):
        out = tmp_path / str(number)
        run(source, *model, "--format", "brat", "--out", out)
        names = ["p1_note.ann", "p2_note.ann"]
        assert sorted(file.name for file in out.glob("*.ann")) == names


def test_long_repeated_and_hostile_ids(tmp_path):
    """One id of 300 letters ended the export; a line break forged a document."""
    forged = "1\n2|t|forged"
    documents = [(name, "heart failure", ENTITIES[:0]) for name in ("x" * 300, "é" * 300, "1", "1")]
    documents.append((forged, "pneumonia", []))
    assert write_tagged(iter(documents), tmp_path / "brat", kind="brat") == 5
    assert len(list((tmp_path / "brat").glob("*.ann"))) == 5
    assert write_tagged(iter(documents), tmp_path / "o.txt", kind="pubtator") == 5
    titles = [line.split("|t|")[0] for line in (tmp_path / "o.txt").open() if "|t|" in line]
    assert titles == ["x" * 300, "é" * 300, "1", "1_2", "1_2_t_forged"]


def test_stdin(model, tmp_path):
    assert "[heart failure](Disease)" in run("-", *model, input="heart failure").stdout
    run("-", *model, "--format", "pubtator", "--out", tmp_path / "o", input="no pneumonia\n")
    assert "stdin\t3\t12\tpneumonia\tDisease\t-\t" in (tmp_path / "o").read_text()


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
def test_options_that_would_be_ignored_are_refused(model, tmp_path, options, message):
    (tmp_path / "n.txt").write_text("x")
    result = CliRunner().invoke(app, ["tag", str(tmp_path / "n.txt"), *model, *options])
    assert (result.exit_code, message in " ".join(result.output.split())) == (2, True), (
        result.output
    )
