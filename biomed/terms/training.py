"""Train an encoder so that relations' texts lie close: in-batch contrastive learning."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.functional import normalize

from biomed.terms.embedder import TermEmbedder
from biomed.terms.pooling import TermSettings, hidden_states, pool
from biomed.terms.similarity import unit
from domainbert.errors import UserError
from domainbert.lora import add_lora
from domainbert.training.old.batches import WindowGroups
from domainbert.training.old.recipes import versions
from domainbert.training.old.trainer import GroupTrainer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from transformers import PreTrainedModel

    from biomed.terms.relations import Relation
    from domainbert.training.settings import TrainingSettings

SCALE = 20.0
WINDOW = 96  # tokens of a training text at most; names and sentences are shorter
log = logging.getLogger(__name__)


class TermTrainer(GroupTrainer):
    """Trains pooled vectors so that texts of one group find each other in their batch.

    Args:
        model: the encoder; plain or wrapped by peft.
        settings: how its hidden states are pooled.
        **options: of `GroupTrainer`; `evaluate` gives "mrr".
    """

    def __init__(self, model: Any, *, pooling: TermSettings, **options: Any) -> None:
        self._pooling = pooling
        super().__init__(model, loss=contrastive_loss, **options)
        self.args.metric_for_best_model = "mrr"

    def batch_loss(self, model: Any, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, Any]:
        """The loss of one batch of groups."""
        mask = inputs.get("attention_mask")
        outputs = model(input_ids=inputs["input_ids"], attention_mask=mask)
        hidden = hidden_states(outputs, layers=self._pooling.layers)
        vectors = pool(hidden, mask, pooling=self._pooling.pooling).float()
        loss = contrastive_loss(vectors, inputs["group"], inputs["targets"])
        return loss, outputs


def contrastive_loss(
    vectors: torch.Tensor, group: torch.Tensor, keys: torch.Tensor, *, scale: float = SCALE
) -> torch.Tensor:
    """How hard it is to tell a text's own partners from the rest of the batch.

    The supervised contrastive loss (Khosla et al., arXiv 2004.11362) on cosines times `scale`;
    texts of other groups with the same key are neither partners nor rivals.

    Args:
        vectors: shape (texts, dimension).
        group: number of each text's group, shape (texts,).
        keys: of each group, shape (groups,).
        scale: one over the temperature.

    Returns:
        The mean over texts with a partner; 0 where none has one.
    """
    unit_vectors = normalize(vectors, dim=1)
    cosines = scale * unit_vectors @ unit_vectors.T
    same_group = group[:, None] == group[None]
    same_key = keys[group][:, None] == keys[group][None]
    itself = torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
    partner = same_group & ~itself
    left_out = (same_key & ~same_group) | itself
    log_share = cosines.masked_fill(left_out, float("-inf")).log_softmax(dim=1)
    count = partner.sum(dim=1)
    own = -log_share.masked_fill(~partner, 0.0).sum(dim=1) / count.clamp(min=1)
    return own.sum() / (count > 0).sum().clamp(min=1)


def fit(
    relations: Sequence[Relation],
    *,
    validation: Sequence[tuple[str, str, str]],
    encoder: str | Path,
    training: TrainingSettings,
    settings: TermSettings | None = None,
) -> TermEmbedder:
    """Train an adapter (or all weights) on relations; keep the weights best on validation.

    Each epoch draws two texts afresh from every relation.

    Args:
        relations: from `biomed.terms.relations`.
        validation: key, first name and another name of concepts that no relation has.
        encoder: shipped name, folder or Hub id.
        training: `max_windows` is the number of texts drawn from a relation.
        settings: pooling and layers.

    Raises:
        ValueError: no relation, or no validation pair.
    """
    if not relations or not validation:
        msg = f"{len(relations)} relations and {len(validation)} validation pairs: both are needed"
        raise UserError(msg)
    embedder = TermEmbedder.untrained(encoder, training=training, settings=settings)
    with tempfile.TemporaryDirectory() as folder:
        trainer = TermTrainer(
            add_lora(embedder.network, training.lora),
            pooling=embedder.settings,
            data=_groups(embedder, relations),
            settings=training,
            evaluate=_validator(embedder, validation),
            pad_token_id=embedder.tokenizer.pad_token_id,
            folder=Path(folder),
        )
        trainer.train()
    trained = embedder.finished(trainer.trained(), encoder=encoder, lora=training.lora)
    trained.name = str(encoder)
    trained.manifest = {"training": training.model_dump(), "versions": versions()}
    return trained


def _groups(embedder: TermEmbedder, relations: Sequence[Relation]) -> WindowGroups:
    """Token ids of each relation's texts, each cut to the window of training."""
    texts = list(dict.fromkeys(text for relation in relations for text in relation.texts))
    windows = {
        text: read.windows[0].input_ids[: WINDOW - 1]
        for text, read in zip(texts, embedder.windower.split_many(texts), strict=True)
        if read.windows
    }
    different = dict.fromkeys(relation.key for relation in relations)
    keys = {key: number for number, key in enumerate(different)}
    kept = [
        ([windows[text] for text in relation.texts if text in windows], keys[relation.key])
        for relation in relations
    ]
    kept = [(group, key) for group, key in kept if len(group) > 1]
    return WindowGroups([group for group, _ in kept], np.array([key for _, key in kept]))


def _validator(
    embedder: TermEmbedder, pairs: Sequence[tuple[str, str, str]]
) -> Callable[[PreTrainedModel], dict[str, float]]:
    """Network -> mean reciprocal rank of a concept's first name, asked for by another one."""
    names = list(dict.fromkeys(text for _, *both in pairs for text in both))
    windows = [read.windows[0].input_ids for read in embedder.windower.split_many(names)]
    place = {name: row for row, name in enumerate(names)}
    firsts = list(dict.fromkeys((key, first) for key, first, _ in pairs))
    keys = np.array([key for key, _ in firsts])
    columns, rows = [place[first] for _, first in firsts], [place[name] for *_, name in pairs]
    wanted = np.array([key for key, *_ in pairs])[:, None] == keys[None]

    def validate(network: PreTrainedModel) -> dict[str, float]:
        vectors = unit(embedder.pooled(windows, network=network))
        cosines = vectors[rows] @ vectors[columns].T
        best = np.where(wanted, cosines, -np.inf).max(axis=1, keepdims=True)
        return {"mrr": float((1 / (1 + (cosines > best).sum(axis=1))).mean())}

    return validate
