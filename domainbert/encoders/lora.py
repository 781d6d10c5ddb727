"""Low-rank adapters in training, by PEFT: adding them to a network, and taking them out of it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from domainbert.encoders.adapters import OUTPUT_LAYERS, Adapter, LoraSettings
from domainbert.encoders.loading import HUB

if TYPE_CHECKING:
    import torch
    from peft import PeftModel
    from transformers import PreTrainedModel

HEAD_MODULES = {*OUTPUT_LAYERS, "pooler", "head"}
# Every linear layer of the encoder, by the names of BERT, ModernBERT and MPNet.
LINEAR = r"(.*\.)?(encoder\.layer|layers)\.\d+\..*(query|key|value|dense|Wqkv|Wi|Wo|attn\.[qkvo])"


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
