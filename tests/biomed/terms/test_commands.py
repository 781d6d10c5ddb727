"""The commands, as a user types them."""

import subprocess
import sys

import pandas as pd
import pytest
from typer.testing import CliRunner

from biomed.cli import app
from biomed.terms.similarity import TermEmbedder
from domainbert.tables import read_table, write_table

run = CliRunner()


def test_every_command_has_help():
    for name in "embed similar plot evaluate train".split():
        result = run.invoke(app, ["terms", name, "--help"])
        assert result.exit_code == 0
        assert "--help" in result.output
    assert run.invoke(app, ["--version"]).output.startswith("biomed 0.")


def test_help_waits_for_no_torch():
    code = "import sys; from biomed.cli import app; sys.exit('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], check=False).returncode
        == 0
    )


@pytest.fixture
def terms(tmp_path):
    path = tmp_path / "terms.csv"
    rows = [
        ("edema", "signs"),
        ("chest pain", "signs"),
        ("insulin", "drugs"),
        ("fever", "signs"),
    ]
    rows += [
        ("furosemide", "drugs"),
        ("antibiotic", "drugs"),
        ("dyspnea", "signs"),
    ]
    write_table(pd.DataFrame(rows, columns=["term", "category"]), path)
    return path


def invoke(*arguments):
    result = run.invoke(app, ["terms", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


def test_embed_counts_what_has_no_vector(tiny_encoder, tmp_path):
    source, out = tmp_path / "terms.txt", tmp_path / "vectors.parquet"
    source.write_text("edema\n\ninsulin\n")
    said = invoke("embed", source, "--out", out, "--model", tiny_encoder)
    assert "3 rows in, 3 rows out: 1 empty, 2 ok" in said
    assert read_table(out)["status"].tolist() == ["ok", "empty", "ok"]


def test_no_command_writes_over_its_input(tiny_encoder, terms, tmp_path):
    before = terms.read_bytes()
    (tmp_path / "link.csv").symlink_to(terms)
    picture = tmp_path / "terms.png"
    for arguments in (
        ("embed", terms, "--out", terms),
        ("embed", terms, "--out", tmp_path / "link.csv"),
        ("similar", "--terms", terms, "--out", terms),
        ("plot", picture, "--out", picture),
    ):
        if arguments[0] == "plot":
            picture.write_bytes(b"")
        result = run.invoke(
            app, ["terms", *map(str, arguments), "--model", str(tiny_encoder)]
        )
        assert result.exit_code == 1, arguments
        assert "is an input of this command" in result.output.replace(
            "\n", " "
        )
    assert terms.read_bytes() == before


def test_similar_prints_or_writes_neighbours(tiny_encoder, terms, tmp_path):
    options = ("--model", tiny_encoder, "--vocabulary", terms)
    assert "fever" in invoke("similar", "edema", *options, "-k", "6")
    assert "PNA is read as pneumonia" in invoke("similar", "PNA", *options)
    said = invoke(
        "similar", "heart attack", "--model", tiny_encoder, "-k", "2"
    )
    assert (
        said.index("myocardial infarction")
        < said.index("synonym")
        < said.index("vector")
    )
    out = tmp_path / "near.jsonl"
    invoke("similar", "--terms", terms, "--out", out, *options, "-k", "2")
    assert len(read_table(out)) == 14
    assert run.invoke(app, ["terms", "similar"]).exit_code == 2
    assert (
        run.invoke(
            app, ["terms", "similar", "edema", "--out", str(out)]
        ).exit_code
        == 2
    )


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_plot_writes_picture_and_coordinates(
    tiny_encoder, terms, tmp_path, ending
):
    out = tmp_path / f"terms.{ending}"
    said = invoke("plot", terms, "--out", out, "--model", tiny_encoder)
    assert "t-SNE, perplexity 2 of 7 terms" in said
    assert out.stat().st_size > 5000
    table = read_table(tmp_path / "terms.coordinates.csv")
    assert list(table.columns) == ["term", "category", "x", "y"]


def test_plot_leaves_the_terms_file_alone(tiny_encoder, terms, tmp_path):
    """terms.csv plotted to terms.png was replaced by the coordinates."""
    before = terms.read_bytes()
    invoke(
        "plot", terms, "--out", tmp_path / "terms.png", "--model", tiny_encoder
    )
    assert terms.read_bytes() == before
    clash = tmp_path / "terms.coordinates.csv"
    clash.write_bytes(before)
    arguments = ["plot", str(clash), "--out", str(tmp_path / "terms.png")]
    result = run.invoke(
        app, ["terms", *arguments, "--model", str(tiny_encoder)]
    )
    assert "is an input of this command" in result.output
    assert clash.read_bytes() == before


def test_evaluate_puts_encoders_side_by_side(
    tiny_encoder, bare, tokenizer, tmp_path
):
    TermEmbedder(bare, tokenizer).save_pretrained(tmp_path / "other")
    pairs, out = tmp_path / "pairs.csv", tmp_path / "report"
    rows = [
        ("edema", "fever", 3.0),
        ("edema", "insulin", 1.0),
        ("chest pain", "fever", 2.0),
    ]
    write_table(pd.DataFrame(rows, columns=["Term1", "Term2", "Mean"]), pairs)
    models = ("--model", tiny_encoder, "--model", tmp_path / "other")
    said = invoke("evaluate", "--out", out, *models, "--pairs", pairs)
    assert "Spearman" in said
    assert [path.name for path in out.iterdir()] == ["comparison.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["embed", "absent.csv", "--out", "o.csv"], "no such file"),
        (
            ["embed", "TERMS", "--out", "o.csv", "--text", "name"],
            "no column 'name'",
        ),
        (
            ["plot", "ONE", "--out", "o.png"],
            "a picture needs at least 4 terms, got 1",
        ),
        (["evaluate", "--out", "x", "--pairs", "TERMS"], "no column 'first'"),
        (["train", "nowhere.csv", "--out", "x"], "no such file"),
        (
            ["train", "nowhere", "--out", "x", "--recipe", "RECIPE"],
            "epoch: no such setting",
        ),
    ],
)
def test_a_failure_is_one_line_and_exit_code_1(
    tiny_encoder, terms, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.txt").write_text("edema\n")
    (tmp_path / "recipe.toml").write_text("[training]\nepoch = 3\n")
    names = {"TERMS": str(terms), "ONE": "one.txt", "RECIPE": "recipe.toml"}
    arguments = [names.get(argument, argument) for argument in arguments]
    if arguments[0] != "train":
        arguments += ["--model", str(tiny_encoder)]
    result = run.invoke(app, ["terms", *arguments])
    assert result.exit_code == 1
    assert message in result.output
    assert (
        len([line for line in result.output.splitlines() if "error" in line])
        == 1
    )


def test_train_writes_a_model_with_its_card(tiny_encoder, tmp_path):
    names, recipe = tmp_path / "names.csv", tmp_path / "recipe.toml"
    rows = [
        f"{name} {n},C{n}" for n in range(40) for name in ("pain", "fever")
    ]
    names.write_text("\n".join(["name,id", *rows]))
    recipe.write_text(
        '[training]\nepochs = 0.5\n[card]\nname = "tiny"\ntitle = "Tiny vectors"\n'
    )
    options = ("--recipe", recipe, "--encoder", tiny_encoder)
    invoke("train", names, "--out", tmp_path / "model", *options)
    card = (tmp_path / "model" / "README.md").read_text()
    assert "# Tiny vectors" in card
    assert "training rows, names" in card


def test_terms_are_printed_as_they_are(tiny_encoder, tmp_path):
    """Terms of users are neither markup nor orders for the terminal."""
    (tmp_path / "v.csv").write_text(
        "term,synonyms\nedema [/x] \x1b[31m,ZQX\n[left] pain,\n"
    )
    options = ("--vocabulary", tmp_path / "v.csv", "--model", tiny_encoder)
    said = invoke("similar", "ZQX", *options)
    assert "\x1b[31m" not in said
    shown = "".join(said.split())
    assert "edema[/x]" in shown
    assert "[left]pain" in shown


def test_a_term_without_a_vector_is_left_out_of_the_picture(
    tmp_path, tiny_encoder
):
    path = tmp_path / "odd.csv"
    terms = [
        "edema",
        "",
        "insulin",
        "\u200b",
        "fever",
        "antibiotic",
        "dyspnea",
    ]
    path.write_text(
        "term,id\n" + "".join(f"{term},{term}x\n" for term in terms)
    )
    out = tmp_path / "picture.svg"
    command = ["terms", "plot", str(path), "--out", str(out)]
    result = run.invoke(app, [*command, "--model", str(tiny_encoder)])
    assert result.exit_code == 0, result.output
    assert "row 3 has no vector and is left out" in result.output
    assert len(read_table(tmp_path / "picture.coordinates.csv")) == 5
