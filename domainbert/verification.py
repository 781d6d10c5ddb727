"""Checks of an encoder's files, and the quiet, one-line ways in which loading them fails."""

from __future__ import annotations

import json
import logging
import pickle
import re
import threading
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.errors import EncoderError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

INDEX = "model.safetensors.index.json"
ADAPTER_FILE = "adapter.safetensors"
LARGEST = {  # sizes that an encoder's config.json may ask for
    "vocab_size": 2_000_000,
    "hidden_size": 16_384,
    "intermediate_size": 131_072,
    "num_hidden_layers": 256,
    "num_attention_heads": 1024,
    "max_position_embeddings": 1_000_000,
    "type_vocab_size": 1024,
}
# Heads that published encoders come with, and buffers of numbers that old versions stored.
_HEADS = re.compile(
    r"cls|classifier|pre_classifier|qa_outputs|pooler|lm_head|score|predictions|sop_classifier"
    r"|vocab_\w+|discriminator_predictions|generator_\w+|lm_predictions|mask_predictions"
    r"|head|decoder"  # ModernBERT's
)
_BUFFERS = ("position_ids", "token_type_ids")
_FLOATS = re.compile(r"B?F(64|32|16)|torch\.b?float(64|32|16)")  # in safetensors, in .bin


_quiet_lock = threading.Lock()
_quiet_blocks: list[tuple[int, bool]] = []


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers; the first of several threads sets it, the last one sets it back."""
    from transformers.utils import logging as library

    with _quiet_lock:
        before = library.get_verbosity(), library.is_progress_bar_enabled()
        _quiet_blocks.append(_quiet_blocks[0] if _quiet_blocks else before)
        library.set_verbosity(logging.ERROR)
        library.disable_progress_bar()
    try:
        yield
    finally:
        with _quiet_lock:
            level, bars = _quiet_blocks.pop()
            if not _quiet_blocks:
                library.set_verbosity(level)
                if bars:
                    library.enable_progress_bar()


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn a library's failure to load an encoder into one line with its name and the reason."""
    try:
        yield
    except EncoderError:
        raise
    except Exception as error:  # the readers of weights and tokenizers raise all kinds
        raise EncoderError(f"{name} cannot be loaded: {short_reason(error)}") from error


def short_reason(error: Exception) -> str:
    """The type of an error and the first line of its message."""
    if isinstance(error, pickle.UnpicklingError):
        # The library's own message recommends executing what is in the file.
        return "its .bin holds more than weights, and only weights are read"
    first = next(iter(str(error).strip().splitlines()), "")
    return ": ".join(part for part in (type(error).__name__, first[:300]) if part)


def weights_files(folder: Path) -> list[Path]:
    """The weights of a model folder: safetensors (if in shards, after their index), or .bin."""
    index = folder / INDEX
    for file in ("model.safetensors", "pytorch_model.bin"):
        if (folder / file).is_file() and not (file.endswith(".bin") and index.is_file()):
            return [folder / file]
    if not index.is_file():
        if (folder / ADAPTER_FILE).is_file():
            found = f"{folder} holds an adapter, not all weights"
            raise EncoderError(f"{found}; save the model with merged=True and name that folder")
        raise EncoderError(f"{folder} holds no weights: expected model.safetensors or an old .bin")
    try:
        names = sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
        wrong = [name for name in names if Path(name).name != name or not (folder / name).is_file()]
    except (ValueError, KeyError, AttributeError, TypeError):
        raise EncoderError(f"{index} is not an index of weights; copy it again") from None
    if wrong:
        raise EncoderError(f"{folder} lacks {wrong[0]}, which {INDEX} names")
    return [index, *(folder / name for name in names)]


def check_config(config: PretrainedConfig, *, name: str) -> None:
    """Refuse decoders, quantised weights and sizes above `LARGEST`."""
    for key in ("is_decoder", "add_cross_attention", "is_encoder_decoder", "quantization_config"):
        if getattr(config, key, None):
            raise EncoderError(f"{name}: config.json has {key}; expected a plain encoder")
    for key, most in LARGEST.items():
        size = getattr(config, key, None)
        if isinstance(size, int) and not 0 <= size <= most:
            found = f"config.json has {key} {size:,}"
            raise EncoderError(f"{name}: {found}, expected at most {most:,}")


def check_vocabulary(
    tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig, *, name: str
) -> None:
    """Refuse slow tokenizers and those of another encoder; the library makes up missing ones."""
    if not tokenizer.is_fast:
        raise EncoderError(f"{name} has no fast tokenizer; offsets into the text need one")
    words, rows = len(tokenizer), getattr(config, "vocab_size", None)
    if words <= len(tokenizer.all_special_tokens):
        raise EncoderError(f"{name} has no vocabulary: expected tokenizer.json or vocab.txt in it")
    if rows is not None and words > rows:
        raise EncoderError(
            f"{name} has a vocabulary of {words} but its config.json says {rows}; "
            "put the tokenizer files it was trained with beside it"
        )


def check_casing(tokenizer: PreTrainedTokenizerBase, *, name: str) -> None:
    """Refuse a cased vocabulary with lower-casing, which silently misreads capitalised words."""
    special = set(tokenizer.all_special_tokens)
    cased = any(
        token != token.lower() and token not in special and not token.startswith("[")
        for token in tokenizer.get_vocab()
    )
    normalizer = tokenizer.backend_tokenizer.normalizer
    if cased and normalizer is not None and normalizer.normalize_str("A") == "a":
        raise EncoderError(
            f"{name} has a cased vocabulary but its tokenizer lower-cases; put "
            '{"do_lower_case": false} into its tokenizer_config.json'
        )


def check_stored(folder: Path, config: PretrainedConfig, *, name: str) -> None:
    """Refuse weights that are not floating-point, or far fewer than config.json asks for."""
    if (folder / "adapter_config.json").exists():
        raise EncoderError(f"{name} is a peft adapter, which names another model; merge the two")
    shapes: dict[str, tuple[str, Sequence[int]]] = {}
    with explained(name):
        for file in weights_files(folder):
            shapes |= _stored_shapes(file)
    for key, (kind, _) in shapes.items():
        if not _FLOATS.fullmatch(kind) and key.rsplit(".", 1)[-1] not in _BUFFERS:
            raise EncoderError(f"{name}: {key} holds {kind}, expected floating-point numbers")
    hidden = getattr(config, "hidden_size", 0)
    asked = getattr(config, "vocab_size", 0) * (getattr(config, "embedding_size", None) or hidden)
    if config.model_type != "albert":  # whose layers share their weights
        inner = getattr(config, "intermediate_size", 0)
        asked += getattr(config, "num_hidden_layers", 0) * hidden * (4 * hidden + 2 * inner)
    stored = sum(prod(shape) for _, shape in shapes.values())
    if asked > 4 * stored:
        msg = f"{name}: config.json asks for {asked:,} weights, but the file has {stored:,}"
        raise EncoderError(msg)


def _stored_shapes(file: Path) -> dict[str, tuple[str, Sequence[int]]]:
    """Type and shape of every tensor of a file, without reading the numbers."""
    if file.suffix == ".json":
        return {}
    if file.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(file, framework="pt") as tensors:
            slices = {key: tensors.get_slice(key) for key in tensors.keys()}  # noqa: SIM118
            return {key: (part.get_dtype(), part.get_shape()) for key, part in slices.items()}
    import torch

    state = torch.load(file, map_location="meta", weights_only=True)
    return {key: (str(tensor.dtype), tensor.shape) for key, tensor in state.items()}


def check_loaded(
    model: PreTrainedModel, report: dict[str, Any], *, name: str, train_command: str | None
) -> None:
    """Refuse weights that are missing, of another shape, unknown or not finite.

    A new head may be missing or of another shape if `train_command` is None.
    """
    prefix = model.base_model_prefix
    in_body = re.compile(rf"{prefix}\.(?!pooler\.)").match
    misfits = sorted(
        key for key, *_ in report["mismatched_keys"] if train_command is not None or in_body(key)
    )
    if misfits:
        found = f"{len(misfits)} weights, such as {misfits[0]}"
        raise EncoderError(f"{name}: {found}, do not fit config.json")
    missing = sorted(report["missing_keys"])
    if lost := list(filter(in_body, missing)):
        raise EncoderError(f"{name} lacks {len(lost)} weights of the encoder, such as {lost[0]}")
    if missing and train_command is not None:
        raise EncoderError(
            f"{name} is an encoder without a trained head ({', '.join(missing)} missing), so its "
            f"predictions would be noise; train one first: {train_command.format(encoder=name)}"
        )
    if strange := sorted(key for key in report["unexpected_keys"] if _is_strange(key, prefix)):
        msg = f"{name} has {len(strange)} weights that no part reads, such as {strange[0]}"
        raise EncoderError(msg)
    for key, parameter in model.named_parameters():
        if not bool(parameter.isfinite().all()):
            raise EncoderError(f"{name}: {key} has numbers that are not finite")


def _is_strange(key: str, prefix: str) -> bool:
    parts = key.removeprefix(f"{prefix}.").split(".")
    return not (_HEADS.fullmatch(parts[0]) or parts[-1] in _BUFFERS)
