"""Against SQuAD 2.0's official script, its functions as they are published."""

import collections
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from biomed.qa.evaluation import exact_match, normalize, token_f1


def normalize_answer(s):
    def remove_articles(text):
        regex = re.compile(r"\b(a|an|the)\b", re.UNICODE)
        return re.sub(regex, " ", text)

    def white_space_fix(text):
        return " ".join(text.split())

    def remove_punc(text):
        exclude = set(string.punctuation)
        return "".join(ch for ch in text if ch not in exclude)

    def lower(text):
        return text.lower()

    return white_space_fix(remove_articles(remove_punc(lower(s))))


def get_tokens(s):
    if not s:
        return []
    return normalize_answer(s).split()


def compute_exact(a_gold, a_pred):
    return int(normalize_answer(a_gold) == normalize_answer(a_pred))


def compute_f1(a_gold, a_pred):
    gold_toks = get_tokens(a_gold)
    pred_toks = get_tokens(a_pred)
    common = collections.Counter(gold_toks) & collections.Counter(pred_toks)
    num_same = sum(common.values())
    if len(gold_toks) == 0 or len(pred_toks) == 0:
        return int(gold_toks == pred_toks)
    if num_same == 0:
        return 0
    precision = 1.0 * num_same / len(pred_toks)
    recall = 1.0 * num_same / len(gold_toks)
    return (2 * precision * recall) / (precision + recall)


def official(predicted, gold):
    gold_answers = [text for text in gold if normalize_answer(text)] or [""]
    return (
        max(compute_exact(a, predicted) for a in gold_answers),
        max(compute_f1(a, predicted) for a in gold_answers),
    )


WORDS = st.sampled_from(
    [
        "the",
        "The",
        "a",
        "an",
        "virus",
        "Virus,",
        "COVID-19",
        "(199)",
        "—",
        "4.5",
        "theory",
        "é",
        "",
    ]
)
TEXTS = st.one_of(
    st.lists(WORDS, max_size=6).map(" ".join), st.text(max_size=20)
)


@given(TEXTS, st.lists(TEXTS, max_size=4))
def test_as_the_official_script(predicted, answers):
    exact, f1 = official(predicted, answers)
    assert normalize(predicted) == normalize_answer(predicted)
    assert exact_match(predicted, answers) == exact
    assert token_f1(predicted, answers) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("predicted", "answers", "exact", "f1"),
    [
        ("The COVID-19 virus!", ["covid19 virus"], 1, 1),
        ("virus", ["the virus", "viral RNA"], 1, 1),
        ("an RNA virus", ["a virus"], 0, 2 / 3),
        ("virus virus", ["virus"], 0, 2 / 3),
        ("", [], 1, 1),
        ("virus", [], 0, 0),
        ("", ["virus"], 0, 0),
    ],
)
def test_known_cases(predicted, answers, exact, f1):
    assert exact_match(predicted, answers) == exact
    assert token_f1(predicted, answers) == pytest.approx(f1)
