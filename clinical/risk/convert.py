"""The 2019 ClinicalBERT release -> our model folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinical.risk.model import RiskModel
from domainbert.encoders.loading import EncoderError

if TYPE_CHECKING:
    import torch

CONFIG, WEIGHTS, VOCABULARY = "bert_config.json", "pytorch_model.bin", "vocab.txt"

# Old spelling -> today's, applied to the ends of the release's parameter names.
RENAMED = {".LayerNorm.gamma": ".LayerNorm.weight", ".LayerNorm.beta": ".LayerNorm.bias"}


def convert_release(release: str | Path, *, out: str | Path | None = None) -> RiskModel:
    """Read a folder of the 2019 release and, if asked, write it as a model folder.

    The network is Hugging Face's BERT for sequence classification with one label, under older
    parameter names. Windows and c are those of the release: 512 tokens and c = 2.

    Raises:
        EncoderError: a file is missing or unreadable, or weights are missing, unexpected or
            misshapen.
    """
    from transformers import BertConfig, BertTokenizer

    from domainbert.encoders.classifier import CLSClassifier
    from domainbert.encoders.loading import check_casing

    folder = Path(release)
    for name in (CONFIG, WEIGHTS, VOCABULARY):
        if not (folder / name).is_file():
            raise EncoderError(f"{folder} is not the 2019 release layout: it has no {name}")
    settings = json.loads((folder / CONFIG).read_text())
    network = CLSClassifier(BertConfig(**settings, num_labels=1, attn_implementation="sdpa"))
    _load(network, _read_weights(folder / WEIGHTS), name=str(folder))
    tokens = (folder / VOCABULARY).read_text(encoding="utf-8").splitlines()
    cased = any(token != token.lower() for token in tokens if not token.startswith("["))
    tokenizer = BertTokenizer(vocab=str(folder / VOCABULARY), do_lower_case=not cased)
    check_casing(tokenizer, name=str(folder))
    network.config.name_or_path = "ClinicalBERT 2019 release"
    model = RiskModel(network.eval(), tokenizer)
    if out is not None:
        model.save_pretrained(out)
    return model


def _read_weights(file: Path) -> dict[str, torch.Tensor]:
    """The weights under today's names; `weights_only`, so that no code in the file can run."""
    import pickle

    import torch

    try:
        weights = dict(torch.load(file, map_location="cpu", weights_only=True))
    except (pickle.UnpicklingError, RuntimeError, EOFError, TypeError) as error:
        msg = f"{file} cannot be read as weights alone ({type(error).__name__})"
        raise EncoderError(msg) from None
    for name in list(weights):
        for old, new in RENAMED.items():
            if name.endswith(old):
                weights[name.removesuffix(old) + new] = weights.pop(name)
    # Position numbers are not learned; some releases store them.
    return {name: w for name, w in weights.items() if not name.endswith(".position_ids")}


def _load(network: Any, weights: dict[str, torch.Tensor], *, name: str) -> None:
    """Load the weights; missing, unexpected and misshapen ones are refused."""
    try:
        missing, unexpected = network.load_state_dict(weights, strict=False)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise EncoderError(f"{name}: weights do not fit {CONFIG}: {reason}") from None
    if missing or unexpected:
        raise EncoderError(
            f"{name}: {len(missing)} weights missing {missing[:3]}, "
            f"{len(unexpected)} unexpected {unexpected[:3]}"
        )
