"""Search: every passage is found at its place, by meaning, by words, and reranked."""

import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from biomed.sentences.commands import app
from biomed.sentences.encoder import SentenceEncoder
from biomed.sentences.evaluation import evaluate_retrieval
from biomed.sentences.search import SentenceIndex
from biomed.sentences.task import EncodeTask, PairTask, SearchTask, read_texts
from domainbert.errors import UserError
from domainbert.models.pairs import PairSettings
from domainbert.models.pooling import unit
from domainbert.scoring import score_frame
from domainbert.search import Hits, WordIndex, fuse
from domainbert.search.vectors import VectorIndex

TEXTS = [
    "Heart failure with edema. " * 12 + "Treated with furosemide.",
    "Pneumonia and fever.",
    "",
    "Renal disease: insulin stopped.",
]
IDS = ["n1", "n2", "n3", "038"]


@pytest.fixture
def index(encoder, tmp_path):
    return SentenceIndex.build(
        TEXTS, encoder, ids=IDS, folder=tmp_path / "i", window=24
    )


def test_a_passage_is_found_with_its_place(index, encoder):
    for number in (0, 1, 3):
        (part,) = encoder.embed_passages([TEXTS[number]], window=24)
        for passage in part.texts[0].windows:
            start, end = passage.start, passage.end
            (best, *_) = index.search(TEXTS[number][start:end], k=3)[0]
            assert best.rank == 1
            assert best.id == IDS[number]
            assert best.text == TEXTS[number][start:end]
            assert TEXTS[number][best.start : best.end] == best.text
            assert best.score == pytest.approx(1, abs=1e-4)


def test_scores_are_the_cosines_of_all_passages(index, encoder):
    (part,) = encoder.embed_passages(TEXTS, window=24)
    cosines = unit(part.vectors) @ unit(encoder.encode("fever and pain"))
    (found,) = index.search("fever and pain", k=99)
    assert len(found) == len(index) == len(cosines) > 4
    assert [p.score for p in found] == pytest.approx(
        sorted(cosines, reverse=True), abs=1e-5
    )
    assert [p.rank for p in found] == list(range(1, len(found) + 1))


def test_an_index_is_opened_and_added_to(index, encoder, tmp_path):
    before = len(index)
    again = SentenceIndex.open(tmp_path / "i", encoder)
    again.add(["Chest pain.", None], ids=["n5", "n6"])
    assert again.faults == {"n6": "no text"}
    assert len(SentenceIndex.open(tmp_path / "i", encoder)) == before + 1
    assert again.search("Chest pain.", k=1)[0][0].id == "n5"


def test_texts_without_ids_are_numbered_on(encoder):
    index = SentenceIndex.build(TEXTS[:2], encoder)
    index.add(["Chest pain.", "Stable."])
    assert index.search(["Chest pain.", "Stable."], k=1)[1][0].id == "3"


def test_texts_without_a_passage_keep_their_numbers(encoder, tmp_path):
    index = SentenceIndex.build(["Fever.", ""], encoder, folder=tmp_path / "i")
    assert index.faults == {"1": "no text"}
    SentenceIndex.open(tmp_path / "i", encoder).add(
        ["Chest pain.", "Stable."], ids=["9", "x"]
    )
    index = SentenceIndex.open(tmp_path / "i", encoder)
    index.add(["Insulin."])
    assert index.vectors.rows(range(4))["id"].tolist() == ["0", "9", "x", "10"]


def names(folder):
    return {path.relative_to(folder) for path in folder.rglob("*")}


def files(folder):
    return {
        p.name: p.read_bytes() for p in folder.iterdir() if p.name != ".lock"
    }


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (20, "there are more texts than ids"),
        (31, "there are more ids than texts"),
    ],
)
def test_texts_are_added_all_or_none(index, encoder, tmp_path, ids, message):
    index.vectors.block_rows = 4
    encoder.runner.buffer_tokens = 40  # several pieces
    texts = [
        f"{text} {number}"
        for number in range(10)
        for text in ("Fever.", "Pain.", "Edema.")
    ]
    before, files_before = len(index), files(tmp_path / "i")
    with pytest.raises(UserError, match=message):
        index.add(texts, ids=map(str, range(ids)))
    assert files(tmp_path / "i") == files_before
    assert len(index) == before
    with pytest.raises(UserError, match=message):
        SentenceIndex.build(
            texts, encoder, ids=map(str, range(ids)), folder=tmp_path / "new"
        )
    assert not (tmp_path / "new").exists()
    index.add(texts, ids=map(str, range(30)))
    found = SentenceIndex.open(tmp_path / "i", encoder).vectors.rows(
        range(before, before + 30)
    )
    assert found["id"].tolist() == [str(number) for number in range(30)]
    assert found["text"].tolist() == texts


def test_the_command_indexes_a_table_or_leaves_things_as_they_were(
    encoder, tmp_path
):
    notes, out = tmp_path / "notes.csv", tmp_path / "out"
    encoder.save_pretrained(tmp_path / "model")
    encoder = SentenceEncoder.from_pretrained(tmp_path / "model")
    command = ["index", notes, "--out", out, "--model", tmp_path / "model"]

    def run(*options):
        return CliRunner().invoke(app, [*map(str, command), *options])

    notes.write_text('id,text\na,Fever.\nb,"Pain."x\n')
    assert run().exit_code == 1
    notes.write_text("id,text\na,Fever.\nb,Pain.\n")
    assert run("--window", "9999").exit_code == 1
    assert not out.exists()
    assert run("--window", "20").exit_code == 0
    before = files(out)
    assert run("--window", "30").exit_code == 2
    assert run().exit_code == 1  # these texts are in it
    assert files(out) == before
    notes.write_text("id,text\nc,Cough.\nd,Pain.\n")
    assert run().exit_code == 0
    assert len(SentenceIndex.open(out, encoder)) == 4


@pytest.mark.parametrize(
    ("first", "options"), [([], ["--window", "20"]), ([4], [])]
)
def test_an_index_is_whole_after_a_death_at_any_moment_and_a_second_start(
    encoder, tmp_path, monkeypatch, deaths, first, options
):
    monkeypatch.setattr(
        "biomed.sentences.commands._encoder", lambda *_: encoder
    )
    monkeypatch.setattr(VectorIndex, "block_rows", 4)
    encoder.runner.buffer_tokens = 40  # several pieces
    source = tmp_path / "notes.csv"

    def run(folder):
        command = ["index", str(source), "--out", str(folder / "i"), *options]
        return CliRunner().invoke(app, command).exit_code

    def texts(folder):
        if not (folder / "i").exists():
            return []
        vectors = SentenceIndex.open(folder / "i", encoder).vectors
        return list(vectors.stored("text"))

    start = tmp_path / "start"
    start.mkdir()
    for number in first:
        SentenceIndex.build(
            [f"Pain {n}." for n in range(number)], encoder, folder=start / "i"
        )
    source.write_text("text\n" + "".join(f"Fever {n}.\n" for n in range(7)))
    before = texts(start)
    whole = shutil.copytree(start, tmp_path / "whole")
    assert run(whole) == 0
    after = texts(whole)
    killed = shutil.copytree(start, tmp_path / "killed")
    for _ in deaths(lambda: run(killed)):
        left = texts(killed)
        assert left in (before, after)
        assert (run(killed) == 0) == (left == before)  # else refused: known
        assert texts(killed) == after
        assert names(killed) == names(whole)
        shutil.rmtree(killed)
        shutil.copytree(start, killed)


def test_passages_of_many_texts_lie_in_one_part(encoder, monkeypatch):
    encoder.runner.buffer_tokens = 40  # several pieces
    index = SentenceIndex.build(TEXTS * 5, encoder, window=24)
    assert len(list(index.vectors.folder.glob("part-*.arrow"))) == 1
    calls = []
    rows = index.vectors.rows
    monkeypatch.setattr(
        index.vectors, "rows", lambda n: calls.append(len(n)) or rows(n)
    )
    found = index.search(["fever", "insulin"], k=3)
    assert calls == [6]  # the hits of all queries are looked up together
    for query, together in zip(("fever", "insulin"), found, strict=True):
        (alone,) = index.search(query, k=3)
        assert [(p.id, p.start) for p in together] == [
            (p.id, p.start) for p in alone
        ]
        assert [p.score for p in together] == pytest.approx(
            [p.score for p in alone], abs=1e-5
        )


def test_another_encoder_is_refused(index, new_network, tokenizer, tmp_path):
    from biomed.sentences.encoder import SentenceEncoder

    other = SentenceEncoder(new_network(seed=9).bert, tokenizer)
    with pytest.raises(UserError, match="was built with another encoder"):
        SentenceIndex.open(tmp_path / "i", other)


def test_bad_input_is_refused(index, encoder):
    with pytest.raises(UserError, match="there are more texts than ids"):
        index.add(["a", "b"], ids=["x"])
    with pytest.raises(
        UserError, match="expected a list of texts, got one string"
    ):
        SentenceIndex.build("asthma", encoder)
    with pytest.raises(
        UserError, match="query number 0 cannot be searched: no text"
    ):
        index.search([""])
    with pytest.raises(UserError, match="k must be at least 1"):
        index.search("fever", k=0)
    assert index.search([]) == []


def test_reranking_orders_the_candidates_by_the_cross_encoder(index, cross):
    (plain,) = index.search("fever", k=5)
    (found,) = index.search("fever", k=3, rerank=cross, candidates=5)
    scores = sorted(
        (cross.predict("fever", p.text).score for p in plain), reverse=True
    )
    assert [p.score for p in found] == pytest.approx(scores[:3], abs=1e-5)
    for p in found:
        assert p.score == pytest.approx(
            cross.predict("fever", p.text).score, abs=1e-5
        )
    assert [p.rank for p in found] == [1, 2, 3]


def test_a_weight_joins_the_logit_with_the_cosine(index, cross):
    (by_meaning,) = index.search("fever", k=5)
    cross.settings = PairSettings(weight=0.5)
    (reranked,) = index.search("fever", k=3, rerank=cross, candidates=5)
    scores = {
        (hit.id, hit.start): hit.score
        + 0.5 * cross.predict("fever", hit.text).logit
        for hit in by_meaning
    }
    best = sorted(scores.values(), reverse=True)[:3]
    assert [hit.score for hit in reranked] == pytest.approx(best, abs=1e-5)
    for hit in reranked:
        expected = scores[hit.id, hit.start]
        assert hit.score == pytest.approx(expected, abs=1e-5)


def test_as_many_as_candidates_are_reranked_and_the_others_follow(
    index, cross
):
    (plain,) = index.search("fever", k=6)
    (found,) = index.search("fever", k=6, rerank=cross, candidates=2)
    assert {p.start for p in found[:2]} == {p.start for p in plain[:2]}
    assert [p.score for p in found[:2]] == pytest.approx(
        sorted(
            (cross.predict("fever", p.text).score for p in plain[:2]),
            reverse=True,
        ),
        abs=1e-5,
    )
    assert [replace(p, score=0) for p in found[2:]] == [
        replace(p, score=0) for p in plain[2:]
    ]


def test_recall_counts_texts_not_passages(encoder, cross, monkeypatch):
    monkeypatch.setattr("biomed.sentences.evaluation.RECALLS", (1, 3))
    texts = [
        f"{word} " * 600 for word in ("Pain", "Fever", "Edema", "Insulin")
    ]
    ranks = []
    monkeypatch.setattr(
        "biomed.sentences.evaluation.measure_rankings",
        lambda ranked, _: ranks.append(ranked),
    )
    pairs = pd.DataFrame({"first": ["pain"] * 4, "second": texts})
    evaluate_retrieval(encoder, pairs, rerank=cross, candidates=2)
    assert len(ranks) == 2
    assert all(len(set(row)) >= 3 for ranked in ranks for row in ranked)


def test_words_rank_by_bm25_and_leave_out_texts_without_a_word(index):
    words = index.words()
    hits = words.search(["furosemide", "xylophone"], k=5)
    rows = index.vectors.rows(hits.rows[0][hits.rows[0] >= 0])
    assert ["furosemide" in text for text in rows["text"]] == [True]
    assert (hits.rows[1] == -1).all()
    (found,) = index.search("furosemide", k=4, words=words)
    assert "furosemide" in found[0].text


def test_bm25_is_the_formula():
    texts = ["pain fever pain", "fever edema", "insulin edema kidney lung"]
    scores = WordIndex(texts).search(["pain fever"], k=3)
    lengths, mean, k1, b = [3, 2, 4], 3.0, 1.5, 0.75
    counts = {"pain": [2, 0, 0], "fever": [1, 1, 0]}
    expected = [0.0, 0.0, 0.0]
    for of in counts.values():
        there = sum(c > 0 for c in of)
        weight = np.log(1 + (3 - there + 0.5) / (there + 0.5))
        for text in range(3):
            scale = k1 * (1 - b + b * lengths[text] / mean)
            expected[text] += (
                weight * of[text] / (of[text] + scale)
            )  # as Lucene has it
    assert scores.rows[0].tolist() == [0, 1, -1]
    assert scores.scores[0, :2] == pytest.approx(expected[:2], abs=1e-4)


def test_rankings_are_joined_by_reciprocal_ranks():
    first = Hits(np.array([[4, 7, -1]]), np.array([[0.9, 0.5, np.nan]]))
    second = Hits(np.array([[7, 2, 4]]), np.array([[9.0, 8.0, 7.0]]))
    joined = fuse([first, second], k=4)
    assert joined.rows.tolist() == [[7, 4, 2, -1]]
    expected = [1 / 62 + 1 / 61, 1 / 61 + 1 / 63, 1 / 62]
    assert joined.scores[0, :3] == pytest.approx(expected)


# Tables


def test_every_query_of_a_table_gets_its_passages(index):
    frame = pd.DataFrame(
        {"id": ["a", "b", "c"], "query": ["fever", None, "insulin"]}
    )
    table = score_frame(SearchTask(index, k=2), frame)
    assert table["id"].tolist() == ["a", "a", "b", "c", "c"]
    assert table["status"].tolist() == ["ok", "ok", "empty", "ok", "ok"]
    (expected,) = index.search("insulin", k=2)
    assert table["passage"].tolist()[3:] == [p.text for p in expected]
    assert table["found_id"].tolist()[3:] == [p.id for p in expected]


def test_a_query_too_long_to_be_reranked_does_not_end_the_others(index, cross):
    long = "pain " * 120
    frame = pd.DataFrame({"query": ["fever", long, "insulin"]})
    table = score_frame(SearchTask(index, k=1, rerank=cross), frame)
    assert table["status"].tolist() == ["ok", "error", "ok"]
    assert (
        "to be reranked, it has 120 tokens, expected 1 to"
        in table["reason"][1]
    )
    assert (
        score_frame(SearchTask(index, k=1), frame)["status"].tolist()
        == ["ok"] * 3
    )
    with pytest.raises(
        UserError, match=r"query number 1 cannot .* to be reranked, it has"
    ):
        index.search(["fever", long], rerank=cross)


def test_every_text_of_a_table_gets_its_vector(encoder):
    frame = pd.DataFrame({"text": ["fever", "", TEXTS[0]]})
    table = score_frame(EncodeTask(encoder), frame)
    assert table["status"].tolist() == ["ok", "empty", "ok"]
    assert table["reason"].tolist()[2].startswith("read in ")
    vectors = table.filter(regex=r"^v\d+$").to_numpy(dtype=np.float32)
    assert vectors[2] == pytest.approx(encoder.encode(TEXTS[0]), abs=1e-5)


def test_every_pair_of_a_table_gets_its_score(cross):
    frame = pd.DataFrame(
        {
            "query": ["fever", "pain", "was " * 70],
            "text": ["stable", None, "pain"],
        }
    )
    table = score_frame(PairTask(cross), frame)
    assert table["status"].tolist() == ["ok", "empty", "error"]
    assert table["score"][0] == pytest.approx(
        cross.predict("fever", "stable").score
    )
    assert table["reason"][1] == "second: no text"
    assert "has 70 tokens" in table["reason"][2]


def test_texts_are_streamed_with_their_ids(tmp_path):
    path = tmp_path / "notes.csv"
    path.write_text("note_id,text\n038,Fever.\n2,\n")
    texts, ids = read_texts(path)
    assert list(texts) == ["Fever.", None]
    assert list(ids) == ["038", "2"]
    path.write_text("body\nFever.\n")
    texts, ids = read_texts(path, text="body")
    assert list(texts) == ["Fever."]
    assert ids is None


def test_the_command_prints_passages_as_they_are(encoder, tmp_path):
    """A passage with [/x] ended the command, and [left] was not printed."""
    encoder.save_pretrained(tmp_path / "model")
    encoder = SentenceEncoder.from_pretrained(tmp_path / "model")
    SentenceIndex.build(
        ["Pain [left] [/x] \x1b[31m knee"], encoder, folder=tmp_path / "i"
    )
    result = CliRunner().invoke(
        app,
        ["search", "pain", "--index", str(tmp_path / "i")]
        + ["--model", str(tmp_path / "model")],
    )
    assert result.exit_code == 0, result.output
    shown = "".join(result.output.split())
    assert "[left]" in shown
    assert "[/x]" in shown
    assert "\x1b[31m" not in result.output


@pytest.mark.parametrize("ids", [IDS, None])
def test_texts_that_are_indexed_already_are_refused(encoder, ids):
    built = SentenceIndex.build(TEXTS, encoder, ids=ids)
    size = len(built)
    with pytest.raises(
        UserError, match="are in the index already, the first with id"
    ):
        built.add(TEXTS, ids=ids)
    assert len(built) == size
    built.add(["Pneumonia and fever.", "A text that is new."])
    assert len(built) == size + 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 2.5}, "k: expected a whole number, such as 10, got 2.5"),
        ({"k": True}, "k: expected a whole number"),
        (
            {"words": True},
            r"words: expected a WordIndex, such as index.words\(\)",
        ),
    ],
)
def test_options_of_another_type_get_a_sentence(index, options, message):
    with pytest.raises(UserError, match=message):
        index.search("fever", **options)
