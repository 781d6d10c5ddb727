"""The training objective of term vectors: pairs that belong together, and pairs with ratings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sentence_transformers.sentence_transformer import losses

from biomed.sentences.objectives import TextVectorsObjective, vectors_of
from domainbert.training.objective import LengthBatches

if TYPE_CHECKING:
    import pandas as pd
    import torch
    from transformers import PreTrainedModel

    from domainbert.training.objective import Batch, BatchPlan
    from domainbert.training.settings import TrainingSettings


class RatedObjective(TextVectorsObjective):
    """The contrastive objective, with sets of rated pairs among its sets.

    A set with a column `rating` is learned by the order of its ratings (CoSENT).
    """

    _rated_loss = losses.CoSENTLoss(None, scale=20.0)

    def _batch_plan(
        self,
        pairs: pd.DataFrame,
        texts: list[tuple[str, ...]],
        training: TrainingSettings,
    ) -> BatchPlan:
        if "rating" not in pairs:
            return super()._batch_plan(pairs, texts, training)
        return LengthBatches.of_texts(
            texts, batch_size=training.batch_size, seed=training.seed
        )

    def _read(
        self, pairs: pd.DataFrame, *, name: str
    ) -> tuple[list[tuple[str, ...]], list[float]]:
        texts, _ = super()._read(pairs, name=name)
        ratings = pairs.get("rating", [np.nan] * len(pairs))
        return texts, list(ratings)

    def loss(self, network: PreTrainedModel, batch: Batch) -> torch.Tensor:
        """The loss of the batch's set, see the class."""
        labels = batch["labels"]
        # A batch comes from one set: all of its rows have a rating, or none.
        if labels.isnan().any():
            return super().loss(network, batch)
        vectors = vectors_of(self._embedder, network, batch).split(len(labels))
        return self._rated_loss.compute_loss_from_embeddings(vectors, labels)
