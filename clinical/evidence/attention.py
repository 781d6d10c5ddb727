"""Attention: what a layer's heads look at in one window, as numbers and as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from domainbert.errors import UserError

if TYPE_CHECKING:
    import numpy as np

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
