"""The recipe and the objective of entity models, and `fit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from biomed.ner.decoding import tags_for
from biomed.ner.evaluation import Scores, evaluate_words, look_up_names
from biomed.ner.examples import (
    IGNORED,
    Example,
    ExampleMaker,
    entity_types,
    make_sources,
)
from biomed.ner.manifest import EntitySettings
from biomed.ner.tagger import EntityTagger
from domainbert.text.runner import pad, padded_inputs
from domainbert.training.objective import Batch, FreshBatches, Objective
from domainbert.training.recipes import ModelTable, Recipe
from domainbert.training.train import train

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedModel

    from biomed.corpora.corpus import Corpus

SCORES_NOTE = (
    "An entity counts if its type and both its ends are right (strict IOB2, each text on its own); "
    "entities of types that a corpus does not annotate are not counted. Intervals are 95%, from "
    "1,000 bootstrap resamples of the texts. Devel chose the weights, so its scores are "
    "optimistic; test was used only for measuring."
)


class EntityTable(ModelTable, EntitySettings):
    """The `[model]` table: the encoder, where training starts, and the model's windows."""


class EntityRecipe(Recipe):
    """The recipe of an entity model; its tables are documented at their classes."""

    model: EntityTable = EntityTable()


class TagObjective(Objective):
    """Cross-entropy over the first piece of each word; F1 of entities on the devel sides.

    In a corpus that annotates only some of the types, `O` allows every tag of the other types: the
    loss of a word is −log of the summed probability of its allowed tags.
    """

    metric = "f1"

    def __init__(
        self,
        model: EntityTagger,
        corpora: Sequence[Corpus],
        recipe: EntityRecipe,
    ) -> None:
        self._model = model
        self._corpora = corpora
        self.sources, allowed = make_sources(corpora, model.types)
        self._forbidden = ~torch.from_numpy(allowed)
        training = recipe.training
        maker = ExampleMaker(
            list(self.sources.values()),
            model.word_tokenizer,
            model.window,
            training.seed,
        )
        self.batches = FreshBatches(
            maker,
            batch_tokens=training.batch_tokens,
            seed=training.seed,
        )

    def collate(self, batch: Sequence[Example], *, epoch: int) -> Batch:
        """Padded token ids, codes and mask, each of shape (windows, longest)."""
        del epoch
        padding = self._model.tokenizer.pad_token_id
        ids = [example.ids for example in batch]
        codes = [example.codes for example in batch]
        tensors = padded_inputs(ids, pad_token_id=padding)
        tensors["codes"], _ = pad(codes, pad_token_id=IGNORED)
        return tensors

    def logits(self, network: PreTrainedModel, batch: Batch) -> torch.Tensor:
        """The network's outputs for a batch, shape (windows, longest, tags)."""
        outputs = network(
            input_ids=batch["input_ids"],
            attention_mask=batch.get("attention_mask"),
        )
        logits: torch.Tensor = outputs.logits
        return logits

    def loss(self, network: PreTrainedModel, batch: Batch) -> torch.Tensor:
        """Mean over the words of −log of the probability of the allowed tags."""
        return self.cross_entropy(self.logits(network, batch), batch["codes"])

    def cross_entropy(
        self, logits: torch.Tensor, codes: torch.Tensor
    ) -> torch.Tensor:
        """The loss of logits of shape (windows, longest, tags) for codes of the words."""
        is_word = codes != IGNORED
        scores = logits[is_word].float().log_softmax(dim=-1)
        forbidden = self._forbidden.to(scores.device)[codes[is_word]]
        return (
            -scores.masked_fill(forbidden, float("-inf"))
            .logsumexp(dim=-1)
            .mean()
        )

    def evaluate(self, network: PreTrainedModel) -> dict[str, float]:
        """Entity F1 on each devel side, and their mean as "f1"."""
        model = self._model.with_network(network)
        scores = side_scores(model, self._corpora, "devel")
        values = {
            f"f1_{name}": side.overall.f1 for name, side in scores.items()
        }
        return {"f1": float(np.mean(list(values.values()))), **values}

    def facts(self) -> dict[str, object]:
        """The hash of each side of each corpus."""
        hashes = {}
        for corpus in self._corpora:
            sides = corpus.sides.items()
            hashes[corpus.name] = {side: gold.sha256 for side, gold in sides}
        return {"objective": "tags", "corpora": hashes}


def fit(
    corpora: Sequence[Corpus],
    recipe: EntityRecipe | None = None,
    *,
    model_class: type[EntityTagger] = EntityTagger,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> EntityTagger:
    """Train on the train sides of all corpora, and keep the weights with the best mean F1 on devel.

    The manifest has the scores on devel and test.

    Args:
        corpora: at least one with a train side, and one with a devel side; see `make_sources`.
        recipe: settings; the defaults if None.
        model_class: the class of the model.
        checkpoints: the folder that keeps the checkpoints; a temporary one by default.
        resume: continue from the last checkpoint there; see `domainbert.training.train.train`.
    """
    recipe = recipe or EntityRecipe()
    settings = EntitySettings(
        **recipe.model.model_dump(exclude={"encoder", "start"})
    )
    model = model_class.untrained(
        recipe.model.encoder,
        training=recipe.training,
        settings=settings,
        labels=tags_for(entity_types(corpora)),
    )
    objective = TagObjective(model, corpora, recipe)
    model = train(
        model,
        (objective, recipe.training),
        start=recipe.model.start,
        checkpoints=checkpoints,
        resume=resume,
    )
    record(model, objective, corpora, recipe)
    return model


def record(
    model: EntityTagger,
    objective: TagObjective,
    corpora: Sequence[Corpus],
    recipe: EntityRecipe,
) -> None:
    """Put the card, the numbers of texts and the scores into the manifest."""
    model.manifest.card = recipe.card
    model.manifest.data.counts = {
        f"{name}, texts for training": len(source.texts)
        for name, source in objective.sources.items()
    }
    measure(model, corpora)


def measure(model: EntityTagger, corpora: Sequence[Corpus]) -> None:
    """Put the scores on devel and test into the manifest, with those of a baseline by names."""
    recorded = model.manifest.scores
    recorded.note = SCORES_NOTE
    for side in ("test", "devel"):
        for name, scores in side_scores(model, corpora, side).items():
            recorded.of_side(side)[name] = scores.table.to_dict("index")
            recorded.add_row(f"{name} {side}", scores.card_row())
    texts = [
        text
        for corpus in corpora
        if corpus.train
        for text in corpus.train.texts
    ]
    for corpus in corpora:
        if corpus.test:
            row = f"{corpus.name} test, names of training looked up"
            recorded.add_row(row, look_up_names(texts, corpus.test).card_row())


def side_scores(
    model: EntityTagger,
    corpora: Sequence[Corpus],
    side: str,
) -> dict[str, Scores]:
    """The scores on a side of each corpus that has it."""
    return {
        corpus.name: evaluate_words(model, corpus.sides[side])
        for corpus in corpora
        if side in corpus.sides
    }
