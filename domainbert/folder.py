"""What the task models share: a network that runs windows and becomes a folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from domainbert.adapters import TaskConfig, TaskModel


class TaskFolder(ABC):
    """A network with a tokenizer and settings that can be written to a folder.

    Args:
        network: Hugging Face's.
        tokenizer: its fast tokenizer.
        settings: the task's own, a dataclass.
        device: where to run; by default CUDA where there is one, else the CPU.
        batch_tokens: tokens of one batch, padding counted; by default by device.

    Attributes:
        runner: runs windows through the network.
        manifest: how it was trained and how it scored.
        config: from the folder it was loaded from, or of its training; None for a plain Hugging
            Face checkpoint.
        adapter: the tensors merged into the encoder; None with full weights.
    """

    task: ClassVar[str]
    labels: tuple[str, ...]

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        settings: Any,
        *,
        device: str | torch.device | None,
        batch_tokens: int | None,
    ) -> None:
        from domainbert.inference import WindowRunner

        self.network, self.tokenizer, self.settings = network, tokenizer, settings
        self.runner = WindowRunner(
            network, pad_token_id=tokenizer.pad_token_id, device=device, batch_tokens=batch_tokens
        )
        self.manifest: dict[str, Any] = {}
        self.config: TaskConfig | None = None
        self.adapter: dict[str, torch.Tensor] | None = None

    @abstractmethod
    def card(self, config: TaskConfig) -> str:
        """Markdown for the folder's README."""

    def remember(self, loaded: TaskModel) -> None:
        """Keep what a folder, or a training, says besides the weights."""
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
            card=self.card(config),
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
