"""A task model on disk: its folder, weights or adapter, configuration and manifest."""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib import resources
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import ValidationError

from domainbert.encoders import loading as encoders
from domainbert.encoders.adapters import (
    Adapter,
    apply_adapter,
    read_adapter,
)
from domainbert.encoders.configs import dropouts, named_outputs, read_object
from domainbert.encoders.loading import (
    ADAPTER_CONFIG,
    DEFAULT_ENCODER,
    HUB,
    SHIPPED,
    Encoder,
    find_encoder,
    load_tokenizer,
    unknown_name,
)
from domainbert.errors import EncoderError, UserError
from domainbert.files import (
    expanded,
    file_sha256,
    folder_beside,
    json_text,
    replace_folder,
)
from domainbert.models.manifest import Manifest
from domainbert.settings import Names, Settings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from domainbert.encoders.bert import FastBert, FastTokenizer, Head

CONFIG_FILE = "config.json"
CONFIG_KEY = "domainbert"
MANIFEST_FILE = "evaluation.json"
CARD_FILE = "README.md"
# Heads whose weights have the same names and shapes: only the class tells them apart.
LIKE_HEADS = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForMultipleChoice",
)
# All files that a model folder of this package may hold.
OUR_FILES = (
    CONFIG_FILE,
    MANIFEST_FILE,
    CARD_FILE,
    "*.safetensors",
    ADAPTER_CONFIG,
    "modules.json",
    "sentence_bert_config.json",
    "tokenizer*.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "chat_template.jinja",
)


# The start of a card, and what it says in a folder of ours.
_CARD_START = 2000
_CARD_MARK = b"library_name: domainbert"

AnyManifest = TypeVar("AnyManifest", bound=Manifest)


class TaskConfig(Settings):
    """What loading a task model needs; in `config.json` under the key `domainbert`.

    Attributes:
        task: such as "readmission".
        labels: one name for each output of the head.
        encoder: the encoder's name in training.
        encoder_sha256: see `domainbert.encoders.loading.Encoder`; None with full weights.
        lower_case: whether the tokenizer lower-cases.
        settings: the settings of the task, such as window and c.
    """

    task: str
    labels: Names
    encoder: str
    encoder_sha256: str | None
    lower_case: bool
    settings: dict[str, object] = {}


@dataclass(frozen=True, repr=False)
class TaskModel:
    """The content of a model folder.

    Attributes:
        network: with its adapter merged.
        tokenizer: the tokenizer of the encoder.
        config: None for folders that are not ours.
        adapter: None with full weights.
        manifest: empty for folders without one.
    """

    network: PreTrainedModel | FastBert
    tokenizer: PreTrainedTokenizerBase | FastTokenizer
    config: TaskConfig | None
    adapter: Adapter | None
    manifest: Manifest


class TaskClass(ABC):
    """What a class of models says about its task; loading a folder checks it."""

    # The package that ships such models, if any does.
    package: ClassVar[str] = ""
    task: ClassVar[str]
    also: ClassVar[tuple[str, ...]] = ()  # tasks whose models load too
    # One name for each output; empty for any number.
    labels: tuple[str, ...] = ()
    train_command: ClassVar[str]
    manifest_class: ClassVar[type[Manifest]] = Manifest
    # Of `network_class`, if the shipped encoder may compute it without transformers.
    head: ClassVar[Head | None] = None

    @classmethod
    @abstractmethod
    def network_class(cls) -> type[PreTrainedModel]:
        """The Hugging Face class of the network; a method because importing it takes seconds."""


def shipped_models(package: str) -> dict[str, Path]:
    """Name and folder of every model that comes with a package, such as "biomed"."""
    folder = Path(str(resources.files(package))) / "models"
    files = sorted(folder.glob(f"*/{CONFIG_FILE}"))
    return {file.parent.name: file.parent for file in files}


def resolve_model(
    name: str | Path, model_class: type[TaskClass]
) -> str | Path:
    """The folder of a shipped model; other folders, encoders and Hub models are unchanged.

    If the class has no package, no model is shipped and every name is unchanged. Otherwise an
    unknown name, or a shipped model of another task, is an `EncoderError`.
    """
    if not model_class.package:
        return name
    typed = str(name)
    folders = shipped_models(model_class.package)
    if typed not in folders:
        is_folder = expanded(typed).is_dir()
        if typed in SHIPPED or typed.startswith(HUB) or is_folder:
            return name
        for point in entry_points(group="domainbert.tasks"):
            folders |= shipped_models(point.module.partition(".")[0])
    configs = {key: read_task_config(folders[key]) for key in folders}
    tasks = {key: config.task for key, config in configs.items() if config}
    suitable = [
        key
        for key in tasks
        if tasks[key] in (model_class.task, *model_class.also)
    ]
    if typed in suitable:
        return folders[typed]
    if typed in tasks:
        raise EncoderError(
            f"{typed} is a model for {tasks[typed]}, not for {model_class.task}; "
            f"shipped for {model_class.task}: {', '.join(suitable)}"
        )
    raise EncoderError(unknown_name(typed, suitable, what="model"))


def save_task_model(
    folder: str | Path,
    saved: TaskModel,
    *,
    files: Mapping[str, str],
) -> None:
    """Write a model folder under a temporary name, then rename it.

    If the model has an adapter, only the adapter is written, in PEFT's format; otherwise all
    weights and the tokenizer. `files` are others, such as the card, with their content. For
    errors see `check_replaceable`.
    """
    folder = expanded(folder).resolve()
    check_replaceable(folder)
    with folder_beside(folder) as temporary:
        document = {}
        if saved.adapter is None:
            document = save_network(temporary, saved.network, saved.tokenizer)
        else:
            saved.adapter.save(temporary)
        if saved.config:
            document[CONFIG_KEY] = saved.config.model_dump()
        contents = {
            **files,
            CONFIG_FILE: json_text(document),
        }
        for name, content in contents.items():
            (temporary / name).parent.mkdir(exist_ok=True)
            (temporary / name).write_text(content, "utf-8")
        write_manifest(temporary, saved.manifest)
        share_files(temporary)
        replace_folder(temporary, folder)


def save_network(
    folder: Path,
    network: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
) -> dict[str, object]:
    """Write all weights and the tokenizer; the result is config.json for other libraries."""
    with encoders.quiet():
        network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    document = json.loads((folder / CONFIG_FILE).read_text("utf-8"))
    return document | {"architectures": [_published_class(network)]}


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a model folder, with the hashes of the files that are there."""
    listed = manifest.model_copy(update={"files": file_hashes(folder)})
    (folder / MANIFEST_FILE).write_text(manifest_text(listed), "utf-8")


def file_hashes(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file that loading a model folder may read, by its name there."""
    hashes = {}
    for path in sorted([*folder.iterdir(), *folder.glob("1_Pooling/*")]):
        is_read = path.name not in (MANIFEST_FILE, CARD_FILE)
        if is_read and path.is_file() and any(map(path.match, OUR_FILES)):
            hashes[path.relative_to(folder).as_posix()] = file_sha256(path)
    return hashes


def check_whole(folder: Path) -> None:
    """Check that a folder of ours has the files that its manifest lists, as they were written.

    Without its config.json, a folder would load as PEFT's, and score without its settings.

    Raises:
        EncoderError: a file is missing, is another one, or is not listed.
    """
    listed = read_manifest(folder, Manifest).files
    if not listed and not _is_ours(folder):
        return
    hashes = file_hashes(folder)
    names = {MANIFEST_FILE}
    if listed:
        names = {CONFIG_FILE, *listed, *hashes}
    for name in sorted(names):
        if name not in hashes or hashes[name] != listed.get(name):
            raise EncoderError(
                f"{folder} is not the whole model: {name} is missing, or not as {MANIFEST_FILE} "
                "lists it; copy the folder again, or train the model again"
            )


def _is_ours(folder: Path) -> bool:
    """Whether the configuration or the card says that domainbert wrote a folder."""
    config = folder / CONFIG_FILE
    if config.is_file() and CONFIG_KEY in read_object(config):
        return True
    card = folder / CARD_FILE
    return card.is_file() and _CARD_MARK in card.read_bytes()[:_CARD_START]


def manifest_text(manifest: Manifest) -> str:
    """The content of a manifest file; what has its default is left out."""
    return json_text(manifest.model_dump(mode="json", exclude_defaults=True))


def share_files(folder: Path) -> None:
    """Give weights, which only their owner may read at first, the permissions of config.json."""
    for path in folder.glob("*.safetensors"):
        shutil.copymode(folder / CONFIG_FILE, path)


def check_replaceable(folder: str | Path) -> None:
    """Raise `FileExistsError` if a folder holds anything but a model of this package."""
    folder = expanded(folder)
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        # Many folders have a config.json; ours has this key.
        is_ours = CONFIG_KEY in read_object(folder / CONFIG_FILE)
    except EncoderError:
        is_ours = False
    if not is_ours:
        raise FileExistsError(
            f"{folder} exists and is not a model folder; choose another name"
        )
    for path in folder.iterdir():
        patterns = ("1_Pooling",) if path.is_dir() else OUR_FILES
        if not any(map(path.match, patterns)):
            raise FileExistsError(
                f"{folder} holds {path.name}, which is not part of a model; move it away first"
            )


def _published_class(model: PreTrainedModel) -> str:
    """The Hugging Face class that can read this model's weights elsewhere."""
    for ancestor in type(model).__mro__:
        if ancestor.__module__.startswith("transformers."):
            return ancestor.__name__
    raise TypeError(f"{type(model).__name__} is not a model of transformers")


def load_task_model(
    folder: str | Path,
    model_class: type[TaskClass],
    *,
    dropout: float | None = None,
) -> TaskModel:
    """Load a model folder, or a plain Hugging Face checkpoint with a head for the same task.

    A folder that PEFT wrote loads too, onto the encoder that it names, without a checksum.

    Args:
        folder: or `hub:owner/name`.
        model_class: the class of models; the folder must fit its task and labels.
        dropout: replaces that of an adapter's encoder, for further training.

    Raises:
        EncoderError: another task, number of labels or encoder, missing weights, an encoder
            without a trained head, or a folder of ours that is not whole.
    """
    path = expanded(folder)
    if str(folder).startswith(HUB):
        path = Path(find_encoder(folder).location)
    config = None
    manifest = model_class.manifest_class()
    outputs: dict[str, Any] = {}
    if path.is_dir():
        check_whole(path)
        config = read_task_config(path)
        manifest = read_manifest(path, model_class.manifest_class)
    if config:
        _check_task(str(path), config, model_class)
        outputs = named_outputs(config.labels)
    adapter = None
    if (path / ADAPTER_CONFIG).is_file():
        adapter = read_adapter(path)
        encoder = _encoder_beneath(path, config, adapter)
        outputs = outputs or adapter.outputs()
        if dropout is not None:
            plain_config = encoders.load_config(encoder)
            outputs |= dropouts(plain_config, dropout)
    else:
        encoder = find_encoder(folder)
        outputs["train_command"] = model_class.train_command
    head = model_class.head
    is_shipped = encoder.name == DEFAULT_ENCODER and dropout is None
    if not is_shipped or (config is None and head != "none"):
        head = None
    network, tokenizer = _load_network(
        encoder, model_class, outputs, head, is_ours=config is not None
    )
    if adapter:
        apply_adapter(network, adapter, name=str(path))
    return TaskModel(network, tokenizer, config, adapter, manifest)


def _load_network(
    encoder: Encoder,
    model_class: type[TaskClass],
    outputs: Mapping[str, Any],
    head: Head | None,
    *,
    is_ours: bool,
) -> tuple[
    PreTrainedModel | FastBert, PreTrainedTokenizerBase | FastTokenizer
]:
    """A network with the weights of an encoder; without `head` it is Hugging Face's."""
    load_published = partial(_load_published, encoder, model_class, outputs)
    if head is None:
        network = load_published()
        if not is_ours:
            _check_head(encoder, network, model_class)
        return network, load_tokenizer(encoder)
    from domainbert.encoders.bert import load_fast

    return load_fast(encoder, head, outputs, load_published)


def _load_published(
    encoder: Encoder, model_class: type[TaskClass], outputs: Mapping[str, Any]
) -> PreTrainedModel:
    """Hugging Face's network; a function of the module, so that models can be pickled."""
    return encoders.load_model(encoder, model_class.network_class(), **outputs)


def read_task_config(folder: Path) -> TaskConfig | None:
    """The configuration of a model folder; None if it is not ours, `EncoderError` if broken."""
    file = folder / CONFIG_FILE
    if not file.is_file() and (folder / ADAPTER_CONFIG).is_file():
        return None  # as PEFT writes it
    document = read_object(file)
    if CONFIG_KEY not in document:
        return None
    try:
        return TaskConfig(**document[CONFIG_KEY])
    except (UserError, TypeError) as error:
        raise EncoderError(
            f"{file} does not fit this version of domainbert: {error}"
        ) from None


def read_manifest(folder: Path, model_class: type[AnyManifest]) -> AnyManifest:
    """The manifest of a model folder; an empty one if it has none, `EncoderError` if broken."""
    file = folder / MANIFEST_FILE
    if not file.is_file():
        return model_class()
    try:
        return model_class.model_validate_json(file.read_bytes())
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        entry = ".".join(map(str, detail["loc"]))
        raise EncoderError(
            f"{file} does not fit this version of domainbert: {entry}: {detail['msg']}"
        ) from None


def _check_head(
    encoder: Encoder, network: PreTrainedModel, model_class: type[TaskClass]
) -> None:
    """Refuse a published model for another task whose head happens to fit this one's."""
    expected_class = _published_class(network)
    published = network.config.architectures or []
    if expected_class not in published:
        for name in published:
            if name.endswith(LIKE_HEADS):
                raise EncoderError(
                    f"{encoder.name} is a {name}, and this needs a {expected_class}"
                )
    _check_labels(encoder.name, network.config.num_labels, model_class)


def _check_task(
    name: str, config: TaskConfig, model_class: type[TaskClass]
) -> None:
    """Raise an `EncoderError` for a model of another task or number of labels."""
    if config.task not in {model_class.task, *model_class.also}:
        raise EncoderError(
            f"{name} is a model for {config.task}, not for {model_class.task}"
        )
    _check_labels(name, len(config.labels), model_class)


def _check_labels(
    name: str, labels: int, model_class: type[TaskClass]
) -> None:
    expected = len(model_class.labels)
    if expected not in (0, labels):
        raise EncoderError(
            f"{name} has {labels} labels; a model for {model_class.task} has {expected}"
        )


def _encoder_beneath(
    path: Path,
    config: TaskConfig | None,
    adapter: Adapter,
) -> Encoder:
    """The encoder that an adapter was trained on; nothing is downloaded for it."""
    name = adapter.settings.base_model_name_or_path or ""
    if config:
        name = config.encoder
    is_here = name in SHIPPED or expanded(name).is_dir()
    if config is None and not is_here:
        name = HUB + name  # PEFT does not mark models of the Hub
    if not is_here and not name.startswith(HUB):
        raise EncoderError(
            f"{path} was trained on the encoder folder {name}, which is not here"
        )
    encoder = find_encoder(name, download=False)
    if config and config.encoder_sha256 != encoder.sha256:
        raise EncoderError(
            f"{path} was trained on {name} with SHA-256 {str(config.encoder_sha256)[:12]}…, "
            f"but the one here has {encoder.sha256[:12]}…; rebuild it with the command in its card"
        )
    return encoder
