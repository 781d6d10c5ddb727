import gzip
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from biomed.ner.linking import Dictionary
from domainbert.errors import UserError
from domainbert.tables import TableError
from recipes.dictionaries import (
    app,
    hold_out,
    icd9_names,
    medquad_names,
    score_links,
    vocabulary_names,
)

PAIRS = [
    ("Heart failure", "D1"),
    ("cardiac failure", "D1"),
    ("CHF", "D1"),
    ("Pneumonia", "D2"),
    ("multiple sclerosis", "D3"),
    ("MS", "D3"),
    ("mitral stenosis", "D4"),
    ("MS", "D4"),
    ("disseminated sclerosis", "D3"),
]


class Letters:
    """Vectors of letter counts: near names have near vectors."""

    calls = 0

    def embed_many(self, texts):
        self.calls += 1
        texts = list(texts)
        rows = [[text.casefold().count(chr(97 + i)) for i in range(26)] for text in texts]

        class Part:
            vectors = np.array(rows, dtype=np.float32)

        yield Part

    def fingerprint(self):
        return "letters"


def test_sources(tmp_path):
    rows = [
        {"focus": "Gout", "cuis": ["C1"], "synonyms": ["Podagra", ""]},
        {"focus": "Gout", "cuis": ["C1"], "synonyms": []},
        {"focus": "Gout and feet", "cuis": ["C1", "C2"], "synonyms": []},
    ]
    with gzip.open(tmp_path / "m.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    assert medquad_names(tmp_path / "m.jsonl.gz") == [("Gout", "UMLS:C1"), ("Podagra", "UMLS:C1")]
    (tmp_path / "icd.txt").write_text("0010  Cholera\nV10  Old cancer\n")
    assert icd9_names(tmp_path / "icd.txt") == [
        ("Cholera", "ICD9:001.0"),
        ("Old cancer", "ICD9:V10"),
    ]
    (tmp_path / "icd.txt").write_text("0010\n")
    with pytest.raises(TableError, match="line 1: expected a code and its title"):
        icd9_names(tmp_path / "icd.txt")
    assert ("heart attack", "TERM:myocardial infarction") in vocabulary_names()


def test_held_out_names():
    rest, held = hold_out(Dictionary(PAIRS))
    assert {id_ for _, id_ in held} == {"D1", "D3", "D4"}
    assert len(rest) == len(PAIRS) - 3
    assert not {"Heart failure", "multiple sclerosis"} & {name for name, _ in held}
    by_name, by_vectors, *both = score_links(rest, held, embedder=Letters())
    assert (by_name.names, by_vectors.linked) == (3, 3)
    assert both[0].linked >= both[-1].linked
    assert 0 <= by_name.accuracy <= by_name.precision <= 1
    with pytest.raises(UserError, match="nothing to hold out"):
        hold_out(Dictionary([("a", "1"), ("b", "2")]))


def test_commands(tmp_path):
    run = CliRunner().invoke
    out = str(tmp_path / "names.csv")
    assert run(app, ["build", "--out", out, "--vocabulary"]).exit_code == 0
    result = run(app, ["evaluate", out, "--json", str(tmp_path / "links.json")])
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "links.json").read_text())["names"]["names"] > 500
    result = run(app, ["build", "--out", out])
    assert (result.exit_code, "name at least one source" in result.output) == (1, True)
