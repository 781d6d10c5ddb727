"""Score a Ray dataset with any task: `map_batches` with actors that load the task once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from domainbert.errors import UserError
from domainbert.scoring.engines import (
    NUMBER,
    PARTITIONS_PER_WORKER,
    load_task,
    packed_rows,
    scored,
)
from domainbert.scoring.plan import make_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa
    from ray import ObjectRef
    from ray.data import Dataset

    from domainbert.scoring.plan import Plan
    from domainbert.scoring.task import Task


def score(
    dataset: Dataset,
    task: Task[Any, Any],
    *,
    named: Mapping[str, str] | None = None,
    keep: Iterable[str] = (),
    workers: int = 2,
    threads: int = 1,
    partitions: int | None = None,
) -> Dataset:
    """Score a Ray dataset; nothing runs before the result is consumed.

    Where the task has groups, rows with one id are shuffled together and come to the task in the
    dataset's order.

    Args:
        dataset: see the task for its columns.
        task: what to do with each row, or group of rows; pickled.
        named: our column -> the dataset's, where its name is not recognised.
        keep: further columns to carry along, as text.
        workers: actors; each loads the task once.
        threads: of each actor, and the CPUs that it reserves.
        partitions: of the shuffle; by default four for each worker. A partition of 100 MB of text
            is a good size. Without groups the dataset's own blocks are used.

    Returns:
        The columns of `domainbert.scoring.score_frame`, in no particular order. `row` tells rows
        apart and ascends in the dataset's order, but is not consecutive.

    Raises:
        TableError: a column that is needed is not there.
        UserError: not a Ray dataset, or Ray is not installed.
    """
    try:
        import ray
        from ray.cloudpickle import dumps
        from ray.data import ActorPoolStrategy, Dataset
        from ray.data.expressions import monotonically_increasing_id
    except ImportError:
        raise UserError("Ray is not installed: pip install 'domainbert[ray]'") from None
    if not isinstance(dataset, Dataset):
        raise UserError(f"expected a Ray dataset, got {type(dataset).__name__}")
    plan = make_plan(task, dataset.columns() or [], named=named, keep=keep, source="the table")
    rows = dataset.with_column(NUMBER, monotonically_increasing_id())
    if plan.group is not None:
        pack = rows.map_batches(partial(_pack, plan=plan), batch_format="pyarrow")
        groups = pack.groupby("key", num_partitions=partitions or PARTITIONS_PER_WORKER * workers)
        rows = groups.map_groups(_gather, batch_format="pyarrow")
    return rows.map_batches(
        _Worker,
        fn_constructor_args=(ray.put(dumps(task)), plan, threads),
        batch_size=None,  # a block each: Ray would join partitions to fill a batch
        batch_format="pyarrow",
        num_cpus=threads,
        compute=ActorPoolStrategy(min_size=1, max_size=workers),  # one: CPUs are left for reading
    )


def _pack(batch: pa.Table, *, plan: Plan) -> pa.Table:
    (table,) = packed_rows([batch], plan)
    return table


def _gather(group: pa.Table) -> dict[str, Any]:
    """One row with the rows of a group in order, so that no later step can part them."""
    return {"rows": [group.sort_by("number").column("row").to_pylist()]}


class _Worker:
    """An actor: one process that holds the task."""

    def __init__(self, task: ObjectRef[bytes], plan: Plan, threads: int) -> None:
        import ray

        self._task, self._plan = load_task(ray.get(task), threads=threads), plan

    def __call__(self, batch: pa.Table) -> Iterator[pa.Table]:
        packed_as = "rows" if self._plan.group else None
        yield from scored([batch], self._task, self._plan, packed_as=packed_as)
