"""Scoring of Ray datasets and Spark DataFrames with any task; each worker loads it once.

Rows get ascending numbers. For a task with groups, each row is packed into one text, and a shuffle
by the normalised id brings the rows of a group together, in their order.
"""

from __future__ import annotations

import os
import pickle
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from domainbert.errors import UserError, missing_extra
from domainbert.scoring.driver import AnyTask, score_chunks
from domainbert.scoring.task import Plan, grouped, make_plan, packed, unpacked
from domainbert.tables import Row
from domainbert.tables.parquet_files import arrow_cells

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from ray.data import Dataset

_NUMBER = "__number"  # the column of ascending numbers that an engine adds
_PARTITIONS = 4  # per worker, so that a slow one does not delay the end
# Run -> the task, for the last run of this Spark worker, which serves many partitions.
_tasks: dict[str, AnyTask] = {}


def score_ray(
    dataset: Dataset,
    task: AnyTask,
    *,
    named: Mapping[str, str] | None = None,
    keep: Iterable[str] = (),
    workers: int = 2,
    threads: int = 1,
    partitions: int | None = None,
) -> Dataset:
    """Score a Ray dataset; nothing runs before the result is consumed.

    Args:
        dataset: a dataset with the columns of the task.
        task: see `domainbert.scoring.score_frame`; it is pickled.
        named: see `score_frame`.
        keep: see `score_frame`.
        workers: number of actors.
        threads: threads of each actor, and CPUs that it reserves.
        partitions: number of partitions of the shuffle; by default four per worker. 100 MB of
            text is a good size of a partition. Without groups, the dataset's blocks are used.

    Returns:
        The rows of `score_frame`, in any order. `row` is unique and ascends in the dataset's order,
        but is not consecutive.

    Raises:
        TableError: a required column is missing.
        UserError: not a Ray dataset, or Ray is not installed.
    """
    try:
        import ray
        from ray.cloudpickle import dumps
        from ray.data import ActorPoolStrategy, Dataset
        from ray.data.expressions import monotonically_increasing_id
    except ImportError as error:
        raise missing_extra(error, "ray") from None
    if not isinstance(dataset, Dataset):
        raise UserError(
            f"expected a Ray dataset, got {type(dataset).__name__}"
        )
    plan = make_plan(
        task,
        dataset.columns() or [],
        named=named,
        keep=keep,
        source="the table",
    )
    rows = dataset.with_column(_NUMBER, monotonically_increasing_id())
    if plan.group is not None:
        pack = rows.map_batches(
            partial(_pack, plan=plan), batch_format="pyarrow"
        )
        groups = pack.groupby(
            "key", num_partitions=partitions or _PARTITIONS * workers
        )
        rows = groups.map_groups(_gather, batch_format="pyarrow")
    return rows.map_batches(
        _RayWorker,
        fn_constructor_args=(ray.put(dumps(task)), plan, threads),
        batch_size=None,  # one block: Ray would join partitions to fill a batch
        batch_format="pyarrow",
        num_cpus=threads,
        # It starts with one actor, so that CPUs are left for reading.
        compute=ActorPoolStrategy(min_size=1, max_size=workers),
    )


def score_spark(
    frame: DataFrame,
    task: AnyTask,
    *,
    named: Mapping[str, str] | None = None,
    keep: Iterable[str] = (),
    partitions: int | None = None,
    threads: int | None = None,
) -> DataFrame:
    """Score a Spark DataFrame; nothing runs before an action asks for the result.

    Args:
        frame: a DataFrame of a classic session (not Spark Connect).
        task: see `score_ray`.
        named: see `score_ray`.
        keep: see `score_ray`.
        partitions: number of partitions of the shuffle; by default four per core. Without groups,
            the frame's partitions are used.
        threads: threads of each worker; by default `spark.task.cpus`.

    Returns:
        See `score_ray`.

    Raises:
        TableError: a required column is missing.
        UserError: not a Spark DataFrame, or Spark is not installed.
    """
    try:
        from pyspark.cloudpickle import dumps
        from pyspark.sql import functions
        from pyspark.sql.pandas.types import from_arrow_schema
    except ImportError as error:
        raise missing_extra(error, "spark") from None
    if not hasattr(frame, "mapInArrow"):
        raise UserError(
            f"expected a Spark DataFrame, got {type(frame).__name__}"
        )
    plan = make_plan(
        task, frame.columns, named=named, keep=keep, source="the table"
    )
    context = frame.sparkSession.sparkContext
    threads = threads or int(context.getConf().get("spark.task.cpus", "1"))
    rows = frame.withColumn(_NUMBER, functions.monotonically_increasing_id())
    if plan.group is not None:
        n_partitions = partitions or _PARTITIONS * context.defaultParallelism
        pack = partial(_pack_all, plan=plan)
        packed_rows = rows.mapInArrow(
            pack, from_arrow_schema(_packed_schema())
        )
        groups = packed_rows.repartition(n_partitions, "key")
        rows = groups.sortWithinPartitions("key", "number")
    settings = {
        "run": secrets.token_hex(8),
        "task": context.broadcast(dumps(task)),
    }
    work = partial(_score_partition, **settings, plan=plan, threads=threads)
    return rows.mapInArrow(work, from_arrow_schema(plan.schema))


def _packed_schema() -> pa.Schema:
    return pa.schema({"key": "string", "number": "int64", "row": "string"})


def _pack(batch: pa.Table, *, plan: Plan) -> pa.Table:
    """Rows with numbers as (key, number, row); a row without an id has a unique key."""
    names = {_NUMBER, *plan.chosen.values(), *plan.carried}
    rows = list(_numbered([batch.select(sorted(names))]))
    keys = list(map(plan.item_key, rows))
    columns = [keys, [row.number for row in rows], list(map(packed, rows))]
    return pa.table(columns, schema=_packed_schema())


def _pack_all(
    batches: Iterable[pa.RecordBatch],
    *,
    plan: Plan,
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from _pack(batch, plan=plan).to_batches()


def _gather(group: pa.Table) -> dict[str, object]:
    """One row with the rows of a group in order, so that no later step can separate them."""
    return {"row": [group.sort_by("number").column("row").to_pylist()]}


def _numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    for fields in arrow_cells(batches, "the table"):
        cells, *_ = fields
        yield Row(int(cells[_NUMBER]), *fields)


def _unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        for cell in batch.column("row"):  # singly: a stay may have many notes
            packed_rows = cell.as_py()
            if isinstance(packed_rows, str):
                packed_rows = [packed_rows]
            yield from map(unpacked, packed_rows)


def _scored(
    batches: Iterable[pa.RecordBatch],
    task: AnyTask,
    plan: Plan,
) -> Iterator[pa.Table]:
    rows = _unpacked(batches)
    if plan.group is None:
        rows = _numbered(batches)
    return score_chunks(task, plan, grouped(rows, plan))


def _load(content: bytes, *, threads: int) -> AnyTask:
    """A pickled task in a worker, which computes with `threads` threads from now on."""
    # For the tokenizer, which reads it at its first use.
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    task = pickle.loads(content)  # noqa: S301  (from our own driver)
    torch = sys.modules.get("torch")
    if torch:
        torch.set_num_threads(threads)
    return task


class _RayWorker:
    """An actor: one process that holds the task."""

    def __init__(self, task: Any, plan: Plan, threads: int) -> None:
        import ray

        self._task = _load(ray.get(task), threads=threads)
        self._plan = plan

    def __call__(self, batch: pa.Table) -> Iterator[pa.Table]:
        yield from _scored([batch], self._task, self._plan)


def _score_partition(
    batches: Iterator[pa.RecordBatch],
    *,
    run: str,
    task: Any,
    plan: Plan,
    threads: int,
) -> Iterator[pa.RecordBatch]:
    if run not in _tasks:
        _tasks.clear()
        _tasks[run] = _load(task.value, threads=threads)
    for table in _scored(batches, _tasks[run], plan):
        yield from table.to_batches()
