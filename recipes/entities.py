"""Train the shipped entity model: joined corpora, and the best of several seeds.

    python -m recipes.entities CORPUS... --recipe RECIPE --seed 0 --seed 1 --out MODEL

Corpora that annotate different types in the same texts are learnt from as one, and measured each
on its own. `biomed ner train` has none of this.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from biomed.corpora import Corpus, read_corpus
from biomed.ner.training import EntityRecipe, fit
from domainbert.cli.console import one_line_errors, say
from domainbert.training.checkpoints import training_run
from domainbert.training.recipes import read_recipe
from recipes.corpora import overlaid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from biomed.ner.network import WordTagger


def joined(corpora: Sequence[Corpus]) -> list[Corpus]:
    """Corpora of the same training texts as one to learn from, and the parts to measure on."""
    together = overlaid(corpora)
    learnt = [
        replace(corpus, devel=None, test=None) for corpus in together if corpus not in corpora
    ]
    parts = [corpus if corpus in together else replace(corpus, train=None) for corpus in corpora]
    return [*parts, *learnt]


def fit_seeds(
    corpora: Sequence[Corpus], recipe: EntityRecipe, *, seeds: Sequence[int], **options: Any
) -> Iterator[WordTagger]:
    """Train once for each seed; after each, yield the model that is the best on devel so far.

    Its manifest has the scores of all seeds, with mean and standard deviation.
    """
    best, highest = None, -1.0
    scores: dict[str, dict[str, Any]] = {}
    runs: list[dict[str, Any]] = []
    checkpoints = options.pop("checkpoints", None)
    for seed in seeds:
        seeded = recipe.replaced(training=recipe.training.replaced(seed=seed))
        folder = checkpoints / f"seed-{seed}" if checkpoints else None
        model = fit(corpora, seeded, checkpoints=folder, **options)
        f1 = {
            side: {name: score["all"]["f1"] for name, score in model.manifest[side].items()}
            for side in ("devel", "test")
        }
        runs.append({"seed": seed, **f1})
        devel = statistics.fmean(f1["devel"].values())
        if best is None or devel > highest:
            best, highest, scores = model, devel, model.manifest["scores"]
        best.manifest |= {"seeds": runs}
        if runs[1:]:
            best.manifest["scores"] = {**scores, **_over_seeds(runs)}
            note = model.manifest["scores_note"]
            best.manifest["scores_note"] = note.replace(
                "the weights,", "the weights and the best of several seeds,"
            )
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


@one_line_errors
def main(
    corpora: Annotated[list[Path], typer.Argument(help="Folders with train, devel and test.")],
    recipe: Annotated[str, typer.Option(help="A TOML file.")],
    out: Annotated[Path, typer.Option(help="The model folder to write.")],
    seed: Annotated[
        list[int] | None, typer.Option(help="May be repeated: the best run on devel is kept.")
    ] = None,
    checkpoints: Annotated[Path | None, typer.Option(help="Folder of the checkpoints.")] = None,
    resume: Annotated[bool, typer.Option("--resume")] = False,  # noqa: FBT002
) -> None:
    """Train with each seed, and keep the best model."""
    plan = read_recipe(EntityRecipe, recipe)
    read = list(map(read_corpus, corpora))
    options: dict[str, Any] = {"seeds": seed or [plan.training.seed], "resume": resume}
    with training_run(out, checkpoints, resume=resume) as run:
        for model in fit_seeds(joined(read), plan, checkpoints=run.checkpoints, **options):
            run.save(model)
            say(f"F1 {model.manifest['seeds'][-1]}")


if __name__ == "__main__":
    typer.run(main)
