"""Attention: what a layer's heads look at in one window, as numbers and as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from domainbert.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from clinical.risk.model import ReadmissionModel


def attention_weights(
    model: ReadmissionModel, window: np.ndarray, *, layer: int = -1
) -> np.ndarray:
    """How much each token attends to each other one, shape (heads, tokens, tokens).

    Each row sums to 1. Computed from the layer's queries and keys, because the fast kernels that
    the model runs on do not return their weights.

    Args:
        model: with a BERT encoder.
        window: token ids with [CLS] and [SEP], shape (tokens,).
        layer: from 0, or from the end if negative.

    Raises:
        UserError: no such layer.
    """
    import torch

    bert = model.network.base_model
    layers = list(bert.encoder.layer)
    if not -len(layers) <= layer < len(layers):
        raise UserError(f"layer is {layer}; expected {-len(layers)} to {len(layers) - 1}")
    ids = torch.as_tensor(window, device=model.runner.device)[None]
    with torch.inference_mode():
        hidden = bert.eval().embeddings(input_ids=ids)
        for before in layers[: layer % len(layers)]:
            hidden = before(hidden, None)
        own = layers[layer].attention.self
        heads = (own.num_attention_heads, own.attention_head_size)
        query, key = (
            part(hidden)[0].unflatten(-1, heads).transpose(0, 1) for part in (own.query, own.key)
        )
        scores = query @ key.transpose(1, 2) / own.attention_head_size**0.5
        return scores.softmax(-1).float().cpu().numpy()


CAVEAT = (
    "Attention is not an explanation: it shows what a head reads, not whether that raises or "
    "lowers the risk."
)


def plot_attention(model: ReadmissionModel, note: str, *, layer: int = -1) -> Figure:
    """How much each head of a layer attends from [CLS] to the tokens of a note's riskiest window.

    The classifier reads [CLS]. Below the figure are a warning and, if the model's card has them,
    the faithfulness of attention and of the default method. The figure shows words of the note.

    Raises:
        UserError: no such layer, or the note has no text.
    """
    from domainbert.figures import new_axes

    stay = model.read(note)
    if stay.risk.status != "ok":
        raise UserError(f"no attention to show: {stay.risk.reason}")
    windows = [window.input_ids for _, window in stay.windows]
    window = windows[int(model.score_token_ids(windows).argmax())]
    weights = attention_weights(model, window, layer=layer)[:, 0]
    tokens = model.tokenizer.convert_ids_to_tokens(window.tolist())
    figure, (axes, scale) = new_axes(
        (max(6.0, 0.14 * len(tokens)), 4.2), (0.06, 0.3, 0.87, 0.6), (0.945, 0.3, 0.01, 0.6)
    )
    image = axes.imshow(weights, aspect="auto", cmap="Blues", vmin=0.0, interpolation="nearest")
    axes.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=6)
    axes.set_yticks(range(len(weights)), [str(head + 1) for head in range(len(weights))])
    axes.set_ylabel("head")
    layers = model.network.config.num_hidden_layers
    place = f"layer {layer % layers + 1} of {layers}"
    axes.set_title(f"Attention from [CLS] in {place}, riskiest window", loc="left")
    figure.colorbar(image, cax=scale)
    caption = f"{CAVEAT} {_faithfulness(model)}".strip()
    figure.text(0.06, 0.02, caption, fontsize=8, wrap=True, va="bottom")
    return figure


def _faithfulness(model: ReadmissionModel) -> str:
    """How faithful attention is by the model's card, or that nobody measured it."""
    measures = model.manifest.get("evidence", {}).get("measures", [])
    name = "normalised AOPC"
    found = {m["method"]: m["value"] for m in measures if m["measure"] == name}
    if not found:
        return "Its faithfulness was not measured for this model."
    listed = ", ".join(f"{method} {value:.2f}" for method, value in found.items())
    return f"Faithfulness ({name}, 1 is best): {listed}."
