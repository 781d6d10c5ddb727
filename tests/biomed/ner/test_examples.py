import pytest

from biomed.corpora import Corpus, Gold, TaggedText
from biomed.ner.examples import (
    IGNORED,
    ExampleMaker,
    Source,
    make_sources,
)
from biomed.ner.pieces import WordTokenizer
from domainbert.training.objective import FreshBatches

CODES = {"O": 0, "B-x": 1, "I-x": 2}
TEXTS = tuple(
    TaggedText(("heart", "failure-", "was", str(n)), ("B-x", "I-x", "O", "O"))
    for n in range(50)
)


def make(tokenizer, sources=None, *, window=40, seed=0, **options):
    return ExampleMaker(
        sources or [Source(TEXTS, CODES)],
        word_tokenizer=WordTokenizer(tokenizer),
        window=window,
        seed=seed,
        **options,
    )


def labelled(examples):
    return [
        int(code)
        for example in examples
        for code in example.codes
        if code != IGNORED
    ]


def test_first_pieces_have_the_labels(tokenizer):
    text = TaggedText(
        ("heart", "failure-", "\x10", "xyz"), ("B-x", "I-x", "O", "O")
    )
    (example,) = make(tokenizer, [Source((text,), CODES)]).make(0)
    pieces = tokenizer.convert_ids_to_tokens(example.ids)
    assert pieces == [
        "[CLS]",
        "heart",
        "failure",
        "-",
        "x",
        "##y",
        "##z",
        "[SEP]",
    ]
    x = IGNORED
    assert example.codes.tolist() == [x, 1, 2, x, 0, x, x, x]


@pytest.mark.parametrize("alone", [0.0, 0.3, 1.0])
def test_every_text_is_read_once_in_an_epoch(tokenizer, alone):
    maker = make(tokenizer, alone=alone)
    for epoch in range(3):
        examples = maker.make(epoch)
        assert labelled(examples) == [1, 2, 0, 0] * 50
        assert max(len(example.ids) for example in examples) <= 40
        lengths = {len(example.ids) for example in examples}
        assert len(lengths) <= 2 if alone == 1 else len(lengths) > 4


def test_an_epoch_with_less_to_read_still_fills_its_batches(tokenizer):
    """A learning-rate schedule counts on them."""
    long = [TaggedText(("heart",) * 30, ("O",) * 30)] * 300
    short = [TaggedText(("heart",), ("O",))] * 300

    class Uneven:
        def make(self, epoch):
            source = Source(tuple((long, short, short[:3])[epoch]), CODES)
            return make(tokenizer, [source], alone=1.0).make(0)

    batches = FreshBatches(Uneven(), batch_tokens=64, seed=0)
    for epoch, texts in enumerate((300, 300, 3)):
        sizes = [len(batch) for batch in batches.epoch(epoch)]
        assert len(sizes) == len(batches)
        assert min(sizes) >= 1
        assert sum(sizes) == max(texts, len(batches))


def test_an_epoch_is_its_seed_and_number(tokenizer):
    def ids(seed, epoch):
        return [e.ids.tolist() for e in make(tokenizer, seed=seed).make(epoch)]

    assert ids(0, 1) == ids(0, 1)
    assert ids(0, 1) != ids(0, 2)
    assert ids(0, 1) != ids(1, 1)


def test_a_text_longer_than_a_window_is_cut_and_kept(tokenizer):
    text = TaggedText(("heart",) * 100, ("B-x",) * 100)
    examples = make(tokenizer, [Source((text,), CODES)], window=24).make(0)
    assert [len(example.ids) for example in examples] == [24, 24, 24, 24, 14]
    ends = [(example.ids[0], example.ids[-1]) for example in examples]
    assert set(ends) == {(tokenizer.cls_token_id, tokenizer.sep_token_id)}
    assert labelled(examples) == [1] * 100


def test_every_epoch_has_as_many_batches_and_all_windows(tokenizer):
    batches = FreshBatches(make(tokenizer), batch_tokens=100, seed=0)
    orders = []
    for epoch in range(4):
        planned = batches.epoch(epoch)
        assert len(planned) == len(batches) > 2
        examples = [example for batch in planned for example in batch]
        assert sorted(labelled(examples)) == sorted([1, 2, 0, 0] * 50)
        sizes = [sum(len(e.ids) for e in batch) for batch in planned]
        assert max(sizes) < 200
        orders.append(sizes)
    assert len({tuple(order) for order in orders}) > 1


def test_batches_hold_windows_of_like_length(tokenizer):
    long = TaggedText(("heart",) * 30, ("B-x",) * 30)
    texts = TEXTS + (long,) * 20
    maker = make(tokenizer, [Source(texts, CODES)], alone=1.0)
    batches = FreshBatches(maker, batch_tokens=100, seed=0)
    lengths = [
        [len(example.ids) for example in batch] for batch in batches.epoch(0)
    ]
    padded = sum(len(batch) * max(batch) for batch in lengths)
    assert padded < 1.2 * sum(map(sum, lengths))


def test_texts_that_are_elsewhere_too_whatever_their_case():
    texts = [
        TaggedText((word, "failure"), ("B-x", "I-x"))
        for word in ("heart", "Heart", "no")
    ]
    corpus = Corpus(
        "c",
        Gold("train", (texts[0], texts[2])),
        None,
        Gold("test", (texts[1],)),
    )
    sources, _ = make_sources([corpus], ["x"])
    assert sources["c"].texts == (texts[2],)
