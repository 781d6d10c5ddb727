"""Configurations of encoders, bounded before any library sees them.

A model folder may come from anyone. Of its configuration only the keys that the architecture
knows are kept, and numbers that are finite and within bounds. So a file can name no code to fetch
(`_attn_implementation`, `auto_map`) and ask for no endless memory.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.errors import EncoderError

if TYPE_CHECKING:
    from transformers import PretrainedConfig

_MOST = {"num_labels": 100_000, "vocab_size": 10**7, "max_position_embeddings": 10**7}
_MOST |= {"num_hidden_layers": 1000}
_USUAL = 10**6  # the largest other number
_IGNORED = -100  # the label that losses leave out
_LONGEST = 100_000  # characters of a text, or entries of a list
_FILE_BYTES = 2**25
_NOT_READ = {
    "output_hidden_states",
    "output_attentions",
    "return_dict",
    "chunk_size_feed_forward",
}
_PLAIN = (
    "is_decoder",
    "add_cross_attention",
    "is_encoder_decoder",
    "quantization_config",
)


def read_config(
    folder: Path, *, name: str, weight_bytes: float, **changes: Any
) -> PretrainedConfig:
    """The configuration of an encoder folder.

    Args:
        folder: with `config.json`.
        name: of the encoder, for messages.
        weight_bytes: size of its weights, which the shapes must fit.
        changes: entries that replace those of the file.

    Raises:
        EncoderError: not a JSON object, an unknown architecture, a decoder, quantised weights, or
            a value that is wrong or too large.
    """
    from transformers import CONFIG_MAPPING

    document = read_object(folder / "config.json")
    kind = document.get("model_type")
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        msg = f"{name} cannot be loaded: config.json has model_type {_shown(kind)}, which the "
        raise EncoderError(f"{msg}installed transformers does not know")
    for key in _PLAIN:
        if document.get(key):
            raise EncoderError(
                f"{name}: config.json has {key}; expected a plain encoder"
            )
    usual = {"num_labels": None, **CONFIG_MAPPING[kind]().to_dict()}
    kept = {
        key: value
        for key, value in document.items()
        if key in usual.keys() - _NOT_READ
        and not key.startswith("_")
        and value != usual[key]
    }
    check_bounds(kept, name=f"{name}: config.json")
    labels = kept.get("id2label") or {}
    if not (isinstance(labels, dict) and all(map(_is_label, labels.items()))):
        msg = f"{name}: config.json has id2label = {_shown(labels)}; expected labels by number"
        raise EncoderError(msg)
    config = CONFIG_MAPPING[kind](**{**kept, **changes})
    _check_size(config, weight_bytes, name=name)
    return config


def read_object(file: Path) -> dict[str, Any]:
    """A JSON object with finite numbers; `EncoderError` for anything else."""

    def refuse(constant: str) -> None:
        raise ValueError(f"it has the number {constant}")

    try:
        if file.stat().st_size > _FILE_BYTES:
            raise EncoderError(f"{file} is larger than {_FILE_BYTES >> 20} MiB")
        document = json.loads(file.read_text("utf-8"), parse_constant=refuse)
    except (FileNotFoundError, NotADirectoryError):
        raise EncoderError(
            f"{file.parent} holds no model: it has no {file.name}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise EncoderError(
            f"{file} is not a JSON object ({str(error)[:200]})"
        ) from None
    if not isinstance(document, dict):
        raise EncoderError(f"{file} is not a JSON object (got {_shown(document)})")
    return document


def check_bounds(values: dict[str, Any], *, name: str) -> None:
    """Refuse numbers, texts and lists that are too large; the libraries check the types."""
    for key, value in values.items():
        most = _MOST.get(key, _USUAL)
        if not _is_bounded(value, most):
            raise EncoderError(
                f"{name} has {key} = {_shown(value)}; expected finite numbers up to {most:,}, "
                "short texts and short lists"
            )


def _is_label(entry: tuple[str, Any]) -> bool:
    return entry[0].isdecimal() and isinstance(entry[1], str)


def _is_bounded(value: Any, most: int, depth: int = 3) -> bool:
    if isinstance(value, bool) or value is None:
        return True
    if isinstance(value, int | float):
        return math.isfinite(value) and (-1 <= value <= most or value == _IGNORED)
    if isinstance(value, str):
        return len(value) <= _LONGEST
    parts = list(value.values()) if isinstance(value, dict) else value
    return (
        depth > 0
        and len(parts) <= _LONGEST
        and all(_is_bounded(part, most, depth - 1) for part in parts)
    )


def _check_size(config: PretrainedConfig, weight_bytes: float, *, name: str) -> None:
    """Refuse shapes that the weights, of two bytes each or more, cannot fill."""
    hidden = getattr(config, "hidden_size", None) or 0
    width = getattr(config, "embedding_size", None) or hidden
    layers = (
        1 if config.model_type == "albert" else getattr(config, "num_hidden_layers", 1)
    )
    words = (getattr(config, "vocab_size", None) or 0) * width
    if 2 * max(words, layers * hidden * hidden) > weight_bytes:
        msg = f"{name} cannot be loaded: config.json asks for more weights than the "
        raise EncoderError(f"{msg}{weight_bytes:,} bytes of its file hold")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
