"""The models that a service offers: how packages announce them, and how one is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.encoders.loading import unknown_name
from domainbert.errors import UserError
from domainbert.files import expanded
from domainbert.models.storage import (
    CONFIG_FILE,
    check_whole,
    read_task_config,
    shipped_models,
)

if TYPE_CHECKING:
    from domainbert.models.model import Model
    from domainbert.scoring.driver import AnyTask

TOLERANCE = 1e-5
# Of a model in bfloat16, which the card's numbers are not from.
BFLOAT16_TOLERANCE = 0.05


@dataclass(frozen=True)
class Served:
    """A loaded model and its tasks.

    Attributes:
        model: its manifest has the example for the self-test, a record for the first task.
        tasks: last part of the address -> task, such as "readmission" for `/v1/readmission`.
        routes: called with the service and this model; adds further routes and formats.
    """

    model: Model[Any]
    tasks: Mapping[str, AnyTask]
    routes: Callable[[Any, Served], None] = lambda *_: None

    @property
    def name(self) -> str:
        """The last part of the model's name or folder."""
        return Path(self.model.name).name

    def self_test(
        self,
        score: Callable[[list[Any]], Sequence[Mapping[Any, Any]]],
    ) -> str:
        """What is wrong with the result of the card's example in the first task, or ""."""
        example = self.model.manifest.example
        if not example:
            return ""
        tolerance = TOLERANCE
        if self.model.precision == "bfloat16":
            tolerance = BFLOAT16_TOLERANCE
        row = score([example.record])[0]
        for column, expected in example.row.items():
            difference = abs((row.get(column) or 0) - expected)
            if not difference <= tolerance:  # also for NaN
                return f"{self.name}: {column} of its card's example differs"
        return ""


@dataclass(frozen=True)
class Announced:
    """What a package announces through an entry point: how its models of a task are loaded.

    Attributes:
        task: the task in the models' `config.json`.
        package: the package that ships such models.
        load: called with the name, `cache`, a file for window scores, and `dtype`, the precision;
            see `domainbert.models.model.Model.from_pretrained`.
    """

    task: str
    package: str
    load: Callable[..., Served]

    def can_load(self, name: str) -> bool:
        """Whether a shipped model, or the model in a folder, is for this task."""
        folder = shipped_models(self.package).get(name, expanded(name))
        if not (folder / CONFIG_FILE).is_file():
            if folder.is_dir():
                check_whole(folder)
            return False
        config = read_task_config(folder)
        return config is not None and config.task == self.task


def announced() -> list[Announced]:
    """What the installed packages announce."""
    points = entry_points(group="domainbert.tasks")
    return [
        point.load() for point in sorted(points, key=lambda point: point.name)
    ]


def find_task(
    name: str, announced_tasks: Sequence[Announced]
) -> tuple[Announced, str]:
    """The announced task of a model, and its name without the task and the label.

    Args:
        name: a shipped model, a folder, `TASK=NAME`, or one of these after `LABEL=`.
        announced_tasks: the served models, from `announced`.

    Raises:
        UserError: no task has such a model.
    """
    label, _, name_in_task = name.partition("=")
    for task in announced_tasks:
        if name_in_task and label == task.task:
            return task, name_in_task
        if task.can_load(name):
            return task, name
    if name_in_task:
        return find_task(name_in_task, announced_tasks)
    shipped = {
        name
        for task in announced_tasks
        for name in shipped_models(task.package)
    }
    names = ", ".join(sorted({task.task for task in announced_tasks}))
    raise UserError(
        f"{unknown_name(name, sorted(shipped), what='model')} "
        f"Or write TASK=NAME ({names or 'no task is announced: reinstall the package'})."
    )
