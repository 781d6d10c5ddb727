"""The models that a service offers, found through the entry points `domainbert.tasks`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from domainbert.errors import EncoderError, UserError
from domainbert.models.shipped import resolve_model, shipped_models

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from domainbert.scoring import Task

GROUP = "domainbert.tasks"
TOLERANCE = 1e-5

Rows = "list[dict[str, Any]]"


@dataclass(frozen=True)
class Form:
    """Another form of a task's answer, asked for with `?format=`.

    Attributes:
        media_type: of the answer.
        make: (records, score) -> the answer, where `score` takes (task, records).
    """

    media_type: str
    make: Callable[[Sequence[Mapping[str, Any]], Callable[..., Any]], Any]


@dataclass(frozen=True)
class Served:
    """A loaded model and what it does.

    Attributes:
        name: as it was asked for.
        fingerprint: of the model.
        tasks: path in the address -> task, such as "readmission" for `/v1/readmission`.
        example: task, record, and the columns of the result that are known, for the self-test.
        card: the model's card, Markdown.
        forms: (task, name) -> another form of its answer.
        routes: adds the package's own routes to a service.
    """

    name: str
    fingerprint: str
    tasks: Mapping[str, Task]
    example: tuple[str, dict[str, Any], dict[str, float]] | None = None
    card: str = ""
    forms: Mapping[tuple[str, str], Form] = field(default_factory=lambda: MappingProxyType({}))
    routes: Callable[[Any, Served], None] | None = None

    def wrong(self, score: Callable[..., Any]) -> str:
        """What is wrong with the model's answer to its example, or ""."""
        if self.example is None:
            return ""
        task, record, known = self.example
        row = score(task, [record])[0]
        for column, value in known.items():
            found = row.get(column)
            if not isinstance(found, float) or not abs(found - value) <= TOLERANCE:
                return f"{self.name}: {column} of its example is {found}; its card says {value}"
        return ""


@dataclass(frozen=True)
class Announced:
    """What an entry point gives: the package that has models of a kind, and how to load one.

    Attributes:
        task: as in a model's `config.json`.
        package: that ships such models.
        load: name or folder -> the loaded model; `cache` is a file of window scores.
    """

    task: str
    package: str
    load: Callable[..., Served]


def announced() -> list[Announced]:
    """All that the installed packages announce."""
    return [point.load() for point in sorted(entry_points(group=GROUP), key=lambda p: p.name)]


def find_kind(name: str, kinds: Iterable[Announced]) -> tuple[Announced, str]:
    """The kind of a model, and its name.

    Args:
        name: a shipped model, a folder, or `TASK=NAME` for what does not tell its task itself.
        kinds: see `announced`.

    Raises:
        UserError: nobody announces such a task, or the model does not tell it.
        EncoderError: no such model.
    """
    by_task = {kind.task: kind for kind in kinds}
    task, equals, rest = name.partition("=")
    if equals and task in by_task:
        return by_task[task], rest
    for kind in by_task.values():
        if name in shipped_models(kind.package) and _task_of(name, kind.package) == kind.task:
            return kind, name
    for package in dict.fromkeys(kind.package for kind in by_task.values()):
        try:
            task = _task_of(name, package)
        except EncoderError:
            continue
        if task in by_task:
            return by_task[task], name
        known = ", ".join(by_task) or "none; is the package installed anew?"
        msg = f"{name} does not say which task it is for; write TASK={name}, of the tasks {known}"
        raise UserError(msg)
    shipped = sorted({n for kind in by_task.values() for n in shipped_models(kind.package)})
    raise UserError(f"no model {name!r}: expected a folder, or one of {', '.join(shipped)}")


def _task_of(name: str, package: str) -> str:
    """The task in a model's `config.json`, "" where it says none."""
    file = Path(resolve_model(name, package)).expanduser() / "config.json"
    config = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return str(config.get("domainbert", {}).get("task", ""))
