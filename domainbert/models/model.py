"""The base class of all task models."""

from __future__ import annotations

import hashlib
import inspect
import json
import pkgutil
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Protocol,
    Self,
    TypeVar,
)

from domainbert.encoders.adapters import merge_adapter, trained_adapter
from domainbert.encoders.configs import dropouts, named_outputs, window_limit
from domainbert.encoders.loading import (
    Encoder,
    find_encoder,
    load_config,
    load_model,
    load_tokenizer,
)
from domainbert.encoders.precision import Precision, cast_encoder, precision_of
from domainbert.errors import EncoderError, UserError
from domainbert.models.card import model_card
from domainbert.models.manifest import network_sha256
from domainbert.models.storage import (
    TaskClass,
    TaskConfig,
    TaskModel,
    load_task_model,
    resolve_model,
    save_task_model,
)
from domainbert.scoring import score_frame
from domainbert.settings import Count, Settings, check_choice
from domainbert.text.windows import own_tokenizer

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from domainbert.encoders.adapters import Adapter
    from domainbert.encoders.bert import FastBert, FastTokenizer
    from domainbert.encoders.precision import Dtype
    from domainbert.text.runner import Device


class WindowSettings(Settings):
    """The setting that all task models have.

    Attributes:
        window: maximum tokens of a window, special tokens included; None is the encoder's limit.
    """

    window: Count | None = None


AnySettings = TypeVar("AnySettings", bound=WindowSettings)


class NewWeights(Protocol):
    """The training settings on which an untrained model depends."""

    @property
    def seed(self) -> int:
        """Seed of the weights of a new head."""

    @property
    def dropout(self) -> float:
        """Dropout of hidden states."""


class Model(TaskClass, Generic[AnySettings]):
    """A network with a tokenizer and settings, loaded from a folder and saved to one.

    Args:
        network: a Hugging Face model.
        tokenizer: its fast tokenizer.
        settings: an instance of `settings_class`; by default its defaults.
        device: see `domainbert.text.runner.find_device`.
        batch_tokens: see `domainbert.text.runner.WindowRunner`.

    Attributes:
        runner: runs windows through the network.
        name: the name it was loaded by, or the last part of its folder; "" if made in code.
        manifest: how the model was trained and how it scored; of the class `manifest_class`.
        config: settings of its folder or its training; None for a plain Hugging Face checkpoint.
        origin: what training starts from; of an untrained model only.
        adapter: what was merged into the encoder; None with full weights.
        precision: that of the encoder's layers, "float32" or "bfloat16"; see `from_pretrained`.
    """

    default: ClassVar[str] = ""  # the model that is loaded where none is named
    # Of the type `AnySettings`, which a class variable cannot have.
    settings_class: ClassVar[type[Any]]
    card_template: ClassVar[str] = "model_card.md.j2"
    trainer: ClassVar[str] = ""  # "module:function", for `fit`
    # "module:class" of each scoring task, for `score_frame`; the first one is the default.
    tasks: ClassVar[Mapping[str, str]] = {}
    # Whether training may start from the folder of an adapter.
    trains_further: ClassVar[bool] = False

    settings: AnySettings
    origin: Encoder

    def __init__(
        self,
        network: PreTrainedModel | FastBert,
        tokenizer: PreTrainedTokenizerBase | FastTokenizer,
        *,
        settings: AnySettings | None = None,
        device: Device = None,
        batch_tokens: int | None = None,
    ) -> None:
        from domainbert.text.runner import WindowRunner

        self._network = network
        self._tokenizer = tokenizer
        self.settings = settings or self.settings_class()
        self.runner = WindowRunner(
            network,
            pad_token_id=tokenizer.pad_token_id,
            device=device,
            batch_tokens=batch_tokens,
        )
        self.name = ""
        self.manifest = self.manifest_class()
        self.config: TaskConfig | None = None
        self.adapter: Adapter | None = None
        self.precision: Precision = "float32"
        self.prepare()

    def __repr__(self) -> str:
        """The class and the name."""
        return f"{type(self).__name__}({self.name!r})"

    @property
    def network(self) -> PreTrainedModel:
        """Hugging Face's network, as which a shipped model is loaded only when this is read."""
        from domainbert.encoders.bert import FastBert

        if isinstance(self._network, FastBert):
            self._network = self._network.as_published()
            if self.precision == "bfloat16":
                cast_encoder(self._network)
        return self._network

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """Hugging Face's fast tokenizer, loaded as `network` is."""
        from domainbert.encoders.bert import FastTokenizer

        if isinstance(self._tokenizer, FastTokenizer):
            self._tokenizer = self._tokenizer.as_published()
        return self._tokenizer

    def with_network(self, network: PreTrainedModel) -> Self:
        """The model with another network, such as one that is being trained."""
        model = copy(self)
        model._network = network
        model.runner = self.runner.with_model(network)
        return model

    @abstractmethod
    def prepare(self) -> None:
        """Add the parts of a task, such as its windows, and check that they fit."""

    def card(self, config: TaskConfig, adapter: Adapter | None = None) -> str:
        """Markdown for the README of a folder with an adapter, or with all weights."""
        if self.package:
            return model_card(
                self.package,
                config,
                self.settings,
                self.manifest,
                adapter,
                template=self.card_template,
                facts=self.card_facts(),
            )
        return f"# A model for {config.task}\n\nTrained from the encoder `{config.encoder}`.\n"

    def card_facts(self) -> dict[str, object]:
        """Texts and tables that the card of this class has beside those of every card."""
        return {}

    @classmethod
    def read_settings(cls, stored: Mapping[str, Any]) -> AnySettings:
        """The settings of a model folder; unknown ones are an `EncoderError`."""
        try:
            return cls.settings_class(**stored)
        except UserError as error:
            raise EncoderError(f"config.json: settings: {error}") from None

    @classmethod
    def find_origin(cls, name: str | Path) -> Encoder:
        """What training starts from: an encoder, or a model of a class that `trains_further`."""
        source = name
        if cls.trains_further:
            # The error of `find_encoder` for an unknown name says more.
            with suppress(EncoderError):
                source = resolve_model(name, cls)
        encoder = find_encoder(source, adapters=cls.trains_further)
        return replace(encoder, name=str(name))

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path | None = None,
        *,
        device: Device = None,
        batch_tokens: int | None = None,
        dtype: Dtype = "float32",
        **settings: Any,
    ) -> Self:
        """Load a shipped model by name, a model folder, or a Hub model (`hub:owner/name`).

        A plain Hugging Face checkpoint with a head for the same task loads too. The default is
        the shipped model, if there is one. `settings` replace those of the model.

        With `dtype="bfloat16"` the encoder's layers compute in bfloat16, which is two to three
        times as fast on processors with AMX or AVX512-BF16 and slower on others (`domainbert
        doctor` measures it). Heads, pooling and calibration stay in float32. Probabilities change
        by up to about 0.01, and the fingerprint changes, so that tables, caches and ledgers of
        the two are never mixed.

        Raises:
            EncoderError: see `domainbert.models.storage.load_task_model`.
            UserError: settings that the class refuses, or another `dtype`.
        """
        precision = precision_of(dtype)
        name = name or cls.default
        if not name:
            raise UserError(
                f"{cls.__name__} has no default: name a folder or hub:owner/name"
            )
        stored = load_task_model(resolve_model(name, cls), cls)
        if stored.config:
            model_settings = cls.read_settings(stored.config.settings)
        else:
            model_settings = cls.settings_of(name)
        if precision == "bfloat16":
            cast_encoder(stored.network)
        model = cls(
            stored.network,
            stored.tokenizer,
            settings=model_settings.replaced(**settings),
            device=device,
            batch_tokens=batch_tokens,
        )
        model.name = Path(name).name if Path(name).is_dir() else str(name)
        model.manifest = stored.manifest
        model.precision = precision
        if stored.config:
            model.config = stored.config
            model.adapter = stored.adapter
        return model

    @classmethod
    def settings_of(cls, name: str | Path) -> AnySettings:
        """The settings of a model that is not ours: the defaults."""
        del name
        return cls.settings_class()

    @classmethod
    def fit(
        cls,
        data: object,
        recipe: Settings | None = None,
        *,
        checkpoints: str | Path | None = None,
        resume: bool = False,
        **options: object,
    ) -> Self:
        """Train a model.

        Args:
            data: what the task trains on; see the function named by `trainer`.
            recipe: how to train; the defaults if None.
            checkpoints: folder that keeps the checkpoints; a temporary one by default.
            resume: continue from the last checkpoint there; refused if anything differs.
            **options: options of the task.

        Raises:
            UserError: data that cannot be trained on, or a resumed run that differs.
        """
        if not cls.trainer:
            raise UserError(
                f"{cls.__name__} cannot be trained; use a class for a task"
            )
        # Named, not imported: a model does not depend on its trainer.
        trainer = pkgutil.resolve_name(cls.trainer)
        return trainer(
            data,
            recipe,
            checkpoints=checkpoints,
            resume=resume,
            model_class=cls,
            **options,
        )

    def score_frame(
        self,
        frame: pd.DataFrame,
        *,
        task: str | None = None,
        named: Mapping[str, str] | None = None,
        keep: Iterable[str] = (),
        **options: object,
    ) -> pd.DataFrame:
        """Score a DataFrame.

        Args:
            frame: a table with the columns of the task.
            task: a key of `tasks`; the first one if None.
            named: our column -> the frame's column, if its name is not recognised.
            keep: further columns to copy to the output, as text.
            **options: of the task. The docstring of its class, which `tasks` names, describes
                them, and the columns that the task reads and writes.

        Returns:
            The id columns, the columns of the task, `status` (ok, empty or error) and `reason`; at
            least one row for each item, in order of first appearance.

        Raises:
            TableError: a required column is missing.
            UserError: no such task or option, or not a DataFrame.
        """
        if not self.tasks:
            raise UserError(
                f"{type(self).__name__} cannot score tables; use a class for a task"
            )
        name = task or next(iter(self.tasks))
        check_choice("task", name, tuple(self.tasks))
        # Named, not imported: a model does not depend on its tasks.
        task_class = pkgutil.resolve_name(self.tasks[name])
        signature = inspect.signature(task_class)
        try:
            signature.bind(self, **options)
        except TypeError as error:
            _, *accepted = signature.parameters
            raise UserError(
                f"score_frame, task {name!r}: {error}; its options: "
                f"{', '.join(accepted) or 'none'}"
            ) from None
        scoring_task = task_class(self, **options)
        return score_frame(scoring_task, frame, named=named, keep=keep)

    @classmethod
    def untrained(
        cls,
        encoder: str | Path,
        *,
        training: NewWeights,
        settings: AnySettings | None = None,
        labels: Sequence[str] = (),
    ) -> Self:
        """An encoder (shipped name, folder or `hub:owner/name`) with a new head, to be trained.

        `labels` are for tasks whose class does not fix them.
        """
        import torch

        origin = cls.find_origin(encoder)
        torch.manual_seed(training.seed)
        if origin.is_adapter:
            stored = load_task_model(
                resolve_model(encoder, cls),
                cls,
                dropout=training.dropout,
            )
            network = stored.network.requires_grad_()
            tokenizer = stored.tokenizer
        else:
            entries = named_outputs(labels or cls.labels)
            entries |= dropouts(load_config(origin), training.dropout)
            network = load_model(origin, cls.network_class(), **entries)
            tokenizer = load_tokenizer(origin)
        model = cls(network, tokenizer, settings=settings)
        model.origin = origin
        return model

    def finished(self, network: PreTrainedModel, *, full: bool) -> Self:
        """The model after training, exactly as it will be loaded from its folder.

        `network` is as the trainer leaves it, with adapters unless all weights were trained
        (`full`). A model that started from another adapter has full weights, with both merged.
        """
        origin = self.origin
        adapter = None
        if full:
            plain = network.eval()
        else:
            adapter = trained_adapter(network, encoder=origin.name)
            plain = merge_adapter(network, adapter)
        model = type(self)(plain, self._tokenizer, settings=self.settings)
        model.config = self._new_config(origin.name, sha256=origin.sha256)
        if not origin.is_adapter:
            model.adapter = adapter
        return model

    def facts(self) -> dict[str, object]:
        """What identifies an untrained model; a run resumes only if it is the same."""
        return {
            "task": self.task,
            "labels": list(self.labels),
            "settings": self.settings.model_dump(),
            "encoder": self.origin.sha256,
        }

    def fingerprint(self) -> str:
        """SHA-256 of task, settings, weights and tokenizer; the last two are read only once."""
        settings = json.dumps(
            self.settings.model_dump(),
            sort_keys=True,
            default=str,
        )
        text = f"{self.task} {settings} {self._weights_hash}"
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def _weights_hash(self) -> str:
        """SHA-256 of what turns text into numbers: weights, architecture and tokenizer."""
        written = own_tokenizer(self._tokenizer).to_str()
        return network_sha256(self._network, written)

    def window_tokens(self) -> int:
        """Maximum tokens of a window: the setting, by default the encoder's limit."""
        limit = window_limit(self._network.config)
        window = self.settings.window or limit
        if window > limit:
            raise UserError(
                f"window must be at most {limit} for this encoder, got {window}"
            )
        return window

    def save_pretrained(
        self, folder: str | Path, *, merged: bool = False
    ) -> None:
        """Write the model folder: the adapter if there is one, else all weights.

        `merged` writes all weights even if there is an adapter, for Hugging Face's own classes. A
        model folder of ours is replaced; any other folder with files is a `FileExistsError`.

        Raises:
            UserError: all weights, and they were cast to bfloat16.
        """
        adapter = None if merged else self.adapter
        if adapter is None and self.precision != "float32":
            raise UserError(
                f"the weights of this model were cast to {self.precision}; load it with "
                'dtype="float32" to save them'
            )
        encoder = self._network.config.name_or_path or "unnamed"
        config = self.config or self._new_config(encoder)
        config = config.replaced(settings=self.settings.model_dump())
        files = {"README.md": self.card(config, adapter)}
        if adapter is None:
            files |= self._extra_files()
        content = TaskModel(
            self.network,
            self.tokenizer,
            config,
            adapter,
            self.manifest,
        )
        save_task_model(folder, content, files=files)

    def _extra_files(self) -> dict[str, str]:
        """Files that other libraries need with full weights: name -> content."""
        return {}

    def _new_config(
        self, encoder: str, *, sha256: str | None = None
    ) -> TaskConfig:
        """What `config.json` says of a model that is about to be trained."""
        return TaskConfig(
            task=self.task,
            labels=self.labels,
            encoder=encoder,
            encoder_sha256=sha256,
            lower_case=bool(getattr(self._tokenizer, "do_lower_case", True)),
            settings=self.settings.model_dump(),
        )
