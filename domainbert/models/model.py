"""Model: the base class of all task models, loaded from a folder and saved to one."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from domainbert.encoders.loading import (
    dropouts,
    find_encoder,
    load_model,
    load_tokenizer,
    named_outputs,
    window_limit,
)
from domainbert.encoders.lora import merge_adapter, trained_adapter
from domainbert.errors import EncoderError, UserError
from domainbert.models.card import model_card
from domainbert.models.storage import (
    TaskConfig,
    TaskModel,
    load_task_model,
    resolve_model,
    save_task_model,
)
from domainbert.text.windows import own_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from domainbert.encoders.loading import Encoder
    from domainbert.encoders.lora import Adapter
    from domainbert.settings import Settings
    from domainbert.text.runner import Device


class Model(ABC):
    """A network with a tokenizer and settings, loaded from a folder and saved to one.

    Args:
        network: a Hugging Face model.
        tokenizer: its fast tokenizer.
        settings: an instance of `settings_class`; by default its defaults.
        device: see `domainbert.text.runner.find_device`.
        batch_tokens: see `domainbert.text.runner.WindowRunner`.

    Attributes:
        runner: runs windows through the network.
        name: by which it was loaded, of a folder its last part; empty for a model made in code.
        manifest: how the model was trained and how it scored.
        config: of its folder or its training; None for a plain Hugging Face checkpoint.
        adapter: what was merged into the encoder; None with full weights.
    """

    package: ClassVar[str] = ""  # the package that ships such models, if any does
    task: ClassVar[str]
    default: ClassVar[str] = ""  # the model that is loaded where none is named
    labels: tuple[str, ...] = ()  # one name for each output; empty for any number
    settings_class: ClassVar[Any]  # a `Settings` class
    train_command: ClassVar[str]
    trains_further: ClassVar[bool] = (
        False  # whether training may start from an adapter folder
    )

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        settings: Settings | None = None,
        device: Device = None,
        batch_tokens: int | None = None,
    ) -> None:
        from domainbert.text.runner import WindowRunner

        self.network, self.tokenizer = network, tokenizer
        self.settings: Any = settings or self.settings_class()
        self.runner = WindowRunner(
            network,
            pad_token_id=tokenizer.pad_token_id,
            device=device,
            batch_tokens=batch_tokens,
        )
        self.name = ""
        self.manifest: dict[str, Any] = {}
        self.config: TaskConfig | None = None
        self.adapter: Adapter | None = None
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """What a task adds to the parts above, such as its windows; it checks that they fit."""

    @classmethod
    @abstractmethod
    def network_class(cls) -> Any:
        """The Hugging Face class of the network; a method because importing it takes seconds."""

    def card(self, config: TaskConfig, adapter: Adapter | None = None) -> str:
        """Markdown for the README of a folder with an adapter, or with all weights."""
        if self.package:
            return model_card(config, self.package, adapter)
        return f"# A model for {config.task}\n\nTrained from the encoder `{config.encoder}`.\n"

    @classmethod
    def read_settings(cls, stored: dict[str, Any]) -> Any:
        """The settings of a model folder; unknown ones are an `EncoderError`."""
        try:
            return cls.settings_class(**stored)
        except UserError as error:
            raise EncoderError(f"config.json: settings: {error}") from None

    @classmethod
    def origin(cls, name: str | Path) -> Encoder:
        """What training by this name starts from: an encoder, or a model that `trains_further`."""
        source = name
        if cls.trains_further:
            with suppress(EncoderError):  # of an unknown name `find_encoder` says more
                source = resolve_model(name, cls.package)
        return replace(
            find_encoder(source, adapters=cls.trains_further), name=str(name)
        )

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path | None = None,
        *,
        device: Device = None,
        batch_tokens: int | None = None,
        **settings: Any,
    ) -> Self:
        """Load a shipped model by name, a model folder, or a Hub model (`hub:owner/name`).

        A plain Hugging Face checkpoint with a head for the same task loads too. Classes with a
        shipped model have a default. `settings` replace those of the model.

        Raises:
            EncoderError: see `domainbert.models.storage.load_task_model`.
            UserError: settings that the class refuses.
        """
        name = name or cls.default
        if not name:
            raise UserError(
                f"{cls.__name__} has no default: name a folder or hub:owner/name"
            )
        read = load_task_model(resolve_model(name, cls.package), cls)
        known = (
            cls.read_settings(read.config.settings)
            if read.config
            else cls.settings_of(name)
        )
        if settings:
            known = known.replaced(**settings)
        model = cls(
            read.network,
            read.tokenizer,
            settings=known,
            device=device,
            batch_tokens=batch_tokens,
        )
        model.name = Path(name).name if Path(name).is_dir() else str(name)
        if read.config:
            model.config, model.manifest = read.config, read.config.manifest
            model.adapter = read.adapter
        return model

    @classmethod
    def settings_of(cls, name: str | Path) -> Any:
        """The settings of a model that is not ours: the defaults."""
        del name
        return cls.settings_class()

    @classmethod
    def untrained(
        cls,
        encoder: str | Path,
        *,
        training: Any,
        settings: Settings | None = None,
        labels: Sequence[str] = (),
    ) -> Self:
        """An encoder (shipped name, folder or `hub:owner/name`) with a new head, to be trained.

        `training` has a `seed` and a `dropout`; `labels` are for tasks without their own.
        """
        import torch

        found, outputs = cls.origin(encoder), named_outputs(labels or cls.labels)
        torch.manual_seed(training.seed)
        if found.is_adapter:
            read = load_task_model(
                resolve_model(encoder, cls.package), cls, dropout=training.dropout
            )
            return cls(read.network.requires_grad_(), read.tokenizer, settings=settings)
        outputs |= dropouts(found, training.dropout)
        network = load_model(found, cls.network_class(), **outputs)
        return cls(network, load_tokenizer(found), settings=settings)

    def finished(self, network: Any, *, encoder: str | Path, full: bool) -> Self:
        """The model after training, exactly as it will be loaded from its folder.

        `network` is as the trainer leaves it, with adapters unless all weights were trained
        (`full`). A model that started from another adapter has full weights, with both merged.
        """
        source = self.origin(encoder)
        adapter = None if full else trained_adapter(network, encoder=source.name)
        plain = merge_adapter(network, adapter) if adapter else network.eval()
        model = type(self)(plain, self.tokenizer, settings=self.settings)
        model.config = self._new_config(source.name, sha256=source.sha256)
        model.adapter = None if source.is_adapter else adapter
        return model

    def facts(self, encoder: str | Path) -> dict[str, Any]:
        """What identifies an untrained model; a run resumes only if it is the same."""
        task = {
            "task": self.task,
            "labels": list(self.labels),
            "settings": self.settings.model_dump(),
        }
        return {**task, "encoder": self.origin(encoder).sha256}

    def fingerprint(self) -> str:
        """SHA-256 over task, settings, weights and tokenizer; the last two are read only once."""
        settings = json.dumps(self.settings.model_dump(), sort_keys=True, default=str)
        return hashlib.sha256(
            f"{self.task} {settings} {self._weights_hash}".encode()
        ).hexdigest()

    @cached_property
    def _weights_hash(self) -> str:
        """SHA-256 of what turns text into numbers: weights, architecture and tokenizer."""
        import torch

        config = self.network.config
        names = ("model_type", "hidden_act", "layer_norm_eps", "num_attention_heads")
        found = hashlib.sha256(
            repr([getattr(config, name, None) for name in names]).encode()
        )
        found.update(own_tokenizer(self.tokenizer).to_str().encode())
        for name, tensor in sorted(self.network.state_dict().items()):
            found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            flat = tensor.detach().cpu().contiguous().flatten()
            found.update(flat.view(torch.uint8).numpy().data if len(flat) else b"")
        return found.hexdigest()

    def window_tokens(self) -> int:
        """Maximum tokens of a window: the setting, by default the encoder's limit."""
        limit = window_limit(self.network.config)
        window: int = self.settings.window or limit
        if window > limit:
            raise UserError(
                f"window must be at most {limit} for this encoder, got {window}"
            )
        return window

    def save_pretrained(self, folder: str | Path, *, merged: bool = False) -> None:
        """Write the model folder: the adapter if there is one, else all weights.

        With `merged`, all weights in any case, to be read by Hugging Face's own classes. A model
        folder of ours is replaced; any other is a `FileExistsError`.
        """
        adapter = None if merged else self.adapter
        config = self.config or self._new_config(
            self.network.config.name_or_path or "unnamed"
        )
        config = config.replaced(
            settings=self.settings.model_dump(), manifest=self.manifest
        )
        files = {} if adapter else self._extra_files()
        files["README.md"] = self.card(config, adapter)
        saved = TaskModel(self.network, self.tokenizer, config, adapter)
        save_task_model(folder, saved, files=files)

    def _extra_files(self) -> dict[str, str]:
        """Files that other libraries want beside all weights: name -> content."""
        return {}

    def _new_config(self, encoder: str, *, sha256: str | None = None) -> TaskConfig:
        return TaskConfig(
            task=self.task,
            labels=self.labels,
            encoder=encoder,
            encoder_sha256=sha256,
            lower_case=bool(getattr(self.tokenizer, "do_lower_case", True)),
            settings=self.settings.model_dump(),
        )
