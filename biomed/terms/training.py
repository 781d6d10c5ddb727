"""Training of term vectors on synonyms."""

from pathlib import Path
from typing import Unpack

import pandas as pd

from biomed.sentences.training import SentenceRecipe, fit_encoder
from biomed.terms.names import percent, read_vocabulary
from biomed.terms.similarity import TermEmbedder
from domainbert.errors import UserError
from domainbert.tables import require_columns
from domainbert.training.recipes import read_recipe
from domainbert.training.settings import Resuming

VALIDATION = 10  # percent of the concepts


def read_names(path: str | Path) -> pd.DataFrame:
    """Read a vocabulary as `name, id`, with a row for each name of a concept.

    A term and its synonyms are names of one concept, and so are rows with the same id.

    Raises:
        TableError: see `read_vocabulary`; or the table has neither `id` nor `synonyms`.
    """
    table = read_vocabulary(path)
    if "synonyms" not in table.columns:
        require_columns(table.columns, ["id"], source=str(path))
        table["synonyms"] = [[]] * len(table)
    if "id" not in table.columns:
        table["id"] = table["term"]
    names = [
        [term, *synonyms]
        for term, synonyms in zip(
            table["term"], table["synonyms"], strict=True
        )
    ]
    rows = table.assign(name=names).explode("name")
    return rows[["name", "id"]].drop_duplicates(ignore_index=True)


def name_pairs(
    names: pd.DataFrame,
    *,
    seed: int = 0,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Pairs of names of one concept, for training and validation (a tenth of the concepts).

    Args:
        names: `name, id`; a concept with one name has no pair.
        seed: orders the names of a concept.

    Returns:
        Training pairs and validation pairs, `first, second, key`: each name of a concept and
        its next name; `key` is the concept.
    """
    shuffled = names.sample(frac=1, random_state=seed)
    concepts = shuffled.groupby("id", sort=False)["name"]
    next_names = concepts.shift(-1).fillna(concepts.transform("first"))
    pairs = pd.DataFrame(
        {
            "first": shuffled["name"],
            "second": next_names,
            "key": shuffled["id"].astype(str),
        }
    )
    pairs = pairs[pairs["first"] != pairs["second"]]
    is_validation = pairs["key"].map(percent) < VALIDATION
    training = pairs[~is_validation].reset_index(drop=True)
    validation = pairs[is_validation].reset_index(drop=True)
    return training, validation


def fit(
    names: pd.DataFrame,
    recipe: SentenceRecipe | None = None,
    *,
    model_class: type[TermEmbedder] = TermEmbedder,
    **resuming: Unpack[Resuming],
) -> TermEmbedder:
    """Train on the names of concepts; a tenth of the concepts chooses the weights.

    Args:
        names: `name, id`, from `read_names`.
        recipe: how to train, with the objective "contrastive"; by default the recipe "synonyms".
        model_class: the class of the model.
        **resuming: `checkpoints` and `resume`, see `domainbert.training.train.train`.

    Raises:
        UserError: too few concepts have two names.
    """
    recipe = recipe or read_recipe(SentenceRecipe, "synonyms")
    training, validation = name_pairs(names, seed=recipe.training.seed)
    if training.empty or validation.empty:
        raise UserError(
            f"{len(training)} pairs of names to train on and {len(validation)} to choose the "
            "weights by: both are needed; give more concepts with two names or more"
        )
    return fit_encoder(
        {"names": training},
        validation,
        recipe,
        model_class=model_class,
        **resuming,
    )
