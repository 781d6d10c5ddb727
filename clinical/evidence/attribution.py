"""Attributions: how much each piece of a stay adds to the risk of its window."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.evidence.attention import attention_weights
from clinical.evidence.pieces import covering
from clinical.risk.calibration import logit
from domainbert.errors import UserError
from domainbert.inference import pad, plan_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch

    from clinical.evidence.case import Case
    from clinical.evidence.pieces import Piece

    Attribute = Callable[[Case, Sequence[Piece]], np.ndarray]

STEPS = 8
"""Points of the integral of the gradients."""

EFFORT = 3.0
"""Occlusion reads up to this many times the tokens of the stay."""


def windows_that_matter(
    case: Case, pieces: Sequence[Piece], *, windows: int | None = None
) -> list[int]:
    """The riskiest windows: `windows` of them, or as many as `EFFORT` allows and at least one.

    Under the readmission rule the riskiest windows also contribute most.
    """
    order = np.argsort(-case.probabilities, kind="stable")
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
    case: Case,
    pieces: Sequence[Piece],
    *,
    method: str = "occlusion",
    windows: Sequence[int] | None = None,
) -> np.ndarray:
    """What each piece adds to the risk of its window by a method, shape (pieces,).

    0 for pieces outside the windows that are examined.

    Args:
        case: the stay.
        pieces: of the stay, from `sentence_pieces`.
        method: one of `METHODS`.
        windows: to examine; by default `windows_that_matter`.

    Raises:
        UserError: no such method.
    """
    if method not in METHODS:
        raise UserError(f"no method {method!r}; expected one of {', '.join(METHODS)}")
    if windows is None:
        windows = windows_that_matter(case, pieces)
    inside = covering(pieces, windows)
    values = np.zeros(len(pieces))
    values[inside] = METHODS[method](case, [pieces[i] for i in inside])
    return values


def occlusion(case: Case, pieces: Sequence[Piece]) -> np.ndarray:
    """What a piece adds to its window's log-odds, times the window's probability, shape (pieces,).

    The mean of what is lost when the piece is cut out of the window, and what is gained when it is
    put into an empty one: the last and the first step of a Shapley value. The first alone misses a
    piece whose window says the same thing twice. Occlusion is from Zeiler and Fergus 2014 (arXiv
    1311.2901). The factor puts the riskiest windows first, which decide the stay's score.
    """
    numbers = [piece.window for piece in pieces]
    special = case.window(0).input_ids[[0, -1]]
    alone = [
        np.insert(special, 1, case.window(p.window).input_ids[1:-1][p.first : p.last])
        for p in pieces
    ]
    whole = logit(case.probabilities[numbers])
    lost = whole - logit(case.without(pieces))
    gained = logit(case.score(alone)) - logit(case.score([special]))
    return (lost + gained) / 2 * case.probabilities[numbers]


def gradients(case: Case, pieces: Sequence[Piece]) -> np.ndarray:
    """Integrated gradients of the logit, summed over a piece, times the window's probability."""
    windows = sorted({piece.window for piece in pieces})
    tokens = dict(zip(windows, integrated_gradients(case, windows), strict=True))
    sums = np.array([tokens[piece.window][piece.first : piece.last].sum() for piece in pieces])
    return case.probabilities[[piece.window for piece in pieces]] * sums


def attention(case: Case, pieces: Sequence[Piece]) -> np.ndarray:
    """The last layer's attention from [CLS], mean over heads, times the window's probability.

    It has no sign: attention does not say whether a passage raises or lowers the risk.
    """
    tokens = {
        number: attention_weights(case.model, case.window(number).input_ids).mean(0)[0, 1:-1]
        for number in {piece.window for piece in pieces}
    }
    sums = np.array([tokens[piece.window][piece.first : piece.last].sum() for piece in pieces])
    return case.probabilities[[piece.window for piece in pieces]] * sums


METHODS: Mapping[str, Attribute] = MappingProxyType(
    {"occlusion": occlusion, "gradients": gradients, "attention": attention}
)


def integrated_gradients(
    case: Case, windows: Sequence[int], *, steps: int = STEPS
) -> list[np.ndarray]:
    """Integrated gradients of windows' logits with respect to their token embeddings.

    The baseline has [PAD] in place of every token between [CLS] and [SEP]. The values of a window
    sum to its logit minus the baseline's, up to the error of the integral. Sundararajan, Taly and
    Yan 2017 (arXiv 1703.01365), computed by captum.

    Args:
        case: the stay.
        windows: numbers of its windows.
        steps: points of the integral, at least 1.

    Returns:
        One array a window, shape (tokens between [CLS] and [SEP],).
    """
    from captum.attr import LayerIntegratedGradients

    model = case.model
    network, device = model.network.eval(), model.runner.device
    nothing = model.tokenizer.pad_token_id

    def forward(ids: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        return network(input_ids=ids, attention_mask=mask).logits[:, 0]

    method = LayerIntegratedGradients(forward, network.get_input_embeddings())
    rows = [case.window(number).input_ids for number in windows]
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
