"""The recipe and the objective of entity models, and training with one or several seeds."""

from __future__ import annotations

import statistics
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pydantic import Field

from biomed.corpora.corpus import Corpus, overlaid, read_corpus
from biomed.corpora.documents import OUTSIDE
from biomed.ner.decoding import tags_for
from biomed.ner.evaluation import evaluate_sides
from biomed.ner.examples import IGNORED, Augmentation, ExampleMaker, entity_types, make_sources
from biomed.ner.network import EntitySettings, WordTagger
from domainbert.errors import UserError
from domainbert.inference import pad
from domainbert.settings import Count, Positive, Settings
from domainbert.training.objective import FreshBatches, Objective
from domainbert.training.recipes import ModelTable, Recipe
from domainbert.training.seeds import train_seeds
from domainbert.training.train import Stage, train

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from biomed.ner.evaluation import Scores
    from biomed.ner.examples import Example

SCORES_NOTE = (
    "An entity counts if its type and both its ends are right (strict IOB2, each text on its own); "
    "entities of types that a corpus does not annotate are not counted. Intervals are 95%, from "
    "1,000 bootstrap resamples of the texts. Devel chose the weights{seeds}, so its scores are "
    "optimistic; test was used only for measuring."
)


class EntityTable(ModelTable, EntitySettings):
    """The `[model]` table: the encoder, the model's windows, and where training starts.

    Attributes:
        start: entity models (shipped names or folders) with adapters on the same encoder, whose
            ranks add up to the recipe's; training starts from the sum of their changes.
    """

    start: list[str] = Field(default_factory=list)


class CorporaTable(Settings):
    """The `[corpora]` table.

    Attributes:
        labels: for each corpus, new names of entity types; a type renamed to "" is dropped.
        repeat: for each corpus, how often an epoch reads it; 1 by default. At 0.1 each epoch reads
            another tenth. Corpora of the same texts are read as one, called "a+b".
        choosing: number of devel texts of each corpus, evenly spread, that choose the weights;
            all by default.
    """

    labels: dict[str, dict[str, str]] = Field(default_factory=dict)
    repeat: dict[str, Positive] = Field(default_factory=dict)
    choosing: Count | None = None


class EntityRecipe(Recipe):
    """The recipe of an entity model; its tables are documented at their classes."""

    model: EntityTable = EntityTable()
    corpora: CorporaTable = CorporaTable()
    augmentation: Augmentation = Augmentation()


class TagObjective(Objective):
    """Cross-entropy over the first piece of each word; F1 of entities on the devel sides.

    In a corpus that annotates only some of the types, `O` allows every tag of the other types: the
    loss of a word is −log of the summed probability of its allowed tags.
    """

    metric = "f1"

    def __init__(self, model: WordTagger, corpora: Sequence[Corpus], recipe: EntityRecipe) -> None:
        self._model, self._augmentation = model, recipe.augmentation
        self._read, self._recipe = overlaid(corpora), recipe
        self._choosing = [_thinned(corpus, recipe.corpora.choosing) for corpus in corpora]
        self._sources, allowed = make_sources(self._read, model.scheme, recipe.corpora.repeat)
        self._forbidden = ~torch.from_numpy(allowed)
        training = recipe.training
        maker = ExampleMaker(
            self._sources,
            reader=model.reader,
            window=model.window,
            augmentation=recipe.augmentation,
            mask_id=model.tokenizer.mask_token_id,
            seed=training.seed,
        )
        self._plan = FreshBatches(maker, batch_tokens=training.batch_tokens, seed=training.seed)

    def batches(self) -> FreshBatches:
        """Windows of tagged texts."""
        return self._plan

    def collate(self, batch: Sequence[Example], *, epoch: int) -> dict[str, torch.Tensor]:
        """Padded token ids, codes and mask, each of shape (windows, longest)."""
        del epoch
        padding = self._model.tokenizer.pad_token_id
        ids, mask = pad([example.ids for example in batch], pad_token_id=padding)
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
        scores_of = partial(self._model.log_probabilities, network=network)
        found = side_scores(self._model, self._choosing, "devel", scores_of=scores_of)
        each = {f"f1_{name}": scores.overall.f1 for name, scores in found.items()}
        return {"f1": float(np.mean(list(each.values()))), **each}

    def facts(self) -> dict[str, Any]:
        """Augmentation, and types, size and hash of each corpus."""
        augmentation = self._augmentation.model_dump()
        corpora = {}
        for corpus, source in zip(self._read, self._sources, strict=True):
            corpora[corpus.name] = {
                "types": list(corpus.to_train.types),
                "repeat": source.repeat,
                "left_out": len(corpus.to_train.texts) - len(source.texts),
            }
            for side, gold in corpus.sides.items():
                corpora[corpus.name][side] = {"texts": len(gold.texts), "sha256": gold.sha256}
        facts = {"objective": "tags", "augmentation": augmentation, "corpora": corpora}
        start = [Path(name).name for name in self._recipe.model.start]
        choosing = self._recipe.corpora.choosing
        return (
            facts
            | ({"start": start} if start else {})
            | ({"choosing": choosing} if choosing else {})
        )


def _thinned(corpus: Corpus, number: int | None) -> Corpus:
    """The corpus with at most so many devel texts, evenly spread."""
    return replace(corpus, devel=corpus.devel and corpus.devel.thinned(number))


def read_corpora(
    recipe: EntityRecipe, folders: Sequence[Path], *, labels: Mapping[str, str]
) -> list[Corpus]:
    """Read corpora, with their entity types renamed by the recipe and by `labels`, which win."""
    known = recipe.corpora.labels
    return [read_corpus(f, labels={**known.get(f.resolve().name, {}), **labels}) for f in folders]


def fit(
    corpora: Sequence[Corpus],
    recipe: EntityRecipe | None = None,
    *,
    seed: int | None = None,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> WordTagger:
    """Train on the train sides of all corpora; the best mean F1 on devel sides chooses the weights.

    The manifest has the scores on devel and test.

    Args:
        corpora: each with a train side, at least one with a devel side; see `make_sources`.
        recipe: settings; the defaults if None.
        seed: replaces the recipe's.
        checkpoints: see `domainbert.training.train.train`.
        resume: see there.
    """
    recipe = recipe or EntityRecipe()
    if seed is not None:
        recipe = recipe.replaced(training=recipe.training.replaced(seed=seed))
    training, encoder = recipe.training, recipe.model.encoder
    labels = tags_for(entity_types(overlaid(corpora), recipe.corpora.repeat))
    settings = EntitySettings(**recipe.model.model_dump(exclude={"encoder", "start"}))
    model = WordTagger.untrained(encoder, training=training, settings=settings, labels=labels)
    start = started(model, recipe) if recipe.model.start else None
    stage = Stage(TagObjective(model, corpora, recipe), training)
    model = train(
        model, stage, encoder=encoder, start=start, checkpoints=checkpoints, resume=resume
    )
    model.manifest["card"] = recipe.card.model_dump()
    model.manifest["counts"] = {
        f"{name}, texts for training": facts["train"]["texts"] - facts["left_out"]
        for name, facts in model.manifest["facts"]["corpora"].items()
    }
    for side in ("test", "devel"):
        scores = side_scores(model, corpora, side)
        model.manifest[side] = {name: found.to_dict() for name, found in scores.items()}
        for name, found in scores.items():
            found.add_to_card(model.manifest, f"{name} {side}")
    return model


def side_scores(
    model: WordTagger, corpora: Sequence[Corpus], side: str, **options: Any
) -> dict[str, Scores]:
    """The scores on a side of each corpus that has it; see `evaluate_sides`."""
    golds = {corpus.name: corpus.sides[side] for corpus in corpora if side in corpus.sides}
    return dict(zip(golds, evaluate_sides(model, list(golds.values()), **options), strict=True))


def started(model: WordTagger, recipe: EntityRecipe) -> dict[str, torch.Tensor]:
    """Adapters and head that add up the changes of the models in the recipe's `start`.

    Adapters of several models side by side are their sum. An output is the sum of what each model
    gives its tag, or `O` where a model does not know the tag: the product of their probabilities.
    Tags that no model knows keep the random numbers of the untrained model.

    Raises:
        UserError: a model with full weights or on another encoder, or ranks that do not add up.
    """
    begun = [WordTagger.from_pretrained(name, device="cpu") for name in recipe.model.start]
    encoder, lora = model.facts(recipe.model.encoder)["encoder"], recipe.training.lora
    configs = [one.config for one in begun]
    ranks = [config.lora.rank if config and config.lora else 0 for config in configs]
    if not all(ranks) or lora is None or sum(ranks) != lora.rank:
        msg = f"start: expected adapters whose ranks add up to the recipe's, got ranks {ranks}"
        raise UserError(msg)
    if any(config is None or config.encoder_sha256 != encoder for config in configs):
        msg = f"start: all models must be trained on the encoder {recipe.model.encoder}"
        raise UserError(msg)
    head = model.network.get_submodule("classifier").state_dict()
    adapters = [one.adapter or {} for one in begun]
    tensors = {}
    for key in adapters[0]:
        parts = [adapter[key].float() for adapter in adapters]
        if ".classifier." in key:
            tensors[key] = _summed_head(head[key.rpartition(".")[2]].clone(), parts, model, begun)
        else:
            tensors[key] = torch.cat(parts, dim=0 if "lora_A" in key else 1)
    return tensors


def _summed_head(
    rows: torch.Tensor, parts: list[torch.Tensor], model: WordTagger, begun: list[WordTagger]
) -> torch.Tensor:
    """The head's weight or bias, with a row per tag, after `started`."""
    for place, label in enumerate(model.labels):
        if any(label in one.labels for one in begun):
            tags = [label if label in one.labels else OUTSIDE for one in begun]
            each = zip(parts, begun, tags, strict=True)
            rows[place] = torch.stack([p[one.labels.index(tag)] for p, one, tag in each]).sum(0)
    return rows


def fit_seeds(
    corpora: Sequence[Corpus],
    recipe: EntityRecipe,
    *,
    seeds: Sequence[int],
    checkpoints: Path | None = None,
    resume: bool = False,
    jobs: int = 1,
) -> Iterator[WordTagger]:
    """Train once for each seed; after each, yield the model that is the best on devel so far.

    Its manifest has the scores of all seeds, with mean and standard deviation. With `resume`, a
    finished seed is only measured again. See `fit` and `domainbert.training.seeds.train_seeds`.
    """
    train_one = partial(fit, corpora, recipe, resume=resume)
    best, highest = None, -1.0
    own: dict[str, dict[str, Any]] = {}
    runs: list[dict[str, Any]] = []
    for seed, model in train_seeds(train_one, seeds, checkpoints=checkpoints, jobs=jobs):
        f1 = {
            side: {name: score["all"]["f1"] for name, score in model.manifest[side].items()}
            for side in ("devel", "test")
        }
        runs.append({"seed": seed, **f1})
        devel = statistics.fmean(f1["devel"].values())
        if best is None or devel > highest:
            best, highest = model, devel
            own = model.manifest["scores"]
        note = SCORES_NOTE.format(seeds=" and the best of several seeds" if runs[1:] else "")
        scores = {**own, **_over_seeds(runs)} if runs[1:] else own
        best.manifest |= {"seeds": runs, "scores": scores, "scores_note": note}
        yield best


def _over_seeds(runs: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Two columns of the card's table: mean and standard deviation of F1 over the seeds."""
    f1 = {
        f"{corpus} {side}": [run[side][corpus] for run in runs]
        for side in ("test", "devel")
        for corpus in runs[0][side]
    }
    return {
        f"f1, mean of {len(runs)} seeds": {row: statistics.fmean(of) for row, of in f1.items()},
        "its standard deviation": {row: statistics.stdev(of) for row, of in f1.items()},
    }
