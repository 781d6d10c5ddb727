"""Medical text for pretraining: MedQuAD, PubMedQA and COVID-QA as one table of documents.

    python -m recipes.medical_text ../shared/data medical.parquet

A document is the answers of a MedQuAD page, a PubMedQA abstract with its conclusion, or a COVID-QA
article. Questions are left out: those of MedQuAD follow a few patterns that a model would memorize.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import typer

from domainbert.tables import write_table
from recipes.public_data import medquad_documents

if TYPE_CHECKING:
    from collections.abc import Iterator


def medquad(file: Path) -> Iterator[tuple[str, str]]:
    """The answers of each page, by the page's id."""
    for page in medquad_documents(file):
        answers = [question["answer"] for question in page["questions"]]
        yield page["id"], "\n\n".join(filter(None, answers))


def pubmedqa(file: Path) -> Iterator[tuple[str, str]]:
    """Each abstract, by its PubMed id."""
    for name, abstract in _json(file).items():
        yield name, "\n".join([*abstract["CONTEXTS"], abstract["LONG_ANSWER"]])


def covid_qa(file: Path) -> Iterator[tuple[str, str]]:
    """Each article, by its position in the file."""
    for number, article in enumerate(_json(file)["data"]):
        paragraphs = [part["context"] for part in article["paragraphs"]]
        yield str(number), "\n\n".join(paragraphs)


def _json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def main(data: Path, out: Path) -> None:
    """Write the table, without empty documents."""
    documents = {
        "medquad": medquad(data / "text/medquad.jsonl.gz"),
        "pubmedqa": pubmedqa(data / "qa/pubmedqa_labeled.json"),
        "covid-qa": covid_qa(data / "qa/covid_qa_train.json"),
    }
    rows = [
        {"note_id": f"{source} {name}", "text": text}
        for source, pairs in documents.items()
        for name, text in pairs
        if text.strip()
    ]
    write_table(pd.DataFrame(rows), out)


if __name__ == "__main__":
    typer.run(main)
