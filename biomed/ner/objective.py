"""`TagObjective`: what entity models train on, from corpora that may annotate different types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from biomed.ner.evaluation import evaluate_words
from biomed.ner.examples import IGNORED, Augmentation, ExampleMaker, make_sources
from domainbert.inference import pad
from domainbert.training.objective import FreshBatches, Objective

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from biomed.corpora.corpus import Corpus
    from biomed.ner.examples import Example
    from biomed.ner.network import WordTagger
    from domainbert.training.settings import TrainingSettings


class TagObjective(Objective):
    """Cross-entropy over the first piece of each word; F1 of entities on the devel sides.

    In a corpus that annotates only some of the types, `O` allows every tag of the other types: the
    loss of a word is −log of the summed probability of its allowed tags.

    Args:
        model: from `WordTagger.untrained`.
        corpora: see `biomed.ner.training.fit`.
        training: settings.
        augmentation: see there.
        repeat: how often an epoch reads a corpus, by name; 1 by default. At 0.1 each epoch reads
            another tenth.
    """

    metric = "f1"

    def __init__(
        self,
        model: WordTagger,
        corpora: Sequence[Corpus],
        *,
        training: TrainingSettings,
        augmentation: Augmentation,
        repeat: Mapping[str, float],
    ) -> None:
        self._model, self._corpora, self._augmentation = model, corpora, augmentation
        self._sources, allowed = make_sources(corpora, model.scheme, repeat)
        self._forbidden = ~torch.from_numpy(allowed)
        maker = ExampleMaker(
            self._sources,
            reader=model.reader,
            window=model.window,
            augmentation=augmentation,
            mask_id=model.tokenizer.mask_token_id,
            seed=training.seed,
        )
        self._plan = FreshBatches(maker, batch_tokens=training.batch_tokens, seed=training.seed)

    def batches(self) -> FreshBatches:
        """Windows of tagged texts, made anew for every epoch."""
        return self._plan

    def collate(self, batch: Sequence[Example], *, epoch: int) -> dict[str, torch.Tensor]:
        """Padded token ids, codes and mask, each of shape (windows, longest)."""
        del epoch
        ids, mask = pad(
            [example.ids for example in batch], pad_token_id=self._model.tokenizer.pad_token_id
        )
        codes, _ = pad([example.codes for example in batch], pad_token_id=IGNORED)
        inputs = {"input_ids": ids, "codes": codes}
        return inputs if mask is None else {**inputs, "attention_mask": mask}

    def loss(self, network: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Mean over the words of −log of the probability of the allowed tags."""
        outputs = network(input_ids=batch["input_ids"], attention_mask=batch.get("attention_mask"))
        is_word = batch["codes"] != IGNORED
        scores = outputs.logits[is_word].float().log_softmax(dim=-1)
        forbidden = self._forbidden.to(scores.device)[batch["codes"][is_word]]
        return -scores.masked_fill(forbidden, float("-inf")).logsumexp(dim=-1).mean()

    def score(self, network: Any) -> dict[str, float]:
        """Entity F1 on each devel side, and their mean as "f1"."""
        each = {
            f"f1_{corpus.name}": evaluate_words(
                self._model, corpus.devel, network=network
            ).overall.f1
            for corpus in self._corpora
            if corpus.devel
        }
        return {"f1": float(np.mean(list(each.values()))), **each}

    def facts(self) -> dict[str, Any]:
        """Augmentation, and types, size and hash of each corpus."""
        return {
            "objective": "tags",
            "augmentation": self._augmentation.model_dump(),
            "corpora": {
                corpus.name: {
                    "types": list(corpus.to_train.types),
                    "repeat": source.repeat,
                    "left_out": len(corpus.to_train.texts) - len(source.texts),
                    **{
                        side: {"texts": len(gold.texts), "sha256": gold.sha256}
                        for side, gold in corpus.sides.items()
                    },
                }
                for corpus, source in zip(self._corpora, self._sources, strict=True)
            },
        }
