"""The recipe of an entity model, one TOML file.

[model]         encoder, window, overlap
[corpora]       labels: corpus -> old type -> new type ("" drops it); repeat: corpus -> times
[augmentation]  the names of `biomed.ner.examples.Augmentation`
[training]      the names of `domainbert.training.settings.TrainingSettings`
[card]          name, title, data, limits, licence, rebuild: what people should know
"""

from __future__ import annotations

import logging
import os
import statistics
from contextlib import nullcontext, redirect_stderr
from dataclasses import dataclass, field, fields
from io import StringIO
from typing import TYPE_CHECKING, Any

from biomed.corpora.corpus import Corpus, read_corpus
from biomed.ner.examples import Augmentation
from biomed.ner.fitting import fit, measured
from biomed.ner.network import EntitySettings
from domainbert.encoders import DEFAULT_ENCODER
from domainbert.training.old.recipes import CARD_NAMES, read_recipe_tables, training_names
from domainbert.training.settings import TrainingSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from biomed.ner.network import WordTagger

CORPORA_NAMES = ("labels", "repeat")
SCORES_NOTE = (
    "Entities count where their type and both ends are right (strict IOB2, each text by itself). "
    "Devel chose the weights and, of several seeds, the one kept, so it flatters; test had no say."
)
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Recipe:
    """A training plan; see `biomed.ner.fitting.fit` for what its parts do."""

    training: TrainingSettings
    encoder: str = DEFAULT_ENCODER
    settings: EntitySettings = field(default_factory=EntitySettings)
    augmentation: Augmentation = field(default_factory=Augmentation)
    labels: dict[str, dict[str, str]] = field(default_factory=dict)
    repeat: dict[str, float] = field(default_factory=dict)
    card: dict[str, str] = field(default_factory=dict)


def read_recipe(path: Path | None, **overrides: Any) -> Recipe:
    """Read a recipe, or start from the defaults; overrides that are not None win.

    Raises:
        ValueError: not TOML, or a table or name that means nothing, with the legal ones.
    """
    windows = {f.name for f in fields(EntitySettings)}
    trained = training_names()
    legal = {
        "model": windows | {"encoder"},
        "corpora": CORPORA_NAMES,
        "augmentation": {f.name for f in fields(Augmentation)},
        "training": trained,
        "card": CARD_NAMES,
    }
    tables = read_recipe_tables(path, legal=legal)
    given = {name: value for name, value in overrides.items() if value is not None}
    model = {**tables["model"], **{k: v for k, v in given.items() if k == "encoder"}}
    training = {**tables["training"], **{k: v for k, v in given.items() if k in trained}}
    return Recipe(
        training=TrainingSettings(**training),
        encoder=model.pop("encoder", DEFAULT_ENCODER),
        settings=EntitySettings(**model),
        augmentation=Augmentation(**tables["augmentation"]),
        card=tables["card"],
        **tables["corpora"],
    )


def read_corpora(recipe: Recipe, folders: Sequence[Path]) -> list[Corpus]:
    """The corpora of a recipe, their entity types renamed as it says."""
    return [
        read_corpus(folder, labels=recipe.labels.get(folder.resolve().name)) for folder in folders
    ]


def train_seeds(
    recipe: Recipe,
    corpora: Sequence[Corpus],
    *,
    seeds: Sequence[int],
    checkpoints: Path | None,
    resume: bool = False,
    jobs: int = 1,
) -> Iterator[WordTagger]:
    """Train once for each seed; after each, yield the model that is best on devel so far.

    Its manifest has the scores of every seed and their mean and spread, and its own test scores.
    The choice among seeds looks at devel alone.

    Args:
        recipe: the plan.
        corpora: from `read_corpora`.
        seeds: one model is trained for each.
        checkpoints: folder that keeps each training's checkpoints, if any.
        resume: go on from the last checkpoint of each seed there; one that is done is only
            measured.
        jobs: trainings side by side, in processes that share the cores out among them. Small
            batches leave cores waiting for each other: two trainings of one thread each read more
            tokens a second than one of two threads.
    """
    from joblib import Parallel, delayed, parallel_config

    threads = {"inner_max_num_threads": max(1, (os.cpu_count() or 1) // jobs)} if jobs > 1 else {}
    with parallel_config("loky", n_jobs=jobs, **threads):
        trained = Parallel(return_as="generator")(
            delayed(_train_seed)(recipe, corpora, seed, checkpoints, resume=resume, alone=jobs == 1)
            for seed in seeds
        )
    best: WordTagger | None = None
    runs: list[dict[str, Any]] = []
    for seed, model in zip(seeds, trained, strict=True):
        runs.append({"seed": seed, **{s: _f1(model.manifest[s]) for s in ("devel", "test")}})
        log.info("seed %d: %s", seed, runs[-1])
        if best is None or _devel(model) > _devel(best):
            best = model
        best.manifest["seeds"] = runs
        best.manifest |= _card_scores(best.manifest, runs)
        yield best


def _train_seed(
    recipe: Recipe,
    corpora: Sequence[Corpus],
    seed: int,
    checkpoints: Path | None,
    *,
    resume: bool,
    alone: bool,
) -> WordTagger:
    # Several bars at once would write over each other.
    with nullcontext() if alone else redirect_stderr(StringIO()):
        model = fit(
            corpora,
            encoder=recipe.encoder,
            training=recipe.training.replaced(seed=seed),
            settings=recipe.settings,
            augmentation=recipe.augmentation,
            repeat=recipe.repeat,
            checkpoints=checkpoints / f"seed-{seed}" if checkpoints else None,
            resume=resume,
        )
        model.manifest["test"] = measured(model, corpora, side="test")
    model.manifest["card"] = recipe.card
    return model


def _card_scores(manifest: dict[str, Any], runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the card shows: the model's own scores, and mean and spread of F1 over the seeds."""
    columns: dict[str, dict[str, float]] = {}
    for side in ("test", "devel"):
        for corpus, score in manifest[side].items():
            row, f1 = f"{corpus} {side}", [run[side][corpus] for run in runs]
            for name in ("precision", "recall", "f1"):
                columns.setdefault(name, {})[row] = score["all"][name]
            columns.setdefault(f"f1, mean of {len(f1)} seeds", {})[row] = statistics.fmean(f1)
            if len(f1) > 1:
                columns.setdefault("its standard deviation", {})[row] = statistics.stdev(f1)
    return {"scores": columns, "scores_note": SCORES_NOTE}


def _f1(scores: dict[str, Any]) -> dict[str, float]:
    return {name: score["all"]["f1"] for name, score in scores.items()}


def _devel(model: WordTagger) -> float:
    return statistics.fmean(_f1(model.manifest["devel"]).values())
