"""Train the shipped model `terms`, and measure it beside the plain encoder.

python -m recipes.terms ../shared/data --out MODEL
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from biomed.sentences.training import fit_encoder
from biomed.terms.similarity import TermEmbedder
from domainbert.models.manifest import Scores
from recipes.categories import vocabulary_terms
from recipes.commands import training_command
from recipes.terms.measuring import SCORES_NOTE, measure
from recipes.terms.objective import RatedObjective
from recipes.terms.recipe import MedicalTermRecipe
from recipes.terms.training_sets import frame, training_sets
from recipes.vocabularies import CHOOSING, held_out, read_vocabularies

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pandas as pd

    from recipes.vocabularies import Entry


def train_medical_terms(
    recipe: MedicalTermRecipe, data: Path, **resuming: Any
) -> TermEmbedder:
    """Train by a recipe, and measure beside the plain encoder.

    Args:
        recipe: the settings.
        data: folder of the public data sets.
        **resuming: `checkpoints` and `resume`, see `biomed.sentences.training.fit`.

    Raises:
        TableError: a file that training needs is missing.
    """
    terms = vocabulary_terms()
    entries = read_vocabularies(data)
    plain = TermEmbedder.from_pretrained(recipe.model.encoder)
    trained = fit_encoder(
        training_sets(recipe, terms, entries, data, embedder=plain),
        validation_pairs(entries),
        recipe,
        model_class=TermEmbedder,
        objective_class=RatedObjective,
        **resuming,
    )
    manifest = trained.manifest
    n_held_out = int(terms["held_out"].sum())
    manifest.data.counts["terms of the vocabulary held out"] = n_held_out
    manifest.card = recipe.card
    table = {
        "plain encoder": measure(plain, terms, entries, data),
        "this model": measure(trained, terms, entries, data),
    }
    manifest.scores = Scores(table=table, note=SCORES_NOTE)
    return trained


def validation_pairs(entries: Iterable[Entry]) -> pd.DataFrame:
    """Two synonyms of each MeSH disease that chooses the weights, with its preferred name."""
    rows = []
    for entry in held_out(entries, CHOOSING):
        preferred, *synonyms = entry.names
        rows += [(name, preferred, preferred) for name in synonyms[:2]]
    return frame(rows)


main = training_command("terms", MedicalTermRecipe, train_medical_terms)


if __name__ == "__main__":
    typer.run(main)
