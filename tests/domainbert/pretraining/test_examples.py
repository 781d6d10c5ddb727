"""Pairs of segments for pretraining: complete, within the length, and the same for a seed."""

import itertools
from types import SimpleNamespace

import hypothesis
import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

from domainbert.pretraining.corpus import (
    HELD_OUT,
    TRAIN,
    TextCorpus,
    TextCorpusError,
)
from domainbert.pretraining.examples import Prepared, SegmentPairMaker
from domainbert.pretraining.settings import CorpusSettings
from domainbert.tables import write_table

CLS, SEP = 1, 2
TOKENIZER = SimpleNamespace(cls_token_id=CLS, sep_token_id=SEP)


class DocumentList:
    """Documents in memory, in which every token is a number of its own."""

    def __init__(self, documents):
        self.all_ends = [np.cumsum(sentences) for sentences in documents]
        starts = np.cumsum([10, *(ends[-1] for ends in self.all_ends)])
        self.all_tokens = [
            np.arange(a, b)
            for a, b in zip(starts[:-1], starts[1:], strict=True)
        ]

    def __len__(self):
        return len(self.all_tokens)

    def of(self, token):
        """The document that a token is in."""
        return next(
            n for n, tokens in enumerate(self.all_tokens) if token in tokens
        )

    def __getitem__(self, document):
        return {
            "tokens": self.all_tokens[document],
            "ends": self.all_ends[document],
        }


def make(documents, *, length=32, seed=0):
    return list(
        SegmentPairMaker(
            documents, length=length, tokenizer=TOKENIZER, seed=seed
        )
    )


def segments(example):
    """The tokens of both segments, without the special ones."""
    tokens = example["tokens"]
    assert tokens[0] == CLS
    assert tokens[-1] == SEP
    assert tokens[example["second"] - 1] == SEP
    return tokens[1 : example["second"] - 1], tokens[example["second"] : -1]


collections = st.lists(
    st.lists(st.integers(1, 40), min_size=1, max_size=12),
    min_size=2,
    max_size=8,
)


@hypothesis.given(
    documents=collections,
    length=st.integers(16, 64),
    seed=st.integers(0, 99),
)
def test_every_token_is_read_once_and_nothing_is_too_long(
    documents, length, seed
):
    documents = DocumentList(documents)
    read = {number: [] for number in range(len(documents))}
    for example in make(documents, length=length, seed=seed):
        first, second = segments(example)
        assert len(example["tokens"]) <= length
        assert len(first) > 0
        document = documents.of(first[0])
        read[document].append(first)
        other = documents.of(second[0])
        own = documents[other]["tokens"]
        assert set(second) <= set(own)
        if example["label"] == 1:
            assert document != other
            starts = {0, *documents[other]["ends"][:-1]}
            assert int(second[0] - own[0]) in starts
        else:
            assert document == other
            assert second[0] == first[-1] + 1
            read[document].append(second)
    for number, parts in read.items():
        assert (np.concatenate(parts) == documents[number]["tokens"]).all()


def random_documents(count=200, *, seed=0, most=12):
    generator = np.random.default_rng(seed)
    return DocumentList(
        [
            generator.integers(4, 20, generator.integers(1, most))
            for _ in range(count)
        ]
    )


def test_half_of_the_pairs_are_true_where_text_follows():
    labels = [
        e["label"] for e in make(random_documents(100, most=150), length=64)
    ]
    assert 0.4 < np.mean(labels) < 0.6
    assert {
        e["label"] for e in make(random_documents(60, most=2), length=64)
    } == {1}  # one sentence: nothing follows


def test_examples_are_packed():
    lengths = [
        len(each["tokens"])
        for each in make(random_documents(60, most=150), length=64)
    ]
    assert np.mean(lengths) > 0.85 * 64


def test_the_first_segment_ends_where_a_sentence_does():
    documents = random_documents(most=40)
    examples = make(documents, length=64)
    cuts = 0
    for example in examples:
        first, _ = segments(example)
        document = documents.of(first[0])
        end = first[-1] + 1 - documents[document]["tokens"][0]
        cuts += end not in documents[document]["ends"]
    assert cuts < 0.1 * len(examples)  # only in short examples


def test_the_seed_decides():
    documents = random_documents()

    def key(examples):
        return [(tuple(e["tokens"]), e["label"]) for e in examples]

    first = key(make(documents, seed=1))
    assert key(make(documents, seed=1)) == first
    assert key(make(documents, seed=2)) != first


def test_pairs_need_two_documents():
    with pytest.raises(
        TextCorpusError,
        match=r"^pairs need two documents on each side .*, got 1$",
    ):
        make(DocumentList([[3, 4]]))


# --- in the work folder


TEXTS = {
    "p0": "the patient was stable\nfever",
    "p1": "chest pain\n\x07\nno edema [SEP]",
    "p2": "\x07",
    "p3": "heart failure\non the left\na b c d e",
    "p4": "history of kidney disease",
    "p5": "dyspnea at home; stable",
}


def test_documents_keep_their_sentences(
    tmp_path, tokenizer, new_recipe, monkeypatch
):
    monkeypatch.setattr("domainbert.pretraining.examples.TOGETHER", 3)
    rows = pd.DataFrame(
        {"patient_id": list(TEXTS), "text": list(TEXTS.values())}
    )
    write_table(rows, tmp_path / "notes.jsonl")
    recipe = new_recipe(corpus=CorpusSettings(held_out=0.553))
    corpus = TextCorpus([tmp_path / "notes.jsonl"], settings=recipe.corpus)
    options = {
        "plan": recipe.training,
        "tokenizer": tokenizer,
        "work": tmp_path / "work",
    }
    made = Prepared(corpus, **options)
    documents = [
        row for side in (TRAIN, HELD_OUT) for row in made.documents[side]
    ]
    read = {
        tokenizer.decode(row["tokens"]): row["ends"].tolist()
        for row in documents
    }
    assert read == {
        "the patient was stable fever": [4, 5],
        "chest pain no edema [UNK] sep [UNK]": [2, 9],  # text is text
        "heart failure on the left a b c d e": [2, 5, 10],
        "history of kidney disease": [4],
        "dyspnea at home ; stable": [6],
    }
    counts = sum(
        made.frequencies(side, len(tokenizer)) for side in (TRAIN, HELD_OUT)
    )
    assert counts.sum() == sum(made.counts["tokens"].values()) == 34
    assert counts[tokenizer.convert_tokens_to_ids("stable")] == 2
    for side, examples in made.examples.items():
        written = make(made.documents[side], seed=recipe.training.seed)
        assert len(written) == len(examples)
    again = Prepared(corpus, **options)  # reads no text
    assert again.counts == made.counts
    assert again.name == made.name


def test_a_kill_while_text_is_prepared_leaves_nothing_that_is_read(
    tmp_path, tokenizer, new_recipe, notes_file
):
    recipe = new_recipe()
    corpus = TextCorpus([notes_file], settings=recipe.corpus)

    class Cut(type(corpus)):
        def __iter__(self):
            yield from itertools.islice(super().__iter__(), 5)
            raise KeyboardInterrupt

    options = {
        "plan": recipe.training,
        "tokenizer": tokenizer,
        "work": tmp_path / "work",
    }
    with pytest.raises(KeyboardInterrupt):
        Prepared(Cut([notes_file], settings=recipe.corpus), **options)
    made = Prepared(corpus, **options)
    assert sum(len(rows) for rows in made.documents.values()) == 60
