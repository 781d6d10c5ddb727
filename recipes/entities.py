"""Train the shipped entity model: joined corpora, and the best or the average of several seeds.

    python -m recipes.entities CORPUS... --recipe RECIPE --seed 0 --seed 1 --out MODEL
    python -m recipes.entities CORPUS... --recipe RECIPE --seed 0 --seed 1 --average 0.3 --out MODEL

Corpora that annotate different types in the same texts are joined for training, and measured
separately. `biomed ner train` does neither.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import torch
import typer

from biomed.corpora import Corpus, read_corpus
from biomed.ner.manifest import CorpusScores, SeedRun
from biomed.ner.tagger import EntityTagger
from biomed.ner.training import EntityRecipe, fit, measure
from domainbert.cli.console import one_line_errors, say
from domainbert.cli.training import training_run
from domainbert.errors import UserError
from domainbert.training.recipes import read_recipe
from recipes.corpora import overlaid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from domainbert.models.manifest import ScoreTable
    from domainbert.training.train import AnyModel


def joined(corpora: Sequence[Corpus]) -> list[Corpus]:
    """Corpora of the same training texts as one to learn from, and the parts to measure on."""
    joined_corpora = overlaid(corpora)
    parts = list(corpora)
    for number, corpus in enumerate(corpora):
        if corpus not in joined_corpora:
            parts[number] = replace(corpus, train=None)
    learnt = [
        replace(corpus, devel=None, test=None)
        for corpus in joined_corpora
        if corpus not in corpora
    ]
    return [*parts, *learnt]


def fit_seeds(
    corpora: Sequence[Corpus],
    recipe: EntityRecipe,
    *,
    seeds: Sequence[int],
    average: float | None = None,
    trainer: Callable[..., EntityTagger] = fit,
    **options: Any,
) -> Iterator[EntityTagger]:
    """Train once for each seed; after each, yield the model that is the best on devel so far.

    Its manifest has the scores of all seeds, with mean and standard deviation. With `average`,
    the last model is the average of all, see `averaged`. `trainer` is called as `fit` is.
    """
    best = None
    highest = -1.0
    models: list[EntityTagger] = []
    runs: list[SeedRun] = []
    checkpoints = options.pop("checkpoints", None)
    for seed in seeds:
        seeded = recipe.replaced(training=recipe.training.replaced(seed=seed))
        folder = None
        if checkpoints:
            folder = checkpoints / f"seed-{seed}"
        model = trainer(corpora, seeded, checkpoints=folder, **options)
        models.append(model)
        scores = model.manifest.scores
        run = SeedRun(
            seed=seed, devel=_f1(scores.devel), test=_f1(scores.test)
        )
        runs.append(run)
        mean_f1 = statistics.fmean(run.devel.values())
        if best is None or mean_f1 > highest:
            best = model
            highest = mean_f1
        best.manifest.seeds = list(runs)
        if len(runs) > 1 and average is None:
            _add_seeds(best, runs, scores.note)
        yield best
    if average is not None:
        start = EntityTagger.from_pretrained(recipe.model.start)
        soup = averaged(models, start, share=average)
        measure(soup, corpora)
        soup.manifest.seeds = runs
        soup.manifest.average = average
        yield soup


def _add_seeds(
    model: EntityTagger, runs: Sequence[SeedRun], note: str
) -> None:
    """Add the mean over the seeds to the scores of the card."""
    scores = model.manifest.scores
    columns: ScoreTable = {
        name: dict(column)
        for name, column in scores.table.items()
        if name in ("precision", "recall", "f1")
    }
    for name, column in _over_seeds(runs).items():
        columns[name] = dict(column)
    scores.table = columns
    scores.note = note.replace(
        "the weights,", "the weights and the best of several seeds,"
    )


def devel_f1(model: EntityTagger) -> dict[str, float]:
    """The F1 of all entities on each devel side."""
    return _f1(model.manifest.scores.devel)


def _f1(scores: CorpusScores) -> dict[str, float]:
    """The F1 of all entities of each corpus."""
    return {name: types["all"]["f1"] for name, types in scores.items()}


def averaged(
    models: Sequence[AnyModel], start: AnyModel, *, share: float
) -> AnyModel:
    """The average of the adapters and heads of models and of the model that they started from.

    Weights of runs from one start lie in one valley, where their average is better than each
    (Wortsman et al., arXiv 2203.05482); the weights of the start keep what the runs unlearned
    (arXiv 2109.01903). `share` is that of the start.
    """
    soup = models[0]
    adapters = [model.adapter for model in (start, *models) if model.adapter]
    if soup.adapter is None or len(adapters) <= len(models):
        raise UserError("models without adapters cannot be averaged")
    weight = (1 - share) / len(models)
    weights = [share, *[weight] * len(models)]
    tensors = {}
    for name in soup.adapter.tensors:
        layers = [adapter.tensors[name].float() for adapter in adapters]
        tensors[name] = sum(
            (
                part * layer
                for part, layer in zip(weights, layers, strict=True)
            ),
            start=torch.zeros_like(layers[0]),
        ).half()
    soup.adapter = replace(soup.adapter, tensors=tensors)
    with TemporaryDirectory() as folder:
        soup.save_pretrained(folder)
        return type(soup).from_pretrained(folder)


def _over_seeds(runs: Sequence[SeedRun]) -> dict[str, dict[str, float]]:
    """Two columns of the card's table: mean and standard deviation of F1 over the seeds."""
    f1_of_seeds: dict[str, list[float]] = {}
    for run in runs:
        for corpus, f1 in run.test.items():
            f1_of_seeds.setdefault(f"{corpus} test", []).append(f1)
        for corpus, f1 in run.devel.items():
            f1_of_seeds.setdefault(f"{corpus} devel", []).append(f1)
    rows = f1_of_seeds.items()
    return {
        f"f1, mean of {len(runs)} seeds": {
            row: statistics.fmean(values) for row, values in rows
        },
        "its standard deviation": {
            row: statistics.stdev(values) for row, values in rows
        },
    }


Corpora = Annotated[
    list[Path], typer.Argument(help="Folders with train, devel and test.")
]
RecipeFile = Annotated[str, typer.Option(help="A TOML file.")]
ModelFolder = Annotated[Path, typer.Option(help="The model folder to write.")]
Seeds = Annotated[
    list[int] | None,
    typer.Option(help="May be repeated: the best run on devel is kept."),
]
Average = Annotated[
    float | None,
    typer.Option(
        min=0, max=1, help="Average all seeds, with this share of the start."
    ),
]
Checkpoints = Annotated[
    Path | None, typer.Option(help="Folder of the checkpoints.")
]
Resume = Annotated[bool, typer.Option("--resume")]


def save_best(
    corpora: Sequence[Path],
    recipe: EntityRecipe,
    out: Path,
    *,
    seeds: Sequence[int] | None,
    average: float | None,
    checkpoints: Path | None,
    resume: bool,
    trainer: Callable[..., EntityTagger] = fit,
) -> None:
    """Train with each seed, and save each model that `fit_seeds` yields."""
    with training_run(out, checkpoints, resume=resume) as run:
        for model in fit_seeds(
            joined(list(map(read_corpus, corpora))),
            recipe,
            seeds=seeds or [recipe.training.seed],
            average=average,
            trainer=trainer,
            checkpoints=run.checkpoints,
            resume=resume,
        ):
            run.save(model)
            say(f"F1 on devel {devel_f1(model)}")


@one_line_errors
def main(
    corpora: Corpora,
    recipe: RecipeFile,
    out: ModelFolder,
    seed: Seeds = None,
    average: Average = None,
    checkpoints: Checkpoints = None,
    resume: Resume = False,  # noqa: FBT002
) -> None:
    """Train with each seed, and keep the best model or the average."""
    save_best(
        corpora,
        read_recipe(EntityRecipe, recipe),
        out,
        seeds=seed,
        average=average,
        checkpoints=checkpoints,
        resume=resume,
    )


if __name__ == "__main__":
    typer.run(main)
