import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from biomed.corpora import spans_of, tags_of
from biomed.ner.decoding import TagScheme, best_path, find_entities, tags_for

ONE = TagScheme.of(["I-x", "O", "B-x"])
TWO = TagScheme.of(["O", "B-x", "B-y", "I-y", "I-x"])


def random_scores(words, scheme, seed):
    generator = np.random.default_rng(seed)
    return np.log(generator.dirichlet(np.full(len(scheme.labels), 0.4), size=words))


def is_valid(path, scheme, starts):
    tags = [scheme.labels[number] for number in path]
    for number, tag in enumerate(tags):
        before = "O" if number in starts or not number else tags[number - 1]
        if tag.startswith("I-") and before not in (tag, f"B-{tag[2:]}"):
            return False
    return True


def best_of_all(scores, scheme, starts):
    paths = itertools.product(range(len(scheme.labels)), repeat=len(scores))
    valid = (path for path in paths if is_valid(path, scheme, starts))
    return max(valid, key=lambda path: sum(row[tag] for row, tag in zip(scores, path, strict=True)))


@pytest.mark.parametrize("scheme", [ONE, TWO])
@given(words=st.integers(1, 5), start=st.integers(0, 4), seed=st.integers(0, 10**6))
def test_it_is_the_best_of_all_paths(scheme, words, start, seed):
    scores = random_scores(words, scheme, seed)
    starts = np.unique([0, min(start, words - 1)])
    path = best_path(scores, scheme=scheme, starts=starts)
    assert tuple(path) == best_of_all(scores, scheme, set(starts))


@given(words=st.integers(0, 80), seed=st.integers(0, 10**6))
def test_texts_side_by_side_are_texts_alone(words, seed):
    scores = random_scores(words + 20, TWO, seed)
    together = best_path(scores, scheme=TWO, starts=np.array([0, words]))
    parts = [scores[:words], scores[words:]]
    alone = [best_path(part, scheme=TWO, starts=np.array([0])[: len(part)]) for part in parts]
    assert is_valid(together, TWO, {0, words})
    assert together.tolist() == np.concatenate(alone).tolist()


@given(
    st.lists(st.sampled_from(["O", "x", "y", "xx", "yyy"]), min_size=1, max_size=15),
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
    scores[np.arange(words), [TWO.labels.index(tag) for tag in tags]] += 100
    path = best_path(scores, scheme=TWO, starts=np.array([0]))
    assert [TWO.labels[number] for number in path] == tags
    found = find_entities(scores, scheme=TWO, starts=np.array([0]))
    kinds = [TWO.types[kind] for kind in found.kind]
    assert list(zip(found.first, found.last + 1, kinds, strict=True)) == spans
    assert spans_of(tags) == spans


def test_it_is_no_repair():
    """O I is read as B I where that is likelier than O O, and the other way round."""
    sure = np.log([[0.5, 0.4, 0.1], [0.2, 0.01, 0.79]])
    unsure = np.log([[0.5, 0.1, 0.4], [0.4, 0.09, 0.51]])
    scheme = TagScheme.of(["O", "B-x", "I-x"])
    assert best_path(sure, scheme=scheme, starts=np.array([0])).tolist() == [1, 2]
    assert best_path(unsure, scheme=scheme, starts=np.array([0])).tolist() == [0, 0]


def test_the_score_is_the_probability_of_the_span():
    p = np.array([[0.1, 0.8, 0.1], [0.2, 0.1, 0.7], [0.6, 0.1, 0.3], [0.1, 0.9, 0.0]])
    scheme = TagScheme.of(["O", "B-x", "I-x"])
    with np.errstate(divide="ignore"):
        scores = np.log(p)
    found = find_entities(scores, scheme=scheme, starts=np.array([0]))
    assert found.first.tolist() == [0, 3]
    assert found.last.tolist() == [1, 3]
    assert found.score == pytest.approx([0.8 * 0.7 * (1 - 0.3), 0.9])
    # Where no entity may come from the word before, the span cannot go on.
    found = find_entities(scores, scheme=scheme, starts=np.array([0, 2]))
    assert found.score == pytest.approx([0.8 * 0.7, 0.9])
    # What a network takes for one entity over a break is two.
    one = np.log([[0.1, 0.8, 0.1], [0.05, 0.05, 0.9]])
    found = find_entities(one, scheme=scheme, starts=np.array([0, 1]))
    assert found.score == pytest.approx([0.8, 0.9])


def test_no_words():
    nothing = find_entities(np.zeros((0, 3)), scheme=ONE, starts=np.array([], dtype=int))
    assert not len(nothing.first)


def test_a_million_words_take_seconds():
    """Also where every word could go on with the one before: nothing grows with the square."""
    scores = np.tile(np.log(np.float32([0.6, 0.3, 0.1])), (200_000, 1))
    scores[0] = np.log([0.1, 0.1, 0.8])
    path = best_path(scores, scheme=ONE, starts=np.array([0]))
    assert path[0] == ONE.begin[0]
    assert (path[1:] == ONE.inside[0]).all()


@pytest.mark.parametrize(
    "labels",
    [["LABEL_0", "LABEL_1"], ["O"], ["O", "B-x"], ["O", "B-x", "I-y"], ["O", "B-x", "I-x", "X"]],
)
def test_other_labels_are_refused(labels):
    with pytest.raises(ValueError, match="IOB2 needs O, and B-type with I-type") as caught:
        TagScheme.of(labels)
    assert labels[-1] in str(caught.value)


def test_the_tags_of_types():
    assert tags_for(["x", "y"]) == ("O", "B-x", "I-x", "B-y", "I-y")
