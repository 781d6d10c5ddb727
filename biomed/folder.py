"""What the task models share: how they become a folder."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from domainbert.adapters import TaskConfig, TaskModel


class TaskFolder:
    """A network with a tokenizer and settings that can be written to a folder.

    Attributes:
        manifest: how it was trained and how it scored.
        config: from the folder it was loaded from, or of its training; None for a plain Hugging
            Face checkpoint.
        adapter: the tensors merged into the encoder; None with full weights.
    """

    task: ClassVar[str]
    labels: tuple[str, ...]
    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    settings: Any

    def __init__(self) -> None:
        self.manifest: dict[str, Any] = {}
        self.config: TaskConfig | None = None
        self.adapter: dict[str, torch.Tensor] | None = None

    def remember(self, loaded: TaskModel) -> None:
        """Keep what a folder says besides the weights."""
        if loaded.config:
            self.config, self.manifest = loaded.config, loaded.config.manifest
            self.adapter = loaded.adapter

    def save_pretrained(self, folder: str | Path, *, merged: bool = False) -> None:
        """Write the model folder: an adapter where the model has one, else all weights.

        Args:
            folder: replaced if it is a model folder of ours.
            merged: write all weights in any case, for use with Hugging Face's own classes.

        Raises:
            FileExistsError: the folder is there and is no model folder.
        """
        from biomed.card import model_card
        from domainbert.adapters import save_task_model

        adapter = None if merged else self.adapter
        config = self._task_config()
        if adapter is None:
            config = replace(config, lora=None)
        save_task_model(
            folder,
            model=self.network,
            tokenizer=self.tokenizer,
            config=config,
            card=model_card(config),
            adapter=adapter,
        )

    def _task_config(self) -> TaskConfig:
        from domainbert.adapters import TaskConfig

        stored = self.config or TaskConfig(
            task=self.task,
            labels=self.labels,
            encoder=self.network.config.name_or_path or "unnamed",
            encoder_sha256=None,
            lower_case=bool(getattr(self.tokenizer, "do_lower_case", True)),
            lora=None,
        )
        return replace(stored, settings=asdict(self.settings), manifest=self.manifest)
