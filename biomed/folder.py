"""What the models of biomed share beyond the foundation: their shelf and their card."""

from __future__ import annotations

from typing import TYPE_CHECKING

from domainbert.model import Model

if TYPE_CHECKING:
    from pathlib import Path

    from domainbert.storage import TaskConfig


class BiomedFolder(Model):
    """A task model of biomed."""

    @classmethod
    def resolve(cls, name: str | Path) -> str | Path:
        """The folder of a shipped model, or the name unchanged."""
        from biomed.models import resolve

        return resolve(name)

    def card(self, config: TaskConfig) -> str:
        """Markdown for the folder's README."""
        from biomed.card import model_card

        return model_card(config)
