"""The model card that is written at every save."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from domainbert.storage import TaskConfig

METRICS = (
    ("auroc", "AUROC"),
    ("auprc", "AUPRC"),
    ("prevalence", "prevalence (what AUPRC is by chance)"),
    ("rp80", "recall at 80% precision"),
    ("brier", "Brier score"),
    ("calibration_slope", "calibration slope"),
    ("ece", "expected calibration error"),
)


def model_card(config: TaskConfig) -> str:
    """Markdown for a model folder's README, from what its configuration knows.

    The manifest's `card` (title, data, limits, licence, rebuild) comes from the recipe, its
    `scores` (name -> `Evaluation.to_dict()`) from the evaluation of the test side.
    """
    from jinja2 import Environment, PackageLoader

    # The card is Markdown for people, not HTML for a browser: nothing to escape.
    environment = Environment(loader=PackageLoader("clinical"), autoescape=False)  # noqa: S701
    return environment.get_template("model_card.md.j2").render(
        config=asdict(config),
        manifest=config.manifest,
        card=config.manifest.get("card", {}),
        scores=config.manifest.get("scores", {}),
        metrics=METRICS,
        interval=spell,
    )


def spell(value: dict[str, Any] | None) -> str:
    """A number with its interval, as tables show it."""
    if not value or value["value"] is None:
        return "not reachable"
    if value["low"] is None:
        return f"{value['value']:.3f}"
    return f"{value['value']:.3f} [{value['low']:.3f}, {value['high']:.3f}]"
