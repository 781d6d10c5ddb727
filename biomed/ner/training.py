"""The recipe of an entity model, and its training with one or several seeds."""

from __future__ import annotations

import statistics
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field

from biomed.corpora.corpus import Corpus, read_corpus
from biomed.ner.decoding import tags_for
from biomed.ner.evaluation import evaluate_words
from biomed.ner.examples import Augmentation, entity_types
from biomed.ner.network import EntitySettings, WordTagger
from biomed.ner.objective import TagObjective
from domainbert.settings import Count, Positive, Settings
from domainbert.training.recipes import ModelTable, Recipe
from domainbert.training.seeds import train_seeds
from domainbert.training.train import Stage, train

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

SCORES_NOTE = (
    "An entity counts if its type and both its ends are right (strict IOB2, each text on its own). "
    "Devel chose the weights and the best of several seeds, so its scores are optimistic; test "
    "was used for nothing but measuring."
)


class EntityTable(ModelTable):
    """The `[model]` table; see `EntitySettings`."""

    window: Count | None = None
    overlap: int | None = None


class CorporaTable(Settings):
    """The `[corpora]` table.

    Attributes:
        labels: for each corpus, new names of entity types; a type renamed to "" is dropped.
        repeat: for each corpus, how often an epoch reads it; 1 by default.
    """

    labels: dict[str, dict[str, str]] = Field(default_factory=dict)
    repeat: dict[str, Positive] = Field(default_factory=dict)


class EntityRecipe(Recipe):
    """The recipe of an entity model; its tables are documented at their classes."""

    model: EntityTable = EntityTable()
    corpora: CorporaTable = CorporaTable()
    augmentation: Augmentation = Augmentation()


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
    """Train on the train sides of all corpora and choose the weights on their devel sides.

    The weights with the best mean F1 over the devel sides are kept.

    Args:
        corpora: each with a train side, at least one with a devel side; see `make_sources`.
        recipe: settings; the defaults if None.
        seed: replaces the recipe's.
        checkpoints: folder that keeps the checkpoints; a temporary one by default.
        resume: continue from the last checkpoint there.

    Returns:
        The trained model, with its scores on devel and test in its manifest.

    Raises:
        UserError: see `entity_types`, and `domainbert.training.train.train`.
    """
    recipe = recipe or EntityRecipe()
    training, encoder = recipe.training, recipe.model.encoder
    if seed is not None:
        training = training.replaced(seed=seed)
    repeat, augmentation = recipe.corpora.repeat, recipe.augmentation
    labels = tags_for(entity_types(corpora, repeat))
    settings = EntitySettings(**recipe.model.model_dump(exclude={"encoder"}))
    model = WordTagger.untrained(encoder, training=training, settings=settings, labels=labels)
    objective = TagObjective(
        model, corpora, training=training, augmentation=augmentation, repeat=repeat
    )
    model = train(
        model, Stage(objective, training), encoder=encoder, checkpoints=checkpoints, resume=resume
    )
    facts = model.manifest["facts"]["corpora"]
    model.manifest |= {
        "card": recipe.card.model_dump(),
        "counts": {
            f"{name}, texts for training": of_one["train"]["texts"] - of_one["left_out"]
            for name, of_one in facts.items()
        },
    }
    for side in ("devel", "test"):
        model.manifest[side] = {
            corpus.name: evaluate_words(model, corpus.sides[side]).to_dict()
            for corpus in corpora
            if side in corpus.sides
        }
    return model


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

    Its manifest has the scores of all seeds, with mean and standard deviation.

    Args:
        corpora: see `fit`.
        recipe: settings.
        seeds: one run each.
        checkpoints: folder that keeps the checkpoints of each seed.
        resume: continue from them; a finished seed is only measured again.
        jobs: runs side by side; see `domainbert.training.seeds.train_seeds`.
    """
    train_one = partial(fit, corpora, recipe, resume=resume)
    best, highest = None, -1.0
    runs: list[dict[str, Any]] = []
    for seed, model in train_seeds(train_one, seeds, checkpoints=checkpoints, jobs=jobs):
        sides = {side: model.manifest[side].items() for side in ("devel", "test")}
        f1 = {side: {name: score["all"]["f1"] for name, score in of} for side, of in sides.items()}
        runs.append({"seed": seed, **f1})
        devel = statistics.fmean(f1["devel"].values())
        if best is None or devel > highest:
            best, highest = model, devel
        best.manifest["seeds"] = runs
        best.manifest |= {"scores": _card_scores(best.manifest, runs), "scores_note": SCORES_NOTE}
        yield best


def _card_scores(
    manifest: dict[str, Any], runs: Sequence[dict[str, Any]]
) -> dict[str, dict[str, float]]:
    """The card's table: the model's own scores, and mean and deviation of F1 over the seeds."""
    columns: dict[str, dict[str, float]] = defaultdict(dict)
    for side in ("test", "devel"):
        for corpus, score in manifest[side].items():
            row, f1 = f"{corpus} {side}", [run[side][corpus] for run in runs]
            for name in ("precision", "recall", "f1"):
                columns[name][row] = score["all"][name]
            columns[f"f1, mean of {len(f1)} seeds"][row] = statistics.fmean(f1)
            if len(f1) > 1:
                columns["its standard deviation"][row] = statistics.stdev(f1)
    return dict(columns)
