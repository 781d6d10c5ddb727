"""Pooling of hidden states into vectors, and sentence-transformers' folder format."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from domainbert.encoders.loading import Encoder, EncoderError
from domainbert.models.model import WindowSettings

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel

Pooling = Literal["mean", "cls", "max"]
_KNOWN_MODULES = {"Transformer", "Pooling", "Normalize"}
_POOLING_KEYS: dict[Pooling, str] = {
    "cls": "cls_token",
    "max": "max_tokens",
    "mean": "mean_tokens",
}


class EmbeddingSettings(WindowSettings):
    """How hidden states become a vector.

    Attributes:
        pooling: "mean" over the tokens of a window, [CLS] and [SEP] included and padding not;
            "cls", the first token; "max", the largest value of the tokens in each dimension.
        unit_norm: whether vectors are scaled to length 1.
    """

    pooling: Pooling = "mean"
    unit_norm: bool = False


class BareEncoder:
    """Loads any encoder without a pooler, which is not used here and which few files contain."""

    config_class = None

    @staticmethod
    def from_pretrained(
        location: str, *, config: PretrainedConfig, **options: object
    ) -> PreTrainedModel:
        """Load with the class that the configuration names."""
        from transformers import MODEL_MAPPING

        model_class = MODEL_MAPPING[type(config)]
        if (
            "add_pooling_layer"
            in inspect.signature(model_class.__init__).parameters
        ):
            options["add_pooling_layer"] = False
        return model_class.from_pretrained(location, config=config, **options)


def pool(
    hidden: torch.Tensor,
    mask: torch.Tensor | None,
    *,
    pooling: Pooling,
) -> torch.Tensor:
    """One row per window.

    Args:
        hidden: shape (windows, tokens, hidden).
        mask: 1 for a token and 0 for padding, shape (windows, tokens); None without padding.
        pooling: see `EmbeddingSettings`.

    Returns:
        Shape (windows, hidden).
    """
    if pooling == "cls":
        return hidden[:, 0]
    if mask is None:
        if pooling == "max":
            return hidden.amax(dim=1)
        return hidden.mean(dim=1)
    kept = mask[..., None].to(hidden.dtype)
    if pooling == "max":
        return hidden.masked_fill(kept == 0, float("-inf")).amax(dim=1)
    return (hidden * kept).sum(dim=1) / kept.sum(dim=1)


def join_windows(
    rows: torch.Tensor,
    lengths: torch.Tensor,
    counts: torch.Tensor,
    *,
    pooling: Pooling,
) -> torch.Tensor:
    """One row per text from one row per window: the maximum, or the mean weighted by tokens.

    Args:
        rows: shape (windows, dimension).
        lengths: tokens of each window, shape (windows,).
        counts: windows of each text, shape (texts,); at least 1 each.
        pooling: see `EmbeddingSettings`.
    """
    from torch import segment_reduce

    if len(rows) == len(counts):
        return rows
    if pooling == "max":
        return segment_reduce(rows, "max", lengths=counts, axis=0)
    weights = lengths.to(rows.dtype)[:, None]
    sums = segment_reduce(rows * weights, "sum", lengths=counts, axis=0)
    return sums / segment_reduce(weights, "sum", lengths=counts, axis=0)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1, shape and type kept; a row of zeros stays zero."""
    lengths = np.linalg.norm(
        vectors,
        axis=-1,
        keepdims=True,
    )
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)


def read_modules(encoder: Encoder) -> EmbeddingSettings | None:
    """The settings of a sentence-transformers model; None for any other encoder.

    Raises:
        EncoderError: the model has a module that is not supported.
    """
    modules = _read_json(encoder, "modules.json")
    if modules is None:
        return None
    paths = [str(module["type"]) for module in modules]
    names = [path.rsplit(".", 1)[-1] for path in paths]
    if unknown := sorted(set(names) - _KNOWN_MODULES):
        raise EncoderError(
            f"{encoder.name} puts {', '.join(unknown)} after its encoder, which is not implemented "
            "here; use sentence_transformers.SentenceTransformer for it"
        )
    config = _read_json(encoder, "1_Pooling/config.json") or {}
    unit_norm = "Normalize" in names
    for pooling, key in _POOLING_KEYS.items():
        # One entry per kind of pooling, or in new versions one entry with its name.
        if (
            config.get(f"pooling_mode_{key}")
            or config.get("pooling_mode") == pooling
        ):
            return EmbeddingSettings(pooling=pooling, unit_norm=unit_norm)
    return EmbeddingSettings(unit_norm=unit_norm)


def module_files(
    settings: EmbeddingSettings,
    *,
    dimension: int,
    window: int,
) -> dict[str, str]:
    """The files that make an encoder folder a sentence-transformers model: name -> content."""
    folders = {"Transformer": "", "Pooling": "1_Pooling"}
    if settings.unit_norm:
        folders["Normalize"] = "2_Normalize"
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": folder,
            "type": f"sentence_transformers.models.{name}",
        }
        for number, (name, folder) in enumerate(folders.items())
    ]
    pooling = {
        f"pooling_mode_{key}": name == settings.pooling
        for name, key in _POOLING_KEYS.items()
    }
    documents = {
        "modules.json": modules,
        "sentence_bert_config.json": {
            "max_seq_length": window,
            "do_lower_case": False,
        },
        "1_Pooling/config.json": {
            "word_embedding_dimension": dimension,
            **pooling,
        },
    }
    return {
        name: json.dumps(document, indent=2) + "\n"
        for name, document in documents.items()
    }


def _read_json(encoder: Encoder, name: str) -> Any:
    """A JSON file of an encoder's folder; None where there is none."""
    file = Path(encoder.location) / name
    if not file.is_file():
        return None
    return json.loads(file.read_text("utf-8"))
