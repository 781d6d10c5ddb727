"""Streams of items: reading ahead in a thread, and chunks of about one size."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")


def read_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items in the same order; a thread prepares the next one meanwhile."""
    iterator = iter(items)
    end: Any = object()
    with ThreadPoolExecutor(
        max_workers=1, thread_name_prefix="read-ahead"
    ) as pool:
        upcoming = pool.submit(next, iterator, end)
        while (item := upcoming.result()) is not end:
            upcoming = pool.submit(next, iterator, end)
            yield item


def chunked(
    items: Iterable[Item],
    *,
    size: Callable[[Item], int],
    limit: int,
) -> Iterator[list[Item]]:
    """Lists of consecutive items whose sizes add up to about `limit`; none is split."""
    chunk = []
    total = 0
    for item in items:
        chunk.append(item)
        total += size(item)
        if total >= limit:
            yield chunk
            chunk = []
            total = 0
    if chunk:
        yield chunk
