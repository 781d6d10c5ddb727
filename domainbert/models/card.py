"""The card of a model folder: Markdown from the package's template, written at every save."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from domainbert.statistics.bootstrap import Interval

if TYPE_CHECKING:
    from domainbert.encoders.lora import Adapter
    from domainbert.models.storage import TaskConfig


def model_card(config: TaskConfig, package: str, adapter: Adapter | None = None) -> str:
    """Markdown for a model folder's README, from the package's template.

    The manifest's `card` (title, data, limits, licence, rebuild) comes from the recipe, `scores`
    (see `score_rows`) and `scores_note` from the evaluation, `counts` ({what: number}) from the
    training data.
    """
    from jinja2 import Environment, PackageLoader

    # The card is Markdown for people, not HTML for a browser: nothing to escape.
    environment = Environment(loader=PackageLoader(package, "models"), autoescape=False)  # noqa: S701
    environment.filters["score_rows"] = score_rows
    environment.filters["table"] = lambda rows: table(rows[0], rows[1:])
    return environment.get_template("model_card.md.j2").render(
        config=config,
        adapter=adapter,
        manifest=config.manifest,
        card=config.manifest.get("card", {}),
    )


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table with a head, as Markdown; every row has as many cells."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def score_rows(manifest: Mapping[str, Any]) -> list[list[str]]:
    """A manifest's scores, {column: {row: value}}, as a table of text, its head first.

    A value is a number or {"value", "low", "high"}. The list is empty where nothing was measured.
    """
    scores: dict[str, dict[str, Any]] = manifest.get("scores", {})
    if not scores:
        return []
    names = dict.fromkeys(row for column in scores.values() for row in column)
    rows = [
        [row, *(score_text(column.get(row)) for column in scores.values())]
        for row in names
    ]
    return [["", *scores], *rows]


def score_text(value: float | Mapping[str, float] | None) -> str:
    """A number, with its interval where it has one, as tables show it; "" without one."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return str(Interval(**value))
    return f"{value:.3f}" if isinstance(value, float) else str(value)
