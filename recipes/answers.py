"""Train the shipped question answerer: general questions, then articles, then three kinds together.

    python -m recipes.answers runs/contrast --data ../shared/data --out MODEL

The first two stages are SQuAD's questions on paragraphs and COVID-QA's on whole articles. From
there, one more mixes COVID-QA's, some of SQuAD's and those on the made-up studies of
`recipes.contrast`. The average with the weights before it keeps what it unlearns on articles.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

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
    return QuestionSet(name, tuple(q for part in sets for q in part))


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
        first, _ = plan.each_stage(2)
        last = plan.replaced(
            model=plan.model.replaced(start=folder),
            training=plan.training.replaced(epochs=first.epochs, **LAST_STAGE),
            stages={},
        )
        after = fit(
            [mixed],
            last,
            validation=held_out,
            checkpoints=run.checkpoints / "after",
            resume=resume,
        )
        model = averaged([after], before, share=KEPT)
        training = after.manifest.training
        earlier = before.manifest.training
        training.stages = earlier.stages + training.stages
        training.facts = earlier.facts + training.facts
        training.start = ""
        training.validation = evaluate(model, held_out)
        scores = card_scores(training.validation, held_out, "")
        scores.note = NOTE.format(share=share) + scores.note
        model.manifest = after.manifest
        model.manifest.training = training
        model.manifest.scores = scores
        run.save(model)
    say(f"model in {out}; its card says how it was made and how good it is")


if __name__ == "__main__":
    typer.run(main)
