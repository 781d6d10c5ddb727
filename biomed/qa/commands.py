"""The commands `biomed qa`: train, ask, evaluate, and yesno train and evaluate."""

from __future__ import annotations

import csv
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from domainbert import options
from domainbert.console import one_line_errors, say, stdout
from domainbert.errors import UserError
from domainbert.files import write_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from biomed.qa.task import AskTask
    from domainbert.tables import ReadOptions

app = typer.Typer(
    no_args_is_help=True,
    help="Answers to questions, from text of any length, with exact positions.",
)
yes_no = typer.Typer(no_args_is_help=True, help="Questions answered by yes, no or maybe.")
app.add_typer(yes_no, name="yesno")

ScoresFile = Annotated[Path | None, typer.Option("--json", help="Write the scores here too.")]
YesNoFile = Annotated[
    Path, typer.Argument(metavar="QUESTIONS", help="PubMedQA or BioASQ JSON, with answers.")
]


@app.command()
@one_line_errors
def train(
    questions: Annotated[
        list[Path],
        typer.Argument(
            help="SQuAD or BioASQ JSON, or tables: one stage of training each, in this order. "
            "Some of the last one's articles are held out."
        ),
    ],
    out: options.ModelFolder,
    recipe: options.RecipeFile = None,
    encoder: options.EncoderName = None,
    epochs: options.Epochs = None,
    learning_rate: options.LearningRate = None,
    seed: options.Seed = None,
    full: options.FullWeights = False,
    checkpoints: options.Checkpoints = None,
    resume: options.Resume = False,
) -> None:
    """Train in stages, choose and score on held-out articles, write the model folder."""
    from biomed.qa.training import QuestionRecipe, train_from_recipe
    from domainbert.training.recipes import read_recipe
    from domainbert.training.session import training_run

    given = {"epochs": epochs, "learning_rate": learning_rate, "seed": seed, "full": full or None}
    overrides = {f"training.{name}": value for name, value in given.items()}
    plan = read_recipe(QuestionRecipe, recipe, {"model.encoder": encoder, **overrides})
    # An option applies to every stage.
    stages = {name: values for name, values in plan.stages.items() if given.get(name) is None}
    plan = plan.replaced(stages=stages)
    with training_run(out, checkpoints, resume=resume) as run:
        model = train_from_recipe(plan, questions, checkpoints=run.checkpoints, resume=resume)
        run.save(model)
    found = model.manifest["validation"]
    say(f"held-out articles: F1 {found['f1']:.3f}, exact match {found['exact']:.3f}")
    say(f"model in {out}; its card says how it was made and how good it is")


@app.command()
@one_line_errors
def ask(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="With --question: text files to show answers from, or, with --out, a table with "
            "a text in each row. Otherwise questions with their contexts: a table, or SQuAD or "
            "BioASQ JSON."
        ),
    ],
    question: Annotated[str | None, typer.Option(help="Ask this of every text.")] = None,
    model: options.ModelName = "qa",
    out: Annotated[
        Path | None,
        typer.Option(help="Answers: .csv, .parquet, .jsonl, or a folder; otherwise shown here."),
    ] = None,
    top_k: Annotated[int, typer.Option(min=1, help="Maximum answers per question.")] = 1,
    threshold: Annotated[
        float | None,
        typer.Option(help="Answers must score above this; with -inf there is always an answer."),
    ] = None,
    text: options.TextColumn = None,
    keep: options.Keep = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    query: options.Query = None,
    restart: options.Restart = False,
    metrics: options.Metrics = None,
    device: options.Device = None,
) -> None:
    """Answer one question from texts, or a file of questions, each from its own context."""
    from biomed.qa.answerer import QuestionAnswerer
    from biomed.qa.display import AnswerView
    from biomed.qa.task import AskTask
    from domainbert.scoring.cli import run
    from domainbert.tables import ReadOptions

    if (question is None and out is None) or (out is not None and len(sources) != 1):
        raise typer.BadParameter(
            "give --question to ask it of texts, or --out for the answers to one file of questions"
        )

    read_as = ReadOptions(delimiter=delimiter, encoding=encoding, query=query)

    def make_task() -> AskTask:
        answerer = QuestionAnswerer.from_pretrained(model, device=device)
        return AskTask(answerer, question=question, top_k=top_k, threshold=threshold)

    if out is None:
        texts = [_text(Path(source), read_as) for source in sources]
        answerer = QuestionAnswerer.from_pretrained(model, device=device)
        for answer in answerer.answer(str(question), texts, top_k=top_k, threshold=threshold):
            if answer.is_found:
                where = f"characters {answer.start} to {answer.end}, score {answer.score:.2f}"
                known = answer.probability
                chance = "" if known is None else f", probability of an answer {known:.2f}"
                say(f"{Path(sources[answer.document]).name}, {where}{chance}")
            stdout.print(AnswerView(texts[answer.document], (answer,)), soft_wrap=True)
    elif question is None and sources[0].lower().endswith(".json"):
        _ask_json(Path(sources[0]), out, make_task)
    else:
        run(
            make_task,
            sources[0],
            out,
            named={"context" if question is None else "text": text},
            keep=keep or (),
            options=read_as,
            restart=restart,
            metrics=metrics,
        )


def _text(path: Path, options: ReadOptions) -> str:
    """The one text of a file; line ends stay as they are."""
    from domainbert.tables import iter_rows
    from domainbert.tables.names import TEXT_FORMATS

    if not path.name.lower().endswith(TEXT_FORMATS):
        fix = "name --out to ask the question of a table"
        raise UserError(f"{path}: expected a .txt or .txt.gz file; {fix}")
    (row,) = iter_rows(path, options)
    text = str(row.cells["text"] or "")
    if found := _other_format(text):
        fix = "end its name in its format (.csv, .jsonl, .json), and name --out for the answers"
        raise UserError(f"{path.name} has {found}, not one text; {fix}")
    if row.remark:
        say(f"{path.name}: {row.remark}; name its encoding (--encoding cp1252, for example)")
    return text


def _other_format(text: str) -> str:
    """What a file has instead of a text: binary data, JSON, or a table with a header; else ""."""
    from domainbert.tables.names import are_names

    lines = text.strip().splitlines()
    if "\0" in text:
        return "binary data"
    for part in (text.strip(), *lines[:1]):
        with suppress(ValueError, RecursionError):
            if re.match(r'\{|\[\s*[\[{"]', part) and json.loads(part):
                return "JSON"
    for delimiter in ",\t;|":
        with suppress(csv.Error):
            rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
            is_even = len(rows) > 2 and len(rows[0]) > 1 and len({*map(len, rows)}) == 1
            if is_even and are_names(rows[0]):
                return "a table"
    return ""


def _ask_json(source: Path, out: Path, make_task: Callable[[], AskTask]) -> None:
    """Answers to a SQuAD or BioASQ file, which is in memory anyway."""
    import pandas as pd

    from biomed.qa.formats import read_questions
    from domainbert.files import check_output
    from domainbert.scoring import score_frame
    from domainbert.tables import table_format, write_table

    table_format(out)
    check_output(out, [source])
    questions = read_questions(source).questions
    rows = [(q.id, q.text, [passage.text for passage in q.passages]) for q in questions]
    frame = pd.DataFrame(rows, columns=["id", "question", "context"])
    answers = score_frame(make_task(), frame)
    write_table(answers, out)
    failed = len({*answers["row"][answers["status"] != "ok"]})
    say(f"{len(questions)} questions, {failed} without a result; written to {out}")


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
    json: ScoresFile = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            help="Fit threshold and probability on these questions; write the model to this folder."
        ),
    ] = None,
) -> None:
    """Score a model: SQuAD's exact match and F1, BioASQ's factoid measures."""
    from biomed.qa.answerer import QuestionAnswerer
    from biomed.qa.evaluation import evaluate
    from biomed.qa.formats import read_questions
    from biomed.qa.questions import split_by_article, without_articles

    gold = read_questions(questions)
    if gold.remarks:
        say(f"{gold.name}: {len(gold.remarks)} answers are not where the file says")
    if held_out is not None:
        _, gold = split_by_article(gold, share=held_out)
        say(f"{len(gold)} questions of held-out articles")
    result: dict[str, Any] = {"questions": gold.name, "held_out": held_out}
    if train:
        shared = len(gold) - len(without_articles(gold, read_questions(train)))
        result["shared_with_train"] = shared
        say(f"{shared} questions share an article with {train.name}")
    answerer = QuestionAnswerer.from_pretrained(model)
    if calibrate:
        from biomed.qa.training import measure

        answerer.settings = answerer.settings.replaced(threshold=None, calibration=None)
        measure(answerer, gold)
        answerer.save_pretrained(calibrate)
        lacks = "" if answerer.settings.calibration else "; too few questions to fit a probability"
        say(f"model in {calibrate}{lacks}")
        found = answerer.manifest["validation"]
        result |= {"extractive": found, "not_scored": len(gold) - found["questions"]}
    else:
        result |= evaluate(answerer, gold)
    for kind in ("extractive", "factoid"):
        if kind in result:
            stdout.print(_score_table(kind, result[kind]))
    if result["not_scored"]:
        say(f"{result['not_scored']} questions of other kinds, or without passages or answers")
    if json:
        write_json(result, json)


@yes_no.command("train")
@one_line_errors
def train_yes_no(
    questions: YesNoFile,
    out: options.ModelFolder,
    recipe: options.RecipeFile = None,
    encoder: options.EncoderName = None,
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 10,
    epochs: options.Epochs = None,
    seed: options.Seed = None,
) -> None:
    """Train and score by cross-validation, and write the last fold's model."""
    from biomed.qa.yes_no import YesNoRecipe, cross_validate, read_decisions
    from domainbert.training.recipes import read_recipe
    from domainbert.training.session import training_run

    overrides = {"model.encoder": encoder, "training.epochs": epochs, "training.seed": seed}
    plan = read_recipe(YesNoRecipe, recipe, overrides)
    with training_run(out) as run:
        model = cross_validate(read_decisions(questions), plan, count=folds)
        run.save(model)
    scores = model.manifest["cross_validation"]
    accuracy, macro_f1 = scores["accuracy"], scores["macro_f1"]
    say(f"{folds} folds: accuracy {accuracy:.3f}, macro F1 {macro_f1:.3f}")
    say(f"model in {out}; its card says how it was made and how good it is")


@yes_no.command("evaluate")
@one_line_errors
def evaluate_yes_no(
    questions: YesNoFile, model: options.ModelName, json: ScoresFile = None
) -> None:
    """Score a model: accuracy and macro F1."""
    from biomed.qa.yes_no import YesNoAnswerer, evaluate_decisions, read_decisions

    read = read_decisions(questions)
    scores = evaluate_decisions(YesNoAnswerer.from_pretrained(model), read)
    shown = {"accuracy": scores["accuracy"], "macro F1": scores["macro_f1"]}
    shown |= {f"F1, {label}": value for label, value in scores["f1"].items()}
    stdout.print(_score_table(f"{scores['questions']} questions", shown))
    if json:
        write_json({"file": questions.name, **scores}, json)


def _score_table(kind: str, scores: dict[str, Any]) -> Table:
    table = Table(kind, "")
    for name, value in scores.items():
        if value is not None:
            shown = f"{value:.3f}" if isinstance(value, float) else str(value)
            table.add_row(name.replace("_", " "), shown)
    return table
