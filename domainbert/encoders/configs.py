"""Configurations of encoders, checked before a library reads them.

A model folder may come from anyone. Only the keys that the architecture knows are kept, and
numbers must be finite and within bounds. A file therefore cannot name code to fetch
(`_attn_implementation`, `auto_map`) or ask for endless memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.errors import EncoderError

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from domainbert.files import JsonObject

_LIMITS = {
    "num_labels": 100_000,
    "vocab_size": 10**7,
    "max_position_embeddings": 10**7,
    "num_hidden_layers": 1000,
}
_LIMIT = 10**6  # of other numbers
_IGNORED = -100  # the label that losses leave out
_LONGEST = 100_000  # characters of a text, or entries of a list
_FILE_BYTES = 2**25
_SHOWN = 40  # characters of a value in a message
_NOT_READ = {
    "output_hidden_states",
    "output_attentions",
    "return_dict",
    "chunk_size_feed_forward",
}
# What the code of an architecture reads, although its configuration does not declare it.
_UNDECLARED = {
    "deberta": ("talking_head",),
    "deberta-v2": (
        "attention_head_size",
        "conv_act",
        "conv_groups",
        "conv_kernel_size",
        "norm_rel_ebd",
        "position_buckets",
        "share_att_key",
    ),
}
# A model with one of these is not a plain encoder.
_REFUSED = (
    "is_decoder",
    "add_cross_attention",
    "is_encoder_decoder",
    "quantization_config",
)


def read_config(
    folder: Path,
    *,
    name: str,
    weight_bytes: float,
    **changes: object,
) -> PretrainedConfig:
    """The configuration of an encoder folder.

    Args:
        folder: with `config.json`.
        name: the name of the encoder, for messages.
        weight_bytes: size of its weights, which the shapes must fit.
        changes: entries that replace those of the file.

    Raises:
        EncoderError: the file is not a JSON object, or has an unknown architecture, a decoder,
            quantised weights, or a value that is wrong or too large.
    """
    from transformers import CONFIG_MAPPING

    document = read_object(folder / "config.json")
    family = document.get("model_type")
    if not isinstance(family, str) or family not in CONFIG_MAPPING:
        raise EncoderError(
            f"{name} cannot be loaded: config.json has model_type {_shown(family)}, which the "
            "installed transformers does not know"
        )
    for key in _REFUSED:
        if document.get(key):
            raise EncoderError(
                f"{name}: config.json has {key}; expected a plain encoder"
            )
    config_class = CONFIG_MAPPING[family]
    undeclared = dict.fromkeys(_UNDECLARED.get(family, ()))
    defaults = {"num_labels": None, **undeclared, **config_class().to_dict()}
    entries = {
        key: value
        for key, value in document.items()
        if key in defaults
        and not key.startswith("_")
        and value != defaults[key]
    }
    for key in _NOT_READ:
        entries.pop(key, None)
    check_bounds(entries, name=f"{name}: config.json")
    labels = entries.get("id2label") or {}
    if not isinstance(labels, dict) or not all(
        key.isdecimal() and isinstance(label, str)
        for key, label in labels.items()
    ):
        raise EncoderError(
            f"{name}: config.json has id2label = {_shown(labels)}; expected labels by number"
        )
    config = config_class(**entries | changes)
    _check_size(config, weight_bytes, name=name)
    return config


def read_object(file: Path) -> JsonObject:
    """A JSON object with finite numbers; `EncoderError` for anything else."""
    try:
        if file.exists() and not file.is_file():  # a device may have no end
            raise EncoderError(f"{file} is not a regular file")
        if file.stat().st_size > _FILE_BYTES:
            raise EncoderError(
                f"{file} is larger than {_FILE_BYTES >> 20} MiB"
            )
        document = json.loads(file.read_text("utf-8"), parse_constant=_refuse)
    except (FileNotFoundError, NotADirectoryError):
        raise EncoderError(
            f"{file.parent} holds no model: it has no {file.name}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise EncoderError(
            f"{file} is not a JSON object ({str(error)[:200]})"
        ) from None
    if not isinstance(document, dict):
        raise EncoderError(
            f"{file} is not a JSON object (got {_shown(document)})"
        )
    return document


def _refuse(constant: str) -> None:
    """JSON has no NaN and no Infinity; Python reads them."""
    raise ValueError(f"it has the number {constant}")


def check_bounds(values: Mapping[str, object], *, name: str) -> None:
    """Refuse numbers, texts and lists that are too large; the libraries check the types."""
    for key, value in values.items():
        limit = _LIMITS.get(key, _LIMIT)
        if not _is_bounded(value, limit):
            raise EncoderError(
                f"{name} has {key} = {_shown(value)}; expected finite numbers up to {limit:,}, "
                "short texts and short lists"
            )


def _is_bounded(
    value: object,
    limit: int,
    depth: int = 3,
) -> bool:
    """Whether a value and all values in it are finite, short and at most `limit`."""
    if isinstance(value, bool) or value is None:
        return True
    if isinstance(value, int | float):
        return math.isfinite(value) and (
            -1 <= value <= limit or value == _IGNORED
        )
    if isinstance(value, str):
        return len(value) <= _LONGEST
    if isinstance(value, dict):
        value = list(value.values())
    if depth == 0 or not isinstance(value, list) or len(value) > _LONGEST:
        return False
    return all(_is_bounded(entry, limit, depth - 1) for entry in value)


def _check_size(
    config: PretrainedConfig,
    weight_bytes: float,
    *,
    name: str,
) -> None:
    """Refuse shapes that the weights, of two bytes each or more, cannot fill."""
    hidden = getattr(config, "hidden_size", None) or 0
    width = getattr(config, "embedding_size", None) or hidden
    layers = getattr(config, "num_hidden_layers", 1)
    if config.model_type == "albert":  # its layers share their weights
        layers = 1
    words = (getattr(config, "vocab_size", None) or 0) * width
    if 2 * max(words, layers * hidden * hidden) > weight_bytes:
        raise EncoderError(
            f"{name} cannot be loaded: config.json asks for more weights than the "
            f"{weight_bytes:,} bytes of its file hold"
        )


def _shown(value: object) -> str:
    text = repr(value)
    if len(text) <= _SHOWN:
        return text
    return f"{text[:_SHOWN]}…"


def named_outputs(labels: Sequence[str]) -> dict[str, Any]:
    """The entries of a Hugging Face configuration that name a head's outputs."""
    if not labels:
        return {}
    return {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
    }


def dropouts(config: PretrainedConfig, rate: float) -> dict[str, float]:
    """The entries of an encoder's configuration for dropout: `rate`, and none in attention."""
    rates = {
        "hidden_dropout_prob": rate,
        "embedding_dropout": rate,
        "mlp_dropout": rate,
        "attention_probs_dropout_prob": 0.0,
        "attention_dropout": 0.0,
    }
    return {
        name: value for name, value in rates.items() if hasattr(config, name)
    }


def window_limit(config: PretrainedConfig) -> int:
    """The longest window, in tokens including special ones, that the encoder has positions for.

    It is read from the configuration, because a tokenizer's `model_max_length` is often wrong;
    `EncoderError` if it is not there.
    """
    limit = getattr(config, "max_position_embeddings", None)
    if not isinstance(limit, int) or limit < 3:
        raise EncoderError(
            f"the encoder's config.json gives no usable max_position_embeddings (got {limit!r})"
        )
    # RoBERTa numbers positions from pad_token_id + 1, and MPNet from 2 whatever its padding.
    if config.model_type in {
        "roberta",
        "xlm-roberta",
        "camembert",
        "longformer",
    }:
        return limit - config.pad_token_id - 1
    if config.model_type == "mpnet":
        return limit - 2
    return limit
