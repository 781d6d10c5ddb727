from types import SimpleNamespace

import hypothesis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from domainbert.pretraining.corpus import HELD_OUT, TRAIN, CorpusError
from domainbert.pretraining.examples import NO_PAIR, ExampleMaker, Examples, write_examples
from domainbert.pretraining.settings import ExampleSettings
from domainbert.pretraining.tokens import Documents, write_documents

CLS, SEP = 1, 2
TOKENIZER = SimpleNamespace(cls_token_id=CLS, sep_token_id=SEP)


class Listed:
    """Documents in memory: every token of every one is another number."""

    def __init__(self, documents):
        self.all_ends = [np.cumsum(sentences) for sentences in documents]
        starts = np.cumsum([10, *(ends[-1] for ends in self.all_ends)])
        self.all_tokens = [np.arange(a, b) for a, b in zip(starts[:-1], starts[1:], strict=True)]

    def __len__(self):
        return len(self.all_tokens)

    def of(self, token):
        """The document that a token is in."""
        return next(n for n, tokens in enumerate(self.all_tokens) if token in tokens)

    def tokens(self, document):
        return self.all_tokens[document]

    def ends(self, document):
        return self.all_ends[document]


def make(documents, *, length=32, seed=0, copies=1, **settings):
    return list(
        ExampleMaker(
            documents,
            length=length,
            settings=ExampleSettings(**settings),
            tokenizer=TOKENIZER,
            seed=seed,
            copies=copies,
        )
    )


def segments(example):
    """The tokens of both segments, without the special ones."""
    tokens = example.tokens
    assert tokens[0] == CLS
    assert tokens[-1] == SEP
    if example.label == NO_PAIR:
        assert example.second == len(tokens)
        return tokens[1:-1], None
    assert tokens[example.second - 1] == SEP
    return tokens[1 : example.second - 1], tokens[example.second : -1]


collections = st.lists(
    st.lists(st.integers(1, 40), min_size=1, max_size=12), min_size=2, max_size=8
)


@hypothesis.given(
    documents=collections,
    length=st.integers(16, 64),
    seed=st.integers(0, 99),
    pairs=st.booleans(),
    short=st.sampled_from([0.0, 0.1, 0.9]),
)
def test_every_token_is_read_once_and_nothing_is_too_long(documents, length, seed, pairs, short):
    documents = Listed(documents)
    read = {number: [] for number in range(len(documents))}
    for example in make(documents, length=length, seed=seed, pairs=pairs, short=short):
        first, second = segments(example)
        assert len(example.tokens) <= length
        assert len(first) > 0
        assert (example.label == NO_PAIR) == (not pairs)
        document = documents.of(first[0])
        read[document].append(first)
        if second is None:
            continue
        other = documents.of(second[0])
        own = documents.tokens(other)
        assert set(second) <= set(own)
        if example.label == 1:
            assert document != other
            starts = {0, *documents.ends(other)[:-1]}
            assert int(second[0] - own[0]) in starts
        else:
            assert document == other
            assert second[0] == first[-1] + 1
            read[document].append(second)
    for number, parts in read.items():
        assert (np.concatenate(parts) == documents.tokens(number)).all()


def some(count=200, *, seed=0, most=12):
    generator = np.random.default_rng(seed)
    return Listed([generator.integers(4, 20, generator.integers(1, most)) for _ in range(count)])


@pytest.mark.parametrize("most", [2, 4, 12])
def test_half_of_the_pairs_are_true(most):
    labels = [e.label for e in make(some(600, most=most), length=64, short=0.1)]
    if most == 2:  # one sentence a document: nothing can follow
        assert set(labels) == {1}
        return
    spread = 5 * 0.5 / np.sqrt(len(labels))
    assert abs(np.mean(labels) - 0.5) < spread


def test_examples_are_packed():
    def mean_length(**options):
        return np.mean([len(e.tokens) for e in make(some(60, most=150), length=64, **options)])

    assert mean_length(short=0.0, pairs=False) > 0.95 * 64
    assert mean_length(short=0.0) > 0.9 * 64
    assert mean_length(short=0.5) < 0.85 * 64


def test_the_first_segment_ends_where_a_sentence_does():
    documents = some(most=40)
    cuts = 0
    for example in make(documents, length=64, short=0.0):
        first, _ = segments(example)
        document = documents.of(first[0])
        end = first[-1] + 1 - documents.tokens(document)[0]
        cuts += end not in documents.ends(document)
    assert cuts == 0


def test_the_seed_decides_and_copies_differ():
    documents = some()

    def key(examples):
        return [(tuple(e.tokens), e.label) for e in examples]

    first = key(make(documents, seed=1))
    assert key(make(documents, seed=1)) == first
    assert key(make(documents, seed=2)) != first
    copies = key(make(documents, seed=1, copies=3))
    assert copies[: len(first)] == first
    assert 2.5 * len(first) < len(copies) < 3.5 * len(first)
    assert copies[len(first) : 2 * len(first)] != first


def test_pairs_need_two_documents():
    with pytest.raises(CorpusError, match=r"^pairs need two documents on each side .*, got 1$"):
        make(Listed([[3, 4]]))
    assert make(Listed([[3, 4]]), pairs=False)


# --- on disk


@pytest.mark.parametrize("together", [30, 10_000])
def test_what_is_written_is_what_is_read(tmp_path, monkeypatch, together):
    monkeypatch.setattr("domainbert.pretraining.examples.TOGETHER", together)
    made = make(some(30))
    write_examples(made, tmp_path, side=TRAIN, vocabulary=70_000)
    with pa.ipc.open_file(tmp_path / f"{TRAIN}.arrow") as file:
        assert (file.num_record_batches > 1) == (together == 30)
    read = Examples(tmp_path, side=TRAIN)
    assert len(read) == len(made)
    assert read.lengths.tolist() == [len(e.tokens) for e in made]
    for number, example in enumerate(made):
        assert vars(read[number]) | {"tokens": 0} == vars(example) | {"tokens": 0}
        assert (read[number].tokens == example.tokens).all()


def test_documents_keep_their_sentences(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setattr("domainbert.pretraining.tokens.TOGETHER", 3)
    corpus = [
        (TRAIN, ["the patient was stable", "fever"]),
        (HELD_OUT, ["chest pain", "\x00", "no edema [SEP]"]),
        (TRAIN, ["\x07"]),
        (TRAIN, ["heart failure", "on the left", "a b c"]),
    ]
    write_documents(corpus, tmp_path, tokenizer=tokenizer, sides=(TRAIN, HELD_OUT))
    train, held_out = (Documents(tmp_path, side=side) for side in (TRAIN, HELD_OUT))
    assert (len(train), len(held_out)) == (2, 1)
    assert tokenizer.decode(train.tokens(0)) == "the patient was stable fever"
    assert train.ends(0).tolist() == [4, 5]
    assert train.ends(1).tolist() == [2, 5, 8]
    assert held_out.ends(0)[0] == 2
    assert tokenizer.sep_token_id not in held_out.tokens(0)  # text is text
    counts = train.frequencies(len(tokenizer))
    assert counts.sum() == 13
    assert counts[tokenizer.convert_tokens_to_ids("the")] == 2


def test_examples_do_not_show_their_tokens():
    assert "tokens" not in repr(make(some(3))[0])
