"""The models that come with a package: found by name, and the card that is written at every save.

A package keeps them in its folder `models`, beside the template of their cards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.encoders.loading import HUB, SHIPPED, unknown_name
from domainbert.errors import EncoderError
from domainbert.statistics.bootstrap import Interval

if TYPE_CHECKING:
    from domainbert.encoders.lora import Adapter
    from domainbert.models.storage import TaskConfig


def shipped_models(package: str) -> dict[str, Path]:
    """Name and folder of every model that comes with a package, such as "biomed"."""
    folder = Path(str(resources.files(package))) / "models"
    return {file.parent.name: file.parent for file in sorted(folder.glob("*/config.json"))}


def resolve_model(name: str | Path, package: str) -> str | Path:
    """The folder of a shipped model; folders, encoders and Hub models unchanged, others refused.

    Without a package there are no shipped models, and all names are unchanged.
    """
    if not package:
        return name
    typed, shipped = str(name), shipped_models(package)
    if typed in shipped:
        return shipped[typed]
    if typed in SHIPPED or typed.startswith(HUB) or Path(typed).expanduser().is_dir():
        return name
    raise EncoderError(unknown_name(typed, shipped, what="model"))


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
    rows = [[row, *(score_text(column.get(row)) for column in scores.values())] for row in names]
    return [["", *scores], *rows]


def score_text(value: float | Mapping[str, float] | None) -> str:
    """A number, with its interval where it has one, as tables show it; "" without one."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return str(Interval(**value))
    return f"{value:.3f}" if isinstance(value, float) else str(value)
