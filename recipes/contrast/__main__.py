"""Write made-up studies of two or three groups, with questions that name one of the groups.

    python -m recipes.contrast runs/contrast --data ../shared/data

Writes train.json, devel.json and test.json in the form of SQuAD 2.0. A question is asked of every
group in the same words, so only the group decides which number is right. Other questions name the
group by what it did not get, a group that is not in the text, or a number that is not reported.
The files use different parts of the wording (questions/contrast.toml), and different names of drugs
and diseases.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from domainbert.cli.console import one_line_errors, say
from domainbert.files import write_json
from recipes.contrast.questions import questions_on
from recipes.contrast.study import Study
from recipes.contrast.wording import Draws, Wording

if TYPE_CHECKING:
    from recipes.contrast.questions import Question

COUNTS = {"train": 6000, "devel": 300, "test": 300}  # texts of each side


def make(
    side: str, *, data: Path, count: int, seed: int = 0
) -> list[dict[str, Any]]:
    """`count` made-up texts of a side, each as an article of SQuAD 2.0."""
    chooser = random.Random(f"{seed} {side}")  # noqa: S311  (no secret)
    draws = Draws(Wording(side, data), chooser)
    articles: list[dict[str, Any]] = []
    while len(articles) < count:
        title = f"contrast {side} {len(articles)}"
        study = Study(draws)
        questions = [
            _squad_question(f"{title} {number}", study.text, question)
            for number, question in enumerate(questions_on(study))
        ]
        if questions:
            paragraph = {"context": study.text, "qas": questions}
            articles.append({"title": title, "paragraphs": [paragraph]})
    return articles


def _squad_question(
    name: str, text: str, question: Question
) -> dict[str, Any]:
    words, span = question
    answers = []
    if span:
        start, end = span
        answers = [{"text": text[start:end], "answer_start": start}]
    return {
        "id": name,
        "question": words,
        "answers": answers,
        "is_impossible": not answers,
    }


@one_line_errors
def main(
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    data: Annotated[Path, typer.Option(help="The public data.")] = Path(
        "../shared/data"
    ),
    seed: Annotated[int, typer.Option(help="Of all random choices.")] = 0,
) -> None:
    """Write the questions of the three sides."""
    out.mkdir(parents=True, exist_ok=True)
    for side, count in COUNTS.items():
        articles = make(side, data=data, count=count, seed=seed)
        file = out / f"{side}.json"
        write_json({"version": "2.0", "data": articles}, file)
        say(f"{count} texts in {file}")


if __name__ == "__main__":
    typer.run(main)
