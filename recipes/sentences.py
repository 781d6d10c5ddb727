"""The shipped model `sentences`: medical texts that belong together, and training on them.

No rated pair is used. Questions, concepts and names are held out by a hash of their key, so that
all that is known of one is on one side.

Run it with `python -m recipes.sentences ../shared/data --out MODEL`.
"""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pandas as pd
import typer
from pydantic import Field

from biomed.sentences.data import read_pairs
from biomed.sentences.encoder import SentenceEncoder
from biomed.sentences.evaluation import evaluate_pairs, evaluate_retrieval
from biomed.sentences.training import SentenceRecipe, SentenceTable, fit_encoder
from biomed.terms.names import medical_terms, percent
from domainbert.cli import options
from domainbert.cli.console import one_line_errors, say
from domainbert.settings import Settings
from domainbert.tables import TableError
from domainbert.training.checkpoints import training_run
from domainbert.training.recipes import read_recipe, recipe_file
from recipes.relations import (
    SENTENCE_END,
    concept_key,
    medquad_documents,
    read_concepts,
    spaced,
)
from recipes.terms import MEDQUAD, PUBMED, RATED_PAIRS, Row, all_relations, drawn, frame, repeated

if TYPE_CHECKING:
    from collections.abc import Iterator

PUBMEDQA = "qa/pubmedqa_labeled.json"
TEST, VALIDATION = 5, 10  # percent of MedQuAD's concepts: below 5 for the test, below 10 to choose
# Percent of PubMedQA's questions: below 50 for the test, below 60 to choose.
PUBMEDQA_TEST, PUBMEDQA_VALIDATION = 50, 60
CHOOSING = 300  # questions of MedQuAD that choose the weights
SHORT, LONG = 40, 400  # characters of a neighbouring sentence
Times = Annotated[float, Field(ge=0)]
MEASURES = ("MRR@10", "recall@1")
SCORES_NOTE = (
    "On questions and concepts that were held out of training by a hash. No rated pair was trained "
    "on. 95% intervals from 1,000 resamples of questions or pairs."
)


class Sources(Settings):
    """The `[sources]` table: how often an epoch reads each source; 0.5 is a random half of it.

    Attributes:
        answers: MedQuAD's questions with the opening of their answers.
        abstracts: PubMedQA's questions with each paragraph of their abstracts.
        neighbours: consecutive sentences of PubMed abstracts.
        synonyms: names of one term of the package's vocabulary.
        groups: names of one group of it.
        names: names of one concept of MedQuAD.
        definitions: a name with a sentence that defines it.
    """

    answers: Times = 1.0
    abstracts: Times = 1.0
    neighbours: Times = 0.05
    synonyms: Times = 1.0
    groups: Times = 1.0
    names: Times = 1.0
    definitions: Times = 1.0


class MedicalTable(SentenceTable):
    """The `[model]` table.

    Attributes:
        opening: characters of an answer or paragraph that training reads, to a sentence's end.
    """

    objective: Literal["contrastive"] = "contrastive"
    opening: Annotated[int, Field(ge=100)] = 500


class MedicalRecipe(SentenceRecipe):
    """A recipe of medical sentence vectors.

    Attributes:
        model: encoder, pooling, and what is kept.
        sources: what is trained on.
    """

    model: MedicalTable = MedicalTable()
    sources: Sources = Sources()


def train_medical(
    recipe: MedicalRecipe,
    data: Path,
    *,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> SentenceEncoder:
    """Train by a recipe, and measure beside the plain encoder.

    Args:
        recipe: the plan.
        data: folder of the public data sets; rated pairs there are only measured on.
        checkpoints: folder that keeps the checkpoints; a temporary one by default.
        resume: continue from the last checkpoint there.

    Raises:
        TableError: a file that training needs is missing.
    """
    trained = fit(recipe, data, checkpoints=checkpoints, resume=resume)
    plain = SentenceEncoder.from_pretrained(recipe.model.encoder)
    trained.manifest |= {
        "card": recipe.card.model_dump(),
        "scores": {"plain encoder": measure(plain, data), "this model": measure(trained, data)},
        "scores_note": SCORES_NOTE,
    }
    return trained


def measure(encoder: SentenceEncoder, data: Path) -> dict[str, Any]:
    """The rows of the card's table of scores, all on what training never saw.

    Args:
        encoder: gives the vectors.
        data: folder of the public data sets; without rated pairs of terms, that row is left out.

    Raises:
        TableError: a file is missing.
    """
    questions = questions_and_answers(data, side="test")
    abstracts = [(question, " ".join(parts)) for question, parts in read_abstracts(data)]
    asked = [row for row in abstracts if percent(row[0]) < PUBMEDQA_TEST]
    columns = ["first", "second"]
    number = len({question for question, _ in asked})
    pubmedqa = evaluate_retrieval(
        encoder, pd.DataFrame(asked, columns=columns), others=[text for _, text in abstracts]
    )
    found = {
        f"PubMedQA, {number} questions among {len(abstracts):,} abstracts": pubmedqa,
        f"MedQuAD, {questions['first'].nunique()} questions among their answers": (
            evaluate_retrieval(encoder, questions)
        ),
    }
    scores: dict[str, Any] = {
        f"{name}: {metric}": asdict(ways["meaning"].scores[metric])
        for name, ways in found.items()
        for metric in MEASURES
    }
    if (rated := data / RATED_PAIRS).is_file():
        pairs = read_pairs(rated)
        interval = evaluate_pairs(encoder, pairs).scores["Spearman"]
        scores[f"Spearman with physicians, UMNSRS-sim ({len(pairs)} pairs)"] = asdict(interval)
    return scores


def fit(
    recipe: MedicalRecipe,
    data: Path,
    *,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> SentenceEncoder:
    """Train by in-batch negatives on medical texts that belong together; see `train_medical`."""
    return fit_encoder(
        {name: frame(rows) for name, rows in training_rows(recipe, data).items()},
        questions_that_choose(recipe, data),
        recipe,
        checkpoints=checkpoints,
        resume=resume,
    )


def training_rows(recipe: MedicalRecipe, data: Path) -> dict[str, list[Row]]:
    """The training rows by source; rows with one key are never negatives of each other.

    Raises:
        TableError: a file is missing.
    """
    seed, chooser = recipe.training.seed, random.Random(recipe.training.seed)  # noqa: S311
    longest = recipe.model.opening
    related = all_relations(medical_terms(), read_concepts(data / MEDQUAD), data, limit=0)
    # Some answers stand under several concepts, of which one is held out.
    held = {answer for _, answer, key in read_answers(data) if percent(key) < VALIDATION}
    rows: dict[str, list[Row]] = {
        "answers": [
            (question, opening(answer, longest), key)
            for question, answer, key in read_answers(data)
            if percent(key) >= VALIDATION and answer not in held
        ],
        "abstracts": [
            (question, opening(paragraph, longest), question)
            for question, paragraphs in read_abstracts(data)
            if percent(question) >= PUBMEDQA_VALIDATION
            for paragraph in paragraphs
        ],
        "neighbours": list(neighbours(data)),
    }
    for name in ("synonyms", "groups", "names", "definitions"):
        rows[name] = drawn(related[name], chooser)
    return {
        name: repeated(part, getattr(recipe.sources, name), seed=seed)
        for name, part in rows.items()
    }


def questions_that_choose(recipe: MedicalRecipe, data: Path) -> pd.DataFrame:
    """The held-out questions that choose the weights, with the openings of their passages."""
    held = questions_and_answers(data, side="validation")
    rows = held.head(CHOOSING).to_numpy().tolist()
    rows += [
        (question, " ".join(paragraphs))
        for question, paragraphs in read_abstracts(data)
        if PUBMEDQA_TEST <= percent(question) < PUBMEDQA_VALIDATION
    ]
    pairs = pd.DataFrame(rows, columns=["first", "second"])
    return pairs.assign(second=[opening(text, recipe.model.opening) for text in pairs["second"]])


def questions_and_answers(data: Path, *, side: str) -> pd.DataFrame:
    """MedQuAD's held-out questions (`first`) and their whole answers (`second`).

    Args:
        data: folder of the public data sets.
        side: "validation" or "test"; different concepts.
    """
    sides = {"test": range(TEST), "validation": range(TEST, VALIDATION)}[side]
    # A question that several documents share has several answers.
    held = [row[:2] for row in read_answers(data) if percent(row[2]) in sides]
    return pd.DataFrame(held, columns=["first", "second"])


def read_answers(data: Path) -> Iterator[Row]:
    """Question, answer and key of the concept of MedQuAD, where there is an answer.

    Raises:
        TableError: no such file.
    """
    for document in medquad_documents(data / MEDQUAD):
        key = concept_key(document)
        for entry in document["questions"]:
            if entry["answer"]:
                yield spaced(entry["question"]), spaced(entry["answer"]), key


def read_abstracts(data: Path) -> Iterator[tuple[str, list[str]]]:
    """The question and the paragraphs of each entry of PubMedQA.

    Raises:
        TableError: no such file.
    """
    path = data / PUBMEDQA
    _check(path)
    for entry in json.loads(path.read_text(encoding="utf-8")).values():
        yield entry["QUESTION"], entry["CONTEXTS"]


def neighbours(data: Path) -> Iterator[Row]:
    """Consecutive sentences of PubMed abstracts, neither of which is very short or long.

    Raises:
        TableError: no such file.
    """
    path = data / PUBMED
    _check(path)
    with gzip.open(path, "rt", encoding="utf-8") as handle:
        lines = [line.strip() for line in handle]
    for number in range(0, len(lines) - 1, 2):
        first, second = lines[number : number + 2]
        if all(SHORT < len(text) < LONG for text in (first, second)):
            # Neighbouring pairs may be of one abstract, so ten of them share a key.
            yield first, second, f"pubmed {number // 20}"


def opening(text: str, longest: int) -> str:
    """The first sentences of a text, up to so many characters; at least one sentence."""
    kept = ""
    for part in SENTENCE_END.split(text):
        if kept and len(kept) + len(part) >= longest:
            break
        kept = f"{kept} {part}".strip()
    return kept[:longest]


def _check(path: Path) -> None:
    if not path.is_file():
        msg = f"{path}: no such file; see the data sets in the model's card"
        raise TableError(msg)


@one_line_errors
def main(
    data: Annotated[Path, typer.Argument(help="Folder of the public data sets.")],
    *,
    out: options.ModelFolder,
    recipe: options.RecipeFile = None,
    checkpoints: options.Checkpoints = None,
    resume: options.Resume = False,
) -> None:
    """Train the model by recipes/sentences.toml, measure it, and write the model folder."""
    plan = read_recipe(MedicalRecipe, recipe or recipe_file("sentences"))
    with training_run(out, checkpoints, resume=resume) as run:
        run.save(train_medical(plan, data, checkpoints=run.checkpoints, resume=resume))
    say(f"model in {out}; its card says how it was made and how good it is")


if __name__ == "__main__":
    typer.run(main)
