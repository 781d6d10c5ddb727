"""Configurations of encoders and adapters, checked before any library sees them.

A model folder may come from anyone. Of its configuration only the keys that the architecture
knows are kept, with their types, and numbers that are finite and within bounds. So a file can
name no code to fetch (`_attn_implementation`, `auto_map`) and ask for no endless memory.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.errors import EncoderError

if TYPE_CHECKING:
    from peft import LoraConfig
    from transformers import PretrainedConfig

LABELS, RANK = 100_000, 1024
_MOST = {"num_labels": LABELS, "vocab_size": 10**7, "max_position_embeddings": 10**7}
_MOST |= {"num_hidden_layers": 1000, "r": RANK}
_USUAL = 10**6  # the largest other number
_LONGEST = 10_000  # characters of a text, or entries of a list
_FILE_BYTES = 2**25
# Known to every architecture; the others of the base class are not for files to say.
_COMMON = ("architectures", "num_labels", "id2label", "label2id", "problem_type")
_NOT_READ = ("output_hidden_states", "output_attentions", "return_dict", "chunk_size_feed_forward")
_PLAIN = ("is_decoder", "add_cross_attention", "is_encoder_decoder", "quantization_config")
_KINDS: dict[type, tuple[Any, str]] = {
    bool: (bool, "true or false"),
    int: (int, "a whole number"),
    float: ((int, float), "a number"),
    str: (str, "a text"),
    dict: (dict, "an object"),
}
_LORA = {"r": 8, "lora_alpha": 8.0, "lora_dropout": 0.0, "bias": "none", "use_rslora": False}
_LORA |= {"use_dora": False, "fan_in_fan_out": False, "base_model_name_or_path": "", "revision": ""}
_LORA |= dict.fromkeys(("target_modules", "exclude_modules", "modules_to_save", "task_type"))
_LORA |= dict.fromkeys(("layers_to_transform", "layers_pattern"))
_LORA |= {"rank_pattern": {}, "alpha_pattern": {}}


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
            raise EncoderError(f"{name}: config.json has {key}; expected a plain encoder")
    defaults = CONFIG_MAPPING[kind]().to_dict()
    known = {key: value for key, value in defaults.items() if not key.startswith("_")}
    known = {**dict.fromkeys(_COMMON), **known}
    kept = {
        key: _checked(key, value, known[key], name=f"{name}: config.json")
        for key, value in document.items()
        if key in known and key not in _NOT_READ
    }
    kept.pop("model_type", None)
    config = CONFIG_MAPPING[kind](**{**kept, **changes})
    _check_size(config, weight_bytes, name=name)
    return config


def read_lora_config(folder: Path) -> LoraConfig:
    """The configuration of a LoRA adapter; `EncoderError` for another kind or a wrong value."""
    from peft import LoraConfig

    file = folder / "adapter_config.json"
    document = read_object(file)
    if (kind := document.get("peft_type")) != "LORA":
        raise EncoderError(f"{folder} holds a {str(kind)[:40]} adapter; expected LoRA")
    kept = {
        key: _checked(key, value, _LORA[key], name=str(file))
        for key, value in document.items()
        if key in _LORA and value is not None
    }
    patterns = list(kept.get("rank_pattern", {}).values())
    if any(type(rank) is not int or not 1 <= rank <= RANK for rank in [kept.get("r"), *patterns]):
        raise EncoderError(f"{file}: expected r, the rank, to be a whole number from 1 to {RANK}")
    return LoraConfig(**kept, inference_mode=True)


def read_object(file: Path) -> dict[str, Any]:
    """A JSON object with finite numbers; `EncoderError` for anything else."""

    def refuse(constant: str) -> None:
        raise ValueError(f"it has the number {constant}")

    try:
        if file.stat().st_size > _FILE_BYTES:
            raise EncoderError(f"{file} is larger than {_FILE_BYTES >> 20} MiB")
        document = json.loads(file.read_text("utf-8"), parse_constant=refuse)
    except (FileNotFoundError, NotADirectoryError):
        raise EncoderError(f"{file.parent} holds no model: it has no {file.name}") from None
    except (ValueError, RecursionError) as error:
        raise EncoderError(f"{file} is not a JSON object ({str(error)[:200]})") from None
    if not isinstance(document, dict):
        raise EncoderError(f"{file} is not a JSON object (got {_shown(document)})")
    return document


def _checked(key: str, value: Any, default: Any, *, name: str) -> Any:
    """A value of the type of its default."""
    is_usual = value is None or (type(value), value) == (type(default), default)
    if expected := "" if is_usual else _expected(key, value, default):
        raise EncoderError(f"{name} has {key} = {_shown(value)}; expected {expected}")
    if key == "id2label" and value is not None:
        return {int(number): label for number, label in value.items()}
    return value


def _expected(key: str, value: Any, default: Any) -> str:
    """What a value should be; "" if it is that."""
    if key in ("id2label", "label2id"):
        label = str if key == "id2label" else int
        is_fine = isinstance(value, dict) and len(value) <= LABELS
        if is_fine and all(type(part) is label for part in value.values()):
            return "" if key == "label2id" or all(map(str.isdecimal, value)) else "numbers as keys"
        return f"at most {LABELS:,} labels with their numbers"
    kinds, expected = _KINDS.get(type(default), (object, ""))
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds not in (bool, object)):
        return expected
    most = _MOST.get(key, _USUAL)
    if not _is_bounded(value, most):
        return f"finite numbers up to {most:,}, short texts and short lists"
    return ""


def _is_bounded(value: Any, most: int, depth: int = 3) -> bool:
    if isinstance(value, bool) or value is None:
        return True
    if isinstance(value, int | float):
        return math.isfinite(value) and -1 <= value <= most
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
    layers = 1 if config.model_type == "albert" else getattr(config, "num_hidden_layers", 1)
    words = (getattr(config, "vocab_size", None) or 0) * width
    if 2 * max(words, layers * hidden * hidden) > weight_bytes:
        msg = f"{name} cannot be loaded: config.json asks for more weights than the "
        raise EncoderError(f"{msg}{weight_bytes:,} bytes of its file hold")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
