"""A pretrained encoder on disk: weights, tokenizer, card, curves, and how it was made."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.encoders import quiet
from domainbert.figures import save_figure
from domainbert.files import folder_beside, write_json
from domainbert.pretraining.report import CURVES_FILE, encoder_card, plot_curves
from domainbert.storage import share_files
from domainbert.training.old.recipes import versions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transformers import PreTrainedTokenizerBase

    from domainbert.pretraining.model import PretrainingNetwork, Start
    from domainbert.pretraining.preparing import Prepared
    from domainbert.pretraining.recipe import Recipe

MANIFEST_FILE = "pretraining.json"
PAIR_HEAD = "cls.seq_relationship."


def check_free(folder: Path) -> None:
    """Check that an encoder may be written here.

    Raises:
        FileExistsError: something is there.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        msg = f"{folder} is there already; move it away or choose another name"
        raise FileExistsError(msg)


def new_manifest(recipe: Recipe, *, prepared: Prepared, start: Start) -> dict[str, Any]:
    """What is known of a pretraining before it ran."""
    return {
        "encoder": {"name": start.name, "sha256": start.sha256, "fresh_head": start.fresh_head},
        "scratch": asdict(recipe.scratch) if recipe.scratch else None,
        "corpus_settings": asdict(recipe.corpus),
        **prepared.manifest,
        "pairs": recipe.examples.pairs,
        "examples_settings": asdict(recipe.examples),
        "training": asdict(recipe.training),
        "phases": {name: asdict(phase) for name, phase in recipe.phases.items()},
        "card": dict(recipe.card),
        "versions": {**versions(), "tokenizers": version("tokenizers")},
    }


def save_encoder(
    folder: Path,
    *,
    network: PretrainingNetwork,
    tokenizer: PreTrainedTokenizerBase,
    manifest: Mapping[str, Any],
    dropout: tuple[float, float],
) -> None:
    """Write an encoder folder under a temporary name, then rename it.

    The heads are kept, so that training can go on from it; a head for pairs that saw none is not.

    Args:
        folder: must not be there, or be empty.
        network: free of adapters.
        tokenizer: of the encoder.
        manifest: becomes `pretraining.json`, the card and the curves.
        dropout: hidden and attention dropout that the encoder's config shall have.

    Raises:
        FileExistsError: something is there.
    """
    check_free(folder)
    config = network.config
    config.hidden_dropout_prob, config.attention_probs_dropout_prob = dropout
    kept = {
        name: tensor
        for name, tensor in network.state_dict().items()
        if manifest["pairs"] or not name.startswith(PAIR_HEAD)
    }
    with folder_beside(folder) as temporary:
        with quiet():
            network.save_pretrained(temporary, state_dict=kept)
        tokenizer.save_pretrained(temporary)
        document = json.loads((temporary / "config.json").read_text("utf-8"))
        document["architectures"] = [
            "BertForPreTraining" if manifest["pairs"] else "BertForMaskedLM"
        ]
        write_json(document, temporary / "config.json")
        write_json(manifest, temporary / MANIFEST_FILE)
        save_figure(plot_curves(manifest), temporary / CURVES_FILE)
        (temporary / "README.md").write_text(encoder_card(manifest), "utf-8")
        share_files(temporary)
        temporary.replace(folder)
