"""The recipe and the objective of entity models, and `fit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from biomed.ner.decoding import tags_for
from biomed.ner.evaluation import evaluate_words, look_up_names
from biomed.ner.examples import IGNORED, ExampleMaker, entity_types, make_sources
from biomed.ner.network import EntitySettings, WordTagger
from domainbert.text.runner import pad
from domainbert.training.objective import FreshBatches, Objective
from domainbert.training.recipes import ModelTable, Recipe
from domainbert.training.train import train

if TYPE_CHECKING:
    from biomed.corpora.corpus import Corpus
    from biomed.ner.evaluation import Scores
    from biomed.ner.examples import Example

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
        self, model: WordTagger, corpora: Sequence[Corpus], recipe: EntityRecipe
    ) -> None:
        self._model, self._recipe, self._corpora = model, recipe, corpora
        self.sources, allowed = make_sources(corpora, model.types)
        self._forbidden = ~torch.from_numpy(allowed)
        seed, batch_tokens = recipe.training.seed, recipe.training.batch_tokens
        maker = ExampleMaker(
            list(self.sources.values()), model.reader, model.window, seed
        )
        self.batches = FreshBatches(maker, batch_tokens=batch_tokens, seed=seed)

    def collate(
        self, batch: Sequence[Example], *, epoch: int
    ) -> dict[str, torch.Tensor]:
        """Padded token ids, codes and mask, each of shape (windows, longest)."""
        del epoch
        padding = self._model.tokenizer.pad_token_id
        ids, mask = pad([example.ids for example in batch], pad_token_id=padding)
        codes, _ = pad([example.codes for example in batch], pad_token_id=IGNORED)
        inputs = {"input_ids": ids, "codes": codes}
        return inputs if mask is None else {**inputs, "attention_mask": mask}

    def loss(self, network: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Mean over the words of −log of the probability of the allowed tags."""
        outputs = network(
            input_ids=batch["input_ids"], attention_mask=batch.get("attention_mask")
        )
        is_word = batch["codes"] != IGNORED
        scores = outputs.logits[is_word].float().log_softmax(dim=-1)
        forbidden = self._forbidden.to(scores.device)[batch["codes"][is_word]]
        return -scores.masked_fill(forbidden, float("-inf")).logsumexp(dim=-1).mean()

    def score(self, network: Any) -> dict[str, float]:
        """Entity F1 on each devel side, and their mean as "f1"."""
        scores = side_scores(self._model, self._corpora, "devel", network=network)
        each = {f"f1_{name}": side.overall.f1 for name, side in scores.items()}
        return {"f1": float(np.mean(list(each.values()))), **each}

    def facts(self) -> dict[str, object]:
        """The hash of each side of each corpus."""
        corpora = {
            corpus.name: {side: gold.sha256 for side, gold in corpus.sides.items()}
            for corpus in self._corpora
        }
        return {"objective": "tags", "corpora": corpora}


def fit(
    corpora: Sequence[Corpus],
    recipe: EntityRecipe | None = None,
    *,
    kind: type[WordTagger] = WordTagger,
    **resuming: Any,
) -> WordTagger:
    """Train on the train sides of all corpora; the best mean F1 on devel sides chooses the weights.

    The manifest has the scores on devel and test.

    Args:
        corpora: at least one with a train side, and one with a devel side; see `make_sources`.
        recipe: settings; the defaults if None.
        kind: the class of the model.
        **resuming: `checkpoints` and `resume`, see `domainbert.training.train.train`.
    """
    recipe = recipe or EntityRecipe()
    training, encoder = recipe.training, recipe.model.encoder
    labels = tags_for(entity_types(corpora))
    settings = EntitySettings(**recipe.model.model_dump(exclude={"encoder", "start"}))
    model = kind.untrained(encoder, training=training, settings=settings, labels=labels)
    objective = TagObjective(model, corpora, recipe)
    model = train(
        model,
        (objective, training),
        encoder=encoder,
        start=recipe.model.start,
        **resuming,
    )
    model.manifest.card = recipe.card
    model.manifest.data.counts = {
        f"{name}, texts for training": len(source.texts)
        for name, source in objective.sources.items()
    }
    measure(model, corpora)
    return model


def measure(model: WordTagger, corpora: Sequence[Corpus]) -> None:
    """Put the scores on devel and test into the manifest, beside those of names looked up."""
    recorded = model.manifest.scores
    recorded.note = SCORES_NOTE
    for side in ("test", "devel"):
        scores = side_scores(model, corpora, side)
        for corpus_name, corpus_scores in scores.items():
            recorded.of_side(side)[corpus_name] = corpus_scores.table.to_dict("index")
            recorded.add_row(f"{corpus_name} {side}", corpus_scores.card_row())
    names = [text for corpus in corpora if corpus.train for text in corpus.train.texts]
    for corpus in corpora:
        if corpus.test:
            row = f"{corpus.name} test, names of training looked up"
            recorded.add_row(row, look_up_names(names, corpus.test).card_row())


def side_scores(
    model: WordTagger, corpora: Sequence[Corpus], side: str, **options: Any
) -> dict[str, Scores]:
    """The scores on a side of each corpus that has it; `options` are for `WordTagger.entities`."""
    golds = {
        corpus.name: corpus.sides[side] for corpus in corpora if side in corpus.sides
    }
    return {
        name: evaluate_words(model, gold, **options) for name, gold in golds.items()
    }
