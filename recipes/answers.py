"""Train the shipped question answerer: general questions, then articles, then three kinds together.

    python -m recipes.answers runs/contrast --data ../shared/data --out MODEL

The first two stages are SQuAD's questions on paragraphs and COVID-QA's on whole articles. The
third stage mixes COVID-QA's questions, some of SQuAD's, and those on the made-up studies of
`recipes.contrast`. It unlearns some of what articles taught, so the model is the average of the
weights before and after it.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from biomed.qa.evaluation import evaluate
from biomed.qa.questions import (
    QuestionSet,
    evenly,
    read_questions,
    split_by_article,
)
from biomed.qa.training import QuestionRecipe, card_scores, fit
from domainbert.cli import options
from domainbert.cli.console import one_line_errors, say
from domainbert.cli.training import training_run
from domainbert.training.recipes import read_recipe
from recipes.entities import averaged

if TYPE_CHECKING:
    from biomed.qa.model import QuestionAnswerer
    from domainbert.models.manifest import Manifest

SQUAD = "squad_v1.1_dev.json"
COVID = "covid_qa_train.json"
# Of the questions of a file, the share that the last stage asks.
GENERAL = 0.35
CONTRAST = 0.5
# The last stage has as many passes as the first.
LAST_STAGE = {"learning_rate": 5e-4, "negatives": 2.5}
KEPT = 0.3  # share of the weights before the last stage in the average
NOTE = (
    "Held-out articles of COVID-QA: an article is held out if the SHA-256 of its name, as a "
    "number in [0, 1), is below {share}. Some of these questions chose the weights. "
)


def share_of(questions: QuestionSet, share: float) -> QuestionSet:
    """A share of the questions, evenly from their articles."""
    return evenly(questions, round(share * len(questions)))


def mixture(*sets: QuestionSet) -> QuestionSet:
    """The questions of all sets, as one file."""
    name = ", ".join(questions.name for questions in sets)
    return QuestionSet(name, tuple(chain.from_iterable(sets)))


@one_line_errors
def main(
    contrast: Annotated[
        Path, typer.Argument(help="What `recipes.contrast` wrote.")
    ],
    out: options.ModelFolder,
    recipe: Annotated[str, typer.Option(help="A recipe.")] = "recipes/qa.toml",
    data: Annotated[Path, typer.Option(help="The public data.")] = Path(
        "../shared/data"
    ),
    checkpoints: options.Checkpoints = None,
    resume: options.Resume = False,  # noqa: FBT002
) -> None:
    """Train in three stages, average the last two, score on held-out articles, write the model."""
    plan = read_recipe(QuestionRecipe, recipe)
    squad = read_questions(data / "qa" / SQUAD)
    covid = read_questions(data / "qa" / COVID)
    studies = read_questions(contrast / "train.json")
    share = plan.validation.share
    articles, held_out = split_by_article(covid, share=share)
    mixed = mixture(
        articles, share_of(studies, CONTRAST), share_of(squad, GENERAL)
    )
    with (
        training_run(out, checkpoints, resume=resume) as run,
        TemporaryDirectory() as folder,
    ):
        before = fit(
            [squad, articles],
            plan,
            validation=held_out,
            checkpoints=run.checkpoints / "before",
            resume=resume,
        )
        before.save_pretrained(folder)
        after = fit(
            [mixed],
            last_stage(plan, folder),
            validation=held_out,
            checkpoints=run.checkpoints / "after",
            resume=resume,
        )
        model = averaged([after], before, share=KEPT)
        model.manifest = joined_manifest(before, after)
        validation = evaluate(model, held_out)
        scores = card_scores(validation, held_out, "")
        scores.note = NOTE.format(share=share) + scores.note
        model.manifest.training.validation = validation
        model.manifest.scores = scores
        run.save(model)
    say(f"model in {out}; its card says how it was made and how good it is")


def last_stage(plan: QuestionRecipe, start: str) -> QuestionRecipe:
    """The recipe of the last stage, which starts from the model in a folder."""
    first, _ = plan.each_stage(2)
    training = plan.training.replaced(epochs=first.epochs, **LAST_STAGE)
    return plan.replaced(
        model=plan.model.replaced(start=start), training=training, stages={}
    )


def joined_manifest(
    before: QuestionAnswerer, after: QuestionAnswerer
) -> Manifest:
    """The manifest of the last stage, with the stages before it."""
    manifest = after.manifest
    training = manifest.training
    earlier = before.manifest.training
    training.stages = earlier.stages + training.stages
    training.facts = earlier.facts + training.facts
    training.start = ""
    return manifest


if __name__ == "__main__":
    typer.run(main)
