import dataclasses

import numpy as np
import pytest

from biomed.qa.examples import WindowMaker
from biomed.qa.questions import Question, QuestionError, QuestionSet
from biomed.qa.spans import PairTokenizer

LONG = "patient was x " * 20 + "heart failure " + "at home y " * 20
AT = LONG.index("heart")
SIBLING = "stable and insulin with heart failure then pain"


@pytest.fixture
def pair_tokenizer(tokenizer):
    return PairTokenizer(tokenizer, window=24, overlap=6)


def one(
    *,
    context=LONG,
    article="a",
    answers=("heart failure",),
    answer_spans=None,
    **more,
):
    if answer_spans is None:
        answer_spans = ((AT, AT + 13),) if answers else ()
    return Question(
        "1", "was it?", context, article, answers, answer_spans, **more
    )


def maker(pair_tokenizer, *questions, negatives=1.0, longest=6, seed=0):
    made = QuestionSet("made-up", questions)
    return WindowMaker(
        made,
        pair_tokenizer=pair_tokenizer,
        negatives=negatives,
        longest=longest,
        seed=seed,
    )


def words(tokenizer, example, start, end):
    return tokenizer.convert_ids_to_tokens(
        example.ids[start : end + 1].tolist()
    )


def test_a_window_with_the_answer_and_its_labels(tokenizer, pair_tokenizer):
    starts = set()
    for epoch in range(60):
        (example,) = maker(pair_tokenizer, one(), negatives=0).make(epoch)
        assert words(tokenizer, example, example.start, example.end) == [
            "heart",
            "failure",
        ]
        first = example.segments.tolist().index(1)
        assert len(example.ids) == 24
        assert (
            example.ids[-1] == example.ids[first - 1] == tokenizer.sep_token_id
        )
        assert (example.ids[0], example.segments[0]) == (
            tokenizer.cls_token_id,
            0,
        )
        starts.add(example.start)
    # It lies anywhere in its window, at both borders too.
    assert starts == set(range(first, 24 - 2))


def test_negatives_come_at_the_stated_rate_and_without_the_answer(
    tokenizer, pair_tokenizer
):
    made = maker(pair_tokenizer, one(), negatives=2.5)
    counts = []
    for epoch in range(200):
        positive, *negatives = made.make(epoch)
        assert positive.start
        assert {(n.start, n.end) for n in negatives} <= {(0, 0)}
        assert not any(
            {"heart", "failure"} & set(tokenizer.decode(n.ids).split())
            for n in negatives
        )
        counts.append(len(negatives))
    assert set(counts) <= {2, 3}
    assert np.mean(counts) == pytest.approx(2.5, abs=0.15)


def test_negatives_of_a_short_context_come_from_its_article(
    tokenizer, pair_tokenizer
):
    asked = one(context="heart failure at home", answer_spans=((0, 13),))
    others = [
        dataclasses.replace(
            one(context=text, article=article, answers=()), id=str(number)
        )
        for number, (text, article) in enumerate(
            [(SIBLING, "a"), ("y y y", "a"), ("z z", "b")]
        )
    ]
    seen = set()
    for epoch in range(40):
        examples = maker(pair_tokenizer, asked, *others, negatives=1).make(
            epoch
        )
        # Now and then no window without the answer is met in a few tries.
        if len(examples) > 1 + len(others):
            first = examples[1].segments.tolist().index(1)
            seen.add(tokenizer.decode(examples[1].ids[first:-1]))
    assert seen == {"y y y"}


def test_there_may_be_no_negative(pair_tokenizer):
    """Every window of the article has the answer's text in it."""
    asked = one(context="heart failure " * 50, answer_spans=((0, 13),))
    assert len(maker(pair_tokenizer, asked, negatives=3).make(0)) == 1


def test_a_question_without_an_answer_gives_a_window(pair_tokenizer):
    (positive, negative) = maker(
        pair_tokenizer, one(), one(answers=()), negatives=0
    ).make(0)
    assert positive.start
    assert (negative.start, negative.end) == (0, 0)


def test_the_answer_that_most_gave_is_taken(tokenizer, pair_tokenizer):
    places = ((AT, AT + 5), (AT, AT + 13), (AT, AT + 13))
    (example,) = maker(
        pair_tokenizer, one(answer_spans=places), negatives=0
    ).make(0)
    assert words(tokenizer, example, example.start, example.end) == [
        "heart",
        "failure",
    ]


def test_a_long_answer_is_cut_off(tokenizer, pair_tokenizer):
    (example,) = maker(
        pair_tokenizer, one(answer_spans=((AT - 28, AT + 13),)), negatives=0
    ).make(0)
    assert (
        words(tokenizer, example, example.start, example.end)
        == ["patient", "was", "x"] * 2
    )


def test_the_same_epoch_gives_the_same_windows(pair_tokenizer):
    def made(seed, epoch):
        examples = maker(pair_tokenizer, one(), negatives=2, seed=seed).make(
            epoch
        )
        return [(e.ids.tolist(), e.start, e.end) for e in examples]

    assert made(1, 3) == made(1, 3)
    assert made(1, 3) != made(1, 4)
    assert made(1, 3) != made(2, 3)


def test_what_cannot_be_used_is_left_out(pair_tokenizer):
    unusable = [
        one(answer_spans=()),
        dataclasses.replace(one(), text="was " * 40),
        dataclasses.replace(one(), text="\x00"),
    ]
    assert len(maker(pair_tokenizer, one(), *unusable)) == 1
    with pytest.raises(
        QuestionError, match="made-up has 3 questions, but none with an answer"
    ):
        maker(pair_tokenizer, *unusable)
