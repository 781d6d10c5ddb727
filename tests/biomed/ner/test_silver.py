import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from biomed.corpora import CorpusError, Gold, TaggedText
from biomed.corpora.formats import read_iob2
from biomed.ner.commands import app
from biomed.ner.evaluation import TaggerEnsemble, evaluate_words
from biomed.ner.examples import RUN
from biomed.ner.network import WordTagger
from experiments.comparison import compare
from experiments.silver import main, read_texts, silver_texts, write_iob2

ROOT = Path(__file__).parents[3]
SENTENCES = [("heart", "failure", "was", "stable"), ("insulin", "and", "edema"), ("\x10", "pain")]


@pytest.fixture(scope="module")
def three(new_random, tokenizer):
    """Random networks that disagree."""
    return [WordTagger(new_random(tokenizer, seed=seed), tokenizer) for seed in range(3)]


def test_one_network_is_itself(three):
    assert TaggerEnsemble(three[:1]).tags(SENTENCES) == three[0].tags(SENTENCES)


def test_the_mean_probability_decides(three):
    ensemble = TaggerEnsemble(three)
    pieces = [three[0].reader.read(words) for words in SENTENCES]
    each = [np.exp(model.log_probabilities(pieces)) for model in three]
    mean = np.exp(ensemble.log_probabilities(pieces))
    np.testing.assert_allclose(mean, np.mean(each, axis=0), rtol=1e-5)
    np.testing.assert_allclose(mean.sum(axis=1), 1, rtol=1e-5)


def test_an_outvoted_network_loses(disease, new_rules, tokenizer):
    """Two of three know nothing but O: the mean of the third's certainty is too little."""
    blind = new_rules(tokenizer)
    blind.classifier.weight.data[1:] = 0.0
    blind.classifier.bias.data[1:] = -4.0
    sceptics = [WordTagger(blind, tokenizer)] * 2
    assert disease.tags([("heart",)]) == [["B-Disease"]]
    assert TaggerEnsemble([disease, *sceptics]).tags([("heart",)]) == [["O"]]


def test_an_ensemble_is_scored_like_a_model(disease):
    gold = Gold("g", (TaggedText(("heart", "failure", "was"), ("B-Disease", "I-Disease", "O")),))
    assert evaluate_words(TaggerEnsemble([disease, disease]), gold).overall.f1 == 1.0


def test_models_that_cannot_vote_together(disease, drug, new_rules, new_tokenizer):
    with pytest.raises(ValueError, match="models with the same entity types"):
        TaggerEnsemble([disease, drug])
    with pytest.raises(ValueError, match="models with the same entity types"):
        TaggerEnsemble([])
    other = new_tokenizer(lower_case=False)
    with pytest.raises(ValueError, match="models with the same tokenizer"):
        TaggerEnsemble([disease, WordTagger(new_rules(disease.tokenizer), other)])


def test_silver_texts_are_words_with_tags(disease):
    texts = ["no heart failure, home", " ", "", "was stable"] * 300
    found = list(silver_texts(TaggerEnsemble([disease]), texts))
    assert len(found) == 600
    assert found[0].words == ("no", "heart", "failure", ",", "home")
    assert found[0].tags == ("O", "B-Disease", "I-Disease", "O", "O")
    assert found[599].tags == ("O", "O")


def test_lines_of_text_and_rows_of_tables(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo words\n")
    with gzip.open(tmp_path / "b.txt.gz", "wt") as handle:
        handle.write("one\n\ntwo words\n")
    (tmp_path / "c.jsonl").write_text('{"text": "one"}\n{"text": "two words"}\n')
    for name in ("a.txt", "b.txt.gz", "c.jsonl"):
        assert [text.strip() for text in read_texts(tmp_path / name)] == ["one", "two words"]
    assert len(list(read_texts(tmp_path))) == 6


@pytest.mark.parametrize("share", [0.1, 0.25, 0.7])
def test_a_share_is_runs_of_neighbours(tmp_path, share):
    (tmp_path / "a.txt").write_text("".join(f"{number}\n" for number in range(100 * RUN)))
    numbers = [int(text) for text in read_texts(tmp_path / "a.txt", share=share)]
    assert len(numbers) == pytest.approx(100 * share * RUN, abs=RUN)
    runs = np.array(numbers).reshape(-1, RUN)
    assert (np.diff(runs, axis=1) == 1).all()
    assert np.ptp(np.diff(runs[:, 0])) <= RUN  # evenly spread


def test_a_share_of_few_texts_is_not_nothing(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    assert len(list(read_texts(tmp_path / "a.txt", share=0.01))) == 2


def test_a_byte_order_mark_is_no_word(disease):
    (text,) = silver_texts(TaggerEnsemble([disease]), ["\ufeffheart failure"])
    assert text.words == ("heart", "failure")


def test_what_cannot_be_read(tmp_path):
    with pytest.raises(ValueError, match="no such file"):
        list(read_texts(tmp_path / "absent.txt"))
    (tmp_path / "a.txt").write_text("one\n")
    for share in (0.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match="share: expected a number above 0"):
            list(read_texts(tmp_path / "a.txt", share=share))


def test_what_is_written_is_what_is_read(tmp_path):
    texts = [TaggedText(("heart", "\u00e9"), ("B-x", "O")), TaggedText(("a\u2028b",), ("B-x",))]
    write_iob2(iter(texts), tmp_path / "out.tsv")
    assert read_iob2(tmp_path / "out.tsv") == texts


def test_nothing_is_left_where_writing_failed(tmp_path):
    def broken():
        yield TaggedText(("a",), ("O",))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_iob2(broken(), tmp_path / "out.tsv")
    for word in ("", " a", "a\tb", "a\n", "-DOCSTART-", "\ufeffa"):
        with pytest.raises(CorpusError, match="a word that IOB2 cannot hold"):
            write_iob2([TaggedText((word,), ("O",))], tmp_path / "out.tsv")
    with pytest.raises(CorpusError, match="no text"):
        write_iob2([], tmp_path / "out.tsv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("script", ["silver", "comparison"])
def test_scripts_run(script):
    command = [sys.executable, "-m", f"experiments.{script}", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert shown.returncode == 0, shown.stderr


def test_silver_is_a_corpus_that_training_takes(disease, tiny_encoder, tmp_path):
    disease.save_pretrained(tmp_path / "disease")
    (tmp_path / "texts.txt").write_text("heart failure again\nno pneumonia\n\nwas edema\n")
    folder = str(tmp_path / "disease")
    main(tmp_path / "texts.txt", model=[folder, folder], out=tmp_path / "silver", share=1.0)
    tagged = (tmp_path / "silver" / "train.tsv").read_text()
    assert tagged.startswith("heart\tB-Disease\nfailure\tI-Disease\nagain\tO\n\nno\tO\n")
    (tmp_path / "gold").mkdir()
    for side in ("train", "devel"):
        text = f"{side}\tO\nheart\tB-Disease\nfailure\tI-Disease\n\ninsulin\tO\n"
        (tmp_path / "gold" / f"{side}.tsv").write_text(text)
    corpora = [str(tmp_path / "gold"), str(tmp_path / "silver")]
    for name, epochs in (("model", "1"), ("longer", "2")):
        options = ["--encoder", str(tiny_encoder), "--epochs", epochs]
        arguments = ["train", *corpora, *options, "--out", str(tmp_path / name)]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
    table = compare([tmp_path / "model", tmp_path / "longer"])
    assert list(table) == ["model", "epochs", "seeds", "gold devel"]
    assert list(table["epochs"]) == ["1", "2"]
    with pytest.raises(typer.Exit):
        main(tmp_path / "texts.txt", model=[folder], out=tmp_path / "silver", share=1.0)
