"""A task model on disk: LoRA adapter or full weights, its configuration and its card."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from domainbert.encoders import (
    HUB,
    SHIPPED,
    Encoder,
    EncoderError,
    find_encoder,
    load_model,
    load_tokenizer,
    named_outputs,
    quiet,
    unknown_name,
)
from domainbert.files import folder_beside, replace_folder
from domainbert.lora import LoRA, adapter_tensors, add_lora, merge_adapter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transformers import PreTrainedModel, PreTrainedTokenizerBase

CONFIG_KEY = "domainbert"
ADAPTER_FILE = "adapter.safetensors"
# Heads whose weights have the same names and shapes; only their class tells them apart.
LIKE_HEADS = ("ForSequenceClassification", "ForTokenClassification", "ForMultipleChoice")
# Everything a model folder of ours may hold.
OUR_FILES = (
    *("config.json", "README.md", "*.safetensors", "*.safetensors.index.json"),
    *("modules.json", "sentence_bert_config.json"),
)
POOLING_FOLDERS = ("1_Pooling",)
TOKENIZER_FILES = (
    *("tokenizer*.json", "special_tokens_map.json", "added_tokens.json", "vocab.*"),
    *("merges.txt", "chat_template.jinja"),
)


@dataclass(frozen=True)
class TaskConfig:
    """What a task model's `config.json` says under the key `domainbert`.

    Attributes:
        task: such as "readmission"; loading checks it.
        labels: one name for each output of the head.
        encoder: name of the encoder that was trained.
        encoder_sha256: its checksum; see `domainbert.encoders.Encoder`.
        lower_case: whether the tokenizer lower-cases.
        lora: the adapter's shape; None with full weights.
        settings: the task's own, such as window and c.
        manifest: how the model was trained and how it scored.
    """

    task: str
    labels: tuple[str, ...]
    encoder: str
    encoder_sha256: str | None
    lower_case: bool
    lora: LoRA | None
    settings: dict[str, Any] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TaskConfig:
        """Read what `asdict` wrote."""
        _check_names(cls, data, part=CONFIG_KEY)
        if data["lora"]:
            _check_names(LoRA, data["lora"], part="lora")
        if not isinstance(data["labels"], list):
            msg = f"config.json: labels must be a list of names, got {data['labels']!r}"
            raise EncoderError(msg)
        lora = LoRA(**data["lora"]) if data["lora"] else None
        return cls(**{**data, "labels": tuple(data["labels"]), "lora": lora})


def _check_names(wanted: type[TaskConfig | LoRA], data: object, *, part: str) -> None:
    known = {field.name for field in fields(wanted)}
    wrong = set(data) ^ known if isinstance(data, dict) else known
    if wrong:
        listed = ", ".join(sorted(map(str, wrong)))
        msg = (
            f"config.json does not fit this version of domainbert: under {part!r}, {listed} "
            "missing or unknown"
        )
        raise EncoderError(msg)


@dataclass(frozen=True)
class TaskModel:
    """A model that can be run, its tokenizer, and its configuration.

    `config` is None for a plain Hugging Face checkpoint. `adapter` holds the tensors that were
    merged into the encoder; None with full weights.
    """

    model: PreTrainedModel = field(repr=False)
    tokenizer: PreTrainedTokenizerBase = field(repr=False)
    config: TaskConfig | None
    adapter: dict[str, Any] | None = field(repr=False, default=None)


def save_task_model(
    folder: str | Path,
    *,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    config: TaskConfig,
    card: str,
    adapter: dict[str, Any] | None = None,
    extra_files: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write a model folder under a temporary name, then rename it.

    Args:
        folder: replaced if it is a model folder of ours; see `check_replaceable`.
        model: the plain model; written in full if there is no adapter.
        tokenizer: written with full weights.
        config: becomes `config.json`.
        card: becomes `README.md`.
        adapter: tensors from `adapter_tensors`.
        extra_files: of sentence-transformers, see `domainbert.pooling.module_files`.

    Raises:
        FileExistsError: the folder exists and is no model folder, or holds other files too.
    """
    from safetensors.torch import save_file

    folder = Path(folder).expanduser().resolve()
    check_replaceable(folder)
    with folder_beside(folder) as temporary:
        document: dict[str, Any] = {}
        if adapter is None:
            with quiet():
                model.save_pretrained(temporary)
            tokenizer.save_pretrained(temporary)
            document = json.loads((temporary / "config.json").read_text("utf-8"))
            document["architectures"] = [_published_class(model)]
        else:
            save_file(adapter, temporary / ADAPTER_FILE)
        document[CONFIG_KEY] = asdict(config)
        (temporary / "config.json").write_text(json.dumps(document, indent=2) + "\n", "utf-8")
        (temporary / "README.md").write_text(card, "utf-8")
        for name, content in extra_files.items():
            (temporary / name).parent.mkdir(exist_ok=True)
            (temporary / name).write_text(content, "utf-8")
        share_files(temporary)
        replace_folder(temporary, folder)


def share_files(folder: Path) -> None:
    """Give weights, which are written for their owner alone, the permissions of the config."""
    for path in folder.glob("*.safetensors"):
        shutil.copymode(folder / "config.json", path)


def check_replaceable(folder: str | Path) -> None:
    """Check that a model can be written to a folder without losing anything but a model of ours.

    Raises:
        FileExistsError: the folder holds something else.
    """
    folder = Path(folder).expanduser()
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        is_ours = CONFIG_KEY in _read_config(folder)  # `config.json` alone is too common a name
    except EncoderError:
        is_ours = False
    if not is_ours:
        msg = f"{folder} is there and is not a model folder; choose another name"
        raise FileExistsError(msg)
    for path in folder.iterdir():
        known = POOLING_FOLDERS if path.is_dir() else OUR_FILES + TOKENIZER_FILES
        if not any(path.match(name) for name in known):
            msg = f"{folder} holds {path.name}, which is not part of a model; move it away first"
            raise FileExistsError(msg)


def _published_class(model: PreTrainedModel) -> str:
    """The Hugging Face class that can read this model's weights elsewhere."""
    ancestors = type(model).__mro__
    return next(cls.__name__ for cls in ancestors if cls.__module__.startswith("transformers."))


def load_task_model(
    folder: str | Path, *, task: str, labels: int | None, model_class: Any, train_command: str
) -> TaskModel:
    """Load a model folder, or a plain Hugging Face checkpoint with a head for the same task.

    An adapter is merged into its encoder, so running it costs nothing extra.

    Args:
        folder: a model folder of ours, a Hugging Face checkpoint folder, or `hub:owner/name`.
        task: the task of the caller.
        labels: number of outputs of the caller's head; None for any.
        model_class: a Hugging Face model class with that head.
        train_command: the command that trains a head, for the error if there is none.

    Raises:
        EncoderError: another task, another number of labels, an encoder whose checksum is not
            that of training, missing weights, or an encoder without a trained head.
    """
    path = Path(folder).expanduser()
    document = _read_config(path) if path.is_dir() else {}
    if CONFIG_KEY not in document:
        encoder = find_encoder(folder)
        model = load_model(encoder, model_class, train_command=train_command)
        _check_head(encoder, model)
        if labels not in (None, model.config.num_labels):
            msg = f"{encoder.name} has {model.config.num_labels} labels; this task has {labels}"
            raise EncoderError(msg)
        return TaskModel(model=model, tokenizer=load_tokenizer(encoder), config=None)
    config = TaskConfig.from_dict(document[CONFIG_KEY])
    if config.task != task:
        msg = f"{path} is a model for {config.task}, not for {task}"
        raise EncoderError(msg)
    if labels not in (None, len(config.labels)):
        msg = f"{path} has {len(config.labels)} labels; a model for {task} has {labels}"
        raise EncoderError(msg)
    adapter = None
    if config.lora is None:
        encoder = find_encoder(path)
        model = load_model(
            encoder, model_class, train_command=train_command, **named_outputs(config.labels)
        )
    else:
        encoder = _encoder_beneath(path, config)
        wrapped = add_lora(
            load_model(encoder, model_class, **named_outputs(config.labels)), config.lora
        )
        adapter = _read_adapter(path, expected=adapter_tensors(wrapped))
        model = merge_adapter(wrapped, adapter)
    tokenizer = load_tokenizer(encoder, lower_case=config.lower_case)
    return TaskModel(model=model, tokenizer=tokenizer, config=config, adapter=adapter)


def _read_config(folder: Path) -> dict[str, Any]:
    file = folder / "config.json"
    if not file.is_file():
        msg = f"{folder} holds no model: it has no config.json"
        raise EncoderError(msg)
    try:
        return dict(json.loads(file.read_text("utf-8")))
    except (ValueError, TypeError) as error:
        msg = f"{file} is not a JSON object ({error})"
        raise EncoderError(msg) from None


def _check_head(encoder: Encoder, model: PreTrainedModel) -> None:
    """Refuse a published model for another task whose head happens to fit this one's."""
    wanted, published = _published_class(model), model.config.architectures or []
    others = [name for name in published if name.endswith(LIKE_HEADS) and name != wanted]
    if others and wanted not in published:
        msg = f"{encoder.name} is a {others[0]}, and this needs a {wanted}"
        raise EncoderError(msg)


def resolve_model(name: str | Path, shipped: dict[str, Path]) -> str | Path:
    """The folder of a shipped model, or the name unchanged: a folder, an encoder, a Hub model.

    Raises:
        EncoderError: it is none of these; lists the shipped models.
    """
    typed = str(name)
    if typed in shipped:
        return shipped[typed]
    if typed in SHIPPED or typed.startswith(HUB) or Path(typed).expanduser().is_dir():
        return name
    raise EncoderError(unknown_name(typed, shipped, what="model"))


def _encoder_beneath(path: Path, config: TaskConfig) -> Encoder:
    """The encoder that an adapter was trained on; a folder's config never opens the network."""
    shown = config.encoder
    if shown not in SHIPPED and not shown.startswith(HUB) and not Path(shown).expanduser().is_dir():
        msg = f"{path} was trained on the encoder folder {shown}, which is not here"
        raise EncoderError(msg)
    encoder = find_encoder(shown, download=False)
    if config.encoder_sha256 != encoder.sha256:
        msg = (
            f"{path} was trained on {shown} with SHA-256 {str(config.encoder_sha256)[:12]}…, "
            f"but the one here has {encoder.sha256[:12]}…; rebuild it with the command in its card"
        )
        raise EncoderError(msg)
    return encoder


def _read_adapter(path: Path, *, expected: dict[str, Any]) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    file = path / ADAPTER_FILE
    if not file.is_file():
        msg = f"{path} lacks {ADAPTER_FILE}"
        raise EncoderError(msg)
    try:
        tensors = load_file(file)
    except SafetensorError as error:
        msg = f"{file} is broken ({error}); copy it again"
        raise EncoderError(msg) from None
    found = {(name, tensor.shape) for name, tensor in tensors.items()}
    wanted = {(name, tensor.shape) for name, tensor in expected.items()}
    if found != wanted:
        differing = {name for name, _ in found ^ wanted}
        msg = f"{file} does not fit its encoder: {len(differing)} tensors differ"
        raise EncoderError(msg)
    for name, tensor in tensors.items():
        if not (tensor.is_floating_point() and bool(tensor.isfinite().all())):
            msg = f"{file}: {name} holds {tensor.dtype} that is not finite, or not floating-point"
            raise EncoderError(msg)
    return tensors
