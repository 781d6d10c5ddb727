"""Vectors of pairs from the tagger's network, and the classifiers that learn from them."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from domainbert.statistics.calibration import logit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from biomed import EntityTagger
    from biomed.corpora.documents import Span
    from domainbert.statistics import Floats
    from recipes.drug_relations.pairs import Candidates

SEEDS = 2  # networks, whose log-odds are averaged
HIDDEN = 64
EPOCHS = 12
BATCH = 64
DROPOUT = 0.4
LONGEST = 512  # tokens of a document; later mentions are not seen


class PairEncoder:
    """What the tagger's network says of the pairs of documents; its weights do not change."""

    def __init__(self, tagger: EntityTagger) -> None:
        self._tokenizer = tagger.tokenizer
        self._network = tagger.network.base_model.eval()
        self._network.set_attn_implementation("eager")  # gives its attention

    def vectors(self, readings: Sequence[Candidates]) -> list[np.ndarray]:
        """Vectors of the pairs in each reading of one document, each of shape (pairs, 6 x hidden).

        They are the log-sum-exp over the mentions of the drug, and of the disease; the tokens
        that both attend to, weighted (Zhou et al. 2021, arXiv 2010.11304); the mean of the tokens
        between the two nearest mentions; and these two.
        """
        encoding = self._tokenizer(
            readings[0].document.text,
            return_offsets_mapping=True,
            truncation=True,
            max_length=LONGEST,
        )
        with torch.inference_mode():
            output = self._network(
                input_ids=torch.tensor([encoding["input_ids"]]),
                output_attentions=True,
            )
        hidden = output.last_hidden_state[0].numpy()
        attention = output.attentions[-1][0].numpy()
        offsets = np.array(encoding["offset_mapping"])
        return [
            pair_vectors(candidates, hidden, attention, offsets)
            for candidates in readings
        ]


def pair_vectors(
    candidates: Candidates,
    hidden: np.ndarray,
    attention: np.ndarray,
    offsets: np.ndarray,
) -> np.ndarray:
    """The vectors of `PairEncoder.vectors`.

    Args:
        candidates: the pairs.
        hidden: the last layer, shape (tokens, hidden).
        attention: that of the last layer, shape (heads, tokens, tokens).
        offsets: first and last character of each token, shape (tokens, 2).
    """
    tokens = {}
    means = {}
    attended = {}
    for concept, spans in candidates.mentions.items():
        ranges = [token_range(span, offsets) for span in spans]
        # [CLS] stands for a concept whose mentions come after the last token.
        tokens[concept] = [x for x in ranges if x[0] < x[1]] or [(0, 1)]
        rows = [hidden[a:b].mean(0) for a, b in tokens[concept]]
        means[concept] = np.logaddexp.reduce(rows, axis=0)
        heads = [attention[:, a:b].mean(1) for a, b in tokens[concept]]
        attended[concept] = np.mean(heads, axis=0)
    vectors = []
    for drug, disease in candidates.pairs:
        weights = (attended[drug] * attended[disease]).sum(0)
        weights /= weights.sum() + 1e-9
        (start, end), (other_start, other_end) = min(
            product(tokens[drug], tokens[disease]),
            key=lambda pair: abs(pair[0][0] - pair[1][0]),
        )
        between = hidden[min(end, other_end) : max(start, other_start)]
        if not len(between):
            between = np.zeros_like(hidden[:1])
        parts = [
            means[drug],
            means[disease],
            weights @ hidden,
            between.mean(0),
            hidden[start:end].mean(0),
            hidden[other_start:other_end].mean(0),
        ]
        vectors.append(np.concatenate(parts))
    shape = (-1, 6 * hidden.shape[1])
    return np.array(vectors, np.float32).reshape(shape)


def token_range(span: Span, offsets: np.ndarray) -> tuple[int, int]:
    """The first token of a mention and one past its last."""
    is_inside = (offsets[:, 0] < span.end) & (offsets[:, 1] > span.start)
    numbers = np.flatnonzero(is_inside & (offsets[:, 1] > offsets[:, 0]))
    if not len(numbers):
        return 0, 0
    return int(numbers[0]), int(numbers[-1]) + 1


def fit_head(
    vectors: np.ndarray, places: np.ndarray, outcome: np.ndarray
) -> Callable[[np.ndarray, np.ndarray], Floats]:
    """A function of vectors and positions that gives the log-odds of each pair."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    mean = vectors.mean(0)
    scale = vectors.std(0) + 1e-5
    place_mean = places.mean(0)
    place_scale = places.std(0) + 1e-5

    def inputs(vectors: np.ndarray, places: np.ndarray) -> torch.Tensor:
        parts = [
            (vectors - mean) / scale,
            (places - place_mean) / place_scale,
        ]
        return torch.from_numpy(np.concatenate(parts, axis=1)).float()

    rows = inputs(vectors, places)
    heads = [
        _trained(rows, outcome, width=vectors.shape[1], seed=seed)
        for seed in range(SEEDS)
    ]
    trees = HistGradientBoostingClassifier(
        max_iter=120,
        learning_rate=0.06,
        max_leaf_nodes=12,
        min_samples_leaf=30,
        random_state=0,
    ).fit(places, outcome)

    def log_odds(vectors: np.ndarray, places: np.ndarray) -> Floats:
        rows = inputs(vectors, places)
        with torch.inference_mode():
            by_network = [head(rows).numpy() for head in heads]
        by_trees = logit(trees.predict_proba(places)[:, 1])
        return np.asarray((np.mean(by_network, axis=0) + by_trees) / 2)

    return log_odds


class _Head(torch.nn.Module):
    """Two layers over the vector of a pair, and one more over these and its positions."""

    def __init__(self, width: int, places: int) -> None:
        super().__init__()
        self._width = width
        self._first = torch.nn.Sequential(
            torch.nn.Dropout(DROPOUT),
            torch.nn.Linear(width, HIDDEN),
            torch.nn.GELU(),
            torch.nn.Dropout(DROPOUT),
        )
        self._last = torch.nn.Sequential(
            torch.nn.Linear(HIDDEN + places, HIDDEN // 2),
            torch.nn.GELU(),
            torch.nn.Linear(HIDDEN // 2, 1),
        )

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        first = self._first(rows[:, : self._width])
        joined = torch.cat([first, rows[:, self._width :]], dim=1)
        return self._last(joined)[:, 0]


def _trained(
    rows: torch.Tensor, outcome: np.ndarray, *, width: int, seed: int
) -> _Head:
    """A head after its epochs, with AdamW and a learning rate that decays linearly."""
    torch.manual_seed(seed)
    head = _Head(width, rows.shape[1] - width)
    optimizer = torch.optim.AdamW(
        head.parameters(), lr=1e-3, weight_decay=0.05
    )
    batches = len(rows) // BATCH + 1
    decay = torch.optim.lr_scheduler.LinearLR(
        optimizer, 1.0, 0.0, EPOCHS * batches
    )
    targets = torch.from_numpy(outcome.astype(np.float32))
    generator = np.random.default_rng(seed)
    for _ in range(EPOCHS):
        order = generator.permutation(len(rows))
        for numbers in np.array_split(order, batches):
            optimizer.zero_grad()
            loss = binary_cross_entropy_with_logits(
                head(rows[numbers]), targets[numbers]
            )
            loss.backward()
            optimizer.step()
            decay.step()
    return head.eval()
