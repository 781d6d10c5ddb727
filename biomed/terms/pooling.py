"""One vector from the hidden states of a window: pooling, layers, and what an encoder asks for."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from domainbert.encoders import Encoder, EncoderError
from domainbert.errors import UserError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

Pooling = Literal["mean", "cls", "max"]
Layers = Literal["last", "mean4", "sum4"]
LAST_LAYERS = 4
_READ_HERE = {"Transformer", "Pooling", "Normalize"}
_SAYS_SO = "modules.json"  # what sentence-transformers writes beside a model made for similarity


@dataclass(frozen=True)
class TermSettings:
    """How hidden states become a vector.

    Attributes:
        pooling: "mean" over the tokens of a window, [CLS] and [SEP] counted and padding not;
            "cls", the first token; "max", the largest of the tokens in each dimension.
        layers: "last", or the mean ("mean4") or sum ("sum4") of the last four, as the ClinicalBERT
            paper has it; an encoder with fewer layers gives all it has.
        unit_norm: whether vectors are scaled to length 1.
    """

    pooling: Pooling = "mean"
    layers: Layers = "last"
    unit_norm: bool = False

    def __post_init__(self) -> None:
        """Check the names."""
        for name, legal in (("pooling", get_args(Pooling)), ("layers", get_args(Layers))):
            if getattr(self, name) not in legal:
                msg = f"{name} must be one of {', '.join(legal)}; got {getattr(self, name)!r}"
                raise UserError(msg)


class BareEncoder:
    """Loads any encoder without a pooler, which nothing here reads and few files have."""

    config_class = None

    @staticmethod
    def from_pretrained(location: str, **options: Any) -> PreTrainedModel:
        """Take the class that the configuration names."""
        from transformers import MODEL_MAPPING, AutoConfig

        config = AutoConfig.from_pretrained(
            location, local_files_only=options["local_files_only"], trust_remote_code=False
        )
        model_class = MODEL_MAPPING[type(config)]
        if "add_pooling_layer" in inspect.signature(model_class.__init__).parameters:
            options["add_pooling_layer"] = False
        return model_class.from_pretrained(location, **options)


def hidden_states(output: Any, *, layers: Layers) -> torch.Tensor:
    """The chosen layers of a model's output, shape (windows, tokens, hidden)."""
    import torch

    if layers == "last":
        return output.last_hidden_state
    # The first entry is the embedding table's, and no layer.
    last = torch.stack(output.hidden_states[1:][-LAST_LAYERS:])
    return last.mean(dim=0) if layers == "mean4" else last.sum(dim=0)


def pool(hidden: torch.Tensor, mask: torch.Tensor | None, *, pooling: Pooling) -> torch.Tensor:
    """One row a window.

    Args:
        hidden: shape (windows, tokens, hidden).
        mask: 1 for a token and 0 for padding, shape (windows, tokens); None without padding.
        pooling: see `TermSettings`.

    Returns:
        Shape (windows, hidden).
    """
    if pooling == "cls":
        return hidden[:, 0]
    if mask is None:
        return hidden.mean(dim=1) if pooling == "mean" else hidden.amax(dim=1)
    kept = mask[..., None].to(hidden.dtype)
    if pooling == "max":
        return hidden.masked_fill(kept == 0, float("-inf")).amax(dim=1)
    return (hidden * kept).sum(dim=1) / kept.sum(dim=1)


def published_pooling(encoder: Encoder) -> Pooling | None:
    """The pooling that an encoder made for similarity was trained with; None for any other.

    Raises:
        EncoderError: it has a step between encoder and vector that is not known here.
    """
    modules = _read_json(encoder, _SAYS_SO)
    if modules is None:
        return None
    unknown = {str(module["type"]).rsplit(".", 1)[-1] for module in modules} - _READ_HERE
    if unknown:
        msg = (
            f"{encoder.name} puts {', '.join(sorted(unknown))} after its encoder, which is not "
            "done here; use sentence_transformers.SentenceTransformer for it"
        )
        raise EncoderError(msg)
    said = _read_json(encoder, "1_Pooling/config.json") or {}
    for pooling, key in (("cls", "cls_token"), ("max", "max_tokens"), ("mean", "mean_tokens")):
        if said.get(f"pooling_mode_{key}") or said.get("pooling_mode") == pooling:
            return pooling  # type: ignore[return-value]
    return "mean"


def _read_json(encoder: Encoder, name: str) -> Any:
    """A file of an encoder's folder; None if it is not there."""
    file = Path(encoder.location) / name
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
