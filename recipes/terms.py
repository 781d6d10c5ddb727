"""The shipped model `terms`: vectors of medical terms, trained on public vocabularies.

Run it with `python -m recipes.terms ../shared/data --out MODEL`.
"""

from __future__ import annotations

import random
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
import pandas as pd
import typer
from pydantic import Field

from biomed.sentences.data import read_pairs
from biomed.sentences.evaluation import (
    TextEvaluation,
    evaluate_pairs,
    mean_scores,
)
from biomed.sentences.training import SentenceRecipe, fit_encoder
from biomed.terms.similarity import TermEmbedder
from domainbert.cli import options
from domainbert.cli.console import one_line_errors, say
from domainbert.cli.training import training_run
from domainbert.errors import UserError
from domainbert.models.manifest import Scores
from domainbert.models.pooling import unit
from domainbert.settings import Settings
from domainbert.statistics.bootstrap import RESAMPLES
from domainbert.training.recipes import read_recipe, recipe_file
from recipes.categories import (
    evaluate_categories,
    measured_terms,
    vocabulary_terms,
)
from recipes.relations import (
    context_relations,
    definition_relations,
    held_out_names,
    icd9_relations,
    name_keys,
    name_relations,
    read_concepts,
    read_sentences,
    vocabulary_relations,
    without_names,
)
from recipes.vocabularies import (
    CHOOSING,
    HPO,
    MEASURED,
    MESH,
    MONDO,
    family_rows,
    held_out,
    look_alikes,
    name_key,
    read_vocabularies,
    synonym_rows,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recipes.relations import Concept, Relation
    from recipes.vocabularies import Entry

MEDQUAD = "text/medquad.jsonl.gz"
ICD9 = "readmission/icd9_diagnosis_long_titles.txt"
PUBMED = "text/pubmed_sentences.txt.gz"
RATED_PAIRS = "terms/umnsrs_similarity_half.csv"
CONTEXTS = 5  # sentences of one name
MOST_SYNONYMS = {MESH: 8, MONDO: 3, HPO: 3}
SCORES_NOTE = (
    "No rated pair was trained on, and no name, in any spelling, of a held-out term or of the "
    "tenth of MeSH that is held out. 95% intervals from 1,000 resamples of pairs, terms or "
    "synonyms."
)
Times = Annotated[float, Field(ge=0)]
AnyRow = TypeVar("AnyRow")
Row = tuple[
    str, str, str
]  # first text, second text, key of what both are about


class Relations(Settings):
    """How often an epoch reads each source; 0.5 is a random half of it.

    Attributes:
        synonyms: a term of the vocabulary with its synonyms.
        groups: terms of one group.
        categories: terms of one category.
        names: the names of a MedQuAD concept.
        definitions: a name with a sentence that defines it, in which the name is replaced.
        icd9: titles of one ICD-9 category.
        contexts: a name with a sentence that contains it, in which the name is replaced.
        vocabularies: a synonym with the preferred name of its concept in MeSH, MONDO or HPO, and
            the name of another concept that looks like it.
        families: a concept of MeSH or HPO with its parent or a child of the same parent.
    """

    synonyms: Times = 1.0
    groups: Times = 1.0
    categories: Times = 1.0
    names: Times = 1.0
    definitions: Times = 1.0
    icd9: Times = 1.0
    contexts: Times = 1.0
    vocabularies: Times = 1.0
    families: Times = 1.0


class MedicalTermRecipe(SentenceRecipe):
    """A recipe of term vectors from public vocabularies.

    Attributes:
        relations: what is trained on.
    """

    relations: Relations = Relations()


def train_medical_terms(
    recipe: MedicalTermRecipe,
    data: Path,
    *,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> TermEmbedder:
    """Train by a recipe, and measure beside the plain encoder.

    Args:
        recipe: the plan.
        data: folder of the public data sets; rated pairs there are only measured on.
        checkpoints: folder that keeps the checkpoints; a temporary one by default.
        resume: continue from the last checkpoint there.

    Raises:
        TableError: a file that training needs is missing.
    """
    terms, entries = vocabulary_terms(), read_vocabularies(data)
    plain = TermEmbedder.from_pretrained(recipe.model.encoder)
    choosing = held_out(entries, CHOOSING)
    trained = fit_encoder(
        training_sets(recipe, terms, entries, data, embedder=plain),
        frame(
            [
                (name, e.names[0], e.names[0])
                for e in choosing
                for name in e.names[1:3]
            ]
        ),
        recipe,
        model_class=TermEmbedder,
        checkpoints=checkpoints,
        resume=resume,
    )
    manifest = trained.manifest
    n_held_out = int(terms["held_out"].sum())
    manifest.data.counts["terms of the vocabulary held out"] = n_held_out
    places = terms, entries, data / RATED_PAIRS
    manifest.card = recipe.card
    manifest.scores = Scores(
        table={
            "plain encoder": measure(plain, *places),
            "this model": measure(trained, *places),
        },
        note=SCORES_NOTE,
    )
    return trained


def training_sets(
    recipe: MedicalTermRecipe,
    terms: pd.DataFrame,
    entries: list[Entry],
    data: Path,
    *,
    embedder: TermEmbedder,
) -> dict[str, pd.DataFrame]:
    """The pairs of each source, `first, second, key`; those of the vocabularies have a `negative`.

    Args:
        recipe: says how often each source is read.
        terms: from `vocabulary_terms`.
        entries: from `read_vocabularies`.
        data: folder of the public data sets.
        embedder: finds the names that look alike.
    """
    times, seed = recipe.relations, recipe.training.seed
    apart = [*held_out(entries, MEASURED), *held_out(entries, CHOOSING)]
    names = {name_key(name) for entry in apart for name in entry.names}
    chooser = random.Random(seed)  # noqa: S311  (no secret)
    rows: dict[str, list[Row]] = {}
    for name, part in all_relations(
        terms, read_concepts(data / MEDQUAD), data
    ).items():
        kept = [
            each
            for each in part
            if names.isdisjoint(map(name_key, each.texts))
        ]
        rows[name] = drawn(
            repeated(kept, getattr(times, name), seed=seed), chooser
        )
    used = without(
        entries, names | {name_key(name) for name in held_out_names(terms)}
    )
    rows["families"] = repeated(
        family_rows(used, seed=seed), times.families, seed=seed
    )
    synonyms = synonym_rows(used, most=MOST_SYNONYMS, seed=seed)
    synonyms = repeated(synonyms, times.vocabularies, seed=seed)
    near = look_alikes(synonyms, used, embedder, seed=seed)
    sets = {name: frame(part) for name, part in rows.items()}
    return {**sets, "vocabularies": frame(synonyms).assign(negative=near)}


def drawn(relations: Sequence[Relation], chooser: random.Random) -> list[Row]:
    """Two texts of each relation, drawn at random, and its key."""
    return [(*chooser.sample(r.texts, 2), r.key) for r in relations]


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Rows of two texts and the key of what they are about: `first, second, key`."""
    return pd.DataFrame(rows, columns=["first", "second", "key"])


def all_relations(
    vocabulary: pd.DataFrame,
    concepts: list[Concept],
    data: Path,
    *,
    limit: int | None = None,
) -> dict[str, list[Relation]]:
    """All training relations by source; no text contains a held-out name.

    Args:
        vocabulary: from `vocabulary_terms`.
        concepts: from `recipes.relations.read_concepts`.
        data: folder of the public data sets.
        limit: sentences read for contexts at most.

    Raises:
        TableError: a file is missing.
    """
    held_out = held_out_names(vocabulary)
    without = {name.casefold() for name in held_out}
    sentences = islice(read_sentences(data / MEDQUAD, data / PUBMED), limit)
    names = name_keys(concepts, vocabulary)
    sources = {
        "synonyms": vocabulary_relations(vocabulary, level="term"),
        "groups": vocabulary_relations(vocabulary, level="group"),
        "categories": vocabulary_relations(vocabulary, level="category"),
        "names": name_relations(concepts, without=without),
        "definitions": definition_relations(concepts, without=without),
        "icd9": icd9_relations(data / ICD9, without=without),
        "contexts": context_relations(names, sentences, limit=CONTEXTS),
    }
    return {
        name: without_names(part, held_out) for name, part in sources.items()
    }


def repeated(
    relations: Sequence[AnyRow], times: float, *, seed: int
) -> list[AnyRow]:
    """The rows repeated `times` times; 1.5 is all rows and a random half of them again."""
    whole = int(times)
    chooser = random.Random(seed)  # noqa: S311  (no secret)
    part = chooser.sample(
        list(relations), round((times - whole) * len(relations))
    )
    return [*relations] * whole + part


def measure(
    embedder: TermEmbedder,
    vocabulary: pd.DataFrame,
    entries: Sequence[Entry],
    pairs: Path,
) -> dict[str, Any]:
    """The rows of the card's table of scores; rated pairs where the file is there."""
    measured = {}
    if pairs.is_file():
        rated = evaluate_pairs(embedder, read_pairs(pairs))
        measured["pairs rated by physicians"] = rated
    measured["held-out terms"] = evaluate_categories(embedder, vocabulary)
    measured["synonyms of held-out terms"] = evaluate_synonyms(
        embedder, vocabulary
    )
    mesh = pd.DataFrame(
        {
            "term": e.names[0],
            "synonyms": list(e.names[1:]),
            "held_out": e in wanted,
        }
        for wanted in [held_out(entries, MEASURED)]
        for e in entries
        if e.source == MESH
    )
    first = mesh.assign(synonyms=mesh["synonyms"].str[:1])
    measured["synonyms of held-out MeSH diseases"] = evaluate_synonyms(
        embedder, mesh
    )
    measured["first synonyms of held-out MeSH diseases"] = evaluate_synonyms(
        embedder, first
    )
    return {
        f"{name}, {len(evaluation.table)} {kind}": asdict(score)
        for kind, evaluation in measured.items()
        for name, score in evaluation.scores.items()
    }


def evaluate_synonyms(
    embedder: TermEmbedder,
    vocabulary: pd.DataFrame,
    *,
    bootstrap: int = RESAMPLES,
) -> TextEvaluation:
    """Search each synonym among all terms by its vector.

    Args:
        embedder: gives the vectors.
        vocabulary: `term, synonyms`; with a column `held_out` only the synonyms of held-out terms
            are searched, among all terms.
        bootstrap: resamples of synonyms.

    Returns:
        The score "own term first for a synonym" (the share of synonyms whose own term is
        nearest); the table `synonym, term, found` (the nearest term) and `own_rank` (of the own
        term, from 1), the worst synonyms first.

    Raises:
        UserError: no term has a synonym.
    """
    rows = vocabulary.reset_index(drop=True)
    pairs = rows.loc[measured_terms(rows), "synonyms"].explode().dropna()
    if pairs.empty:
        raise UserError(
            "no term of this vocabulary has a synonym; expected a column synonyms"
        )
    terms = rows["term"].to_numpy(dtype=object)
    cosines = (
        unit(embedder.embed(pairs.tolist()))
        @ unit(embedder.embed(terms.tolist())).T
    )
    each, own = np.arange(len(pairs)), pairs.index.to_numpy()
    ranks = 1 + (cosines > cosines[each, own][:, None]).sum(axis=1)
    columns = {"synonym": pairs.to_numpy(), "term": terms[own]}
    table = pd.DataFrame(
        {**columns, "found": terms[cosines.argmax(axis=1)], "own_rank": ranks}
    )
    name = "own term first for a synonym"
    scores = mean_scores(
        pd.DataFrame({name: ranks == 1}), [name], bootstrap=bootstrap
    )
    table = table.sort_values(
        "own_rank", ascending=False, kind="stable", ignore_index=True
    )
    return TextEvaluation(scores, table)


@one_line_errors
def main(
    data: Annotated[
        Path, typer.Argument(help="Folder of the public data sets.")
    ],
    *,
    out: options.ModelFolder,
    recipe: options.RecipeFile = None,
    checkpoints: options.Checkpoints = None,
    resume: options.Resume = False,
) -> None:
    """Train the model by recipes/terms.toml, measure it, and write the model folder."""
    plan = read_recipe(MedicalTermRecipe, recipe or recipe_file("terms"))
    with training_run(out, checkpoints, resume=resume) as run:
        run.save(
            train_medical_terms(
                plan, data, checkpoints=run.checkpoints, resume=resume
            )
        )
    say(f"model in {out}; its card says how it was made and how good it is")


if __name__ == "__main__":
    typer.run(main)
