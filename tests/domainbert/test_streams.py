import itertools
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domainbert.streams import chunked, read_ahead


@given(items=st.lists(st.integers(), max_size=30))
def test_read_ahead_keeps_items_and_order(items):
    assert list(read_ahead(iter(items))) == items


def readers():
    return [
        thread
        for thread in threading.enumerate()
        if thread.name.startswith("read-ahead")
    ]


def test_read_ahead_prepares_one_item_at_most_and_does_so_meanwhile():
    started = [threading.Event() for _ in range(6)]

    def source():
        for number, event in enumerate(started):
            event.set()
            yield number

    items = read_ahead(source())
    assert not started[0].is_set()  # nothing before it is asked for
    for number in range(3):
        assert next(items) == number
        assert started[number + 1].wait(
            10
        )  # the next one, while this one is in use
        assert not started[number + 2].wait(0.02)  # and no more
    items.close()
    assert not started[4].is_set()
    assert readers() == []


def test_read_ahead_works_in_another_thread():
    names = list(read_ahead(threading.current_thread().name for _ in range(2)))
    assert all(name.startswith("read-ahead") for name in names)
    assert readers() == []


def test_read_ahead_passes_exceptions_on_after_what_came_before():
    def source():
        yield 1
        yield 2
        msg = "the source broke"
        raise RuntimeError(msg)

    items = read_ahead(source())
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(RuntimeError, match="the source broke"):
        next(items)
    assert readers() == []


def test_read_ahead_stops_its_thread_when_the_consumer_breaks():
    def consume():
        for item in read_ahead(itertools.count()):
            if item == 3:
                msg = "enough"
                raise KeyError(msg)

    with pytest.raises(KeyError):
        consume()
    assert readers() == []


@given(
    items=st.lists(st.lists(st.integers(), max_size=9), max_size=40),
    limit=st.integers(1, 30),
)
def test_chunks_are_consecutive_and_as_small_as_the_limit_allows(items, limit):
    chunks = list(chunked(items, size=len, limit=limit))
    assert [item for chunk in chunks for item in chunk] == items
    assert all(chunks)
    for chunk in chunks:
        assert sum(map(len, chunk[:-1])) < limit
    for chunk in chunks[:-1]:
        assert sum(map(len, chunk)) >= limit


def test_chunks_read_no_further_than_they_must():
    read = []
    source = (read.append(n) or n for n in itertools.count())
    chunks = chunked(source, size=lambda _: 1, limit=4)
    assert next(chunks) == [0, 1, 2, 3]
    assert read == [0, 1, 2, 3]
