"""What the task models share: a network that runs windows and becomes a folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from domainbert.encoders import EncoderError, window_limit
from domainbert.errors import UserError
from domainbert.settings import as_dict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from domainbert.lora import LoRA
    from domainbert.storage import TaskConfig, TaskModel
    from domainbert.training.settings import TrainingSettings


class Model(ABC):
    """A network with a tokenizer and settings that is read from a folder and written to one.

    A task says what it is by `task`, `labels` (one name for each output; none where any number
    will do), `settings_class` and `train_command`, and by the methods below that are abstract.

    Args:
        network: Hugging Face's.
        tokenizer: its fast tokenizer.
        settings: the task's own, of `settings_class`; its defaults where there are none.
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
    labels: tuple[str, ...] = ()
    settings_class: ClassVar[Any]
    train_command: ClassVar[str]

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        settings: Any = None,
        device: str | torch.device | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        from domainbert.inference import WindowRunner

        self.network, self.tokenizer = network, tokenizer
        self.settings = settings or self.settings_class()
        self.runner = WindowRunner(
            network, pad_token_id=tokenizer.pad_token_id, device=device, batch_tokens=batch_tokens
        )
        self.manifest: dict[str, Any] = {}
        self.config: TaskConfig | None = None
        self.adapter: dict[str, torch.Tensor] | None = None

    @classmethod
    @abstractmethod
    def network_class(cls) -> Any:
        """Hugging Face's class for the network; asked late, for it takes seconds to import."""

    @classmethod
    @abstractmethod
    def resolve(cls, name: str | Path) -> str | Path:
        """The folder of a shipped model, or the name unchanged: a folder or a Hub id."""

    @abstractmethod
    def card(self, config: TaskConfig) -> str:
        """Markdown for the folder's README."""

    @classmethod
    def read_settings(cls, stored: dict[str, Any]) -> Any:
        """The settings that a folder holds.

        Raises:
            EncoderError: it holds others.
        """
        known = {field.name for field in fields(cls.settings_class)}
        if strange := sorted(set(stored) - known):
            msg = (
                f"config.json: settings has no {strange[0]!r}; legal are {', '.join(sorted(known))}"
            )
            raise EncoderError(msg)
        return cls.settings_class(**stored)

    @classmethod
    def load(cls, name: str | Path) -> TaskModel:
        """What a folder or a Hub id holds; see `domainbert.storage.load_task_model`."""
        from domainbert.storage import load_task_model

        return load_task_model(
            cls.resolve(name),
            task=cls.task,
            labels=len(cls.labels) or None,
            model_class=cls.network_class(),
            train_command=cls.train_command,
        )

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        device: str | torch.device | None = None,
        batch_tokens: int | None = None,
    ) -> Self:
        """Load a shipped model by name, a model folder, or a Hub id.

        A plain Hugging Face checkpoint with a head for the same job loads too.

        Args:
            name: of the model.
            device: see the class.
            batch_tokens: see the class.

        Raises:
            EncoderError: see `domainbert.storage.load_task_model`.
            ValueError: a head or settings that the class refuses.
        """
        loaded = cls.load(name)
        settings = cls.read_settings(loaded.config.settings) if loaded.config else None
        model = cls(
            loaded.model,
            loaded.tokenizer,
            settings=settings,
            device=device,
            batch_tokens=batch_tokens,
        )
        model.remember(loaded)
        return model

    @classmethod
    def untrained(
        cls,
        encoder: str | Path,
        *,
        training: TrainingSettings,
        settings: Any = None,
        labels: Sequence[str] = (),
    ) -> Self:
        """An encoder with a new head, to be trained.

        Args:
            encoder: shipped name, folder or Hub id.
            training: its seed draws the head; its dropout is of hidden states.
            settings: see the class.
            labels: of the outputs, where the task has none of its own.
        """
        import torch

        from domainbert.encoders import find_encoder, load_model, load_tokenizer, named_outputs

        found = find_encoder(encoder)
        torch.manual_seed(training.seed)
        network = load_model(
            found,
            cls.network_class(),
            hidden_dropout_prob=training.dropout,
            attention_probs_dropout_prob=0.0,
            **named_outputs(labels or cls.labels),
        )
        return cls(network, load_tokenizer(found), settings=settings)

    def finished(self, network: Any, *, encoder: str | Path, lora: LoRA | None) -> Self:
        """This model after its training, as its folder will give it back.

        Args:
            network: as the trainer leaves it, its adapters still on.
            encoder: what `untrained` was given.
            lora: the adapters that trained; None with full weights.
        """
        from domainbert.encoders import find_encoder
        from domainbert.lora import adapter_tensors, merge_adapter
        from domainbert.storage import TaskModel

        adapter = adapter_tensors(network) if lora else None
        # The file keeps half precision, so what is scored from here on is what will be loaded.
        plain = merge_adapter(network, adapter) if adapter else network.eval()
        found = find_encoder(encoder)
        config = self._new_config(found.name, sha256=found.sha256, lora=lora)
        model = type(self)(plain, self.tokenizer, settings=self.settings)
        model.remember(TaskModel(plain, self.tokenizer, config, adapter))
        return model

    def facts(self, encoder: str | Path) -> dict[str, Any]:
        """What identifies an untrained model: a run resumes only where this is the same."""
        from domainbert.encoders import find_encoder

        found = find_encoder(encoder)
        return {
            "task": self.task,
            "labels": list(self.labels),
            "encoder": found.sha256 or found.name,
            "settings": as_dict(self.settings),
        }

    def weights_hash(self) -> str:
        """SHA-256 of all weights, in the order of their names."""
        import hashlib

        digest = hashlib.sha256()
        for name, tensor in sorted(self.network.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def window_tokens(self) -> int:
        """Tokens of a window: what the settings say, else all that the encoder has positions for.

        Raises:
            ValueError: more than that.
        """
        limit = window_limit(self.network.config)
        window: int = self.settings.window or limit
        if window > limit:
            msg = f"window must be at most {limit} for this encoder, got {window}"
            raise UserError(msg)
        return window

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
        from domainbert.storage import save_task_model

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
        stored = self.config or self._new_config(self.network.config.name_or_path or "unnamed")
        return replace(stored, settings=as_dict(self.settings), manifest=self.manifest)

    def _new_config(
        self, encoder: str, *, sha256: str | None = None, lora: LoRA | None = None
    ) -> TaskConfig:
        from domainbert.storage import TaskConfig

        return TaskConfig(
            task=self.task,
            labels=self.labels,
            encoder=encoder,
            encoder_sha256=sha256,
            lower_case=bool(getattr(self.tokenizer, "do_lower_case", True)),
            lora=lora,
            settings=as_dict(self.settings),
        )
