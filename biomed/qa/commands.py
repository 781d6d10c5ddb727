"""The commands `biomed qa`: train, ask and evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, BadParameter, Option, Typer

from domainbert.cli import options
from domainbert.cli.console import one_line_errors, print_table, say, stdout
from domainbert.cli.training import TrainingOptions
from domainbert.errors import UserError
from domainbert.files import write_json

if TYPE_CHECKING:
    from biomed.qa.model import Answer
    from biomed.qa.task import AskTask
    from domainbert.tables import ReadOptions

# Options that only apply to a table.
_TABLE_OPTIONS = (
    "text",
    "stay",
    "patient",
    "note",
    "time",
    "keep",
    "delimiter",
    "query",
    "restart",
)

app = Typer(
    no_args_is_help=True,
    help="Answers to questions from texts of any length, with exact positions.",
)


@app.command()
@one_line_errors
@options.takes_options
def train(
    questions: Annotated[
        list[Path],
        Argument(
            help="SQuAD JSON or tables; the model is trained on each in turn. Some articles of the "
            "last file are held out."
        ),
    ],
    out: options.ModelFolder,
    training: TrainingOptions,
) -> None:
    """Train in stages, choose and score on held-out articles, write the model folder."""
    from biomed.qa.questions import read_questions
    from biomed.qa.training import QuestionRecipe, fit

    plan = training.plan(QuestionRecipe)
    # An option of the command line applies to every stage.
    options_set = training.given()
    stages = {
        name: values
        for name, values in plan.stages.items()
        if name not in options_set
    }
    plan = plan.replaced(stages=stages)
    with training.run(out) as run:
        sets = [read_questions(path) for path in questions]
        model = fit(sets, plan, checkpoints=run.checkpoints, resume=run.resume)
        run.save(model)
    scores = model.manifest.training.validation
    say(
        f"held-out articles: F1 {scores['f1']:.3f}, exact match {scores['exact']:.3f}"
    )
    say(f"model in {out}; its card says how it was made and how good it is")


@app.command()
@one_line_errors
@options.takes_options
def ask(
    sources: Annotated[
        list[str],
        Argument(
            help="A table of questions with their contexts. With --question: text files or, with "
            "--out, also a table with a text in each row."
        ),
    ],
    scoring: options.ScoringOptions,
    question: Annotated[
        str | None, Option(help="The question to ask of every text.")
    ] = None,
    model: options.ModelName = "qa",
    out: Annotated[
        Path | None,
        Option(
            help="Answers: .csv, .parquet, .jsonl, or a folder; otherwise shown here."
        ),
    ] = None,
    top_k: Annotated[
        int, Option(min=1, help="Maximum answers per question.")
    ] = 1,
    threshold: Annotated[
        float | None,
        Option(
            help="The score that an answer must exceed; with -inf there is always an answer."
        ),
    ] = None,
) -> None:
    """Answer one question from texts, or a file of questions, each from its own context."""
    from biomed.qa.model import QuestionAnswerer
    from biomed.qa.task import AskTask

    can_answer = question is not None
    if out is not None:
        can_answer = len(sources) == 1
    if not can_answer:
        raise BadParameter(
            "give --question to ask it of texts, or --out for the answers to one file of questions"
        )

    def answerer() -> QuestionAnswerer:
        return QuestionAnswerer.from_pretrained(model, **scoring.loading())

    def make_task() -> AskTask:
        return AskTask(
            answerer(), question=question, top_k=top_k, threshold=threshold
        )

    if out is not None:
        column = "context" if question is None else "text"
        options.score_source(make_task, sources[0], out, scoring, text=column)
        return
    scoring.refuse(
        *_TABLE_OPTIONS,
        because="on answers that are shown; name --out for a table of them",
    )
    texts = [_text(Path(source), scoring.reading()) for source in sources]
    for answer in answerer().answer(
        str(question),
        texts,
        top_k=top_k,
        threshold=threshold,
    ):
        _show(answer, Path(sources[answer.document]).name)


def _show(answer: Answer, name: str) -> None:
    """Print the position of an answer, its score and its sentence."""
    from biomed.qa.model import answer_view

    if answer.is_found:
        line = (
            f"{name}, characters {answer.start} to {answer.end}, "
            f"score {answer.score:.2f}"
        )
        if answer.probability is not None:
            line += f", probability {answer.probability:.2f}"
        say(line)
    stdout.print(answer_view([answer]), soft_wrap=True)


def _text(path: Path, reading: ReadOptions) -> str:
    """The one text of a file; line ends stay as they are."""
    from domainbert.tables import is_text_file, iter_rows

    if not is_text_file(path):
        raise UserError(
            f"{path}: expected a .txt or .txt.gz file; name --out to ask the question of a table"
        )
    (row,) = iter_rows(path, reading)
    if row.remark:
        say(
            f"{path.name}: {row.remark}; name its encoding (--encoding cp1252, for example)"
        )
    return str(row.cells["text"] or "")


@app.command()
@one_line_errors
def evaluate(
    questions: Annotated[
        Path,
        Argument(
            metavar="QUESTIONS", help="SQuAD JSON, or a table, with answers."
        ),
    ],
    model: options.ModelName = "qa",
    held_out: Annotated[
        float | None,
        Option(
            help="Use only the articles that training holds out at this share, such as 0.2."
        ),
    ] = None,
    json: Annotated[
        Path | None, Option(help="File to write the scores to, as JSON.")
    ] = None,
) -> None:
    """Score a model by SQuAD's exact match and F1."""
    from biomed.qa import evaluation
    from biomed.qa.model import QuestionAnswerer
    from biomed.qa.questions import read_questions, split_by_article
    from domainbert.models.manifest import score_text

    gold = read_questions(questions)
    if held_out is not None:
        _, gold = split_by_article(gold, share=held_out)
        say(f"{len(gold)} questions of held-out articles")
    scores = evaluation.evaluate(QuestionAnswerer.from_pretrained(model), gold)
    rows = [
        (name.replace("_", " "), score_text(score))
        for name, score in scores.items()
        if score is not None
    ]
    print_table(rows, [gold.name, ""])
    if json:
        write_json({"file": gold.name, "held_out": held_out, **scores}, json)
