"""The models that a service offers, found through the entry points `domainbert.tasks`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from domainbert.errors import UserError
from domainbert.models.shipped import shipped_models

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from domainbert.scoring import Task

TOLERANCE = 1e-5


@dataclass(frozen=True)
class Served:
    """A loaded model and what it does.

    Attributes:
        name: as it was asked for.
        fingerprint: of the model.
        tasks: last part of the address -> task, such as "readmission" for `/v1/readmission`.
        card: of the model, Markdown.
        example: task, record, and columns of its result that are known, for the self-test.
        forms: (task, format) -> (records, score) -> the response for `?format=`.
        routes: (service, this) -> None; adds the package's own routes.
    """

    name: str
    fingerprint: str
    tasks: Mapping[str, Task]
    card: str = ""
    example: tuple[str, dict[str, Any], dict[str, float]] | None = None
    forms: Mapping[tuple[str, str], Callable[..., Any]] = field(default_factory=dict)
    routes: Callable[[Any, Served], None] | None = None

    @classmethod
    def of(cls, name: str, model: Any, tasks: Mapping[str, Task], **more: Any) -> Self:
        """A `domainbert.models.Model` as it is served; its example is that of the first task."""
        known = model.manifest.get("example")
        example = (next(iter(tasks)), known["record"], known["row"]) if known else None
        card = model.card(model.config, model.adapter) if model.config else ""
        return cls(Path(name).name, model.fingerprint(), tasks, card, example, **more)

    def self_test(self, score: Callable[..., Any]) -> str:
        """What is wrong with the answer to the example, or ""."""
        task, record, known = self.example or ("", {}, {})
        row = score(task, [record])[0] if known else {}
        wrong = [c for c, v in known.items() if not abs((row.get(c) or 0) - v) <= TOLERANCE]
        return f"{self.name}: {wrong[0]} of its card's example differs" if wrong else ""


@dataclass(frozen=True)
class Announced:
    """What an entry point gives: models for a task (as in their `config.json`) and their loader.

    `load` takes the name and `cache`, a file of window scores; `package` ships such models.
    """

    task: str
    package: str
    load: Callable[..., Served]


def announced() -> list[Announced]:
    """All that the installed packages announce."""
    points = entry_points(group="domainbert.tasks")
    return [point.load() for point in sorted(points, key=lambda point: point.name)]


def shipped_and_announced() -> list[tuple[Announced, str]]:
    """The shipped models of announced tasks."""
    kinds = announced()
    pairs = [(kind, name) for kind in kinds for name in shipped_models(kind.package)]
    return [(kind, name) for kind, name in pairs if _task_of(name, kinds) == kind.task]


def _task_of(name: str, kinds: Iterable[Announced]) -> str | None:
    """The task in the `config.json` of a shipped model or a folder."""
    folders = {n: path for kind in kinds for n, path in shipped_models(kind.package).items()}
    file = folders.get(name, Path(name).expanduser()) / "config.json"
    config = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    task: str | None = config.get("domainbert", {}).get("task")
    return task


def find_kind(name: str, kinds: Iterable[Announced]) -> tuple[Announced, str]:
    """The kind of a model and its name: shipped, a folder, or `TASK=NAME` for any other.

    Raises:
        UserError: no such model, or its task is not announced.
    """
    kinds, (task, equals, rest) = list(kinds), name.partition("=")
    for kind in kinds:
        if equals and task == kind.task:
            return kind, rest
        if _task_of(name, kinds) == kind.task:
            return kind, name
    shipped = sorted({n for kind in kinds for n in shipped_models(kind.package)})
    tasks = ", ".join(sorted({kind.task for kind in kinds})) or "none announced: install again"
    msg = f"no model {name!r}: expected {', '.join(shipped)}, a folder, or TASK=NAME ({tasks})"
    raise UserError(msg)
