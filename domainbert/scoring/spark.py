"""Score a Spark DataFrame with any task: `mapInArrow`, the rows of a group in one partition."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Any

from domainbert.errors import UserError
from domainbert.scoring.engines import (
    NUMBER,
    PARTITIONS_PER_WORKER,
    load_task,
    packed_rows,
    packed_schema,
    scored,
)
from domainbert.scoring.plan import make_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark import Broadcast
    from pyspark.sql import DataFrame

    from domainbert.scoring.plan import Plan
    from domainbert.scoring.task import Task

_tasks: dict[
    str, Task[Any, Any]
] = {}  # by run: the last one of this worker, which serves many partitions


def score(
    frame: DataFrame,
    task: Task[Any, Any],
    *,
    named: Mapping[str, str] | None = None,
    keep: Iterable[str] = (),
    partitions: int | None = None,
    threads: int | None = None,
) -> DataFrame:
    """Score a Spark DataFrame; nothing runs before an action asks for the result.

    Each Python worker loads the task once. Where the task has groups, rows with one id are
    shuffled into one partition and come to the task in the frame's order.

    Args:
        frame: of a classic session (not Spark Connect).
        task: what to do with each row, or group of rows; pickled.
        named: our column -> the frame's, where its name is not recognised.
        keep: further columns to carry along, as text.
        partitions: of the shuffle; by default four for each core. A partition of 100 MB of text is
            a good size. Without groups the frame's own partitions are used.
        threads: of each worker; by default `spark.task.cpus`, so that a core computes once.

    Returns:
        The columns of `domainbert.scoring.score_frame`, in no particular order. `row` tells rows
        apart and ascends in the frame's order, but is not consecutive.

    Raises:
        TableError: a column that is needed is not there.
        UserError: not a Spark DataFrame, or Spark is not installed.
    """
    try:
        from pyspark.cloudpickle import dumps
        from pyspark.sql import functions
        from pyspark.sql.pandas.types import from_arrow_schema
    except ImportError:
        raise UserError("Spark is not installed: pip install 'domainbert[spark]'") from None
    if not hasattr(frame, "mapInArrow"):
        raise UserError(f"expected a Spark DataFrame, got {type(frame).__name__}")
    plan = make_plan(task, frame.columns, named=named, keep=keep, source="the table")
    context = frame.sparkSession.sparkContext
    threads = threads or int(context.getConf().get("spark.task.cpus", "1"))
    rows = frame.withColumn(NUMBER, functions.monotonically_increasing_id())
    if plan.group is not None:
        pieces = partitions or PARTITIONS_PER_WORKER * context.defaultParallelism
        rows = rows.mapInArrow(partial(_pack, plan=plan), from_arrow_schema(packed_schema()))
        rows = rows.repartition(pieces, "key").sortWithinPartitions("key", "number")
    work = partial(
        _score,
        run=secrets.token_hex(8),
        task=context.broadcast(dumps(task)),
        plan=plan,
        threads=threads,
    )
    return rows.mapInArrow(work, from_arrow_schema(plan.schema))


def _pack(batches: Iterator[pa.RecordBatch], *, plan: Plan) -> Iterator[pa.RecordBatch]:
    for table in packed_rows(batches, plan):
        yield from table.to_batches()


def _score(
    batches: Iterator[pa.RecordBatch],
    *,
    run: str,
    task: Broadcast[bytes],
    plan: Plan,
    threads: int,
) -> Iterator[pa.RecordBatch]:
    if run not in _tasks:
        _tasks.clear()
        _tasks[run] = load_task(task.value, threads=threads)
    packed_as = "row" if plan.group else None
    for table in scored(batches, _tasks[run], plan, packed_as=packed_as):
        yield from table.to_batches()
