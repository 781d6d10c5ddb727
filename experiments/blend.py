"""Mix the weights of an encoder and of what `domainbert pretrain` made of it.

    python experiments/blend.py all-MiniLM-L6-v2 ENCODER --share 0.5 --out HALF

See blend.md for what it is good for.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from domainbert.console import one_line_errors, say
from domainbert.encoders import EncoderError
from domainbert.errors import UserError
from domainbert.pretraining.model import load_start, load_start_tokenizer
from domainbert.pretraining.report import MANIFEST_FILE, check_free, save_encoder
from domainbert.pretraining.settings import TrainingPlan

if TYPE_CHECKING:
    import torch

    from domainbert.pretraining.model import PretrainingNetwork


def blend(
    start: str | Path, trained: str | Path, *, out: str | Path, share: float = 0.5
) -> dict[str, Any]:
    """Write an encoder each of whose weights lies between those of two others.

    Args:
        start: encoder that the other was trained from, in one or several runs: shipped name,
            folder or `hub:owner/name`.
        trained: folder that `pretrain` wrote. Its heads and its pooler, which is part of the pair
            head, are kept as they are.
        out: the encoder folder to write; must not exist.
        share: of the start in each weight, in [0, 1].

    Returns:
        The new folder's manifest.

    Raises:
        EncoderError: no such encoder, not a pretrained one, or the two differ in vocabulary or
            shape.
        FileExistsError: `out` exists.
        UserError: the share is not in [0, 1].
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
    _tell_in_card(out / "README.md", manifest["blend"])
    return manifest


def _body(network: PretrainingNetwork) -> dict[str, torch.Tensor]:
    """The weights below the heads, to be changed in place."""
    weights = network.bert.state_dict()
    return {name: weight for name, weight in weights.items() if not name.startswith("pooler.")}


def _manifest(folder: Path) -> dict[str, Any]:
    """How an encoder was pretrained."""
    file = folder / MANIFEST_FILE
    if not file.is_file():
        msg = f"{folder} was not written by `domainbert pretrain`: it has no {MANIFEST_FILE}"
        raise EncoderError(msg)
    manifest = json.loads(file.read_text("utf-8"))
    if "blend" in manifest:
        msg = f"{folder} is a blend already; blend its two encoders again with another share"
        raise EncoderError(msg)
    return manifest


def _tell_in_card(card: Path, made: dict[str, Any]) -> None:
    share, old, new = made["share"], made["start"]["name"], made["trained"]["name"]
    note = (
        f"Each weight is {share:g} x that of `{old}` + {1 - share:g} x that of `{new}`, which was "
        "trained; pooler and heads are the latter's. The scores after training below are those of "
        "the trained weights before they were mixed.\n\n## Data"
    )
    card.write_text(card.read_text("utf-8").replace("## Data", note, 1), "utf-8")


@one_line_errors
def main(
    start: Annotated[str, typer.Argument(help="Shipped name, folder or hub:owner/name.")],
    trained: Annotated[Path, typer.Argument(help="Folder that `domainbert pretrain` wrote.")],
    out: Annotated[Path, typer.Option(help="Encoder folder to write.")],
    share: Annotated[float, typer.Option(min=0, max=1, help="Of START in each weight.")] = 0.5,
) -> None:
    """Mix the weights of an encoder and of what it was trained to be."""
    blend(start, trained, out=out, share=share)
    say(f"encoder in {out}; use it as --encoder {out}")


if __name__ == "__main__":
    typer.run(main)
