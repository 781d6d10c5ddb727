"""Training objectives of sentence models: vectors of texts, and scores of pairs."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from sentence_transformers.base.sampler import NoDuplicatesBatchSampler
from sentence_transformers.sentence_transformer import losses
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from biomed.sentences.data import (
    check_ratings,
    check_texts,
    class_names,
    labelled,
    scores,
)
from biomed.sentences.evaluation import spearman
from domainbert.errors import UserError
from domainbert.files import JsonObject
from domainbert.models.embedder import Embedder
from domainbert.models.pairs import PairModel, PairWindow
from domainbert.models.pooling import (
    EmbeddingSettings,
    join_windows,
    pool,
    unit,
)
from domainbert.text.runner import pad, padded_inputs
from domainbert.training.objective import (
    Batch,
    BatchPlan,
    LengthBatches,
    Objective,
    fingerprint,
)
from domainbert.training.settings import TrainingSettings

ObjectiveName = Literal[
    "contrastive", "regression", "classification", "triplet"
]
METRICS: dict[ObjectiveName, str] = {
    "contrastive": "mrr",
    "regression": "spearman",
    "classification": "separation",
    "triplet": "accuracy",
}
# The losses are given vectors, so they need no model. The scale is one over the temperature; the
# margin is that of the SBERT paper.
_LOSSES: dict[ObjectiveName, Any] = {
    "contrastive": losses.MultipleNegativesRankingLoss(None, scale=20.0),
    "regression": losses.CosineSimilarityLoss(None),
    "triplet": losses.TripletLoss(None, triplet_margin=1.0),
}
_WINDOWS = 32  # read together in training
_MAX_TOKENS = 16_384  # with padding; larger batches use gradient checkpointing
_TIE = 1e-6  # cosines that differ by less count as equal


class TextVectorsObjective(Objective):
    """Vectors whose cosines agree with pairs, triplets or scores of texts.

    The objectives, their losses (from sentence-transformers) and their metrics on validation:

    - "contrastive": cross-entropy of 20 times the cosines of a text with all second texts of the
      batch (multiple negatives ranking, arXiv 1705.00652); a third column adds negatives. "mrr"
      is the mean reciprocal rank of a row's second text among all second texts.
    - "regression": squared error of cosine and score. "spearman" is their rank correlation.
    - "classification": softmax over u, v and |u - v|. "separation" is the share of the cosines'
      variance that the classes explain.
    - "triplet": max(|a - p| - |a - n| + 1, 0), Euclidean. "accuracy" is the share of triplets
      whose positive is nearer.

    The last three are from Reimers and Gurevych (arXiv 1908.10084).

    Args:
        embedder: the model; windows and pooling are those of prediction.
        sets: pairs or triplets by name; a batch comes from one set. For "contrastive" they may
            have a column `key`, such as a concept: rows with the same key never share a batch.
        validation: pairs or triplets that choose the weights.
        objective: see above.
        training: see `TrainingSettings`; `batch_size` counts rows.
        scale: the largest score.

    Raises:
        UserError: a missing column, a text without a token, a score beyond the scale, fewer than
            two classes, or a class that only validation has.
    """

    def __init__(
        self,
        embedder: Embedder,
        sets: Mapping[str, pd.DataFrame],
        validation: pd.DataFrame,
        *,
        objective: ObjectiveName,
        training: TrainingSettings,
        scale: float = 1.0,
    ) -> None:
        self.metric = METRICS[objective]
        self._embedder = embedder
        self._objective = objective
        self._scale = scale
        torch.manual_seed(training.seed)  # of the head and of new adapters
        self._classes = []
        if objective == "classification":
            self._classes = class_names(sets.values(), validation)
            self.head = torch.nn.Linear(
                3 * embedder.dimension, len(self._classes)
            )
        data = {name: pairs.to_dict("list") for name, pairs in sets.items()}
        self._facts = {
            "objective": {
                "name": objective,
                "classes": self._classes,
                "scale": scale,
            },
            "data": fingerprint(data),
            "split": fingerprint(validation.to_dict("list")),
        }
        self._rows: list[tuple[tuple[str, ...], float]] = []
        plans = []
        for name, pairs in sets.items():
            if pairs.empty:
                continue
            texts, labels = self._read(pairs, name=name)
            plan = self._batch_plan(pairs, texts, training)
            plans.append((plan, len(self._rows)))
            self._rows += zip(texts, labels, strict=True)
        self.batches = _MixedBatches(plans, seed=training.seed)
        rows, labels = self._read(validation, name="validation")
        numbers, texts = pd.factorize(np.array(rows, dtype=object).ravel())
        self._texts = texts.tolist()
        # Shape (columns, rows): the number of each validation text in `_texts`.
        self._validation = numbers.reshape(len(rows), -1).T
        self._expected = np.array(labels)
        if objective == "regression":
            check_ratings(self._expected)

    def _batch_plan(
        self,
        pairs: pd.DataFrame,
        texts: list[tuple[str, ...]],
        training: TrainingSettings,
    ) -> BatchPlan:
        """The batches of one set."""
        batch_size = training.batch_size
        seed = training.seed
        if self._objective != "contrastive":
            return LengthBatches.of_texts(
                texts, batch_size=batch_size, seed=seed
            )
        keys = pairs.get("key", range(len(pairs)))
        rows = [
            (*row, f"key {key}") for row, key in zip(texts, keys, strict=True)
        ]
        return DifferentBatches(rows, batch_size=batch_size, seed=seed)

    def _read(
        self,
        pairs: pd.DataFrame,
        *,
        name: str,
    ) -> tuple[list[tuple[str, ...]], list[float]]:
        """The texts that are compared, and the label of each row."""
        if self._objective == "triplet" and "negative" not in pairs.columns:
            raise UserError(
                "triplets need a column `negative`, in validation too"
            )
        names = ["first", "second"]
        if (
            self._objective in ("contrastive", "triplet")
            and "negative" in pairs.columns
        ):
            names.append("negative")
        for column in names:
            texts = pairs[column].tolist()
            check_texts(self._embedder, texts, what=f"{name}: {column}")
        labels = [0.0] * len(pairs)
        if self._objective == "regression":
            labels = scores(pairs, self._scale).tolist()
        elif self._objective == "classification":
            labels = [self._classes.index(label) for label in pairs["label"]]
        return list(pairs[names].itertuples(index=False, name=None)), labels

    def collate(self, batch: Sequence[int], *, epoch: int) -> Batch:
        """The windows of the texts, column by column, see `windows_of`; and the labels."""
        del epoch
        rows = [self._rows[number] for number in batch]
        columns = zip(*(texts for texts, _ in rows), strict=True)
        texts = list(chain.from_iterable(columns))
        labels = torch.tensor([label for _, label in rows])
        return {"labels": labels, **windows_of(self._embedder, texts)}

    def loss(self, network: PreTrainedModel, batch: Batch) -> torch.Tensor:
        """The loss of the objective, see the class."""
        labels = batch["labels"]
        vectors = vectors_of(self._embedder, network, batch).split(len(labels))
        if self.head is not None:
            u, v = vectors
            features = torch.cat([u, v, (u - v).abs()], dim=1)
            return cross_entropy(self.head(features), labels)
        return _LOSSES[self._objective].compute_loss_from_embeddings(
            vectors, labels
        )

    def evaluate(self, network: PreTrainedModel) -> dict[str, float]:
        """The metric on validation."""
        embedder = self._embedder.with_network(network)
        vectors = embedder.vectors_of(self._texts)
        return {self.metric: self._measure(vectors)}

    def _measure(self, vectors: np.ndarray) -> float:
        """The metric, from the vectors of `_texts`, shape (texts, dimension)."""
        if self._objective == "triplet":
            anchor, positive, negative = vectors[self._validation]
            positive_distance = np.linalg.norm(anchor - positive, axis=1)
            negative_distance = np.linalg.norm(anchor - negative, axis=1)
            return float((positive_distance < negative_distance).mean())
        vectors = unit(vectors)
        u, v = vectors[self._validation[:2]]
        cosine = (u * v).sum(axis=1)
        if self._objective == "contrastive":
            seconds = vectors[np.unique(self._validation[1])]
            nearer = (u @ seconds.T > cosine[:, None] + _TIE).sum(axis=1)
            return float((1 / (1 + nearer)).mean())
        if self._objective == "regression":
            return float(np.nan_to_num(spearman(cosine, self._expected)))
        if not np.ptp(cosine):
            return 0.0
        class_means = (
            pd.Series(cosine).groupby(self._expected).transform("mean")
        )
        return float(class_means.var() / cosine.var(ddof=1))

    def facts(self) -> JsonObject:
        """The name of the objective, and hashes of the training sets and of validation."""
        return self._facts


class PairsObjective(Objective):
    """The score of two texts, by binary cross-entropy; the metric is Spearman's correlation.

    Args:
        model: the model; windows are those of prediction.
        train: pairs with scores; a triplet counts as two pairs, with the scores 1 and 0.
        validation: pairs that choose the weights.
        training: at most `max_windows` of a pair are read in a step, drawn at random.
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
        self._model = model
        self._training = training
        train = labelled(train)
        validation = labelled(validation)
        self._targets = scores(train, scale)
        self._expected = scores(validation, scale)
        check_ratings(self._expected)
        self._pairs = _text_pairs(train)
        validation_pairs = _text_pairs(validation)
        self._validation = model.windower.split_many(validation_pairs)
        # A text that cannot be read is an error before training.
        model.windower.split_many(self._pairs)
        self._facts = {
            "data": fingerprint([self._pairs, self._targets.tolist()]),
            "split": fingerprint([validation_pairs, self._expected.tolist()]),
        }
        self.batches = LengthBatches.of_texts(
            self._pairs,
            batch_size=training.batch_size,
            seed=training.seed,
        )

    def collate(self, batch: Sequence[int], *, epoch: int) -> Batch:
        """Ids and segments of the windows, the number of windows of each pair, and the targets."""
        pairs = [self._pairs[number] for number in batch]
        pair_windows = [
            self._sample(windows, [self._training.seed, epoch, number])
            for number, windows in zip(
                batch,
                self._model.windower.split_many(pairs),
                strict=True,
            )
        ]
        windows = list(chain.from_iterable(pair_windows))
        tensors = padded_inputs(
            [window.input_ids for window in windows],
            [window.segments for window in windows],
            pad_token_id=self._model.tokenizer.pad_token_id,
        )
        tensors["counts"] = torch.tensor(list(map(len, pair_windows)))
        tensors["targets"] = torch.from_numpy(
            self._targets[list(batch)]
        ).float()
        return tensors

    def _sample(
        self, windows: list[PairWindow], seed: list[int]
    ) -> list[PairWindow]:
        """At most `max_windows` windows, in their order."""
        limit = self._training.max_windows
        if len(windows) <= limit:
            return windows
        generator = np.random.default_rng(seed)
        numbers = generator.choice(len(windows), limit, replace=False)
        return [windows[number] for number in sorted(numbers)]

    def loss(self, network: PreTrainedModel, batch: Batch) -> torch.Tensor:
        """The cross-entropy of each pair's largest window logit."""
        inputs = dict(batch)
        counts = inputs.pop("counts")
        targets = inputs.pop("targets")
        window_logits = network(**inputs).logits.float()
        logits = torch.segment_reduce(
            window_logits, "max", lengths=counts, axis=0
        )
        return binary_cross_entropy_with_logits(logits[:, 0], targets)

    def evaluate(self, network: PreTrainedModel) -> dict[str, float]:
        """The metric on validation."""
        model = self._model.with_network(network)
        results = model.predict_windows(self._validation)
        logits = np.array([result.logit for result in results])
        return {
            "spearman": float(np.nan_to_num(spearman(logits, self._expected)))
        }

    def facts(self) -> JsonObject:
        """Hashes of the training and validation pairs."""
        return self._facts


def _text_pairs(pairs: pd.DataFrame) -> list[tuple[str, str]]:
    return list(zip(pairs["first"], pairs["second"], strict=True))


# --- vectors with gradients


def windows_of(embedder: Embedder, texts: Sequence[str]) -> Batch:
    """The windows of texts.

    Returns:
        `ids`, token ids of the windows, shape (windows, tokens); `lengths`, the tokens of each
        window, shape (windows,); and `counts`, the windows of each text, shape (texts,).
    """
    split = embedder.windower.split_many(texts)
    windows = [window.input_ids for text in split for window in text.windows]
    ids, _ = pad(windows, pad_token_id=embedder.tokenizer.pad_token_id)
    return {
        "ids": ids,
        "lengths": torch.tensor([len(window) for window in windows]),
        "counts": torch.tensor([len(text.windows) for text in split]),
    }


def vectors_of(
    embedder: Embedder,
    network: PreTrainedModel,
    windows: Mapping[str, torch.Tensor],
) -> torch.Tensor:
    """The unscaled vectors of texts, with gradients, shape (texts, dimension).

    Args:
        embedder: gives the pooling.
        network: the embedder's network, plain or wrapped by peft.
        windows: the texts' windows, from `windows_of`.
    """
    ids = windows["ids"]
    lengths = windows["lengths"]
    read = partial(_pooled, embedder.settings, network)
    if ids.numel() > _MAX_TOKENS and torch.is_grad_enabled():
        read = partial(checkpoint, read, use_reentrant=False)
    # Windows of similar length are read together: else most of a batch would be padding.
    order = lengths.argsort()
    parts = [read(ids[rows], lengths[rows]) for rows in order.split(_WINDOWS)]
    vectors = torch.cat(parts)[order.argsort()]
    pooling = embedder.settings.pooling
    return join_windows(vectors, lengths, windows["counts"], pooling=pooling)


def _pooled(
    settings: EmbeddingSettings,
    network: PreTrainedModel,
    ids: torch.Tensor,
    lengths: torch.Tensor,
) -> torch.Tensor:
    """The pooled vectors of windows, shape (windows, dimension)."""
    width = int(lengths.max())
    ids = ids[:, :width]
    mask = None
    if int(lengths.min()) < width:
        positions = torch.arange(width, device=ids.device)
        mask = (positions < lengths[:, None]).long()
    hidden = network(input_ids=ids, attention_mask=mask).last_hidden_state
    return pool(hidden.float(), mask, pooling=settings.pooling)


# --- batches


class DifferentBatches:
    """Batches in which no text and no key occurs twice, so that all negatives are true ones."""

    def __init__(
        self,
        rows: Sequence[tuple[str, ...]],
        *,
        batch_size: int,
        seed: int,
    ) -> None:
        dataset = _Rows(dict(enumerate(row)) for row in rows)
        self._sampler = NoDuplicatesBatchSampler(
            dataset,
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
    """The batches of several sets in random order, from plans with their first row's number."""

    def __init__(
        self, plans: Sequence[tuple[BatchPlan, int]], *, seed: int
    ) -> None:
        self._plans = plans
        self._seed = seed

    def __len__(self) -> int:
        return sum(len(plan) for plan, _ in self._plans)

    def epoch(self, number: int) -> list[list[int]]:
        batches = []
        for plan, first_row in self._plans:
            batches += [
                np.add(batch, first_row).tolist()
                for batch in plan.epoch(number)
            ]
        np.random.default_rng((self._seed, number)).shuffle(batches)
        return batches
