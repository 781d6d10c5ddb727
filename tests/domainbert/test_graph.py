import numpy as np
import pytest

from domainbert.errors import UserError
from domainbert.graph import GRAPH, HEAD, Graph
from domainbert.index import VectorIndex
from domainbert.ranking import Hits, merge_hits

pytest.importorskip("usearch", reason="needs the extra `approximate`")


def vectors(count, *, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 24)).astype(np.float32)


def add(index, count, *, seed):
    index.add(vectors(count, seed=seed), ids=[str(number) for number in range(count)])


@pytest.fixture
def index(tmp_path):
    made = VectorIndex.create(tmp_path / "i", fingerprint="f", dimension=24)
    add(made, 1500, seed=1)
    add(made, 500, seed=2)
    return made


@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
def test_it_finds_nearly_all_and_gives_exact_cosines(tmp_path, storage):
    index = VectorIndex.create(tmp_path / "i", fingerprint="f", dimension=24, storage=storage)
    add(index, 1500, seed=1)
    add(index, 500, seed=2)
    Graph.build(index)
    opened = Graph.open(VectorIndex.open(tmp_path / "i"))
    queries = vectors(50, seed=3)
    exact, found = index.search(queries, k=10), opened.search(queries, k=10)
    share = np.mean(
        [len(set(a) & set(b)) / 10 for a, b in zip(exact.rows, found.rows, strict=True)]
    )
    assert share > 0.97
    same = exact.rows == found.rows
    assert np.abs(exact.scores - found.scores)[same].max() < 1e-5
    assert (np.diff(found.scores, axis=1) <= 0).all()


def test_rows_added_later_are_found_too(index):
    Graph.build(index)
    add(index, 100, seed=4)
    new = vectors(100, seed=4)
    found = Graph.open(index).search(new, k=3)
    assert found.rows[:, 0].tolist() == list(range(2000, 2100))


def test_few_rows_and_none(tmp_path):
    empty = VectorIndex.create(tmp_path / "e", fingerprint="f", dimension=24)
    graph = Graph.build(empty)
    assert graph.search(vectors(2), k=3).rows.tolist() == [[-1] * 3] * 2
    few = VectorIndex.create(tmp_path / "f", fingerprint="f", dimension=24)
    add(few, 2, seed=1)
    found = Graph.build(few).search(vectors(2, seed=1), k=3)
    assert found.rows[:, 0].tolist() == [0, 1]
    assert found.rows[:, 2].tolist() == [-1, -1]
    assert np.isnan(found.scores[:, 2]).all()


def test_vectors_of_rows_are_those_of_the_blocks(index):
    whole = np.concatenate(list(index.blocks()))
    assert np.array_equal(index.vectors([1999, 0, 1500]), whole[[1999, 0, 1500]])
    for first in (0, 700, 1500, 1999, 2000):
        rest = [np.empty((0, 24), np.float32), *index.blocks(first)]
        assert np.array_equal(np.concatenate(rest), whole[first:])


def test_hits_are_merged_best_first_with_ties_by_row():
    nan = np.nan
    a = Hits(np.array([[4, 2]]), np.array([[0.9, 0.5]], np.float32))
    b = Hits(np.array([[1, -1]]), np.array([[0.5, nan]], np.float32))
    merged = merge_hits([a, b], k=4)
    assert merged.rows.tolist() == [[4, 1, 2, -1]]
    assert merged.scores[0, :3].tolist() == pytest.approx([0.9, 0.5, 0.5])


def test_a_missing_damaged_or_foreign_graph_is_one_line(index, tmp_path):
    with pytest.raises(UserError, match="has no graph; build it again"):
        Graph.open(index)
    Graph.build(index)
    other = VectorIndex.create(tmp_path / "o", fingerprint="g", dimension=24)
    for name in (GRAPH, HEAD):
        (other.folder / name).write_bytes((index.folder / name).read_bytes())
    with pytest.raises(UserError, match="damaged or of another index"):
        Graph.open(other)
    (index.folder / HEAD).write_text("{}")
    with pytest.raises(UserError, match=r"graph\.json is damaged"):
        Graph.open(index)
    Graph.build(index)
    (index.folder / GRAPH).write_bytes(b"nothing")
    with pytest.raises(UserError, match="damaged or of another index"):
        Graph.open(index)
    with pytest.raises(UserError, match="queries have 3 numbers, the index has 24"):
        Graph.build(index).search(np.ones((1, 3)), k=1)
