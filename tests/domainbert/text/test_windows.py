import pickle
import time
import tracemalloc
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domainbert.encoders.configs import window_limit
from domainbert.errors import UserError
from domainbert.text.windows import (
    INVISIBLE,
    LONGEST_TEXT,
    NOT_TEXT,
    UNKNOWN,
    Windower,
    plan_windows,
    too_long,
)

KNOWN = [
    "patient",
    "denies",
    "chest",
    "pain",
    "Furosemide",
    "HEART",
    "failure",
    ".",
    "!",
    "3",
]
GAPS = [" ", "  ", "\n", "\r\n", "\t", "\n\n", "\u00a0", " \u2003"]
ANY_TEXT = st.text(max_size=120) | st.text(
    alphabet="ab. \n!3é漢[SEP]_", max_size=300
)


def ids_of(tokenizer, text):
    return tokenizer(
        text, add_special_tokens=False, split_special_tokens=True
    )["input_ids"]


def content(windowed):
    return [
        int(i) for window in windowed.windows for i in window.input_ids[1:-1]
    ]


@given(text=ANY_TEXT, window=st.integers(3, 40))
def test_windows_hold_every_token_once(tokenizer, text, window):
    windowed = Windower(tokenizer, window=window, limit=64).split(text)
    expected = ids_of(tokenizer, text)
    assert content(windowed) == expected
    assert windowed.tokens == len(expected)
    for part in windowed.windows:
        assert 3 <= len(part) <= window
        assert part.input_ids[0] == tokenizer.cls_token_id
        assert part.input_ids[-1] == tokenizer.sep_token_id
        assert part.input_ids.dtype == np.int64


@given(text=ANY_TEXT, window=st.integers(4, 30), overlap=st.integers(0, 27))
def test_consecutive_windows_share_the_overlap(
    tokenizer, text, window, overlap
):
    overlap = min(overlap, window - 3)
    parts = (
        Windower(tokenizer, window=window, overlap=overlap, limit=64)
        .split(text)
        .windows
    )
    contents = [part.input_ids[1:-1].tolist() for part in parts]
    for before, after in zip(contents, contents[1:], strict=False):
        assert after[:overlap] == before[len(before) - overlap :]
        assert len(after) > overlap
    joined = contents[:1] + [part[overlap:] for part in contents[1:]]
    assert [i for part in joined for i in part] == ids_of(tokenizer, text)


@given(
    tokens=st.integers(0, 300),
    capacity=st.integers(1, 50),
    overlap=st.integers(0, 49),
    seed=st.integers(0, 9),
)
def test_plan_covers_the_run_and_cuts_only_in_the_last_eighth(
    tokens, capacity, overlap, seed
):
    overlap = min(overlap, capacity - 1)
    good = np.random.default_rng(seed).random(tokens) < 0.2
    plan = plan_windows(
        tokens, capacity=capacity, overlap=overlap, good_cuts=good
    )
    assert bool(plan) == bool(tokens)
    if not plan:
        return
    assert plan[0][0] == 0
    assert plan[-1][1] == tokens
    for (start, end), (after, _) in zip(plan, plan[1:], strict=False):
        assert after == end - overlap
        assert after > start
        assert capacity - capacity // 8 <= end - start <= capacity
        allowed = range(
            max(start + capacity - capacity // 8, start + overlap + 1), end + 1
        )
        later_cuts = [
            e for e in range(end + 1, start + capacity + 1) if good[e - 1]
        ]
        assert not later_cuts or not any(good[e - 1] for e in allowed)
        if end - start < capacity:
            assert good[end - 1]


@pytest.mark.parametrize(
    ("good", "first"),
    [([12], 16), ([13], 14), ([14], 15), ([13, 14], 15), ([15], 16), ([], 16)],
)
def test_cut_takes_the_last_good_place_within_the_last_eighth(good, first):
    cuts = np.isin(np.arange(40), good)
    assert plan_windows(40, capacity=16, good_cuts=cuts)[0] == (0, first)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("pain " * 14 + ". " + "pain " * 30, 15),  # a sentence ends
        ("pain " * 14 + "\n" + "pain " * 30, 14),  # a line ends
        ("pain " * 14 + "! pain\n" + "pain " * 30, 16),  # the later of the two
        (
            "pain " * 13 + "3.5 " + "pain " * 30,
            16,
        ),  # no sentence ends inside a number
        ("pain " * 12 + "\n" + "pain " * 30, 16),  # too early to be worth it
        ("pain " * 12 + ". " + "pain " * 30, 16),
        ("pain " * 45, 16),
    ],
)
def test_cut_prefers_the_end_of_a_sentence_or_line(tokenizer, text, first):
    windows = Windower(tokenizer, window=18, limit=64).split(text).windows
    assert len(windows[0]) == first + 2


@pytest.mark.parametrize("overlap", [16, 17, 400, -1])
def test_overlap_without_room_to_move_on_raises(tokenizer, overlap):
    with pytest.raises(
        ValueError, match=f"between 0 and 15 .*window - 2.*got {overlap}"
    ):
        Windower(tokenizer, window=18, overlap=overlap, limit=64)


@pytest.mark.parametrize("window", [2, 0, -5, 65, 512])
def test_window_out_of_the_encoders_range_raises(tokenizer, window):
    with pytest.raises(
        ValueError, match=f"window must be between 3 and 64, got {window}"
    ):
        Windower(tokenizer, window=window, limit=64)


def test_no_capacity_raises():
    with pytest.raises(ValueError, match="at least one token"):
        plan_windows(5, capacity=0)


@pytest.mark.parametrize("claim", [8, 128, 512, 10**30])
def test_limit_is_the_configs_whatever_the_tokenizer_claims(
    new_tokenizer, network, claim
):
    tokenizer = new_tokenizer()
    tokenizer.model_max_length = claim
    limit = window_limit(network.config)
    assert limit == 64
    windowed = Windower(tokenizer, window=limit, limit=limit).split(
        "pain " * 200
    )
    assert [len(part) for part in windowed.windows] == [64, 64, 64, 16]
    assert content(windowed) == ids_of(new_tokenizer(), "pain " * 200)


def test_truncation_and_padding_of_the_tokenizer_file_are_not_obeyed(
    new_tokenizer,
):
    tokenizer = new_tokenizer()
    tokenizer.backend_tokenizer.enable_truncation(8)
    tokenizer.backend_tokenizer.enable_padding(length=30)
    windowed = Windower(tokenizer, window=64, limit=64).split_many(
        ["pain " * 100, "pain"]
    )
    assert [parts.tokens for parts in windowed] == [100, 1]


@given(
    words=st.lists(
        st.tuples(st.sampled_from(KNOWN), st.sampled_from(GAPS)), max_size=80
    ),
    lead=st.sampled_from(["", "\n\n ", "\t"]),
    window=st.integers(3, 30),
)
def test_a_windows_span_reads_as_its_content(tokenizer, words, lead, window):
    text = lead + "".join(word + gap for word, gap in words)
    parts = Windower(tokenizer, window=window, limit=64).split(text).windows
    covered = np.zeros(len(text), dtype=int)
    for part in parts:
        assert (
            ids_of(tokenizer, text[part.start : part.end])
            == part.input_ids[1:-1].tolist()
        )
        assert not text[part.start].isspace()
        covered[part.start : part.end] += 1
    assert covered.max(initial=0) <= 1
    assert "".join(np.array(list(text))[covered == 0]).strip() == ""


@pytest.mark.parametrize("lower_case", [True, False])
def test_special_tokens_in_the_text_stay_text(new_tokenizer, lower_case):
    tokenizer = new_tokenizer(lower_case=lower_case)
    special = {
        tokenizer.cls_token_id,
        tokenizer.sep_token_id,
        tokenizer.mask_token_id,
        tokenizer.pad_token_id,
    }
    text = "pain [SEP] [MASK][CLS] [PAD] pain"
    assert special & set(
        tokenizer(text, add_special_tokens=False)["input_ids"]
    )  # by default
    windower = Windower(tokenizer, window=64, limit=64)
    for each in (
        windower,
        pickle.loads(pickle.dumps(windower)),
    ):  # as workers of a cluster get it
        windowed = each.split(text)
        assert not special & set(content(windowed))
        assert windowed.windows[0].start == 0
        assert windowed.windows[0].end == len(text)


def unread(tokenizer, text):
    parts = Windower(tokenizer, window=8, limit=64).split(text).unread
    return [(part.start, part.end, part.reason) for part in parts]


def test_unknown_words_are_listed(tokenizer):
    assert unread(tokenizer, "pain 漢 is µg") == [
        (5, 6, UNKNOWN),
        (10, 12, UNKNOWN),
    ]
    assert unread(tokenizer, "a" * 300) == [(0, 300, UNKNOWN)]


def test_ordinary_text_is_read_whole(tokenizer):
    assert (
        unread(
            tokenizer,
            "The patient denies\tchest pain.\r\nHEART failure; café!",
        )
        == []
    )


def test_what_is_dropped_is_listed(tokenizer):
    assert unread(tokenizer, "pa\x00in \x01\x02 a\x7fb \x85c") == [
        (2, 3, NOT_TEXT),
        (6, 8, NOT_TEXT),
        (10, 11, NOT_TEXT),
        (13, 14, NOT_TEXT),
    ]
    latin = b"caf\xe9 pain".decode(errors="replace")
    assert unread(tokenizer, latin) == [(3, 4, NOT_TEXT)]


def test_every_character_that_the_tokenizer_drops_is_listed(tokenizer):
    normalizer = tokenizer.backend_tokenizer.normalizer
    ranges = [
        (0, 0xD800),
        (0xE000, 0x12000),
        (0x1BC00, 0x1BD00),
        (0x1D100, 0x1D200),
    ]
    ranges += [
        (0xE0000, 0xE0200),
        (0xEFFFE, 0xF0010),
        (0xFFFF0, 0x100010),
        (0x10FFF0, 0x110000),
    ]
    # Accents carry nothing that a reader would miss.
    dropped = [
        c
        for c in map(chr, chain.from_iterable(range(*ends) for ends in ranges))
        if normalizer.normalize_str(f"a{c}b") == "ab"
        and unicodedata.category(c) not in {"Mn", "Mc"}
    ]
    assert {
        "\x00",
        "\x0c",
        "\x9f",
        "\ue000",
        "\ufffd",
        "\U000f0000",
        "\U0010fffd",
    } <= set(dropped)
    assert {"\xad", "\u200b", "\ufeff", "\U000e0020"} <= set(dropped)
    text = " ".join(f"a{c}" for c in dropped)
    listed = Windower(tokenizer, window=8, limit=64).split(text).unread
    assert [text[part.start : part.end] for part in listed] == dropped
    reasons = [
        INVISIBLE if unicodedata.category(c) == "Cf" else NOT_TEXT
        for c in dropped
    ]
    assert [part.reason for part in listed] == reasons


def test_a_text_as_long_as_the_limit_is_read_and_a_longer_one_refused(
    tokenizer,
):
    assert too_long("a" * LONGEST_TEXT) == ""
    longer = "pain " * (LONGEST_TEXT // 5) + "!"
    assert (
        too_long(longer)
        == "5,000,001 characters, expected at most 5,000,000; split it"
    )
    windower = Windower(tokenizer, window=64, limit=64)
    with pytest.raises(
        UserError,
        match=r"^a text has 5,000,001 characters, expected at most 5,0",
    ):
        windower.split_many(["pain", longer])


def test_threads_that_share_a_windower_read_what_one_reads(tokenizer):
    windower = Windower(tokenizer, window=20, limit=64)
    texts = [f"chest pain [SEP] {n} . " * (n + 1) for n in range(40)]
    alone = [content(windower.split(text)) for text in texts]

    def read(shift):
        # Others use the tokenizer in their own way at the same time.
        tokenizer(
            texts[shift],
            split_special_tokens=bool(shift % 2),
            truncation=True,
            max_length=9,
        )
        return [content(windower.split(text)) for text in texts]

    with ThreadPoolExecutor(10) as pool:
        assert all(found == alone for found in pool.map(read, range(30)))


def test_half_of_a_surrogate_pair_costs_one_character_only(tokenizer):
    windowed = Windower(tokenizer, window=64, limit=64).split_many(
        ["pain \ud83d pain", "chest"]
    )
    assert [parts.tokens for parts in windowed] == [2, 1]
    assert [(p.start, p.end, p.reason) for p in windowed[0].unread] == [
        (5, 6, NOT_TEXT)
    ]
    assert windowed[0].windows[0].end == len("pain \ud83d pain")


@pytest.mark.parametrize("text", ["", " ", "\n\t \r\n", "\x00\x01"])
def test_text_without_a_token_gives_no_window(tokenizer, text):
    windowed = Windower(tokenizer, window=64, limit=64).split(text)
    assert windowed.windows == ()
    assert windowed.tokens == 0
    assert bool(windowed.unread) == ("\x00" in text)


def test_texts_together_are_as_each_alone(tokenizer):
    texts = ["", "pain " * 30, "chest pain . " * 9, "\n", "x"]
    windower = Windower(tokenizer, window=20, overlap=3, limit=64)
    together, alone = (
        windower.split_many(texts),
        [windower.split(text) for text in texts],
    )
    assert [content(parts) for parts in together] == [
        content(parts) for parts in alone
    ]
    assert [parts.unread for parts in together] == [
        parts.unread for parts in alone
    ]
    assert windower.split_many([]) == []


def test_repr_shows_no_token(tokenizer):
    window = (
        Windower(tokenizer, window=64, limit=64).split("chest pain").windows[0]
    )
    assert repr(window) == "Window(start=0, end=10)"


SENTENCE = "Patient was admitted with heart failure. He denies chest pain.\n"


@pytest.mark.parametrize(
    ("small", "large"),
    [
        ((SENTENCE * 2000)[:125_000], (SENTENCE * 16000)[:1_000_000]),
        ("a" * 37_500, "a" * 300_000),
        ("." * 37_500, "." * 300_000),
        ("漢" * 25_000, "漢" * 200_000),
    ],
    ids=["note of 1 MB", "word of 300,000", "punctuation", "unknown"],
)
def test_time_grows_with_the_length(tokenizer, small, large):
    windower = Windower(tokenizer, window=512, limit=512)

    def seconds(text):
        spent = []
        for _ in range(3):  # the quickest: other processes share the caches
            start = time.process_time()
            windowed = windower.split(text)
            spent.append(time.process_time() - start)
        assert windowed.windows[-1].end >= len(text) - 1
        return min(spent)

    windower.split(small)
    # Eight times the text; a quadratic step would make it sixty-four times the time.
    assert seconds(large) < 32 * max(seconds(small), 0.01)


@pytest.mark.parametrize(
    ("text", "megabytes"),
    [((SENTENCE * 16000)[:1_000_000], 100), ("a" * 300_000, 5)],
)
def test_memory_is_bounded(tokenizer, text, megabytes):
    windower = Windower(tokenizer, window=512, limit=512)
    tracemalloc.start()
    try:
        windower.split(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < megabytes * 1e6


def test_a_pattern_that_gives_up_is_a_fault_of_the_tokenizer(
    new_tokenizer, capfd
):
    from tokenizers import Regex, pre_tokenizers

    tokenizer = new_tokenizer()
    split = pre_tokenizers.Split(Regex("(a+)+$"), "isolated")
    tokenizer.backend_tokenizer.pre_tokenizer = split
    windower = Windower(tokenizer, window=24)
    assert windower.split("aa").tokens
    started = time.process_time()
    message = r"gives up on a text: a pattern in its tokenizer\.json needs too"
    with pytest.raises(UserError, match=message):
        windower.split("a" * 1000 + "zebrafinch")
    assert time.process_time() - started < 5  # the library stops by itself
    assert "zebrafinch" not in capfd.readouterr().err
