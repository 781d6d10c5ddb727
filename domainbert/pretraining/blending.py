"""Half-way between two encoders: what one has read, and most of what the other knew before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.encoders import EncoderError
from domainbert.errors import UserError
from domainbert.pretraining.model import load_start, load_start_tokenizer
from domainbert.pretraining.saving import MANIFEST_FILE, check_free, save_encoder
from domainbert.pretraining.settings import TrainingPlan
from domainbert.pretraining.store import read_json

if TYPE_CHECKING:
    import torch

    from domainbert.pretraining.model import PretrainingNetwork


def blend(
    start: str | Path, trained: str | Path, *, out: str | Path, share: float = 0.5
) -> dict[str, Any]:
    """Write an encoder each of whose weights lies between those of two others.

    Training on raw text forgets some of what an encoder was made for, such as which sentences mean
    the same. Between the old weights and the new there is often a better encoder than at either
    end (Wortsman et al., arXiv 2109.01903); which share is best is for a devel set to say.

    Args:
        start: encoder that the other came from, at whatever distance: shipped name, folder or Hub
            id.
        trained: folder that `pretrain` wrote. Its heads are kept as they are, and so is its
            pooler, which is part of the head for pairs.
        out: the encoder folder to write; must not be there.
        share: of the start in each weight, in [0, 1].

    Returns:
        The new folder's manifest.

    Raises:
        EncoderError: no such encoder, no pretrained one, or the two differ in vocabulary or shape.
        FileExistsError: `out` is there.
        ValueError: the share is not in [0, 1].
    """
    if not 0 <= share <= 1:
        msg = f"share must be in [0, 1], got {share}"
        raise UserError(msg)
    out = Path(out)
    check_free(out)
    manifest = _manifest(Path(trained))
    tokenizer = load_start_tokenizer(trained)
    if load_start_tokenizer(start).get_vocab() != tokenizer.get_vocab():
        msg = f"{start} and {trained} have different vocabularies; neither came from the other"
        raise EncoderError(msg)
    old, new = (load_start(encoder, plan=TrainingPlan()) for encoder in (start, trained))
    weights, others = _body(new.network), _body(old.network)
    if {n: w.shape for n, w in weights.items()} != {n: w.shape for n, w in others.items()}:
        msg = f"{start} and {trained} have weights of different shapes"
        raise EncoderError(msg)
    for name, weight in weights.items():
        weight.lerp_(others[name], share)
    ends = {"start": old, "trained": new}
    manifest["blend"] = {"share": share} | {
        end: {"name": encoder.name, "sha256": encoder.sha256} for end, encoder in ends.items()
    }
    save_encoder(
        out, network=new.network, tokenizer=tokenizer, manifest=manifest, dropout=new.dropout
    )
    return manifest


def _body(network: PretrainingNetwork) -> dict[str, torch.Tensor]:
    """The weights below the heads, to be changed in place."""
    weights = network.bert.state_dict()
    return {name: weight for name, weight in weights.items() if not name.startswith("pooler.")}


def _manifest(folder: Path) -> dict[str, Any]:
    """How an encoder was pretrained, which its blend has to tell too."""
    file = folder / MANIFEST_FILE
    if not file.is_file():
        msg = f"{folder} is not what `domainbert pretrain` wrote: it has no {MANIFEST_FILE}"
        raise EncoderError(msg)
    manifest = read_json(file)
    if "blend" in manifest:
        msg = f"{folder} is a blend already; blend what it was made of with another share"
        raise EncoderError(msg)
    return manifest
