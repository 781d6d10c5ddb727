import numpy as np
import pandas as pd
import pytest

from domainbert.errors import UserError
from domainbert.search.vectors import GRAPH, VectorIndex


def approximate(index, queries, k):
    return index.search(queries, k=k, approximate=True)


def vectors(count, *, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 24)).astype(np.float32)


def add(index, count, *, seed):
    ids = [str(number) for number in range(count)]
    rows = pd.DataFrame({"id": ids, "start": 0, "end": 0, "text": ""})
    index.add([(vectors(count, seed=seed), rows)])


@pytest.fixture
def index(tmp_path):
    made = VectorIndex.create(tmp_path / "i", fingerprint="f", dimension=24)
    add(made, 1500, seed=1)
    add(made, 500, seed=2)
    return made


def test_it_finds_nearly_all_and_gives_exact_cosines(index):
    index.build_graph()
    opened = VectorIndex.open(index.folder)
    queries = vectors(50, seed=3)
    exact, found = index.search(queries, k=10), approximate(opened, queries, 10)
    share = np.mean(
        [len(set(a) & set(b)) / 10 for a, b in zip(exact.rows, found.rows, strict=True)]
    )
    assert share > 0.97
    same = exact.rows == found.rows
    assert np.abs(exact.scores - found.scores)[same].max() < 1e-5
    assert (np.diff(found.scores, axis=1) <= 0).all()


def test_rows_added_later_are_found_too(index):
    index.build_graph()
    add(index, 100, seed=4)
    new = vectors(100, seed=4)
    found = approximate(VectorIndex.open(index.folder), new, 3)
    assert found.rows.tolist() == approximate(index, new, 3).rows.tolist()
    assert found.rows[:, 0].tolist() == list(range(2000, 2100))


def test_few_rows_and_none(tmp_path):
    empty = VectorIndex.create(tmp_path / "e", fingerprint="f", dimension=24)
    empty.build_graph()
    assert approximate(empty, vectors(2), 3).rows.tolist() == [[-1] * 3] * 2
    few = VectorIndex.create(tmp_path / "f", fingerprint="f", dimension=24)
    add(few, 2, seed=1)
    few.build_graph()
    found = approximate(few, vectors(2, seed=1), 3)
    assert found.rows[:, 0].tolist() == [0, 1]
    assert found.rows[:, 2].tolist() == [-1, -1]
    assert np.isnan(found.scores[:, 2]).all()


def test_vectors_of_rows_are_those_of_the_blocks(index):
    whole = np.concatenate(list(index.blocks()))
    assert np.array_equal(index.vectors([1999, 0, 1500]), whole[[1999, 0, 1500]])
    for first in (0, 700, 1500, 1999, 2000):
        rest = [np.empty((0, 24), np.float32), *index.blocks(first)]
        assert np.array_equal(np.concatenate(rest), whole[first:])


def test_old_and_new_rows_are_merged_best_first_with_ties_by_row(tmp_path):
    index = VectorIndex.create(tmp_path / "i", fingerprint="f", dimension=24)
    add(index, 3, seed=1)
    index.build_graph()
    add(index, 3, seed=1)
    found = approximate(index, vectors(3, seed=1)[1:2], 6)
    assert found.rows[0, :2].tolist() == [1, 4]
    assert (np.diff(found.scores) <= 1e-6).all()


def test_a_missing_or_damaged_graph_is_one_line(index, tmp_path):
    with pytest.raises(UserError, match="has no graph; build it"):
        approximate(index, vectors(1), 1)
    index.build_graph()
    other = VectorIndex.create(tmp_path / "o", fingerprint="g", dimension=24)
    add(other, 10, seed=1)
    other.build_graph()
    for content in ((index.folder / GRAPH).read_bytes(), b"nothing"):
        (other.folder / GRAPH).write_bytes(content)
        with pytest.raises(UserError, match="has a damaged graph; build it"):
            approximate(VectorIndex.open(other.folder), vectors(1), 1)
    with pytest.raises(UserError, match="queries have 3 numbers, the index has 24"):
        approximate(index, np.ones((1, 3)), 1)
