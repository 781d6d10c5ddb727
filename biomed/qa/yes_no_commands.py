"""The commands `biomed qa yesno`: train and evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from domainbert import options
from domainbert.console import one_line_errors, say, stdout
from domainbert.files import write_json

if TYPE_CHECKING:
    from biomed.qa.metrics import DecisionScores

app = typer.Typer(no_args_is_help=True, help="Questions answered by yes, no or maybe.")

SCORES_NOTE = (
    "{folds}-fold cross-validation over {count} questions: each is decided by a model that was "
    "neither trained nor chosen on it. The model here is that of the last fold."
)


@app.command()
@one_line_errors
def train(
    questions: Annotated[
        Path, typer.Argument(metavar="QUESTIONS", help="PubMedQA or BioASQ JSON, with answers.")
    ],
    out: options.ModelFolder,
    recipe: options.RecipeFile = None,
    encoder: options.EncoderName = None,
    folds: Annotated[int, typer.Option(min=2, help="Models trained, to score each question.")] = 10,
    epochs: options.Epochs = None,
    seed: Annotated[int | None, typer.Option(help="Of order and dropout.")] = None,
) -> None:
    """Train in folds, score every question unseen, write the last fold's model."""
    from biomed.qa.decisions import read_decisions
    from biomed.qa.recipe import read_yes_no_recipe
    from biomed.qa.yes_no_fitting import cross_validate

    options.check_training(out)
    plan = read_yes_no_recipe(recipe, encoder=encoder, epochs=epochs, seed=seed)
    read = read_decisions(questions)
    model, scores = cross_validate(
        read,
        count=folds,
        encoder=plan.encoder,
        training=plan.training,
        settings=plan.settings,
    )
    row = f"{len(read)} questions of {questions.name}"
    columns = {"accuracy": {row: scores.accuracy}, "macro F1": {row: scores.macro_f1}}
    model.manifest |= {
        "card": plan.card,
        "cross_validation": scores.to_dict(),
        "scores": columns,
        "scores_note": SCORES_NOTE.format(folds=folds, count=len(read)),
    }
    model.save_pretrained(out)
    say(f"{folds} folds: accuracy {scores.accuracy:.3f}, macro F1 {scores.macro_f1:.3f}")
    say(f"model in {out}; its card says how it was made and how good it is")


@app.command()
@one_line_errors
def evaluate(
    questions: Annotated[
        Path, typer.Argument(metavar="QUESTIONS", help="PubMedQA or BioASQ JSON, with answers.")
    ],
    model: options.ModelName,
    json: Annotated[Path | None, typer.Option(help="Write the scores here too.")] = None,
) -> None:
    """Score a model: accuracy and macro F1."""
    from biomed.qa.decisions import read_decisions
    from biomed.qa.yes_no import YesNoAnswerer
    from biomed.qa.yes_no_fitting import evaluate_decisions

    read = read_decisions(questions)
    scores = evaluate_decisions(YesNoAnswerer.from_pretrained(model), read)
    stdout.print(_score_table(scores))
    if json:
        write_json({"questions": questions.name, **scores.to_dict()}, json)


def _score_table(scores: DecisionScores) -> Table:
    table = Table("", "")
    table.add_row("questions", str(scores.questions))
    rows = {"accuracy": scores.accuracy, "macro F1": scores.macro_f1}
    for name, value in {**rows, **{f"F1, {label}": f1 for label, f1 in scores.f1.items()}}.items():
        table.add_row(name, f"{value:.3f}")
    return table
