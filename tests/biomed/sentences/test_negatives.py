import numpy as np
import pytest
from typer.testing import CliRunner

from biomed.cli import app
from biomed.sentences.data import Examples, read_examples
from biomed.sentences.negatives import mine_negatives
from domainbert.errors import UserError
from domainbert.pooling import unit

PAIRS = Examples(
    first=["chest pain", "chest pain", "kidney failure", "no fever"],
    second=["pain of the chest", "pulmonary edema", "renal disease", "patient afebrile"],
    third=[],
    labels=[],
)


@pytest.mark.parametrize(("count", "margin"), [(1, 0.0), (2, 0.0), (9, 0.02)])
def test_negatives_are_the_nearest_texts_that_are_not_right(encoder, monkeypatch, count, margin):
    monkeypatch.setattr("biomed.sentences.negatives.BLOCK_ROWS", 2)
    monkeypatch.setattr("domainbert.ranking.QUERIES", 1)
    found = mine_negatives(PAIRS, encoder, count=count, margin=margin)
    expected = []
    texts = PAIRS.second
    for query in dict.fromkeys(PAIRS.first):
        right = [t for q, t in zip(PAIRS.first, texts, strict=True) if q == query]
        cosine = dict(
            zip(texts, unit(encoder.encode(texts)) @ unit(encoder.encode(query)), strict=True)
        )
        for answer in right:
            near = sorted(set(texts) - set(right), key=lambda text: -cosine[text])
            near = [text for text in near if cosine[text] <= cosine[answer] - margin]
            expected += [(query, answer, text) for text in near[:count]]
    assert list(zip(found.first, found.second, found.third, strict=True)) == expected
    assert expected


def test_a_query_that_is_a_text_is_not_its_own_negative(encoder):
    pairs = Examples(["pain", "fever"], ["chest pain", "pain"], [], [])
    found = mine_negatives(pairs, encoder, margin=0)
    assert all(query != negative for query, negative in zip(found.first, found.third, strict=True))


def test_the_command_writes_triplets(tiny_encoder, tmp_path):
    lines = [f"{q},{t}" for q, t in zip(PAIRS.first, PAIRS.second, strict=True)]
    (tmp_path / "p.csv").write_text("\n".join(["query,passage", *lines]) + "\n")
    options = ["--model", str(tiny_encoder), "--margin", "0", "--out", str(tmp_path / "t.csv")]
    done = CliRunner().invoke(app, ["sentences", "mine", str(tmp_path / "p.csv"), *options])
    assert done.exit_code == 0, done.output
    triplets = read_examples(tmp_path / "t.csv")
    assert len(triplets.third) == len(triplets) > 0


def test_bad_input_is_one_line(encoder):
    with pytest.raises(UserError, match="expected count and among from 1 and margin from 0, got 0"):
        mine_negatives(PAIRS, encoder, count=0)
    with pytest.raises(UserError, match="text number 1 has no vector: no text"):
        mine_negatives(Examples(["a", "b"], ["c", " "], [], []), encoder)


def test_no_pair_is_left_without_a_word(encoder, caplog):
    caplog.set_level("INFO")
    same = Examples(["pain"], ["fever"], [], [])
    assert len(mine_negatives(same, encoder)) == 0
    assert "1 of 1 pairs have no negative by this margin" in caplog.text
    assert np.isfinite(encoder.encode("pain")).all()
