"""A task model on disk: LoRA adapter or full weights, its configuration and its card."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from domainbert import encoders
from domainbert.encoders import HUB, SHIPPED, Encoder, find_encoder, load_tokenizer
from domainbert.errors import EncoderError
from domainbert.files import folder_beside, replace_folder
from domainbert.lora import LoRA, adapter_tensors, add_lora, merge_adapter
from domainbert.verification import ADAPTER_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from transformers import PreTrainedModel, PreTrainedTokenizerBase

CONFIG_KEY = "domainbert"
# Heads with weights of the same names and shapes; only their class tells them apart.
LIKE_HEADS = ("ForSequenceClassification", "ForTokenClassification", "ForMultipleChoice")
OUR_FILES = (  # all that a model folder of ours may hold
    *("config.json", "README.md", "*.safetensors", "*.safetensors.index.json"),
    *("modules.json", "sentence_bert_config.json"),
    *("tokenizer*.json", "special_tokens_map.json", "added_tokens.json", "vocab.*"),
    *("merges.txt", "chat_template.jinja"),
)


@dataclass(frozen=True)
class TaskConfig:
    """What a task model's `config.json` says under the key `domainbert`."""

    task: str  # such as "readmission"
    labels: tuple[str, ...]  # one name for each output of the head
    encoder: str  # as it was named in training
    encoder_sha256: str | None  # see `domainbert.encoders.Encoder`
    lower_case: bool  # by the tokenizer
    lora: LoRA | None  # None with full weights
    settings: dict[str, Any] = field(default_factory=dict)  # the task's own, such as window and c
    manifest: dict[str, Any] = field(default_factory=dict)  # how it was trained and how it scored

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TaskConfig:
        """Read what `asdict` wrote."""
        _check_names(cls, data, part=CONFIG_KEY)
        labels, lora = data["labels"], data["lora"] or None
        if not isinstance(labels, list):
            raise EncoderError(f"config.json: labels must be a list of names, got {labels!r}")
        if lora:
            _check_names(LoRA, lora, part="lora")
        return cls(**{**data, "labels": tuple(labels), "lora": lora and LoRA(**lora)})


def _check_names(wanted: type[TaskConfig | LoRA], data: object, *, part: str) -> None:
    known = {field.name for field in fields(wanted)}
    if wrong := set(data) ^ known if isinstance(data, dict) else known:
        raise EncoderError(
            f"config.json does not fit this version of domainbert: under {part!r}, "
            f"{', '.join(sorted(map(str, wrong)))} missing or unknown"
        )


@dataclass(frozen=True)
class TaskModel:
    """A model, its tokenizer and its configuration; None for a plain Hugging Face checkpoint.

    `adapter` holds the tensors that were merged into the encoder; None with full weights.
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

    With `adapter`, from `adapter_tensors`, these tensors alone are written; without, all weights
    and the tokenizer. The card becomes README.md; `extra_files` are those of
    sentence-transformers, see `domainbert.pooling`. For errors see `check_replaceable`.
    """
    from safetensors.torch import save_file

    folder = Path(folder).expanduser().resolve()
    check_replaceable(folder)
    with folder_beside(folder) as temporary:
        document: dict[str, Any] = {}
        if adapter is None:
            with encoders.quiet():
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
    """Give weights, which are written for their owner alone, the permissions of config.json."""
    for path in folder.glob("*.safetensors"):
        shutil.copymode(folder / "config.json", path)


def check_replaceable(folder: str | Path) -> None:
    """Raise `FileExistsError` if a folder holds anything but a model of ours."""
    folder = Path(folder).expanduser()
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        is_ours = CONFIG_KEY in _read_config(folder)  # `config.json` alone is too common a name
    except EncoderError:
        is_ours = False
    if not is_ours:
        raise FileExistsError(f"{folder} exists and is not a model folder; choose another name")
    for path in folder.iterdir():
        if not any(map(path.match, ("1_Pooling",) if path.is_dir() else OUR_FILES)):
            msg = f"{folder} holds {path.name}, which is not part of a model; move it away first"
            raise FileExistsError(msg)


def _published_class(model: PreTrainedModel) -> str:
    """The Hugging Face class that can read this model's weights elsewhere."""
    ancestors = type(model).__mro__
    return next(cls.__name__ for cls in ancestors if cls.__module__.startswith("transformers."))


def load_task_model(
    folder: str | Path,
    *,
    task: str,
    labels: int | None,
    network_class: Callable[[], Any],
    train_command: str,
    dropout: float | None = None,
) -> TaskModel:
    """Load a model folder, or a plain Hugging Face checkpoint with a head for the same task.

    `folder` may also be `hub:owner/name`. `labels` is the number of outputs that the head must
    have, None for any; `network_class` gives the class, and is called when the folder is found,
    because it imports torch; `train_command` is for the error if there is no trained head. An
    adapter's encoder gets `dropout`, to be trained further, instead of its own.

    Raises `EncoderError` for another task, number of labels or encoder, missing weights and an
    encoder without a trained head.
    """
    path = Path(folder).expanduser()
    document = _read_config(path) if path.is_dir() else {}
    if CONFIG_KEY not in document:
        encoder = find_encoder(folder)
        model = encoders.load_model(encoder, network_class(), train_command=train_command)
        _check_head(encoder, model)
        if labels not in (None, found := model.config.num_labels):
            raise EncoderError(f"{encoder.name} has {found} labels; this task has {labels}")
        return TaskModel(model, load_tokenizer(encoder), config=None)
    config = TaskConfig.from_dict(document[CONFIG_KEY])
    if config.task != task:
        raise EncoderError(f"{path} is a model for {config.task}, not for {task}")
    if labels not in (None, found := len(config.labels)):
        raise EncoderError(f"{path} has {found} labels; a model for {task} has {labels}")
    adapter, outputs = None, encoders.named_outputs(config.labels)
    if config.lora is None:
        encoder, outputs["train_command"] = find_encoder(path), train_command
        model = encoders.load_model(encoder, network_class(), **outputs)
    else:
        encoder = _encoder_beneath(path, config)
        if dropout is not None:
            outputs |= encoders.dropouts(encoder, dropout)
        wrapped = add_lora(encoders.load_model(encoder, network_class(), **outputs), config.lora)
        adapter = _read_adapter(path, expected=adapter_tensors(wrapped))
        model = merge_adapter(wrapped, adapter)
    tokenizer = load_tokenizer(encoder, lower_case=config.lower_case)
    return TaskModel(model, tokenizer, config, adapter)


def _read_config(folder: Path) -> dict[str, Any]:
    file = folder / "config.json"
    if not file.is_file():
        raise EncoderError(f"{folder} holds no model: it has no config.json")
    try:
        return dict(json.loads(file.read_text("utf-8")))
    except (ValueError, TypeError) as error:
        raise EncoderError(f"{file} is not a JSON object ({error})") from None


def _check_head(encoder: Encoder, model: PreTrainedModel) -> None:
    """Refuse a published model for another task whose head happens to fit this one's."""
    wanted, published = _published_class(model), model.config.architectures or []
    others = [name for name in published if name.endswith(LIKE_HEADS) and name != wanted]
    if others and wanted not in published:
        raise EncoderError(f"{encoder.name} is a {others[0]}, and this needs a {wanted}")


def resolve_model(name: str | Path, shipped: dict[str, Path]) -> str | Path:
    """The folder of a shipped model; folders, encoders and Hub models unchanged, others refused."""
    typed = str(name)
    if typed in shipped:
        return shipped[typed]
    if typed in SHIPPED or typed.startswith(HUB) or Path(typed).expanduser().is_dir():
        return name
    raise EncoderError(encoders.unknown_name(typed, shipped, what="model"))


def _encoder_beneath(path: Path, config: TaskConfig) -> Encoder:
    """The encoder that an adapter was trained on; a folder's config never opens the network."""
    shown = config.encoder
    if shown not in SHIPPED and not shown.startswith(HUB) and not Path(shown).expanduser().is_dir():
        raise EncoderError(f"{path} was trained on the encoder folder {shown}, which is not here")
    encoder = find_encoder(shown, download=False)
    if config.encoder_sha256 != encoder.sha256:
        raise EncoderError(
            f"{path} was trained on {shown} with SHA-256 {str(config.encoder_sha256)[:12]}…, "
            f"but the one here has {encoder.sha256[:12]}…; rebuild it with the command in its card"
        )
    return encoder


def _read_adapter(path: Path, *, expected: dict[str, Any]) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    file = path / ADAPTER_FILE
    if not file.is_file():
        raise EncoderError(f"{path} lacks {ADAPTER_FILE}")
    try:
        tensors = load_file(file)
    except SafetensorError as error:
        raise EncoderError(f"{file} is broken ({error}); copy it again") from None
    shapes = [{(name, t.shape) for name, t in each.items()} for each in (tensors, expected)]
    if differing := {name for name, _ in shapes[0] ^ shapes[1]}:
        raise EncoderError(f"{file} does not fit its encoder: {len(differing)} tensors differ")
    for name, tensor in tensors.items():
        if not (tensor.is_floating_point() and bool(tensor.isfinite().all())):
            msg = f"{file}: {name} holds {tensor.dtype} that is not finite, or not floating-point"
            raise EncoderError(msg)
    return tensors
