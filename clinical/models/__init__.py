"""The models that come with the package."""

from __future__ import annotations

from pathlib import Path


def shipped() -> dict[str, Path]:
    """Name and folder of every shipped model."""
    here = Path(__file__).parent
    return {file.parent.name: file.parent for file in sorted(here.glob("*/config.json"))}


def resolve(name: str | Path) -> str | Path:
    """The folder of a shipped model, or the name unchanged; see `storage.resolve_model`."""
    from domainbert.storage import resolve_model

    return resolve_model(name, shipped())
