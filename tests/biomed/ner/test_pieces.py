import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from biomed.ner import pieces as pieces_module
from biomed.ner.pieces import WordTokenizer, best_window
from domainbert.text.windows import plan_windows


def test_pieces_are_those_of_the_words(tokenizer):
    words = ["Patients", "with", "HEART", "failure", "\x10", "[SEP]", "x"]
    pieces = WordTokenizer(tokenizer).tokenize(words)
    assert pieces.is_read.tolist() == [
        True,
        True,
        True,
        True,
        False,
        True,
        True,
    ]
    assert tokenizer.sep_token_id not in pieces.ids
    options = {"add_special_tokens": False, "split_special_tokens": True}
    alone = [tokenizer.encode(word, **options) for word in words]
    assert pieces.ids.tolist() == [piece for word in alone for piece in word]
    for number in np.flatnonzero(pieces.is_read):
        assert pieces.ids[pieces.first[number]] == alone[number][0]


@given(st.text(alphabet="ab1.- é\u0301\ud800\x00", max_size=30))
def test_any_words(tokenizer, text):
    pieces = WordTokenizer(tokenizer).tokenize(list(text))
    assert len(pieces.first) == len(pieces.is_read) == len(text)
    assert (
        np.diff(pieces.first)
        == np.diff(np.append(pieces.first, len(pieces.ids)))[:-1]
    ).all()


def test_recent_words_are_tokenised_once(tokenizer):
    word_tokenizer = WordTokenizer(tokenizer)
    calls, original = [], word_tokenizer._tokenizer

    class Counting:
        def encode(self, word, **options):
            calls.append(word)
            return original.encode(word, **options)

    word_tokenizer._tokenizer = Counting()
    for words in (["a", "b", "a"], ["b", "c", "d"], ["a", "x"]):
        assert len(word_tokenizer.tokenize(words).first) == len(words)
    assert calls == ["a", "b", "c", "d", "x"]


def test_a_tokenizer_is_sent_to_other_processes(tokenizer):
    word_tokenizer = WordTokenizer(tokenizer)
    pieces = word_tokenizer.tokenize(["heart", "failure-"])
    sent = pickle.loads(pickle.dumps(word_tokenizer))
    assert (
        sent.tokenize(["heart", "failure-"]).ids.tolist()
        == pieces.ids.tolist()
    )


def test_threads_share_a_tokenizer(new_tokenizer, monkeypatch):
    """One thread tokenises while another replaces the full cache."""
    few = lru_cache(10)(pieces_module._pieces.__wrapped__)
    monkeypatch.setattr(pieces_module, "_pieces", few)
    words = [f"{a}{b}" for a in "abcdefgh" for b in "stuvwxyz"]
    alone = {
        word: WordTokenizer(new_tokenizer()).tokenize([word]).ids.tolist()
        for word in words
    }
    word_tokenizer, start = (
        WordTokenizer(new_tokenizer()),
        threading.Barrier(10),
    )

    def work(number):
        draw = np.random.default_rng(number)
        start.wait()
        for _ in range(200):
            some = [str(word) for word in draw.choice(words, 12)]
            assert word_tokenizer.tokenize(some).ids.tolist() == [
                p for word in some for p in alone[word]
            ]

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(work, range(10)))


@given(
    pieces=st.integers(1, 200),
    window=st.integers(4, 40),
    overlap=st.integers(0, 37),
    data=st.data(),
)
def test_every_word_is_read_where_it_has_most_context(
    pieces, window, overlap, data
):
    ranges = plan_windows(
        pieces, capacity=window - 2, overlap=min(overlap, window - 3)
    )
    first = np.array(
        sorted(data.draw(st.sets(st.integers(0, pieces - 1), min_size=1)))
    )

    def context(place, start, end):
        if not start <= place < end:
            return -1
        left = place - start if start else np.inf
        right = end - 1 - place if end < pieces else np.inf
        return min(left, right)

    choice = best_window(first, ranges)
    for place, number in zip(first, choice, strict=True):
        best = max(context(place, *each) for each in ranges)
        assert context(place, *ranges[number]) == best
    assert (np.diff(choice) >= 0).all()
