"""The 2019 ClinicalBERT release -> our model folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinical.risk.model import ReadmissionModel, ReadmissionSettings
from domainbert.encoders import EncoderError

if TYPE_CHECKING:
    import torch

CONFIG, WEIGHTS, VOCABULARY = "bert_config.json", "pytorch_model.bin", "vocab.txt"

# Old spelling -> today's, applied to the ends of the release's parameter names.
RENAMED = {
    ".LayerNorm.gamma": ".LayerNorm.weight",
    ".LayerNorm.beta": ".LayerNorm.bias",
}


def convert_release(release: str | Path, *, out: str | Path | None = None) -> ReadmissionModel:
    """Read a folder of the 2019 release and, if asked, write it as a model folder.

    The network is Hugging Face's BERT for sequence classification with one label, under older
    parameter names. Weights are read with `weights_only=True`, so that no code in the file can
    run. Windows and c are those of the release: 512 tokens and c = 2.

    Args:
        release: folder with `bert_config.json`, `pytorch_model.bin` and `vocab.txt`.
        out: where to write the model folder; nowhere by default.

    Raises:
        EncoderError: a file is missing or unreadable, or weights are missing, unexpected or
            misshapen.
    """
    from transformers import BertConfig, BertTokenizer

    from domainbert.classifier import CLSClassifier
    from domainbert.encoders import check_casing

    folder = Path(release)
    for name in (CONFIG, WEIGHTS, VOCABULARY):
        if not (folder / name).is_file():
            msg = f"{folder} is not the 2019 release layout: it has no {name}"
            raise EncoderError(msg)
    settings = json.loads((folder / CONFIG).read_text())
    network = CLSClassifier(
        BertConfig(**settings, num_labels=1, attn_implementation="sdpa"),
    )
    _load(network, _renamed(_read_weights(folder / WEIGHTS)), name=str(folder))
    cased = any(t != t.lower() for t in _tokens(folder / VOCABULARY) if not t.startswith("["))
    tokenizer = BertTokenizer(vocab=str(folder / VOCABULARY), do_lower_case=not cased)
    check_casing(tokenizer, name=str(folder))
    network.config.name_or_path = "ClinicalBERT 2019 release"
    model = ReadmissionModel(network.eval(), tokenizer, settings=ReadmissionSettings())
    if out is not None:
        model.save_pretrained(out)
    return model


def _tokens(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def _read_weights(file: Path) -> dict[str, torch.Tensor]:
    import pickle

    import torch

    try:
        return dict(torch.load(file, map_location="cpu", weights_only=True))
    except (pickle.UnpicklingError, RuntimeError, EOFError, TypeError) as error:
        msg = f"{file} cannot be read as weights alone ({type(error).__name__})"
        raise EncoderError(msg) from None


def _renamed(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    def today(name: str) -> str:
        for old, new in RENAMED.items():
            if name.endswith(old):
                return name.removesuffix(old) + new
        return name

    return {today(name): tensor for name, tensor in weights.items()}


def _load(network: Any, weights: dict[str, torch.Tensor], *, name: str) -> None:
    """Load the weights; missing, unexpected and misshapen ones are refused."""
    expected = network.state_dict()
    # Position numbers are not learned; some releases store them.
    weights = {k: v for k, v in weights.items() if not k.endswith(".position_ids")}
    missing, unexpected = sorted(set(expected) - set(weights)), sorted(set(weights) - set(expected))
    if missing or unexpected:
        msg = (
            f"{name}: {len(missing)} weights missing {missing[:3]}, "
            f"{len(unexpected)} unexpected {unexpected[:3]}"
        )
        raise EncoderError(msg)
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        msg = f"{name}: weights do not fit {CONFIG}: {str(error).splitlines()[-1].strip()}"
        raise EncoderError(msg) from None
