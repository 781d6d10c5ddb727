"""The commands `biomed qa`: train, ask, evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from biomed.qa import yes_no_commands as yesno
from domainbert import options
from domainbert.console import one_line_errors, say, stdout
from domainbert.files import write_json

if TYPE_CHECKING:
    from biomed.qa.answerer import QuestionAnswerer

app = typer.Typer(
    no_args_is_help=True,
    help="Answers to questions, from text of any length, with exact positions.",
)
app.add_typer(yesno.app, name="yesno")


@app.command()
@one_line_errors
def train(
    questions: Annotated[
        list[Path],
        typer.Argument(
            metavar="QUESTIONS...",
            help="SQuAD or BioASQ JSON, or tables; one stage each, in this order. A part of the "
            "last one's articles is held out.",
        ),
    ],
    out: options.ModelFolder,
    recipe: options.RecipeFile = None,
    encoder: options.EncoderName = None,
    epochs: Annotated[float | None, typer.Option(help="Passes over each file.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak, in each stage.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of order, windows and dropout.")] = None,
    full: options.FullWeights = False,
    checkpoints: options.Checkpoints = None,
    resume: options.Resume = False,
) -> None:
    """Train in stages, choose and measure on held-out articles, write the model folder."""
    from biomed.qa.recipe import read_recipe, train_from_recipe

    options.check_training(out, checkpoints=checkpoints, resume=resume)
    plan = read_recipe(
        recipe,
        encoder=encoder,
        epochs=epochs,
        learning_rate=learning_rate,
        seed=seed,
        full=full or None,
    )
    model = train_from_recipe(plan, questions, checkpoints=checkpoints, resume=resume)
    model.save_pretrained(out)
    found = model.manifest["validation"]
    say(f"held-out articles: F1 {found['f1']:.3f}, exact match {found['exact']:.3f}")
    say(f"model in {out}; its card says how it was made and how good it is")


@app.command()
@one_line_errors
def ask(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="With --question: the texts to look in. Else one file of questions with their "
            "contexts: .csv, .parquet, .jsonl, or SQuAD or BioASQ .json.",
        ),
    ],
    question: Annotated[str | None, typer.Option(help="Ask this of all the texts.")] = None,
    model: options.ModelName = "qa",
    out: Annotated[
        Path | None, typer.Option(help="Answers: .csv, .parquet or .jsonl; else they are shown.")
    ] = None,
    top_k: Annotated[int, typer.Option(min=1, help="Answers of each question at most.")] = 1,
    threshold: Annotated[
        float | None, typer.Option(help="A score must be above it; -inf answers in any case.")
    ] = None,
) -> None:
    """Answer one question from texts, or a file of questions, each from its own context."""
    from biomed.qa.answerer import QuestionAnswerer

    options: dict[str, Any] = {"top_k": top_k, "threshold": threshold}
    if question is not None and out is None:
        texts = [_text(path) for path in sources]
        answerer = QuestionAnswerer.from_pretrained(model)
        _show(answerer, question, texts, names=[path.name for path in sources], **options)
        return
    if question is not None or out is None or len(sources) != 1:
        raise typer.BadParameter(
            "ask --question WORDS of texts, or one file of questions with --out FILE"
        )
    _ask_file(sources[0], model, out, **options)


def _ask_file(source: Path, model: str, out: Path, **options: Any) -> None:
    from biomed.qa.answerer import QuestionAnswerer
    from biomed.qa.tables import answer_file
    from domainbert.console import progress
    from domainbert.tables import table_format

    table_format(out)  # a wrong ending should not cost an hour of reading
    answerer = QuestionAnswerer.from_pretrained(model)
    rejects = out.with_name(f"{out.name.split('.')[0]}.rejects.csv")
    with progress("answering") as advance:
        seen = 0
        for done in answer_file(answerer, source, out, rejects=rejects, **options):
            advance(done.questions - seen)
            seen = done.questions
    say(f"{done.answered} of {done.questions} questions have an answer; written to {out}")
    if done.rejects:
        say(f"{done.rejects} rows cannot be asked and are listed in {rejects}")


def _show(
    answerer: QuestionAnswerer, question: str, texts: list[str], *, names: list[str], **options: Any
) -> None:
    from biomed.qa.display import AnswerView

    for answer in answerer.answer(question, texts, **options):
        if answer.is_found:
            where = f"{names[answer.document]}, characters {answer.start} to {answer.end}"
            say(f"{where}, score {answer.score:.2f}")
        stdout.print(AnswerView(texts[answer.document], (answer,)), soft_wrap=True)


def _text(path: Path) -> str:
    # Bytes, so that "\r\n" stays two characters and positions are those of the file.
    return path.read_bytes().decode("utf-8", "replace")


@app.command()
@one_line_errors
def evaluate(
    questions: Annotated[
        Path, typer.Argument(metavar="QUESTIONS", help="SQuAD or BioASQ JSON, or a table.")
    ],
    model: options.ModelName = "qa",
    held_out: Annotated[
        float | None,
        typer.Option(help="Only the articles that training holds out at this share, such as 0.2."),
    ] = None,
    train: Annotated[
        Path | None, typer.Option(help="Count the questions whose article is in this file too.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the scores here too.")] = None,
) -> None:
    """Score a model: SQuAD's exact match and F1, BioASQ's factoid measures."""
    from biomed.qa.answerer import QuestionAnswerer
    from biomed.qa.evaluation import evaluate, shared_passages
    from biomed.qa.formats import read_questions
    from biomed.qa.questions import split_by_article

    right = read_questions(questions)
    if right.remarks:
        say(f"{right.name}: {len(right.remarks)} answers do not stand where the file says")
    if held_out is not None:
        _, right = split_by_article(right, share=held_out)
        say(f"{len(right)} questions of held-out articles")
    result: dict[str, Any] = {"questions": right.name, "held_out": held_out}
    if train:
        result["shared_with_train"] = shared_passages(right, read_questions(train))
        say(f"{result['shared_with_train']} questions share an article with {train.name}")
    result |= evaluate(QuestionAnswerer.from_pretrained(model), right)
    for kind in ("extractive", "factoid"):
        if kind in result:
            stdout.print(_score_table(kind, result[kind]))
    if result["not_scored"]:
        say(f"{result['not_scored']} questions of other kinds, or without passages or answers")
    if json:
        write_json(result, json)


def _score_table(kind: str, scores: dict[str, Any]) -> Table:
    table = Table(kind, "")
    for name, value in scores.items():
        if value is not None:
            shown = f"{value:.3f}" if isinstance(value, float) else str(value)
            table.add_row(name.replace("_", " "), shown)
    return table
