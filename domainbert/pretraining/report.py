"""A pretrained encoder on disk: weights, tokenizer, card, curves, and how it was made."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.encoders import quiet
from domainbert.figures import COLOURS, DASHES, GREY, new_axes, save_figure
from domainbert.files import folder_beside, replace_folder, write_json
from domainbert.markdown import table
from domainbert.storage import share_files
from domainbert.training.train import versions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure
    from transformers import PreTrainedTokenizerBase

    from domainbert.pretraining.model import PretrainingNetwork, Start
    from domainbert.pretraining.settings import Recipe

MEASURES = {
    "mlm_accuracy": "MLM accuracy",
    "perplexity": "MLM perplexity",
    "nsp_accuracy": "NSP accuracy",
}
MANIFEST_FILE, CURVES_FILE = "pretraining.json", "curves.png"


def check_free(folder: Path) -> None:
    """Refuse a folder that holds something.

    Raises:
        FileExistsError: it does.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        msg = f"{folder} exists already; move it away or choose another name"
        raise FileExistsError(msg)


def new_manifest(recipe: Recipe, *, manifest: Mapping[str, Any], start: Start) -> dict[str, Any]:
    """How an encoder is made: settings and counts of the text, nothing that identifies."""
    settings = recipe.model_dump()
    return {
        "encoder": {"name": start.name, "sha256": start.sha256, "fresh_head": start.fresh_head},
        "scratch": settings["scratch"],
        "corpus_settings": settings["corpus"],
        **manifest,
        "pairs": recipe.examples.pairs,
        "examples_settings": settings["examples"],
        "training": settings["training"],
        "phases": {name: phase.model_dump() for name, phase in recipe.phases.items()},
        "card": settings["card"],
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
    """Write an encoder folder: weights, tokenizer, manifest, card and curves.

    The heads are kept for further pretraining, except a pair head that saw no pairs.
    """
    check_free(folder)
    config = network.config
    config.hidden_dropout_prob, config.attention_probs_dropout_prob = dropout
    kept, kind = network.state_dict(), "BertForPreTraining"
    if not manifest["pairs"]:
        kept = {name: kept[name] for name in kept if not name.startswith("cls.seq_relationship.")}
        kind = "BertForMaskedLM"
    with folder_beside(folder) as temporary:
        with quiet():
            network.save_pretrained(temporary, state_dict=kept)
        tokenizer.save_pretrained(temporary)
        document = json.loads((temporary / "config.json").read_text("utf-8"))
        write_json({**document, "architectures": [kind]}, temporary / "config.json")
        write_json(manifest, temporary / MANIFEST_FILE)
        save_figure(plot_curves(manifest), temporary / CURVES_FILE)
        (temporary / "README.md").write_text(encoder_card(manifest), "utf-8")
        share_files(temporary)
        replace_folder(temporary, folder)


def score_table(manifest: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of a table of scores before and after, as text."""
    shown = [name for name in MEASURES if any(name in s for s in manifest["after"].values())]
    rows = []
    for phase, settings in manifest["phases"].items():
        for when in ("before", "after"):
            scores = manifest[when][phase]
            values = (
                f"{scores[name]:,.1f}" if name == "perplexity" else f"{scores[name]:.3f}"
                for name in shown
            )
            rows.append([f"{when}, {settings['length']} tokens", *values])
    return ["held-out documents", *(MEASURES[name] for name in shown)], rows


def encoder_card(manifest: Mapping[str, Any]) -> str:
    """Markdown for the README of an encoder folder, from its manifest."""
    card = {name: text.strip() for name, text in manifest["card"].items() if text}
    trained_on = "masked words and next sentences" if manifest["pairs"] else "masked words alone"
    name, vocabulary = manifest["encoder"]["name"], "the vocabulary of its start, unchanged"
    if scratch := manifest["scratch"]:
        vocabulary = (
            f"a vocabulary whose words each occur with at least {scratch['min_patients']} "
            "different patients of the training text (a document without a patient counts as one)"
        )
    held = f"the weights trained on it, {vocabulary}, and the counts and scores on this page"
    measured = "On documents that training never read, with the same words masked before and after."
    if manifest["encoder"]["fresh_head"]:
        measured += (
            " The start had no trained output layer, so its scores before training are close to "
            "those of word frequencies."
        )
    parts = [
        f"---\nlicense: {card.get('licence', 'other')}\nlibrary_name: transformers\n---",
        f"# {card.get('title', 'A pretrained encoder')}",
        f"BERT, trained on {trained_on}, {f'starting from `{name}`' if name else 'from scratch'}.",
        "Give this folder as `--encoder` to any command that trains.",
        f"## Data\n\n{card.get('data', 'Not stated.')}",
        table(("", ""), _corpus_rows(manifest["corpus"])),
        f"Of the text this folder holds {held}. It holds no text, ids, file names or hashes of it.",
        f"## Measured\n\n{measured}",
        table(*score_table(manifest)),
        f"![Held-out scores in training]({CURVES_FILE})",
        f"## Training\n\n{_training(manifest)}",
    ]
    if rebuild := card.get("rebuild"):
        parts.append(f"Rebuilt by:\n\n```\n{rebuild}\n```")
    limits = card.get("limits", "It was trained on the data above and may repeat parts of it.")
    return "\n\n".join([*parts, f"## Limits\n\n{limits}"]) + "\n"


def _corpus_rows(corpus: Mapping[str, Any]) -> list[list[str]]:
    counts = {**corpus["counts"], **{f"{s} tokens": n for s, n in corpus["tokens"].items()}}
    for kind, found in corpus["exclusions"].items():
        counts[f"excluded {kind} values"] = found["listed"]
        counts[f"excluded {kind} values not found in the text"] = found["not found"]
    return [[what, f"{number:,}"] for what, number in counts.items()]


def _training(manifest: Mapping[str, Any]) -> str:
    lines = []
    for name, phase in manifest["phases"].items():
        line = (
            f"- {name}: {phase['steps']:,} steps of {phase['batch_tokens']:,} tokens at length "
            f"{phase['length']}, learning rate {phase['learning_rate']:g}, warm-up over "
            f"{phase['warmup']:.1%} of the steps"
        )
        if speed := manifest["speed"].get(name):
            line += (
                f"; {speed['tokens_per_second']:,.0f} tokens per second, "
                f"{speed['share_of_matrix_rate']:.0%} of the matrix rate of {speed['device']}"
            )
        lines.append(line)
    plan = manifest["training"]
    what = f"LoRA adapters of rank {plan['lora_rank']}, merged" if plan["lora_rank"] else "weights"
    frozen = " but the word embeddings" if plan["freeze_embeddings"] else ""
    versions = ", ".join(f"{name} {number}" for name, number in manifest["versions"].items())
    return "\n".join([*lines, f"- all {what}{frozen}; seed {plan['seed']}; {versions}"])


def plot_curves(manifest: Mapping[str, Any]) -> Figure:
    """Loss and accuracies on held-out documents over the steps of all phases."""
    total = sum(phase["steps"] for phase in manifest["phases"].values())
    figure, (losses, shares) = new_axes(
        (8.0, 3.4), (0.08, 0.16, 0.38, 0.76), (0.58, 0.16, 0.4, 0.76)
    )
    curves = (
        (losses, "mlm_loss", "MLM", 0),
        (shares, "mlm_accuracy", "MLM", 0),
        (shares, "nsp_accuracy", "NSP", 1),
    )
    offset = 0
    for name, phase in manifest["phases"].items():
        rows = [row for row in manifest["history"][name] if "eval_mlm_loss" in row]
        if not offset:
            start = {f"eval_{key}": value for key, value in manifest["before"][name].items()}
            rows = [{"step": 0, **start}, *rows]
        steps = [row["step"] + offset for row in rows]
        for axes, measure, label, look in curves:
            values = [row.get(f"eval_{measure}") for row in rows]
            if None not in values:
                style = {"color": COLOURS[look], "linestyle": DASHES[look]}
                axes.plot(steps, values, label="" if offset else label, **style)
        offset += phase["steps"]
        if offset < total:
            for axes in (losses, shares):
                axes.axvline(offset, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    for axes, label in ((losses, "Loss, held out (nats)"), (shares, "Accuracy, held out")):
        axes.set_xlabel("Step")
        axes.set_ylabel(label)
    shares.set_ylim(0, 1)
    shares.legend(frameon=False)
    return figure
