"""The model card that is written at every save."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from domainbert.markdown import table

if TYPE_CHECKING:
    from domainbert.storage import TaskConfig


def model_card(config: TaskConfig) -> str:
    """Markdown for a model folder's README, from its configuration.

    The manifest's `card` comes from the recipe; `score_table`, `verdicts` and `caveats` come from
    the evaluation (`clinical.evaluation.comparison.record`).
    """
    from jinja2 import Environment, PackageLoader

    manifest = config.manifest
    scores = manifest.get("score_table")
    # Markdown for people, not HTML for a browser: nothing to escape.
    environment = Environment(loader=PackageLoader("clinical"), autoescape=False)  # noqa: S701
    return environment.get_template("model_card.md.j2").render(
        config=asdict(config),
        manifest=manifest,
        card=manifest.get("card", {}),
        scores=table(scores[0], scores[1:]) if scores else "",
    )
