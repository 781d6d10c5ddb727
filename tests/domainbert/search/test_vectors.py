"""Vector index: exact neighbours, whatever the blocks; nothing damaged is read."""

import json
import shutil
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domainbert.errors import UserError
from domainbert.models.embedder import Embedder
from domainbert.models.pooling import unit
from domainbert.search import top_k
from domainbert.search import vectors as module
from domainbert.search.vectors import VectorIndex

RANDOM = np.random.default_rng(0)
VECTORS = RANDOM.normal(size=(300, 16)).astype(np.float32)
QUERIES = RANDOM.normal(size=(7, 16)).astype(np.float32)


def ids(count, start=0):
    return [f"note-{number}" for number in range(start, start + count)]


def new_index(folder, *, fingerprint="f", block_rows=65_536):
    index = VectorIndex.create(folder, fingerprint=fingerprint, dimension=16)
    index.block_rows = block_rows
    return index


def piece(vectors, names, *, starts=0, ends=0, texts=""):
    return vectors, pd.DataFrame(
        {"id": names, "start": starts, "end": ends, "text": texts}
    )


@settings(max_examples=60)
@given(
    rows=st.integers(0, 60),
    block=st.integers(1, 70),
    k=st.integers(1, 12),
    levels=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_top_k_is_the_sorted_list_with_ties_by_row(
    rows, block, k, levels, seed
):
    generator = np.random.default_rng(seed)
    # Few different values, so that ties are common.
    vectors = generator.integers(-levels, levels + 1, (rows, 3)).astype(
        np.float32
    )
    queries = generator.integers(-levels, levels + 1, (4, 3)).astype(
        np.float32
    )
    hits = top_k(
        queries, (vectors[i : i + block] for i in range(0, rows, block)), k=k
    )
    products = queries @ vectors.T
    for query in range(4):
        order = np.lexsort((np.arange(rows), -products[query]))[:k]
        count = len(order)
        assert hits.rows[query, :count].tolist() == order.tolist()
        assert hits.scores[query, :count] == pytest.approx(
            products[query, order]
        )
        assert (hits.rows[query, count:] == -1).all()
        assert np.isnan(hits.scores[query, count:]).all()


def test_memory_does_not_grow_with_queries_times_rows():
    queries = RANDOM.normal(size=(3_000, 16)).astype(np.float32)
    vectors = RANDOM.normal(size=(4_000, 16)).astype(np.float32)
    tracemalloc.start()
    hits = top_k(queries, [vectors], k=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3_000 * 4_000 * 4 / 4  # a quarter of all dot products
    products = queries @ vectors.T
    assert hits.rows.tolist() == np.argsort(-products, axis=1)[:, :2].tolist()


def test_search_gives_cosines_over_parts_and_blocks(tmp_path):
    index = new_index(tmp_path / "index", block_rows=37)
    index.add([piece(VECTORS[:200], ids(200))])
    index.add(
        [piece(VECTORS[200:] * 5, ids(100, 200))]
    )  # the length of a vector does not matter
    cosines = unit(QUERIES) @ unit(VECTORS).T
    for opened in (index, VectorIndex.open(tmp_path / "index")):
        assert len(opened) == 300
        hits = opened.search(QUERIES, k=5)
        assert hits.scores == pytest.approx(
            -np.sort(-cosines)[:, :5], abs=1e-6
        )
        assert hits.rows.tolist() == np.argsort(-cosines)[:, :5].tolist()
    sizes = sum(
        path.stat().st_size
        for path in (tmp_path / "index").glob("part-00000*")
    )
    assert sizes < 200 * (16 * 4 + 4 + 8 + 8 + 20) + 6000


def test_rows_keep_ids_offsets_and_texts_in_the_order_asked(tmp_path):
    index = new_index(tmp_path / "index")
    options = {
        "starts": [0, 10, 0],
        "ends": [10, 25, 7],
        "texts": ["a", "b", "c"],
    }
    index.add([piece(VECTORS[:3], ["x", "x", "y"], **options)])
    index.add([piece(VECTORS[3:5], ["z", "038"])])
    found = index.rows([4, 1, 0, 4])
    assert found["id"].tolist() == ["038", "x", "x", "038"]
    assert found["start"].tolist() == [0, 10, 0, 0]
    assert found["end"].tolist() == [0, 25, 10, 0]
    assert found["text"].tolist() == ["", "b", "a", ""]
    assert index.rows([]).columns.tolist() == ["id", "start", "end", "text"]


def test_an_empty_index_finds_nothing(tmp_path):
    index = new_index(tmp_path / "index")
    index.add([piece(VECTORS[:0], [])])
    assert (index.search(QUERIES, k=3).rows == -1).all()


def test_an_index_of_another_encoder_is_refused(
    new_network, tokenizer, tmp_path
):
    first, same, other = (
        Embedder(new_network(seed=seed).bert, tokenizer) for seed in (0, 0, 1)
    )
    VectorIndex.create(
        tmp_path / "i", fingerprint=first.fingerprint(), dimension=32
    )
    assert len(VectorIndex.open(tmp_path / "i", embedder=same)) == 0
    with pytest.raises(
        UserError, match="built with another encoder or other settings"
    ):
        VectorIndex.open(tmp_path / "i", embedder=other)
    maximum = Embedder(
        new_network().bert,
        tokenizer,
        settings=first.settings.replaced(pooling="max"),
    )
    with pytest.raises(
        UserError, match="load that encoder, or build the index again"
    ):
        VectorIndex.open(tmp_path / "i", embedder=maximum)


def damage(folder, how):
    if how == "no head":
        (folder / "index.json").unlink()
    elif how == "half a head":
        text = (folder / "index.json").read_text()
        (folder / "index.json").write_text(text[: len(text) // 2])
    elif how == "another version":
        head = json.loads((folder / "index.json").read_text())
        (folder / "index.json").write_text(json.dumps({**head, "version": 99}))
    elif how == "vectors missing":
        (folder / "part-00000.arrow").unlink()
    elif how == "vectors cut short":
        path = folder / "part-00000.arrow"
        path.write_bytes(path.read_bytes()[:-500])
    elif how == "fewer vectors":
        new_index(folder.parent / "few").add([piece(VECTORS[:10], ids(10))])
        shutil.copy(folder.parent / "few" / "part-00000.arrow", folder)
    elif how == "rows cut short":
        path = folder / "part-00000.arrow"
        path.write_bytes(path.read_bytes()[:300])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("no head", "holds no index: it has no index.json"),
        (
            "half a head",
            "is damaged or of another version; build the index again",
        ),
        (
            "another version",
            "is damaged or of another version; build the index again",
        ),
        (
            "vectors missing",
            "arrow is missing or damaged; build the index again",
        ),
        (
            "vectors cut short",
            "arrow is missing or damaged; build the index again",
        ),
        (
            "fewer vectors",
            "expected 50 rows of 16 float32 numbers; build the index again",
        ),
        (
            "rows cut short",
            "arrow is missing or damaged; build the index again",
        ),
    ],
)
def test_a_damaged_folder_is_one_clear_line(tmp_path, how, message):
    new_index(tmp_path / "i").add([piece(VECTORS[:50], ids(50))])
    damage(tmp_path / "i", how)
    with pytest.raises(UserError, match=message):
        VectorIndex.open(tmp_path / "i")


def test_a_part_that_was_not_finished_is_no_part(tmp_path, monkeypatch):
    index = new_index(tmp_path / "i")
    index.add([piece(VECTORS[:50], ids(50))])
    monkeypatch.setattr(
        module,
        "write_json",
        lambda *_: (_ for _ in ()).throw(OSError("killed")),
    )
    with pytest.raises(OSError, match="killed"):
        index.add([piece(VECTORS[50:90], ids(40))])
    monkeypatch.undo()
    again = VectorIndex.open(tmp_path / "i")
    assert len(again) == 50
    again.add([piece(VECTORS[90:], ids(210))])
    assert again.search(VECTORS[[95]], k=1).rows.tolist() == [[55]]


def test_rows_that_come_in_pieces_lie_in_parts_of_one_size(tmp_path):
    whole, pieces = (
        new_index(tmp_path / name, block_rows=64)
        for name in ("whole", "pieces")
    )
    whole.add([piece(VECTORS, ids(300), texts=ids(300))])

    def in_pieces():
        for start in range(0, 300, 16):
            some = slice(start, start + 16)
            yield piece(VECTORS[some], ids(300)[some], texts=ids(300)[some])
        assert len(VectorIndex.open(tmp_path / "pieces")) == 0
        with pytest.raises(UserError, match="is in use by another process"):
            VectorIndex.open(tmp_path / "pieces").add(
                [piece(VECTORS, ids(300))]
            )

    pieces.add(in_pieces())
    again = VectorIndex.open(tmp_path / "pieces")
    assert [len(block) for block in again.blocks()] == [64, 64, 64, 64, 44]
    assert np.array_equal(
        *(np.concatenate([*i.blocks()]) for i in (again, whole))
    )
    assert again.rows(range(300)).equals(whole.rows(range(300)))


def test_rows_of_a_block_that_fails_are_not_added(tmp_path):
    index = new_index(tmp_path / "i", block_rows=64)
    index.add([piece(VECTORS[:50], ids(50))])
    before = sorted(path.name for path in (tmp_path / "i").iterdir())

    def stopped():
        index.about["note"] = 1
        yield piece(VECTORS, ids(300))
        assert list((tmp_path / "i").glob("part-00001*"))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.add(stopped())
    assert sorted(path.name for path in (tmp_path / "i").iterdir()) == before
    index.add([piece(VECTORS[50:60], ids(10, 50))])
    assert VectorIndex.open(tmp_path / "i").about == {}
    assert index.rows(range(60))["id"].tolist() == ids(60)


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (
            VECTORS[:, :3],
            r"vectors have shape \(300, 3\), expected \(300, 16\)",
        ),
        (
            VECTORS[:3],
            r"vectors have shape \(3, 16\), expected \(300, 16\), a row for each id",
        ),
        (np.full_like(VECTORS, np.nan), "300 of 300 vectors are not finite"),
    ],
)
def test_bad_rows_are_refused_and_nothing_is_written(
    tmp_path, vectors, message
):
    index = new_index(tmp_path / "i")
    with pytest.raises(UserError, match=message):
        index.add([piece(vectors, ids(300))])
    assert len(VectorIndex.open(tmp_path / "i")) == 0


def test_other_bad_input(tmp_path):
    with pytest.raises(
        UserError,
        match=r"no such index folder: .*none; make one with `biomed sen",
    ):
        VectorIndex.open(tmp_path / "none")
    index = new_index(tmp_path / "i")
    with pytest.raises(
        UserError, match="exists already; add to it, or name another folder"
    ):
        new_index(tmp_path / "i")
    with pytest.raises(
        UserError, match="queries have 3 numbers, the index has 16"
    ):
        index.search(QUERIES[:, :3])
    with pytest.raises(UserError, match="k must be at least 1, got 0"):
        index.search(QUERIES, k=0)


def test_an_interrupt_after_the_head_was_written_leaves_a_whole_index(
    tmp_path, monkeypatch
):
    index = new_index(tmp_path / "i")
    index.add([piece(VECTORS[:50], ids(50))])
    read, reads = VectorIndex._read_head, []

    def interrupted(self):
        reads.append(self)
        if len(reads) > 1:
            raise KeyboardInterrupt
        read(self)

    monkeypatch.setattr(VectorIndex, "_read_head", interrupted)
    with pytest.raises(KeyboardInterrupt):
        index.add([piece(VECTORS[50:60], ids(10, 50))])
    monkeypatch.undo()
    again = VectorIndex.open(tmp_path / "i")
    assert (
        again.rows(range(len(again)))["id"].tolist() == ids(60)[: len(again)]
    )
    assert len(again) >= 50
