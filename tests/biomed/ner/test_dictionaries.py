import pytest
from typer.testing import CliRunner

from biomed.ner.commands import app
from biomed.ner.dictionaries import Dictionary, build_dictionary
from domainbert.errors import UserError
from domainbert.tables import read_table


@pytest.fixture
def sources(tmp_path):
    files = {
        "mondo.csv": "id,name,synonyms\nM:1,heart failure,cardiac failure|HF\nM:2,gout,\n"
        "M:3,breast neoplasm,\nM:4,breast cancer,\n",
        "mappings.csv": "mondo,code\nM:1,mesh:D1\nM:1,SCTID:84\nM:1,Orphanet:9\nM:3,MESH:D3\n",
        "drugbank.csv": "id,name,synonyms\nDB1,Aspirin,ASA\n",
        "rxnorm.csv": "rxcui,ingredient,brands\n7,metoprolol,Lopressor|Toprol\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def names_of(frame):
    return {id_: list(part["name"]) for id_, part in frame.groupby("id")}


def test_names_and_codes_of_several_tables(sources):
    tables = [
        sources / name for name in ("mondo.csv", "drugbank.csv", "rxnorm.csv")
    ]
    frame = build_dictionary(tables, mappings=sources / "mappings.csv")
    names = names_of(frame)
    assert names["M:1"][:3] == ["heart failure", "cardiac failure", "HF"]
    assert names["drugbank:DB1"] == ["Aspirin", "ASA"]
    assert names["rxnorm:7"] == ["metoprolol", "Lopressor", "Toprol"]
    assert set(frame.loc[frame["id"] == "M:1", "codes"]) == {
        "MESH:D1|SNOMED:84"
    }


def test_concepts_of_one_system(sources):
    tables = [sources / "mondo.csv"]
    frame = build_dictionary(
        tables, mappings=sources / "mappings.csv", system="MESH"
    )
    names = names_of(frame)
    assert set(names) == {"MESH:D1", "MESH:D3"}
    assert set(frame.loc[frame["id"] == "MESH:D1", "codes"]) == {
        "M:1|SNOMED:84"
    }
    with pytest.raises(
        UserError, match="no concept with a code in OMIM; name its codes with"
    ):
        build_dictionary(
            tables, mappings=sources / "mappings.csv", system="OMIM"
        )


def test_two_concepts_of_a_table_with_one_id_are_named(tmp_path, caplog):
    path = tmp_path / "ours.csv"
    path.write_text("id,name,synonyms\nX:1,gout,podagra\nX:1,asthma,\n")
    assert list(build_dictionary([path])["name"]) == [
        "gout",
        "podagra",
        "asthma",
    ]
    (message,) = caplog.messages
    assert message.startswith(
        "ours.csv: rows with the id of an earlier row: 1"
    )
    assert message.endswith("X:1; their names go to the earlier concept")
    caplog.clear()
    path.write_text("name,id\ngout,X:1\npodagra,X:1\n")
    build_dictionary([path])
    assert not caplog.messages


def test_the_command(sources):
    out = sources / "names.parquet"
    command = [
        "dictionary",
        str(sources / "mondo.csv"),
        str(sources / "drugbank.csv"),
    ]
    result = CliRunner().invoke(app, [*command, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "8 names of 5 concepts" in " ".join(result.output.split())
    assert list(read_table(out).columns) == ["name", "id", "codes"]


@pytest.mark.parametrize("ending", ["csv", "parquet", "sqlite"])
def test_a_concept_without_codes_has_none(sources, ending):
    out = sources / f"names.{ending}"
    words = ["dictionary", str(sources / "mondo.csv"), "--out", str(out)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert Dictionary.read(out).find("gout").codes == ()
