"""Prepare a rehearsal of `make models`: a part of the public data, and recipes with fewer passes.

    python -m recipes.rehearsal CLONE --data ../shared/data --part 20

`make rehearsal` calls it for a clone of the repository and runs `make models` there: all commands
of all models, in their order, on little data. The models that it makes are good for nothing else.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from domainbert.cli.console import one_line_errors, say

if TYPE_CHECKING:
    from collections.abc import Sequence

# What separates the records of a file. A file that no pattern matches is copied whole.
SEPARATORS = {
    "names/*.csv.gz": "\n",
    "names/*.obo.gz": "\n\n",
    "ner/*/*.jsonl.gz": "\n",
    "ner/*/*.pubtator": "\n\n",
    "ner/*/*.tsv": "\n\n",
    "readmission/*.csv.gz": "\n",
    "sentences/*.tsv": "\n",
    "terms/ehr_relb_half.tsv": "\n",
    "text/*.gz": "\n",
}
QUESTIONS = "qa/*.json"
FEWEST = 15  # records that are kept of a file that has so many
# Smaller batches and slower learning: a tagger that made fewer than a hundred steps, or fast ones
# on little text, finds no entities, so that nothing can be calibrated.
BATCH_TOKENS = 512
SLOWER = 2  # divides the learning rates
# What epochs are divided by, if not by the part: the first tagger must find something, since all
# others learn from it; three large teachers read what the student reads; the made-up studies of
# `qa` are not fewer.
EPOCHS_BY = {"disease-drug-start": 4, "disease-drug": 200, "qa": 100}
_NUMBER = re.compile(r"[\d.]+(?:e-\d+)?")
Record = TypeVar("Record")


def evenly(records: Sequence[Record], part: int) -> list[Record]:
    """The first record, which may be a header, and one of `part` of the others."""
    step = max(1, min(part, len(records) // FEWEST))
    return [*records[:1], *records[step::step]]


def sample(data: Path, out: Path, *, part: int) -> None:
    """Copy a folder of public data with one of `part` records of its large files."""
    for path in data.rglob("*"):
        file = out / path.relative_to(data)
        file.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            shutil.copyfile(path, file)
    for pattern, separator in SEPARATORS.items():
        for file in out.glob(pattern):
            is_packed = file.suffix == ".gz"
            content = file.read_bytes()
            text = (
                gzip.decompress(content) if is_packed else content
            ).decode()
            records = evenly(text.rstrip("\n").split(separator), part)
            sampled = f"{separator.join(records)}\n".encode()
            file.write_bytes(gzip.compress(sampled) if is_packed else sampled)
    for file in out.glob(QUESTIONS):
        document = json.loads(file.read_text("utf-8"))
        file.write_text(json.dumps(fewer_questions(document, part)), "utf-8")


def fewer_questions(document: dict, part: int) -> dict:
    """One of `part` articles and of their paragraphs (SQuAD), or of the questions (PubMedQA)."""
    if "data" not in document:
        return dict(evenly([*document.items()], part))
    articles = evenly(document["data"], part)
    for article in articles:
        article["paragraphs"] = article["paragraphs"][::part]
    return {**document, "data": articles}


def shorten(recipe: Path, *, part: int) -> None:
    """Fewer passes, small batches and slow learning in each stage; the card's title tells."""
    text = recipe.read_text("utf-8")
    text = divided(text, "epochs", by=EPOCHS_BY.get(recipe.stem, part))
    text = divided(text, "learning_rate", by=SLOWER)
    text = re.sub(r"(?m)^(batch_tokens) = .+$", rf"\1 = {BATCH_TOKENS}", text)
    text = re.sub(r'(?m)^title = "', 'title = "Rehearsal: ', text)
    recipe.write_text(text, "utf-8")


def divided(text: str, name: str, *, by: int) -> str:
    """The text of a recipe with all values of this name divided, those of stages too."""

    def divided_line(line: re.Match[str]) -> str:
        return _NUMBER.sub(
            lambda number: f"{float(number[0]) / by:g}", line[0]
        )

    return re.sub(rf"(?m)^{name} = .+$", divided_line, text)


@one_line_errors
def main(
    clone: Annotated[
        Path, typer.Argument(help="A clone; its recipes are changed.")
    ],
    data: Annotated[Path, typer.Option(help="The public data.")],
    part: Annotated[
        int,
        typer.Option(
            min=1, help="Keep one of so many records, and divide the epochs."
        ),
    ] = 20,
) -> None:
    """Write a part of the data to CLONE/data, and shorten the recipes of the clone."""
    sample(data, clone / "data", part=part)
    for recipe in (clone / "recipes").glob("*.toml"):
        shorten(recipe, part=part)
    say(f"{clone} is ready: run `make models DATA=data PART={part}` there")


if __name__ == "__main__":
    typer.run(main)
