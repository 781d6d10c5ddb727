import itertools
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from biomed.corpora.documents import spans_of, tags_of
from biomed.corpora.words import split_words
from biomed.ner.decoding import best_path, find_entities, tags_for, tidy_span

ONE, TWO = tags_for("x"), tags_for("xy")


def random_scores(words, tags, seed):
    generator = np.random.default_rng(seed)
    return np.log(generator.dirichlet(np.full(len(tags), 0.4), size=words))


def is_valid(path, names, starts):
    tags = [names[number] for number in path]
    for number, tag in enumerate(tags):
        before = "O" if number in starts or not number else tags[number - 1]
        if tag.startswith("I-") and before not in (tag, f"B-{tag[2:]}"):
            return False
    return True


def best_of_all(scores, tags, starts):
    paths = itertools.product(range(len(tags)), repeat=len(scores))
    valid = (path for path in paths if is_valid(path, tags, starts))
    return max(
        valid,
        key=lambda path: sum(
            row[tag] for row, tag in zip(scores, path, strict=True)
        ),
    )


@pytest.mark.parametrize("tags", [ONE, TWO])
@given(
    words=st.integers(1, 5),
    start=st.integers(0, 4),
    seed=st.integers(0, 10**6),
)
def test_decoding_finds_the_best_of_all_paths(tags, words, start, seed):
    scores = random_scores(words, tags, seed)
    starts = np.unique([0, min(start, words - 1)])
    path = best_path(scores, starts=starts)
    assert tuple(path) == best_of_all(scores, tags, set(starts))


@given(words=st.integers(0, 80), seed=st.integers(0, 10**6))
def test_texts_decoded_together_are_as_decoded_alone(words, seed):
    scores = random_scores(words + 20, TWO, seed)
    together = best_path(scores, starts=np.array([0, words]))
    parts = [scores[:words], scores[words:]]
    alone = [
        best_path(part, starts=np.array([0])[: len(part)]) for part in parts
    ]
    assert is_valid(together, TWO, {0, words})
    assert together.tolist() == np.concatenate(alone).tolist()


@given(
    st.lists(
        st.sampled_from(["O", "x", "y", "xx", "yyy"]), min_size=1, max_size=15
    ),
    st.integers(0, 10**6),
)
def test_encode_then_decode_returns_valid_sentences(parts, seed):
    """Scores that favour a valid sequence give it back, whatever else they say."""
    spans, words = [], 0
    for part in parts:
        if part != "O":
            spans.append((words, words + len(part), part[0]))
        words += len(part)
    tags = tags_of(spans, words=words)
    scores = random_scores(words, TWO, seed)
    scores[np.arange(words), [TWO.index(tag) for tag in tags]] += 100
    path = best_path(scores, starts=np.array([0]))
    assert [TWO[number] for number in path] == tags
    found = find_entities(scores, starts=np.array([0]))
    assert [(first, end, "xy"[kind]) for first, end, kind, _ in found] == spans
    assert spans_of(tags) == spans


def test_decoding_differs_from_repairing_the_likeliest_tags():
    """O I is read as B I where that is likelier than O O, and the other way round."""
    sure = np.log([[0.5, 0.4, 0.1], [0.2, 0.01, 0.79]])
    unsure = np.log([[0.5, 0.1, 0.4], [0.4, 0.09, 0.51]])
    assert best_path(sure, starts=np.array([0])).tolist() == [1, 2]
    assert best_path(unsure, starts=np.array([0])).tolist() == [0, 0]


def test_the_score_is_the_probability_of_the_span():
    p = np.array(
        [[0.1, 0.8, 0.1], [0.2, 0.1, 0.7], [0.6, 0.1, 0.3], [0.1, 0.9, 0.0]]
    )
    with np.errstate(divide="ignore"):
        scores = np.log(p)
    one, two = find_entities(scores, starts=np.array([0]))
    assert (one[:3], two[:3]) == ((0, 2, 0), (3, 4, 0))
    assert (one[3], two[3]) == pytest.approx((0.8 * 0.7 * (1 - 0.3), 0.9))
    # Where no entity may come from the word before, the span cannot go on.
    found = find_entities(scores, starts=np.array([0, 2]))
    assert [score for *_, score in found] == pytest.approx([0.8 * 0.7, 0.9])
    # What a network takes for one entity over a break is two.
    over = np.log([[0.1, 0.8, 0.1], [0.05, 0.05, 0.9]])
    found = find_entities(over, starts=np.array([0, 1]))
    assert [score for *_, score in found] == pytest.approx([0.8, 0.9])


def test_a_text_without_words_has_no_entities():
    nothing = find_entities(np.zeros((0, 3)), starts=np.array([], dtype=int))
    assert not list(nothing)


def test_two_hundred_thousand_words_take_seconds():
    """Also where every word could go on with the one before: nothing grows with the square."""
    scores = np.tile(np.log(np.float32([0.1, 0.3, 0.6])), (200_000, 1))
    scores[0] = np.log([0.1, 0.8, 0.1])
    start = time.process_time()
    path = best_path(scores, starts=np.array([0]))
    assert time.process_time() - start < 10
    assert path[0] == 1
    assert (path[1:] == 2).all()


def test_the_tags_of_types():
    assert tags_for(["x", "y"]) == ("O", "B-x", "I-x", "B-y", "I-y")


@pytest.mark.parametrize(
    ("text", "entity", "wanted"),
    [
        (
            "Barrett's esophagus without dysplasia",
            "Barrett's esophagus without",
            None,
        ),
        ("breast; stable", "breast;", "breast"),
        ("(R)-(x", "R)-(x", "R"),
        ("heart failure (CHF).", "heart failure (CHF", "heart failure"),
        (
            "heart failure (CHF).",
            "heart failure (CHF).",
            "heart failure (CHF)",
        ),
        ("heart failure (CHF and DM", "heart failure (CHF", "heart failure"),
        ("cancer) of the lung", "cancer) of the lung", "cancer"),
        ("of the - lung", "of the -", ""),
        ("The asthma Is stable", "The asthma Is", "asthma"),
        ("AS and AT", "AS", "AS"),
        ("HTN (-), DM", "HTN (", "HTN"),
        ("vitamin A", "vitamin A", "vitamin A"),
        ("K+ and Ca(2+)", "Ca(2+)", "Ca(2+)"),
        ("given \u03b1-tocopherol now", "tocopherol", "\u03b1-tocopherol"),
        (
            "1,25-dihydroxyvitamin D",
            "dihydroxyvitamin D",
            "1,25-dihydroxyvitamin D",
        ),
        ("on L-dopa, 2-deoxyglucose", "dopa", "L-dopa"),
        ("on L-dopa, 2-deoxyglucose", "deoxyglucose", "2-deoxyglucose"),
        ("TNF-\u03b1 and", "TNF", "TNF-\u03b1"),
        ("interferon-beta1 and", "interferon", "interferon-beta1"),
        ("COVID-19, pain", "COVID", "COVID-19"),
        ("SARS-CoV\u20112 pain", "SARS-CoV", "SARS-CoV\u20112"),
        ("pain-7/10", "pain", "pain"),
        ("fever-38.5", "fever", "fever"),
        ("pain -1", "pain", "pain"),
        ("ages 60-pain", "pain", "pain"),
        ("dose 1.5-pain", "pain", "pain"),
        ("CAD s/p PCI", "CAD s/p PCI", "CAD"),
        ("AKI 2/2 ATN", "AKI 2/2 ATN", "AKI"),
        ("NSTEMI R/O", "NSTEMI R/O", "NSTEMI"),
        ("TMP/SMX", "TMP/SMX", "TMP/SMX"),
    ],
)
def test_a_span_has_no_loose_ends(text, entity, wanted):
    wanted = entity.removesuffix(" without") if wanted is None else wanted
    words, at = split_words(text), text.index(entity)
    first = int(np.searchsorted(words[:, 0], at))
    stop = int(np.searchsorted(words[:, 0], at + len(entity)))
    first, stop = tidy_span(text, words, first, stop)
    assert (
        text[words[first, 0] : words[stop - 1, 1]] == wanted
        if wanted
        else first == stop
    )


@given(st.text(alphabet="()[]-. xyL1\u03b1", max_size=14), st.data())
def test_a_tidy_span_stays_tidy_and_its_brackets_match(text, data):
    words = split_words(text)
    if not len(words):
        return
    first = data.draw(st.integers(0, len(words) - 1))
    stop = data.draw(st.integers(first + 1, len(words)))
    first, stop = tidy_span(text, words, first, stop)
    assert 0 <= first <= stop <= len(words)
    if first == stop:
        return
    part = text[words[first, 0] : words[stop - 1, 1]]
    assert part[0] not in "-. )]"
    assert part[-1] not in "-. (["
    left = "".join(char for char in part if char in "()[]")
    while (shorter := left.replace("()", "").replace("[]", "")) != left:
        left = shorter
    assert left == ""
