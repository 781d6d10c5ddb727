"""A task model on disk: found by name, PEFT adapter or full weights, its configuration."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pydantic import Field

from domainbert.encoders import loading as encoders
from domainbert.encoders.configs import read_object
from domainbert.encoders.loading import (
    ADAPTER_CONFIG,
    HUB,
    SHIPPED,
    Encoder,
    find_encoder,
    load_tokenizer,
    unknown_name,
)
from domainbert.encoders.lora import Adapter, apply_adapter, read_adapter
from domainbert.errors import EncoderError, UserError
from domainbert.files import folder_beside, replace_folder
from domainbert.settings import Names, Settings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

CONFIG_KEY = "domainbert"
# Heads with weights of the same names and shapes; only their class tells them apart.
LIKE_HEADS = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForMultipleChoice",
)
OUR_FILES = (  # all that a model folder of ours may hold
    *("config.json", "README.md", "*.safetensors", ADAPTER_CONFIG),
    *("modules.json", "sentence_bert_config.json"),
    *("tokenizer*.json", "special_tokens_map.json", "added_tokens.json", "vocab.*"),
    *("merges.txt", "chat_template.jinja"),
)


class TaskConfig(Settings):
    """What a task model's `config.json` says under the key `domainbert`.

    Attributes:
        task: such as "readmission".
        labels: one name for each output of the head.
        encoder: as it was named in training.
        encoder_sha256: see `domainbert.encoders.loading.Encoder`; None with full weights.
        lower_case: whether the tokenizer lower-cases.
        settings: the task's own, such as window and c.
        manifest: how the model was trained and how it scored.
    """

    task: str
    labels: Names
    encoder: str
    encoder_sha256: str | None
    lower_case: bool
    settings: dict[str, Any] = Field(default_factory=dict)
    manifest: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True)
class TaskModel:
    """A network, its tokenizer and its configuration; None in folders that are not ours.

    `adapter` was merged into the encoder; None with full weights.
    """

    network: PreTrainedModel = field(repr=False)
    tokenizer: PreTrainedTokenizerBase = field(repr=False)
    config: TaskConfig | None
    adapter: Adapter | None = field(repr=False, default=None)


class TaskClass(Protocol):
    """What `domainbert.models.model.Model` says of a task."""

    task: ClassVar[str]
    labels: tuple[str, ...]
    train_command: ClassVar[str]

    @classmethod
    def network_class(cls) -> Any:
        """The Hugging Face class of the network."""


def shipped_models(package: str) -> dict[str, Path]:
    """Name and folder of every model that comes with a package, such as "biomed"."""
    folder = Path(str(resources.files(package))) / "models"
    return {
        file.parent.name: file.parent for file in sorted(folder.glob("*/config.json"))
    }


def resolve_model(name: str | Path, package: str) -> str | Path:
    """The folder of a shipped model; folders, encoders and Hub models unchanged, others refused.

    Without a package there are no shipped models, and all names are unchanged.
    """
    if not package:
        return name
    typed, shipped = str(name), shipped_models(package)
    if typed in shipped:
        return shipped[typed]
    if typed in SHIPPED or typed.startswith(HUB) or Path(typed).expanduser().is_dir():
        return name
    raise EncoderError(unknown_name(typed, shipped, kind="model"))


def save_task_model(
    folder: str | Path, saved: TaskModel, *, files: Mapping[str, str]
) -> None:
    """Write a model folder under a temporary name, then rename it.

    Of a model with an adapter it alone is written, in PEFT's format; of any other all weights and
    the tokenizer. `files` are further ones, such as the card, with their content. For errors see
    `check_replaceable`.
    """
    folder = Path(folder).expanduser().resolve()
    check_replaceable(folder)
    with folder_beside(folder) as temporary:
        document: dict[str, Any] = {}
        if saved.adapter is None:
            with encoders.quiet():
                saved.network.save_pretrained(temporary)
            saved.tokenizer.save_pretrained(temporary)
            document = json.loads((temporary / "config.json").read_text("utf-8"))
            document["architectures"] = [_published_class(saved.network)]
        else:
            saved.adapter.save(temporary)
        if saved.config:
            document[CONFIG_KEY] = saved.config.model_dump()
        contents = {**files, "config.json": json.dumps(document, indent=2) + "\n"}
        for name, content in contents.items():
            (temporary / name).parent.mkdir(exist_ok=True)
            (temporary / name).write_text(content, "utf-8")
        share_files(temporary)
        replace_folder(temporary, folder)


def share_files(folder: Path) -> None:
    """Give weights, which are written for their owner alone, the permissions of config.json."""
    for path in folder.glob("*.safetensors"):
        shutil.copymode(folder / "config.json", path)


def check_replaceable(folder: str | Path) -> None:
    """Raise `FileExistsError` if a folder holds anything but a model of ours."""
    folder = Path(folder).expanduser()
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        # `config.json` alone is too common a name.
        is_ours = CONFIG_KEY in read_object(folder / "config.json")
    except EncoderError:
        is_ours = False
    if not is_ours:
        raise FileExistsError(
            f"{folder} exists and is not a model folder; choose another name"
        )
    for path in folder.iterdir():
        if not any(map(path.match, ("1_Pooling",) if path.is_dir() else OUR_FILES)):
            msg = f"{folder} holds {path.name}, which is not part of a model; move it away first"
            raise FileExistsError(msg)


def _published_class(model: PreTrainedModel) -> str:
    """The Hugging Face class that can read this model's weights elsewhere."""
    ancestors = type(model).__mro__
    return next(
        cls.__name__ for cls in ancestors if cls.__module__.startswith("transformers.")
    )


def load_task_model(
    folder: str | Path, kind: type[TaskClass], *, dropout: float | None = None
) -> TaskModel:
    """Load a model folder, or a plain Hugging Face checkpoint with a head for the same task.

    A folder that PEFT wrote loads too, onto the encoder that it names (which has no checksum
    then).

    Args:
        folder: or `hub:owner/name`.
        kind: its task, labels and `network_class` must fit; its `train_command` is for the error
            if there is no trained head.
        dropout: of an adapter's encoder, to be trained further, instead of its own.

    Raises:
        EncoderError: another task, number of labels or encoder, missing weights, and an encoder
            without a trained head.
    """
    path = Path(folder).expanduser()
    config = read_task_config(path) if path.is_dir() else None
    labels = len(kind.labels)
    if config and config.task != kind.task:
        raise EncoderError(f"{path} is a model for {config.task}, not for {kind.task}")
    if config and labels not in (0, found := len(config.labels)):
        raise EncoderError(
            f"{path} has {found} labels; a model for {kind.task} has {labels}"
        )
    outputs = encoders.named_outputs(config.labels) if config else {}
    adapter = None
    if (path / ADAPTER_CONFIG).is_file():
        adapter = read_adapter(path)
        encoder = _encoder_beneath(path, config, adapter)
        outputs = outputs or adapter.outputs()
        if dropout is not None:
            outputs |= encoders.dropouts(encoder, dropout)
        plain = encoders.load_model(encoder, kind.network_class(), **outputs)
        network = apply_adapter(plain, adapter, name=str(path))
    else:
        encoder = find_encoder(folder)
        outputs["train_command"] = kind.train_command
        network = encoders.load_model(encoder, kind.network_class(), **outputs)
    if config is None:
        _check_head(encoder, network)
        if labels not in (0, found := network.config.num_labels):
            raise EncoderError(
                f"{encoder.name} has {found} labels; this task has {labels}"
            )
    return TaskModel(network, load_tokenizer(encoder), config, adapter)


def read_task_config(folder: Path) -> TaskConfig | None:
    """What a model folder says of itself; None if it is not ours, `EncoderError` if broken."""
    if not (folder / "config.json").is_file() and (folder / ADAPTER_CONFIG).is_file():
        return None  # as PEFT writes it
    document = read_object(folder / "config.json")
    if CONFIG_KEY not in document:
        return None
    try:
        return TaskConfig(**document[CONFIG_KEY])
    except (UserError, TypeError) as error:
        msg = (
            f"{folder / 'config.json'} does not fit this version of domainbert: {error}"
        )
        raise EncoderError(msg) from None


def _check_head(encoder: Encoder, model: PreTrainedModel) -> None:
    """Refuse a published model for another task whose head happens to fit this one's."""
    wanted, published = _published_class(model), model.config.architectures or []
    others = [
        name for name in published if name.endswith(LIKE_HEADS) and name != wanted
    ]
    if others and wanted not in published:
        raise EncoderError(
            f"{encoder.name} is a {others[0]}, and this needs a {wanted}"
        )


def _encoder_beneath(
    path: Path, config: TaskConfig | None, adapter: Adapter
) -> Encoder:
    """The encoder that an adapter was trained on; a folder's config never opens the network."""
    shown = config.encoder if config else adapter.config.base_model_name_or_path or ""
    is_here = shown in SHIPPED or Path(shown).expanduser().is_dir()
    if config is None and not is_here:
        shown = HUB + shown  # PEFT has no other mark for a model of the Hub
    if not is_here and not shown.startswith(HUB):
        raise EncoderError(
            f"{path} was trained on the encoder folder {shown}, which is not here"
        )
    encoder = find_encoder(shown, download=False)
    if config and config.encoder_sha256 != encoder.sha256:
        raise EncoderError(
            f"{path} was trained on {shown} with SHA-256 {str(config.encoder_sha256)[:12]}…, "
            f"but the one here has {encoder.sha256[:12]}…; rebuild it with the command in its card"
        )
    return encoder
