"""Train the shipped entity models: several seeds, the sum of several models, joined corpora.

    python -m recipes.entities CORPUS... --recipe recipes/disease.toml --seed 0 --seed 1 --out MODEL

Corpora that annotate different types in the same texts are learnt from as one, and measured each
on its own. `biomed ner train` has none of this.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
import typer

from biomed.corpora import Corpus, read_corpus
from biomed.corpora.documents import OUTSIDE
from biomed.ner.network import WordTagger
from biomed.ner.training import EntityRecipe, fit
from domainbert.cli.console import one_line_errors, say
from domainbert.errors import UserError
from domainbert.training.checkpoints import training_run
from domainbert.training.recipes import read_recipe
from recipes.corpora import overlaid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


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


def summed(
    model: WordTagger, *, names: Sequence[str], recipe: EntityRecipe
) -> dict[str, torch.Tensor]:
    """Adapters and head that add up the changes of several models.

    Adapters of several models side by side are their sum. An output is the sum of what each model
    gives its tag, or `O` where a model does not know the tag: the product of their probabilities.
    Tags that no model knows keep the random numbers of the untrained model.

    Raises:
        UserError: a model with full weights or on another encoder, or ranks that do not add up.
    """
    parts = [WordTagger.from_pretrained(name, device="cpu") for name in names]
    encoder, lora = model.facts(recipe.model.encoder)["encoder"], recipe.training.lora
    configs = [part.config for part in parts]
    ranks = [part.adapter.rank if part.adapter else 0 for part in parts]
    if not all(ranks) or lora is None or sum(ranks) != lora.rank:
        msg = f"--start: expected adapters whose ranks add up to the recipe's, got ranks {ranks}"
        raise UserError(msg)
    if any(config is None or config.encoder_sha256 != encoder for config in configs):
        msg = f"--start: all models must be trained on the encoder {recipe.model.encoder}"
        raise UserError(msg)
    head = model.network.get_submodule("classifier").state_dict()
    adapters = [part.adapter.tensors for part in parts if part.adapter]
    tensors = {}
    for key in adapters[0]:
        values = [adapter[key].float() for adapter in adapters]
        if ".classifier." in key:
            tensors[key] = _summed_head(head[key.rpartition(".")[2]].clone(), values, model, parts)
        else:
            tensors[key] = torch.cat(values, dim=0 if "lora_A" in key else 1)
    return tensors


def _summed_head(
    rows: torch.Tensor, values: list[torch.Tensor], model: WordTagger, parts: list[WordTagger]
) -> torch.Tensor:
    """The head's weight or bias, with a row per tag, after `summed`."""
    for place, label in enumerate(model.labels):
        if any(label in part.labels for part in parts):
            tags = [label if label in part.labels else OUTSIDE for part in parts]
            each = zip(values, parts, tags, strict=True)
            rows[place] = torch.stack([v[part.labels.index(tag)] for v, part, tag in each]).sum(0)
    return rows


@one_line_errors
def main(
    corpora: Annotated[list[Path], typer.Argument(help="Folders with train, devel and test.")],
    recipe: Annotated[str, typer.Option(help="A TOML file.")],
    out: Annotated[Path, typer.Option(help="The model folder to write.")],
    seed: Annotated[
        list[int] | None, typer.Option(help="May be repeated: the best run on devel is kept.")
    ] = None,
    start: Annotated[
        list[str] | None, typer.Option(help="Start from the sum of these models. Repeatable.")
    ] = None,
    checkpoints: Annotated[Path | None, typer.Option(help="Folder of the checkpoints.")] = None,
    resume: Annotated[bool, typer.Option("--resume")] = False,  # noqa: FBT002
) -> None:
    """Train with each seed, and keep the best model."""
    plan = read_recipe(EntityRecipe, recipe)
    labels = plan.corpora.labels
    read = [read_corpus(folder, labels=labels.get(folder.resolve().name)) for folder in corpora]
    options: dict[str, Any] = {"seeds": seed or [plan.training.seed], "resume": resume}
    if start:
        options["start"] = partial(summed, names=start, recipe=plan)
    with training_run(out, checkpoints, resume=resume) as run:
        for model in fit_seeds(joined(read), plan, checkpoints=run.checkpoints, **options):
            run.save(model)
            say(f"F1 {model.manifest['seeds'][-1]}")


if __name__ == "__main__":
    typer.run(main)
