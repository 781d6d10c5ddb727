"""Low-rank adapters: adding and merging them, and PEFT's folder format."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from domainbert.encoders.configs import check_bounds, read_object
from domainbert.encoders.loading import (
    ADAPTER_CONFIG,
    ADAPTER_FILE,
    HUB,
    loading_errors,
)
from domainbert.errors import EncoderError

if TYPE_CHECKING:
    import torch
    from peft import LoraConfig, PeftModel
    from transformers import PreTrainedModel

OUTPUT_LAYERS = ("classifier", "qa_outputs")
HEAD_MODULES = {*OUTPUT_LAYERS, "pooler", "head"}
MAX_RANK = 1024
# The entries of a configuration that are read; others of PEFT's may load files or run code.
_READ = {
    "r",
    "rank_pattern",
    "lora_alpha",
    "alpha_pattern",
    "use_rslora",
    "lora_dropout",
    "bias",
    "target_modules",
    "exclude_modules",
    "layers_to_transform",
    "layers_pattern",
    "use_dora",
    "modules_to_save",
    "task_type",
    "base_model_name_or_path",
    "revision",
    "fan_in_fan_out",
}
# Every linear layer of the encoder, by the names of BERT, ModernBERT and MPNet.
LINEAR = r"(.*\.)?(encoder\.layer|layers)\.\d+\..*(query|key|value|dense|Wqkv|Wi|Wo|attn\.[qkvo])"


@dataclass(frozen=True, eq=False)
class Adapter:
    """The content of PEFT's folder: the configuration, and the tensors of adapters and head."""

    config: LoraConfig
    tensors: dict[str, torch.Tensor] = field(repr=False)

    @property
    def rank(self) -> int:
        """Rank of the adapters."""
        return int(self.config.r)

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
        self.config.save_pretrained(str(folder))


def add_lora(model: PreTrainedModel, rank: int) -> PeftModel:
    """A `PeftModel` in which only low-rank adapters (on every linear layer) and the head train.

    See Hu et al., arXiv 2106.09685; alpha is twice the rank.
    """
    from peft import LoraConfig

    modules = {name.rsplit(".", 1)[-1] for name, _ in model.named_modules()}
    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        target_modules=LINEAR,
        modules_to_save=sorted(HEAD_MODULES & modules) or None,
    )
    return _wrapped(model, config)


def _wrapped(model: PreTrainedModel, config: LoraConfig) -> PeftModel:
    from peft import get_peft_model

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
    config = copy.deepcopy(wrapped.peft_config["default"])
    config.base_model_name_or_path = encoder.removeprefix(HUB)
    config.inference_mode = True
    halves = {
        name: tensor.detach().cpu().half().contiguous()
        for name, tensor in tensors.items()
    }
    return Adapter(config, halves)


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


def read_lora_config(folder: Path) -> LoraConfig:
    """The configuration of a LoRA adapter; `EncoderError` for another kind or a wrong value."""
    from peft import LoraConfig

    file = folder / ADAPTER_CONFIG
    document = read_object(file)
    if (kind := document.get("peft_type")) != "LORA":
        raise EncoderError(
            f"{folder} holds a {str(kind)[:40]} adapter; expected LoRA"
        )
    entries = {
        key: value
        for key, value in document.items()
        if key in _READ and value is not None
    }
    check_bounds(entries, name=str(file))
    with loading_errors(str(file)):
        ranks = [entries.get("r"), *entries.get("rank_pattern", {}).values()]
        if any(
            type(rank) is not int or not 1 <= rank <= MAX_RANK
            for rank in ranks
        ):
            raise EncoderError(
                f"{file}: expected r, the rank, to be a whole number from 1 to {MAX_RANK}"
            )
        return LoraConfig(**entries, inference_mode=True)


def read_adapter(folder: Path) -> Adapter:
    """The adapter of a folder, written by us or by PEFT; `EncoderError` if it cannot be used."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    file = folder / ADAPTER_FILE
    for path in (file, folder / ADAPTER_CONFIG):
        if not path.is_file():
            raise EncoderError(f"{folder} lacks {path.name}")
    config = read_lora_config(folder)
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
    return Adapter(config, tensors)


def apply_adapter(
    network: PreTrainedModel,
    adapter: Adapter,
    *,
    name: str,
) -> PreTrainedModel:
    """Merge an adapter that was read into its encoder; `EncoderError` if the two do not fit."""
    from peft import get_peft_model_state_dict

    config = copy.deepcopy(adapter.config)
    # PEFT warns of any name but the network's.
    config.base_model_name_or_path = None
    with loading_errors(name):
        wrapped = _wrapped(network, config)
    expected = get_peft_model_state_dict(wrapped, save_embedding_layers=False)
    if differing := dict(_shapes(adapter.tensors) ^ _shapes(expected)):
        raise EncoderError(
            f"{name} does not fit its encoder: {len(differing)} tensors differ"
        )
    return merge_adapter(wrapped, adapter)


def _shapes(tensors: Mapping[str, torch.Tensor]) -> set[tuple[str, object]]:
    return {(name, tensor.shape) for name, tensor in tensors.items()}
