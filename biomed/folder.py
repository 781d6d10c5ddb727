"""What the models of biomed share beyond the foundation: their card."""

from __future__ import annotations

from typing import TYPE_CHECKING

from domainbert.folder import TaskFolder

if TYPE_CHECKING:
    from domainbert.adapters import TaskConfig


class BiomedFolder(TaskFolder):
    """A task model of biomed."""

    def card(self, config: TaskConfig) -> str:
        """Markdown for the folder's README."""
        from biomed.card import model_card

        return model_card(config)
