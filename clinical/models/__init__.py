"""The models that come with the package."""

from __future__ import annotations

from pathlib import Path


def shipped() -> dict[str, Path]:
    """Name and folder of every shipped model."""
    here = Path(__file__).parent
    return {file.parent.name: file.parent for file in sorted(here.glob("*/config.json"))}


def resolve(name: str | Path) -> str | Path:
    """The folder of a shipped model, or the name unchanged: a folder or a Hub id.

    Raises:
        EncoderError: a plain name that is neither a shipped model nor a folder.
    """
    from domainbert.encoders import EncoderError

    models = shipped()
    if str(name) in models:
        return models[str(name)]
    if isinstance(name, str) and not set(name) & set("/\\:.~") and not Path(name).exists():
        msg = f"{name}: no such folder, and not a shipped model; shipped: {', '.join(models)}"
        raise EncoderError(msg)
    return name
