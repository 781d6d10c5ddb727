"""The card of a model folder: Markdown from the package's template, written at every save."""

from collections.abc import Iterable, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from domainbert.encoders.adapters import Adapter
from domainbert.models.manifest import Manifest
from domainbert.models.storage import TaskConfig
from domainbert.settings import Settings


def model_card(
    package: str,
    config: TaskConfig,
    settings: Settings,
    manifest: Manifest,
    adapter: Adapter | None = None,
    *,
    template: str = "model_card.md.j2",
) -> str:
    """Markdown for a model folder's README, from a template of the package."""
    environment = Environment(
        loader=PackageLoader(package, "models"),
        undefined=StrictUndefined,
        # The card is Markdown for people, not HTML for a browser: nothing to escape.
        autoescape=False,  # noqa: S701
    )
    environment.filters["table"] = lambda rows: table(rows[0], rows[1:])
    return environment.get_template(template).render(
        config=config,
        settings=settings,
        manifest=manifest,
        card=manifest.card,
        training=manifest.training,
        adapter=adapter,
    )


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table with a head, as Markdown; every row has as many cells."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
