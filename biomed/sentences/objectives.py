"""What sentence models train on: vectors of texts, and scores of pairs of texts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import torch
from sentence_transformers.base.sampler import NoDuplicatesBatchSampler
from sentence_transformers.sentence_transformer import losses
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.utils.checkpoint import checkpoint

from biomed.sentences.data import labelled, scores
from biomed.sentences.evaluation import spearman
from domainbert.errors import UserError
from domainbert.models.pooling import pool, unit
from domainbert.text.runner import pad
from domainbert.training.objective import LengthBatches, Objective, fingerprint

if TYPE_CHECKING:
    from domainbert.models.embedder import Embedder
    from domainbert.models.pairs import PairModel, PairWindow
    from domainbert.models.pooling import EmbeddingSettings
    from domainbert.training.objective import BatchPlan
    from domainbert.training.settings import TrainingSettings

Kind = Literal["contrastive", "regression", "classification", "triplet"]
METRICS: dict[Kind, str] = {
    "contrastive": "mrr",
    "regression": "spearman",
    "classification": "separation",
    "triplet": "accuracy",
}
# They get vectors, so they need no model. The scale is one over the temperature, the margin that
# of the SBERT paper.
_LOSSES: dict[Kind, Any] = {
    "contrastive": losses.MultipleNegativesRankingLoss(None, scale=20.0),
    "regression": losses.CosineSimilarityLoss(None),
    "triplet": losses.TripletLoss(None, triplet_margin=1.0),
}
_READ = 32  # windows read together in training
_KEPT = 16_384  # padded tokens of a batch; larger batches use gradient checkpointing
_TIE = 1e-6  # cosines that differ by less count as equal


class TextVectorsObjective(Objective):
    """Vectors of texts that belong together, or are as similar as a score says.

    The kinds and their losses (sentence-transformers'), and what is measured on validation:

    - "contrastive": a text's partner among those of the batch, as the cross-entropy of cosines
      times 20 (multiple negatives ranking, arXiv 1705.00652); a third column has more negatives.
      "mrr" is the mean reciprocal rank of a row's second text among all second texts.
    - "regression": squared error of cosine and score. "spearman" correlates them.
    - "classification": softmax over u, v and |u - v|. "separation" is the share of the cosines'
      variance that the classes explain.
    - "triplet": max(|a - p| - |a - n| + 1, 0), Euclidean. "accuracy" is the share of triplets
      whose positive is nearer.

    The last three are those of Reimers and Gurevych (arXiv 1908.10084).

    Args:
        embedder: its windows and its pooling are those of prediction.
        sets: pairs or triplets by name; a batch comes from one set. For "contrastive" they may
            have a column `key` that says what a row is about: rows with one key never share a
            batch.
        validation: others, which choose the weights.
        kind: see above.
        training: see `TrainingSettings`; `batch_size` counts rows.
        scale: the largest score.

    Raises:
        UserError: a set without the columns it needs, a text without a token, scores beyond the
            scale, fewer than two classes, or a class in validation alone.
    """

    def __init__(
        self,
        embedder: Embedder,
        sets: Mapping[str, pd.DataFrame],
        validation: pd.DataFrame,
        *,
        kind: Kind,
        training: TrainingSettings,
        scale: float = 1.0,
    ) -> None:
        self.metric, self._embedder, self._kind, self._scale = (
            METRICS[kind],
            embedder,
            kind,
            scale,
        )
        torch.manual_seed(training.seed)  # of the head and of new adapters
        self._classes: list[str] = []
        if kind == "classification":
            self._classes = _classes(sets.values(), validation)
            self.head = torch.nn.Linear(3 * embedder.dimension, len(self._classes))
        self._facts = {
            "objective": {"name": kind, "classes": self._classes, "scale": scale},
            "data": fingerprint(
                {name: pairs.to_dict("list") for name, pairs in sets.items()}
            ),
            "split": fingerprint(validation.to_dict("list")),
        }
        self._rows: list[tuple[tuple[str, ...], float]] = []
        plans: list[tuple[BatchPlan, int]] = []
        for name, pairs in sets.items():
            if pairs.empty:
                continue
            texts, labels = self._read(pairs, name=name)
            options = {"batch_size": training.batch_size, "seed": training.seed}
            plan: BatchPlan = LengthBatches.of_texts(texts, **options)
            if kind == "contrastive":
                keys = pairs.get("key", range(len(pairs)))
                rows = [
                    (*row, f"key {key}") for row, key in zip(texts, keys, strict=True)
                ]
                plan = DifferentBatches(rows, **options)
            plans.append((plan, len(self._rows)))
            self._rows += zip(texts, labels, strict=True)
        self.batches = _MixedBatches(plans, seed=training.seed)
        held, labels = self._read(validation, name="validation")
        self._texts = list(dict.fromkeys(text for row in held for text in row))
        place = {text: row for row, text in enumerate(self._texts)}
        self._held = np.array([[place[text] for text in row] for row in held]).T
        self._expected = np.array(labels)

    def _read(
        self, pairs: pd.DataFrame, *, name: str
    ) -> tuple[list[tuple[str, ...]], list[float]]:
        """The texts that are compared, and the label of each row."""
        if self._kind == "triplet" and "negative" not in pairs.columns:
            raise UserError("triplets need a column `negative`, in validation too")
        names = ["first", "second"]
        if self._kind in ("contrastive", "triplet") and "negative" in pairs.columns:
            names.append("negative")
        for column in names:
            check_texts(
                self._embedder, pairs[column].tolist(), what=f"{name}: {column}"
            )
        labels = [0.0] * len(pairs)
        if self._kind == "regression":
            labels = scores(pairs, self._scale).tolist()
        elif self._kind == "classification":
            labels = [self._classes.index(label) for label in pairs["label"]]
        return list(pairs[names].itertuples(index=False, name=None)), labels

    def collate(self, batch: Sequence[int], *, epoch: int) -> dict[str, torch.Tensor]:
        """The windows of the texts, column by column, see `windows_of`; and the labels."""
        del epoch
        texts, labels = zip(*(self._rows[number] for number in batch), strict=True)
        columns = [text for column in zip(*texts, strict=True) for text in column]
        return {"labels": torch.tensor(labels), **windows_of(self._embedder, columns)}

    def loss(self, network: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """See the class."""
        labels = batch["labels"]
        vectors = vectors_of(self._embedder, network, batch).split(len(labels))
        if self.head is not None:
            u, v = vectors
            return cross_entropy(
                self.head(torch.cat([u, v, (u - v).abs()], dim=1)), labels
            )
        loss: torch.Tensor = _LOSSES[self._kind].compute_loss_from_embeddings(
            vectors, labels
        )
        return loss

    def score(self, network: Any) -> dict[str, float]:
        """The metric on validation."""
        vectors = self._embedder.vectors_of(self._texts, network=network)
        return {self.metric: self._measure(vectors)}

    def _measure(self, vectors: np.ndarray) -> float:
        if self._kind == "triplet":
            anchor, positive, negative = vectors[self._held]
            near, far = (
                np.linalg.norm(anchor - other, axis=1) for other in (positive, negative)
            )
            return float((near < far).mean())
        vectors = unit(vectors)
        u, v = vectors[self._held[:2]]
        cosine = (u * v).sum(axis=1)
        if self._kind == "contrastive":
            seconds = vectors[np.unique(self._held[1])]
            nearer = (u @ seconds.T > cosine[:, None] + _TIE).sum(axis=1)
            return float((1 / (1 + nearer)).mean())
        if self._kind == "regression":
            return float(np.nan_to_num(spearman(cosine, self._expected)))
        means = pd.Series(cosine).groupby(self._expected).transform("mean")
        return float(means.var() / cosine.var(ddof=1)) if np.ptp(cosine) else 0.0

    def facts(self) -> Mapping[str, object]:
        """The kind, and hashes of the training sets and the validation side."""
        return self._facts


class PairsObjective(Objective):
    """The score of two texts: binary cross-entropy, and Spearman's correlation on validation.

    Args:
        model: its windows are those of prediction.
        train: pairs with scores; a triplet is two pairs, with the scores 1 and 0.
        validation: others, which choose the weights.
        training: `max_windows` of a pair are read in a step; of a longer pair a random choice.
        scale: the largest score.

    Raises:
        UserError: a text that cannot be read, or scores beyond the scale.
    """

    metric = "spearman"

    def __init__(
        self,
        model: PairModel,
        train: pd.DataFrame,
        validation: pd.DataFrame,
        *,
        training: TrainingSettings,
        scale: float = 1.0,
    ) -> None:
        self._model, self._training = model, training
        train, validation = labelled(train), labelled(validation)
        self._targets, self._expected = scores(train, scale), scores(validation, scale)
        self._pairs, held = (
            list(zip(side["first"], side["second"], strict=True))
            for side in (train, validation)
        )
        self._held_out = model.windower.split_many(held)
        model.windower.split_many(self._pairs)  # bad texts end here
        self._facts = {
            "data": fingerprint([self._pairs, self._targets.tolist()]),
            "split": fingerprint([held, self._expected.tolist()]),
        }
        self.batches = LengthBatches.of_texts(
            self._pairs, batch_size=training.batch_size, seed=training.seed
        )

    def collate(self, batch: Sequence[int], *, epoch: int) -> dict[str, torch.Tensor]:
        """Ids and segments of the windows, the windows of each pair, and the targets."""
        split = self._model.windower.split_many(
            [self._pairs[number] for number in batch]
        )
        split = [
            self._at_most(windows, [self._training.seed, epoch, number])
            for number, windows in zip(batch, split, strict=True)
        ]
        windows = [window for windows in split for window in windows]
        fill = self._model.tokenizer.pad_token_id
        ids, mask = pad([window.input_ids for window in windows], pad_token_id=fill)
        segments, _ = pad([window.segments for window in windows], pad_token_id=0)
        result = {
            "input_ids": ids,
            "token_type_ids": segments,
            "counts": torch.tensor([len(windows) for windows in split]),
            "targets": torch.tensor(self._targets[list(batch)], dtype=torch.float32),
        }
        return result if mask is None else {**result, "attention_mask": mask}

    def _at_most(self, windows: list[PairWindow], seed: list[int]) -> list[PairWindow]:
        most = self._training.max_windows
        if len(windows) <= most:
            return windows
        chosen = np.random.default_rng(seed).choice(len(windows), most, replace=False)
        return [windows[place] for place in sorted(chosen)]

    def loss(self, network: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """See the class."""
        inputs = {
            k: value for k, value in batch.items() if k not in ("counts", "targets")
        }
        windows = network(**inputs).logits.float()
        logits = torch.segment_reduce(windows, "max", lengths=batch["counts"], axis=0)
        return binary_cross_entropy_with_logits(logits[:, 0], batch["targets"])

    def score(self, network: Any) -> dict[str, float]:
        """The metric on validation."""
        results = self._model.predict_windows(self._held_out, network=network)
        logits = np.array([result.logit for result in results])
        return {"spearman": float(np.nan_to_num(spearman(logits, self._expected)))}

    def facts(self) -> Mapping[str, object]:
        """Hashes of both sides."""
        return self._facts


def check_texts(embedder: Embedder, texts: Sequence[str], *, what: str) -> None:
    """Raise a `UserError` if a text has no token; `what` says where the texts are."""
    if unread := list(embedder.windower.without_tokens(texts)):
        raise UserError(
            f"{what}: {len(unread)} texts have no character that the model reads, the first is "
            f"number {unread[0]}; leave them out"
        )


def _classes(sets: Collection[pd.DataFrame], validation: pd.DataFrame) -> list[str]:
    """The class names, sorted."""
    names = sorted({label for pairs in sets for label in pairs.get("label", ())})
    if len(names) < 2 or "label" not in validation:
        raise UserError(
            f"classification needs a column `label`, in validation too; got {len(names)} classes"
        )
    if new := sorted(set(validation["label"]).difference(names)):
        raise UserError(f"validation has the class {new[0]!r}, which training has not")
    return names


# --- vectors with gradients


def windows_of(embedder: Embedder, texts: Sequence[str]) -> dict[str, torch.Tensor]:
    """The windows of texts.

    Returns:
        `ids`, token ids of the windows, shape (windows, tokens); `lengths`, the tokens of each
        window, shape (windows,); and `counts`, the windows of each text, shape (texts,).
    """
    read = embedder.windower.split_many(texts)
    windows = [window.input_ids for text in read for window in text.windows]
    ids, _ = pad(windows, pad_token_id=embedder.tokenizer.pad_token_id)
    lengths = torch.tensor([len(window) for window in windows])
    counts = torch.tensor([len(text.windows) for text in read])
    return {"ids": ids, "lengths": lengths, "counts": counts}


def vectors_of(
    embedder: Embedder, network: Any, windows: Mapping[str, torch.Tensor]
) -> torch.Tensor:
    """The vectors of texts, not scaled, with gradients, shape (texts, dimension).

    Args:
        embedder: its pooling is used.
        network: its network, plain or wrapped by peft.
        windows: from `windows_of`.
    """
    ids, lengths, counts = windows["ids"], windows["lengths"], windows["counts"]
    # Windows of similar length are read together, because most of a batch would be padding.
    order = lengths.argsort()
    read: Callable[..., torch.Tensor] = partial(_pooled, embedder.settings, network)
    if ids.numel() > _KEPT and torch.is_grad_enabled():
        read = partial(checkpoint, read, use_reentrant=False)
    rows = torch.cat([read(ids[part], lengths[part]) for part in order.split(_READ)])
    rows = rows[order.argsort()]
    if len(rows) > len(counts):  # as `join_windows` does for prediction
        if embedder.settings.pooling == "max":
            return torch.segment_reduce(rows, "max", lengths=counts, axis=0)
        weights = lengths.to(rows.dtype)[:, None]
        sums = torch.segment_reduce(rows * weights, "sum", lengths=counts, axis=0)
        rows = sums / torch.segment_reduce(weights, "sum", lengths=counts, axis=0)
    return rows


def _pooled(
    settings: EmbeddingSettings, network: Any, ids: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    ids = ids[:, : int(lengths.max())]
    mask = None
    if int(lengths.min()) < ids.shape[1]:
        mask = (torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]).long()
    hidden = network(input_ids=ids, attention_mask=mask).last_hidden_state
    return pool(hidden.float(), mask, pooling=settings.pooling)


# --- batches


class DifferentBatches:
    """Batches in which no text and no key occurs twice, so that negatives are negatives."""

    def __init__(
        self, rows: Sequence[tuple[str, ...]], *, batch_size: int, seed: int
    ) -> None:
        self._sampler = NoDuplicatesBatchSampler(
            _Rows(dict(enumerate(row)) for row in rows),
            batch_size=batch_size,
            drop_last=False,
            generator=torch.Generator(),
            seed=seed,
        )

    def __len__(self) -> int:
        """Batches per epoch."""
        return len(self._sampler)

    def epoch(self, number: int) -> list[list[int]]:
        """The batches of an epoch."""
        self._sampler.set_epoch(number)
        return list(self._sampler)


class _Rows(list):
    """A dataset as a list of rows, which the library's sampler reads many times."""

    column_names: tuple[str, ...] = ()


class _MixedBatches:
    """The batches of several plans, with the number of the first row of each, in random order."""

    def __init__(self, plans: Sequence[tuple[BatchPlan, int]], *, seed: int) -> None:
        self._plans, self._seed = plans, seed

    def __len__(self) -> int:
        return sum(len(plan) for plan, _ in self._plans)

    def epoch(self, number: int) -> list[list[int]]:
        batches = [
            [first + row for row in batch]
            for plan, first in self._plans
            for batch in plan.epoch(number)
        ]
        np.random.default_rng((self._seed, number)).shuffle(batches)
        return batches
