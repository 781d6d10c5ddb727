"""What a pretraining has to show: a card with its scores, and its curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from domainbert.figures import COLOURS, DASHES, GREY, new_axes
from domainbert.markdown import table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

MEASURES = {
    "mlm_accuracy": "MLM accuracy",
    "perplexity": "MLM perplexity",
    "nsp_accuracy": "NSP accuracy",
}
CURVES_FILE = "curves.png"


def score_table(manifest: Mapping[str, Any]) -> list[list[str]]:
    """The scores before and after as text, the head first."""
    before, after = manifest["before"], manifest["after"]
    shown = [name for name in MEASURES if any(name in score for score in after.values())]
    rows = [["held-out documents", *(MEASURES[name] for name in shown)]]
    for phase, settings in manifest["phases"].items():
        for when, scores in (("before", before), ("after", after)):
            values = (_spell(name, scores[phase][name]) for name in shown)
            rows.append([f"{when}, {settings['length']} tokens", *values])
    return rows


def _spell(name: str, value: float) -> str:
    return f"{value:,.1f}" if name == "perplexity" else f"{value:.3f}"


def encoder_card(manifest: Mapping[str, Any]) -> str:
    """Markdown for the README of an encoder folder, from its manifest."""
    card = manifest["card"]
    parts = [
        f"---\nlicense: {card.get('licence', 'other')}\nlibrary_name: transformers\n---",
        f"# {card.get('title', 'A pretrained encoder')}",
        _origin(manifest),
        "Give this folder as `--encoder` to any command that trains.",
        f"## Data\n\n{card.get('data', 'Not stated.').strip()}",
        _table(_corpus_rows(manifest["corpus"])),
        f"## Measured\n\n{_measured_note(manifest)}",
        _table(score_table(manifest)),
        f"![Held-out scores in training]({CURVES_FILE})",
        f"## Training\n\n{_training(manifest)}",
    ]
    if rebuild := card.get("rebuild", "").strip():
        parts.append(f"Rebuilt by:\n\n```\n{rebuild}\n```")
    limits = card.get("limits", "It has read what is listed above, and may repeat what it read.")
    parts.append(f"## Limits\n\n{limits.strip()}")
    return "\n\n".join(parts) + "\n"


def _origin(manifest: Mapping[str, Any]) -> str:
    how = "masked words and next sentences" if manifest["pairs"] else "masked words alone"
    name = manifest["encoder"]["name"]
    start = f"started from `{name}`" if name else "from scratch, with a vocabulary of its own"
    origin = f"BERT, trained on {how}, {start}."
    if blend := manifest.get("blend"):
        share, old, new = blend["share"], blend["start"]["name"], blend["trained"]["name"]
        origin += (
            f" Each weight of it is {share:g} x that of `{old}` + {1 - share:g} x that of "
            f"`{new}`, which was trained; pooler and heads are the latter's."
        )
    return origin


def _corpus_rows(corpus: Mapping[str, Any]) -> list[list[str]]:
    counts = {**corpus["counts"], **{f"{s} tokens": n for s, n in corpus["tokens"].items()}}
    excluded = sum(entry["names"] for entry in corpus["exclusions"])
    rows = [[what, f"{number:,}"] for what, number in counts.items()]
    return [["", ""], *rows, ["names on exclusion lists", f"{excluded:,}"]]


def _measured_note(manifest: Mapping[str, Any]) -> str:
    note = "On documents that training never read, with the same words hidden before and after."
    if manifest["encoder"]["fresh_head"]:
        note += (
            " The start had no trained output layer, so what stands as before is hardly more than "
            "what word frequencies give."
        )
    if "blend" in manifest:
        note += " What stands as after is of the trained weights, before they were mixed."
    return note


def _training(manifest: Mapping[str, Any]) -> str:
    lines = []
    for name, phase in manifest["phases"].items():
        line = (
            f"{name}: {phase['steps']:,} steps of {phase['batch_tokens']:,} tokens at length "
            f"{phase['length']}, learning rate {phase['learning_rate']:g}, warm-up over "
            f"{phase['warmup']:.1%} of the steps"
        )
        if speed := manifest["speed"].get(name):
            line += (
                f"; {speed['tokens_per_second']:,.0f} tokens a second, "
                f"{speed['share_of_matrix_rate']:.0%} of the matrix rate of {speed['device']}"
            )
        lines.append(f"- {line}")
    plan = manifest["training"]
    what = f"LoRA adapters of rank {plan['lora_rank']}, merged" if plan["lora_rank"] else "weights"
    frozen = " but the word embeddings" if plan["freeze_embeddings"] else ""
    versions = ", ".join(f"{name} {number}" for name, number in manifest["versions"].items())
    lines.append(f"- all {what}{frozen}; seed {plan['seed']}; {versions}")
    return "\n".join(lines)


def _table(rows: Sequence[Sequence[str]]) -> str:
    return table(rows[0], rows[1:])


def plot_curves(manifest: Mapping[str, Any]) -> Figure:
    """Loss and accuracies on held-out documents over the steps of all phases.

    Args:
        manifest: of a pretrained encoder, its `pretraining.json`.
    """
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
