"""Ways to find the passages behind a risk, for `faithfulness.py` to compare.

Each method gives a number to each sentence ("piece") of the examined windows of a stay; the higher,
the more the sentence raises the risk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from clinical.evidence.explain import occlusion
from domainbert.errors import UserError
from domainbert.text.runner import pad, plan_batches

if TYPE_CHECKING:
    from clinical import ReadmissionModel
    from clinical.evidence.case import Case, Piece

STEPS = 8
"""Points of the integral of the gradients."""


def occlusion_values(
    case: Case,
    pieces: Sequence[Piece],
    windows: Sequence[int],
) -> np.ndarray:
    """The values by which `clinical.explain` ranks the pieces."""
    values, _ = occlusion(case, pieces, windows)
    return values


def gradients(
    case: Case,
    pieces: Sequence[Piece],
    windows: Sequence[int],
) -> np.ndarray:
    """Integrated gradients of the logit, summed over a piece, times the window's probability."""
    values = integrated_gradients(case, windows)
    tokens = dict(zip(windows, values, strict=True))
    return _sums_over_pieces(case, pieces, tokens)


def attention(
    case: Case,
    pieces: Sequence[Piece],
    windows: Sequence[int],
) -> np.ndarray:
    """The last layer's attention from [CLS], mean over heads, times the window's probability.

    It has no sign: attention does not say whether a passage raises or lowers the risk.
    """
    tokens = {}
    for number in windows:
        token_ids = case.windows[number].input_ids
        weights = attention_weights(case.model, token_ids)
        from_cls = weights.mean(axis=0)[0]
        tokens[number] = from_cls[1:-1]
    return _sums_over_pieces(case, pieces, tokens)


Method = Callable[["Case", Sequence["Piece"], Sequence[int]], np.ndarray]
METHODS: dict[str, Method] = {
    "occlusion": occlusion_values,
    "gradients": gradients,
    "attention": attention,
}


def integrated_gradients(
    case: Case,
    windows: Sequence[int],
    *,
    steps: int = STEPS,
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
    rows = [case.windows[number].input_ids for number in windows]
    lengths = [len(row) for row in rows]
    budget = case.model.runner.batch_tokens
    values: dict[int, np.ndarray] = {}
    for batch in plan_batches(lengths, batch_tokens=budget):
        batch_rows = [rows[index] for index in batch]
        batch_values = _gradients_of_batch(case.model, batch_rows, steps)
        values.update(zip(batch, batch_values, strict=True))
    return [values[index] for index in range(len(rows))]


def _gradients_of_batch(
    model: ReadmissionModel,
    rows: Sequence[np.ndarray],
    steps: int,
) -> list[np.ndarray]:
    """Integrated gradients of windows that are read together."""
    from captum.attr import LayerIntegratedGradients

    network = model.network.eval()
    device = model.runner.device
    blank = model.tokenizer.pad_token_id

    def forward(ids: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        return network(input_ids=ids, attention_mask=mask).logits[:, 0]

    token_ids, mask = pad(rows, pad_token_id=blank)
    if mask is not None:
        mask = mask.to(device)
    baselines = token_ids.clone()
    for baseline, row in zip(baselines, rows, strict=True):
        baseline[1 : len(row) - 1] = blank
    method = LayerIntegratedGradients(forward, network.get_input_embeddings())
    values = method.attribute(
        token_ids.to(device),
        baselines=baselines.to(device),
        additional_forward_args=(mask,),
        n_steps=steps,
        internal_batch_size=len(rows),
    )
    of_tokens = values.sum(-1).float().cpu().numpy()
    return [
        window_values[1 : len(row) - 1]
        for window_values, row in zip(of_tokens, rows, strict=True)
    ]


def attention_weights(
    model: ReadmissionModel,
    window: np.ndarray,
    *,
    layer: int = -1,
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
    bert = model.network.base_model
    layers = list(bert.encoder.layer)
    if not -len(layers) <= layer < len(layers):
        raise UserError(
            f"layer is {layer}; expected {-len(layers)} to {len(layers) - 1}"
        )
    token_ids = torch.as_tensor(window, device=model.runner.device)[None]
    with torch.inference_mode():
        hidden = bert.eval().embeddings(input_ids=token_ids)
        for layer_before in layers[: layer % len(layers)]:
            hidden = layer_before(hidden, None)
        weights = _self_attention(layers[layer].attention.self, hidden)
    return weights.float().cpu().numpy()


def _self_attention(
    module: Any,
    hidden: torch.Tensor,
) -> torch.Tensor:
    """The weights of one layer for one window, shape (heads, tokens, tokens)."""
    head_size = module.attention_head_size
    heads = (module.num_attention_heads, head_size)
    query = module.query(hidden)[0].unflatten(-1, heads).transpose(0, 1)
    key = module.key(hidden)[0].unflatten(-1, heads).transpose(0, 1)
    logits = query @ key.transpose(1, 2) / head_size**0.5
    weights: torch.Tensor = logits.softmax(-1)
    return weights


def _sums_over_pieces(
    case: Case,
    pieces: Sequence[Piece],
    tokens: Mapping[int, np.ndarray],
) -> np.ndarray:
    """Sums of token values over pieces, times the window's probability; 0 in other windows."""
    sums = np.zeros(len(pieces))
    for number, piece in enumerate(pieces):
        if piece.window in tokens:
            values = tokens[piece.window][piece.first : piece.last]
            sums[number] = case.probabilities[piece.window] * values.sum()
    return sums


def greedy_order(
    case: Case,
    pieces: Sequence[Piece],
    windows: Sequence[int],
) -> np.ndarray:
    """An order of removal that lowers the risk fast, shape (pieces,): an estimate of the best one.

    In each of the examined windows, the piece whose removal leaves the lowest probability goes
    next; among windows, the one that is then riskiest. The pieces of other windows follow, from the
    riskiest window to the least risky. Reversed, it is an estimate of the worst order.
    """
    paths, risks = _greedy_paths(case, pieces, windows)
    order: list[int] = []
    n_removed = dict.fromkeys(windows, 0)
    while True:
        unfinished = [w for w in windows if n_removed[w] < len(paths[w])]
        if not unfinished:
            break
        riskiest = max(unfinished, key=lambda w: risks[w][n_removed[w]])
        order.append(paths[riskiest][n_removed[riskiest]])
        n_removed[riskiest] += 1
    unexamined = [
        number
        for number, piece in enumerate(pieces)
        if piece.window not in paths
    ]
    by_risk = sorted(
        unexamined,
        key=lambda number: -case.probabilities[pieces[number].window],
    )
    return np.array([*order, *by_risk])


def _greedy_paths(
    case: Case,
    pieces: Sequence[Piece],
    windows: Sequence[int],
) -> tuple[dict[int, list[int]], dict[int, list[float]]]:
    """For each window, its pieces in the order of removal, and its risk before each removal."""
    remaining: dict[int, list[int]] = {window: [] for window in windows}
    for number, piece in enumerate(pieces):
        if piece.window in remaining:
            remaining[piece.window].append(number)
    paths: dict[int, list[int]] = {window: [] for window in windows}
    risks = {window: [float(case.probabilities[window])] for window in windows}
    while any(remaining.values()):
        candidates = [(w, number) for w in windows for number in remaining[w]]
        shorter = []
        for window, number in candidates:
            removed = [pieces[n] for n in (*paths[window], number)]
            shorter.append(case.shortened(window, removed))
        scores = zip(case.predict_windows(shorter), candidates, strict=True)
        options: dict[int, list[tuple[float, int]]] = {}
        for score, (window, number) in scores:
            options.setdefault(window, []).append((float(score), number))
        for window, window_options in options.items():
            lowest, number = min(window_options)
            paths[window].append(number)
            remaining[window].remove(number)
            risks[window].append(lowest)
    return paths, risks
