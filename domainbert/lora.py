"""Low-rank adapters: added to a model, saved as tensors, merged into its weights."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transformers import PreTrainedModel

HEAD_MODULES = {"classifier", "pooler", "qa_outputs", "head"}
# Every linear layer of the encoder, by the names of BERT, ModernBERT and MPNet.
LINEAR = r"(.*\.)?(encoder\.layer|layers)\.\d+\..*(query|key|value|dense|Wqkv|Wi|Wo|attn\.[qkvo])"


@dataclass(frozen=True)
class LoRA:
    """Low-rank adapters on every linear layer of the encoder (Hu et al., arXiv 2106.09685)."""

    rank: int = 16
    alpha: int = 32
    dropout: float = 0.0


def add_lora(model: PreTrainedModel, lora: LoRA | None) -> Any:
    """A `PeftModel` in which only adapters and head train; the model itself if `lora` is None."""
    if lora is None:
        return model
    from peft import LoraConfig, get_peft_model

    heads = sorted(HEAD_MODULES & {name.rsplit(".", 1)[-1] for name, _ in model.named_modules()})
    shape = {"r": lora.rank, "lora_alpha": lora.alpha, "lora_dropout": lora.dropout}
    config = LoraConfig(**shape, target_modules=LINEAR, modules_to_save=heads or None)
    with warnings.catch_warnings():
        # peft reads an attribute of transformers by its old name.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
        return get_peft_model(model, config)


def adapter_tensors(peft_model: Any) -> dict[str, Any]:
    """The trained tensors of a LoRA model, adapters and head, in half precision."""
    from peft import get_peft_model_state_dict

    tensors = get_peft_model_state_dict(peft_model, save_embedding_layers=False)
    return {name: tensor.detach().cpu().half().contiguous() for name, tensor in tensors.items()}


def set_adapter(wrapped: Any, tensors: Mapping[str, Any]) -> None:
    """Put tensors from `adapter_tensors` into a model from `add_lora`."""
    from peft import set_peft_model_state_dict

    set_peft_model_state_dict(wrapped, {name: tensor.float() for name, tensor in tensors.items()})


def merge_adapter(wrapped: Any, tensors: dict[str, Any]) -> PreTrainedModel:
    """Merge tensors from `adapter_tensors` into a model from `add_lora`, and return it plain."""
    set_adapter(wrapped, tensors)
    return wrapped.merge_and_unload().eval()
