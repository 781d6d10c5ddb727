"""Adapters: reading, checking, merging and writing what PEFT stores, and training them by PEFT.

Merging is two matrix products a layer, so it needs no PEFT, whose import takes longer than the
scoring of a note.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from pydantic import Field

from domainbert.encoders.configs import check_bounds, read_object
from domainbert.encoders.loading import (
    ADAPTER_CONFIG,
    ADAPTER_FILE,
    HUB,
    loading_errors,
)
from domainbert.errors import EncoderError, UserError
from domainbert.settings import Settings

if TYPE_CHECKING:
    import torch
    from peft import PeftModel
    from transformers import PreTrainedModel

    from domainbert.encoders.bert import FastBert

OUTPUT_LAYERS = ("classifier", "qa_outputs")
HEAD_MODULES = {*OUTPUT_LAYERS, "pooler", "head"}
# Every linear layer of the encoder, by the names of BERT, ModernBERT and MPNet.
LINEAR = r"(.*\.)?(encoder\.layer|layers)\.\d+\..*(query|key|value|dense|Wqkv|Wi|Wo|attn\.[qkvo])"
MAX_RANK = 1024
Rank = Annotated[
    int,
    Field(
        ge=1,
        le=MAX_RANK,
        description=f"a whole number from 1 to {MAX_RANK}",
    ),
]
# The part of a name before that of the network's own layer.
_PREFIX = "base_model.model."
Value = TypeVar("Value")
Network = TypeVar("Network", "PreTrainedModel", "FastBert")


class LoraSettings(Settings):
    """The entries of `adapter_config.json` that are read, with PEFT's names and defaults.

    Others of PEFT's entries may load files or run code, and are left out.
    """

    r: Rank
    lora_alpha: float = 8
    rank_pattern: dict[str, Rank] = Field(default_factory=dict)
    alpha_pattern: dict[str, float] = Field(default_factory=dict)
    use_rslora: bool = False
    use_dora: bool = False
    lora_dropout: float = 0
    bias: Literal["none", "all", "lora_only"] = "none"
    target_modules: str | list[str]
    exclude_modules: str | list[str] | None = None
    layers_to_transform: int | list[int] | None = None
    layers_pattern: str | list[str] | None = None
    modules_to_save: list[str] | None = None
    fan_in_fan_out: bool = False
    task_type: str | None = None
    base_model_name_or_path: str | None = None
    revision: str | None = None

    def rank_of(self, layer: str) -> int:
        """Rank of the adapter of a layer."""
        return _by_pattern(self.rank_pattern, layer, self.r)

    def scaling_of(self, layer: str) -> float:
        """What the product of a layer's two matrices is multiplied by, alpha / rank.

        The divisor is the root of the rank with `use_rslora` (Kalajdzievski, arXiv 2312.03732).
        """
        alpha = _by_pattern(self.alpha_pattern, layer, self.lora_alpha)
        rank = self.rank_of(layer)
        if self.use_rslora:
            return alpha / math.sqrt(rank)
        return alpha / rank

    def adapts(self, layer: str) -> bool:
        """Whether a linear layer has an adapter."""
        if self.exclude_modules and _is_named(layer, self.exclude_modules):
            return False
        if self.saves(layer) or not _is_named(layer, self.target_modules):
            return False
        if self.layers_to_transform is None:
            return True
        numbers = self.layers_to_transform
        if isinstance(numbers, int):
            numbers = [numbers]
        patterns = self.layers_pattern or [r"[^.]*"]
        if isinstance(patterns, str):
            patterns = [patterns]
        position = re.match(
            rf"(?:^|.*?\.)(?:{'|'.join(patterns)})\.(\d+)\.", layer
        )
        return position is not None and int(position[1]) in numbers

    def saves(self, module: str) -> bool:
        """Whether the weights of a module, such as the head, are stored as a whole."""
        names = self.modules_to_save or ()
        return any(
            re.match(rf"(^|.*\.){name}($|\..*)", module) for name in names
        )


@dataclass(frozen=True, eq=False)
class Adapter:
    """The content of PEFT's folder: the settings, and the tensors of adapters and head."""

    settings: LoraSettings
    tensors: dict[str, torch.Tensor] = field(repr=False)

    @property
    def rank(self) -> int:
        """Rank of the adapters."""
        return self.settings.r

    def outputs(self) -> dict[str, int]:
        """The number of outputs of the head, as an entry of a Hugging Face configuration."""
        endings = tuple(f"{layer}.weight" for layer in OUTPUT_LAYERS)
        for name, tensor in self.tensors.items():
            if name.endswith(endings):
                return {"num_labels": len(tensor)}
        return {}

    def save(self, folder: Path) -> None:
        """Write `adapter_model.safetensors` and `adapter_config.json`."""
        from safetensors.torch import save_file

        save_file(
            self.tensors, folder / ADAPTER_FILE, metadata={"format": "pt"}
        )
        entries = self.settings.model_dump() | {
            "peft_type": "LORA",
            "inference_mode": True,
        }
        text = json.dumps(entries, indent=2, sort_keys=True)
        (folder / ADAPTER_CONFIG).write_text(text + "\n", "utf-8")


def read_settings(folder: Path) -> LoraSettings:
    """The settings of a LoRA adapter; `EncoderError` for another type or a wrong value."""
    file = folder / ADAPTER_CONFIG
    document = read_object(file)
    if (peft_type := document.get("peft_type")) != "LORA":
        raise EncoderError(
            f"{folder} holds a {str(peft_type)[:40]} adapter; expected LoRA"
        )
    entries = {
        key: value
        for key, value in document.items()
        if key in LoraSettings.model_fields and value is not None
    }
    check_bounds(entries, name=str(file))
    try:
        settings = LoraSettings(**entries)
    except UserError as error:
        raise EncoderError(f"{file}: {error}") from None
    if settings.use_dora or settings.bias != "none":
        raise EncoderError(
            f"{file} has use_dora or bias, which change more than linear layers; merge the "
            "adapter with PEFT's merge_and_unload, save the model, and load that folder"
        )
    return settings


def read_adapter(folder: Path) -> Adapter:
    """The adapter of a folder, written by us or by PEFT; `EncoderError` if it cannot be used."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    file = folder / ADAPTER_FILE
    for path in (file, folder / ADAPTER_CONFIG):
        if not path.is_file():
            raise EncoderError(f"{folder} lacks {path.name}")
    settings = read_settings(folder)
    try:
        tensors = load_file(file)
    except SafetensorError as error:
        raise EncoderError(
            f"{file} is broken ({error}); copy it again"
        ) from None
    if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise EncoderError(
            f"{file} holds numbers that are not finite; train again"
        )
    return Adapter(settings, tensors)


def apply_adapter(
    network: Network,
    adapter: Adapter,
    *,
    name: str,
) -> Network:
    """Merge an adapter into its encoder, in place; `EncoderError` if the two do not fit.

    Each adapted weight W becomes W + alpha / rank · B A, as PEFT's `merge_and_unload` computes it.
    """
    import torch

    settings = adapter.settings
    with loading_errors(name):
        layers = dict(_adapted_layers(network, settings))
        saved = dict(_saved_tensors(network, settings))
    expected = {key: tensor.shape for key, tensor in saved.items()}
    for layer, linear in layers.items():
        rank = settings.rank_of(layer)
        for part, shape in (
            ("lora_A", (rank, linear.in_features)),
            ("lora_B", (linear.out_features, rank)),
        ):
            expected[f"{_PREFIX}{layer}.{part}.weight"] = torch.Size(shape)
    shapes = {key: tensor.shape for key, tensor in adapter.tensors.items()}
    if differing := dict(shapes.items() ^ expected.items()):
        raise EncoderError(
            f"{name} does not fit its encoder: {len(differing)} tensors differ"
        )
    with torch.no_grad():
        for key, tensor in saved.items():
            tensor.copy_(adapter.tensors[key])
        for layer, linear in layers.items():
            down = adapter.tensors[f"{_PREFIX}{layer}.lora_A.weight"].float()
            up = adapter.tensors[f"{_PREFIX}{layer}.lora_B.weight"].float()
            linear.weight += (up @ down) * settings.scaling_of(layer)
    # As PEFT leaves them. Weights with gradients are multiplied by another routine, which gives
    # other last digits.
    return network.requires_grad_(requires_grad=False).eval()


def _adapted_layers(
    network: PreTrainedModel | FastBert, settings: LoraSettings
) -> Iterator[tuple[str, torch.nn.Linear]]:
    """The linear layers that have an adapter, by their names."""
    from torch.nn import Linear

    for name, module in network.named_modules():
        if settings.adapts(name) and isinstance(module, Linear):
            yield name, module


def _saved_tensors(
    network: PreTrainedModel | FastBert, settings: LoraSettings
) -> Iterator[tuple[str, torch.Tensor]]:
    """The network's own tensors that an adapter stores as a whole, by their names there."""
    for name, tensor in network.state_dict().items():
        module = name.rpartition(".")[0]
        if settings.saves(module):
            yield _PREFIX + name, tensor


def _is_named(module: str, names: str | Sequence[str]) -> bool:
    """Whether a pattern matches a module's name, or one of several names ends it."""
    if isinstance(names, str):
        return re.fullmatch(names, module) is not None
    return any(module == name or module.endswith(f".{name}") for name in names)


def _by_pattern(
    values: Mapping[str, Value], layer: str, default: Value
) -> Value:
    """The value of the first pattern that ends a layer's name."""
    for pattern, value in values.items():
        if re.match(rf"(.*\.)?({pattern})$", layer):
            return value
    return default


def add_lora(model: PreTrainedModel, rank: int) -> PeftModel:
    """A `PeftModel` in which only low-rank adapters (on every linear layer) and the head train.

    See Hu et al., arXiv 2106.09685; alpha is twice the rank.
    """
    from peft import LoraConfig, get_peft_model

    modules = {name.rsplit(".", 1)[-1] for name, _ in model.named_modules()}
    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        target_modules=LINEAR,
        modules_to_save=sorted(HEAD_MODULES & modules) or None,
    )
    with warnings.catch_warnings():
        # peft reads an attribute of transformers by its old name.
        warnings.filterwarnings(
            "ignore", "`is_gradient_checkpointing`", FutureWarning
        )
        return get_peft_model(model, config)


def trained_adapter(wrapped: PeftModel, *, encoder: str) -> Adapter:
    """The adapter and head of a model from `add_lora`, in half precision.

    `encoder` names what it was trained on; PEFT's `base_model_name_or_path`.
    """
    from peft import get_peft_model_state_dict

    tensors = get_peft_model_state_dict(wrapped, save_embedding_layers=False)
    config = wrapped.peft_config["default"]
    settings = LoraSettings(
        r=config.r,
        lora_alpha=config.lora_alpha,
        target_modules=config.target_modules,
        modules_to_save=config.modules_to_save,
        base_model_name_or_path=encoder.removeprefix(HUB),
    )
    halves = {
        name: tensor.detach().cpu().half().contiguous()
        for name, tensor in tensors.items()
    }
    return Adapter(settings, halves)


def set_adapter(
    wrapped: PeftModel, tensors: Mapping[str, torch.Tensor]
) -> None:
    """Put the tensors of an `Adapter` into a model from `add_lora`."""
    from peft import set_peft_model_state_dict

    floats = {name: tensor.float() for name, tensor in tensors.items()}
    set_peft_model_state_dict(wrapped, floats)


def merge_adapter(wrapped: PeftModel, adapter: Adapter) -> PreTrainedModel:
    """Merge an adapter into a model from `add_lora`, and return it plain."""
    set_adapter(wrapped, adapter.tensors)
    return wrapped.merge_and_unload().eval()
