"""Task: what a model does to one row of a table, or to the rows of one group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, TypeVar

from domainbert.text.windows import too_long

if TYPE_CHECKING:
    import pyarrow as pa

    from domainbert.tables import Column, Row

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Fault:
    """Why an item has no result; becomes a row with this status and reason."""

    reason: str
    status: Literal["error", "empty"] = "error"


def text_of(row: Row, column: str) -> str | Fault:
    """The text of a cell, or why it is none."""
    text = row.cells.get(column)
    if text is None or (isinstance(text, str) and not text.strip()):
        return Fault("no text", "empty")
    if not isinstance(text, str):
        return Fault(f"{column} is {type(text).__name__}, not text")
    return Fault(f"{column} has {reason}") if (reason := too_long(text)) else text


class Task(ABC, Generic[Item, Result]):
    """What a model does to one item. The driver does the rest, the same for every task.

    An item is one row, or all rows with the same value in the column `group`, in input order.

    Attributes:
        name: of the task, such as "readmission".
        columns: what it reads; columns of kind "id" are carried into the output.
        group: name of the column whose equal values make one item; None for one row an item.
    """

    name: ClassVar[str]
    columns: tuple[Column, ...]
    group: str | None = None

    @property
    @abstractmethod
    def output(self) -> pa.Schema:
        """The task's own output columns, fixed before the first row.

        The driver adds the ids before them, and `status` and `reason` after them.
        """

    @abstractmethod
    def read(self, rows: Sequence[Row]) -> Item | Fault:
        """One item, or why there is none; must not raise for bad values.

        Args:
            rows: of the item, cells under the names of `columns`; a missing column is None.
        """

    @abstractmethod
    def run(self, items: Iterable[Item]) -> Iterator[Result | Fault]:
        """A result for each item, in order; a `Fault` where there is none."""

    @abstractmethod
    def rows(self, item: Item, result: Result) -> Sequence[Mapping[str, object]]:
        """The output rows of an item, at least one.

        A row has the columns of `output` (a missing one is null), and may have a `status` other
        than "ok" and a `reason`, which for status "ok" is a remark.
        """

    def about(self) -> Mapping[str, object]:
        """What the summary of a run says of the model beside its hash, such as its name."""
        return {}

    @abstractmethod
    def facts(self) -> Mapping[str, object]:
        """What decides the results, as JSON: a hash of the model, and settings."""
