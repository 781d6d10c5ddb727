"""Attributions: how much each piece of a stay raises the probability of its window."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.evidence.attention import attention_weights
from clinical.evidence.pieces import covering
from clinical.evidence.removal import probabilities_without
from domainbert.errors import UserError
from domainbert.inference import pad, plan_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch

    from clinical.evidence.pieces import Piece
    from clinical.risk.model import ReadmissionModel
    from clinical.risk.stays import ReadStay

    Attribute = Callable[[ReadmissionModel, ReadStay, Sequence[Piece], np.ndarray], np.ndarray]

STEPS = 16
"""Points of the integral of the gradients."""

EFFORT = 3.0
"""Occlusion reads up to this many times the tokens of the stay."""


def windows_that_matter(
    pieces: Sequence[Piece], probabilities: np.ndarray, *, windows: int | None = None
) -> list[int]:
    """The riskiest windows: `windows` of them, or as many as `EFFORT` allows and at least one.

    Under the readmission rule the riskiest windows also contribute most.
    """
    order = np.argsort(-probabilities, kind="stable")
    if windows is None:
        sizes, tokens = np.zeros(len(order)), np.zeros(len(order))
        for piece in pieces:
            sizes[piece.window] += 1
            tokens[piece.window] += len(piece)
        # n shortened windows, each without one of n pieces, have n - 1 times the window's tokens.
        cost = np.cumsum(((sizes - 1) * tokens)[order])
        windows = max(1, int((cost <= EFFORT * tokens.sum()).sum()))
    return order[:windows].tolist()


def attribute(
    model: ReadmissionModel,
    stay: ReadStay,
    pieces: Sequence[Piece],
    probabilities: np.ndarray,
    *,
    method: str = "occlusion",
    windows: Sequence[int] | None = None,
) -> np.ndarray:
    """What each piece adds to the probability of its window, shape (pieces,).

    0 for pieces outside the windows that are examined.

    Args:
        model: which gave the probabilities.
        stay: from `model.read`.
        pieces: of the stay, from `sentence_pieces`.
        probabilities: of the stay's windows, shape (windows,).
        method: one of `METHODS`.
        windows: to examine; by default `windows_that_matter`.

    Raises:
        UserError: no such method.
    """
    if method not in METHODS:
        raise UserError(f"no method {method!r}; expected one of {', '.join(METHODS)}")
    if windows is None:
        windows = windows_that_matter(pieces, probabilities)
    inside = covering(pieces, windows)
    values = np.zeros(len(pieces))
    values[inside] = METHODS[method](model, stay, [pieces[i] for i in inside], probabilities)
    return values


def occlusion(
    model: ReadmissionModel, stay: ReadStay, pieces: Sequence[Piece], probabilities: np.ndarray
) -> np.ndarray:
    """How far the probability of its window falls when a piece is cut out, shape (pieces,).

    One shortened window for each piece. After Zeiler and Fergus 2014 (arXiv 1311.2901).
    """
    return probabilities[[p.window for p in pieces]] - probabilities_without(model, stay, pieces)


def gradients(
    model: ReadmissionModel, stay: ReadStay, pieces: Sequence[Piece], probabilities: np.ndarray
) -> np.ndarray:
    """Integrated gradients of the logit, summed over a piece, times p (1 - p) of its window.

    The factor turns log-odds into probability, so that pieces of different windows compare.
    """
    windows = sorted({piece.window for piece in pieces})
    tokens = dict(zip(windows, integrated_gradients(model, stay, windows), strict=True))
    slopes = probabilities * (1 - probabilities)
    return np.array([slopes[p.window] * tokens[p.window][p.first : p.last].sum() for p in pieces])


def attention(
    model: ReadmissionModel, stay: ReadStay, pieces: Sequence[Piece], probabilities: np.ndarray
) -> np.ndarray:
    """The last layer's attention from [CLS], mean over heads, times the window's probability.

    It has no sign: attention does not say whether a passage raises or lowers the risk.
    """
    tokens = {
        number: attention_weights(model, stay.windows[number][1].input_ids).mean(0)[0, 1:-1]
        for number in {piece.window for piece in pieces}
    }
    return np.array(
        [probabilities[p.window] * tokens[p.window][p.first : p.last].sum() for p in pieces]
    )


METHODS: Mapping[str, Attribute] = MappingProxyType(
    {"occlusion": occlusion, "gradients": gradients, "attention": attention}
)


def integrated_gradients(
    model: ReadmissionModel, stay: ReadStay, windows: Sequence[int], *, steps: int = STEPS
) -> list[np.ndarray]:
    """Integrated gradients of windows' logits with respect to their token embeddings.

    The baseline has [PAD] in place of every token between [CLS] and [SEP]. The values of a window
    sum to its logit minus the baseline's, up to the error of the integral. Sundararajan, Taly and
    Yan 2017 (arXiv 1703.01365), computed by captum.

    Args:
        model: whose network is differentiated.
        stay: from `model.read`.
        windows: numbers of its windows.
        steps: points of the integral, at least 1.

    Returns:
        One array a window, shape (tokens between [CLS] and [SEP],).
    """
    from captum.attr import LayerIntegratedGradients

    network, device, nothing = (
        model.network.eval(),
        model.runner.device,
        model.tokenizer.pad_token_id,
    )

    def logit(ids: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        return network(input_ids=ids, attention_mask=mask).logits[:, 0]

    method = LayerIntegratedGradients(logit, network.get_input_embeddings())
    rows = [stay.windows[number][1].input_ids for number in windows]
    result: list[Any] = [None] * len(rows)
    for batch in plan_batches([len(row) for row in rows], batch_tokens=model.runner.batch_tokens):
        ids, mask = pad([rows[i] for i in batch], pad_token_id=nothing)
        baseline = ids.clone()
        for row, index in enumerate(batch):
            baseline[row, 1 : len(rows[index]) - 1] = nothing
        values = method.attribute(
            ids.to(device),
            baselines=baseline.to(device),
            additional_forward_args=(None if mask is None else mask.to(device),),
            n_steps=steps,
            internal_batch_size=len(batch),
        )
        summed = values.sum(-1).float().cpu().numpy()
        for row, index in enumerate(batch):
            result[index] = summed[row, 1 : len(rows[index]) - 1]
    return result
