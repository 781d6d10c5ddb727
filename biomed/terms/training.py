"""Train term vectors on your own synonyms: names that mean the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from biomed.sentences.training import fit_encoder
from biomed.terms.names import percent, read_vocabulary
from biomed.terms.similarity import TermEmbedder
from domainbert.errors import UserError
from domainbert.tables import require_columns

if TYPE_CHECKING:
    import pandas as pd

    from biomed.sentences.training import SentenceRecipe

VALIDATION = 10  # percent of the concepts


def read_names(path: str | Path) -> pd.DataFrame:
    """Read a vocabulary as `name, id`: a row for each name of a concept.

    Rows with the same id are names of one concept; so are, in any row, a term and its synonyms.

    Raises:
        TableError: see `read_vocabulary`; or a table with neither `id` nor `synonyms`.
    """
    table = read_vocabulary(path)
    if "synonyms" not in table.columns:
        require_columns(table.columns, ["id"], source=str(path))
        table["synonyms"] = [[]] * len(table)
    names = [
        [term, *more]
        for term, more in zip(table["term"], table["synonyms"], strict=True)
    ]
    table = table.assign(name=names, id=table.get("id", table["term"])).explode("name")
    return table[["name", "id"]].drop_duplicates(ignore_index=True)


def name_pairs(
    names: pd.DataFrame, *, seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Pairs of names for training and for validation, which has a tenth of the concepts.

    Args:
        names: `name, id`; concepts with one name have no pair.
        seed: of the order of a concept's names.

    Returns:
        Each with `first, second, key`: each name of a concept and the next one of it.
    """
    mixed = names.sample(frac=1, random_state=seed)
    groups = mixed.groupby("id", sort=False)["name"]
    follower = groups.shift(-1).fillna(groups.transform("first"))
    pairs = mixed.assign(second=follower, key=mixed["id"].astype(str))
    pairs = pairs.rename(columns={"name": "first"})[["first", "second", "key"]]
    pairs = pairs[pairs["first"] != pairs["second"]]
    is_held = pairs["key"].map(percent) < VALIDATION
    return pairs[~is_held].reset_index(drop=True), pairs[is_held].reset_index(drop=True)


def train_from_recipe(
    recipe: SentenceRecipe, names: pd.DataFrame, **place: Any
) -> TermEmbedder:
    """Train on the names of concepts; a tenth of the concepts, by a hash, chooses the weights.

    Args:
        recipe: the plan; its objective must be "contrastive".
        names: `name, id`, from `read_names`.
        **place: `checkpoints` and `resume`, see `domainbert.training.train.train`.

    Raises:
        UserError: too few concepts with two names to train on and to choose by.
    """
    train, held = name_pairs(names, seed=recipe.training.seed)
    if train.empty or held.empty:
        raise UserError(
            f"{len(train)} pairs of names to train on and {len(held)} to choose the weights by: "
            "both are needed; give more concepts with two names or more"
        )
    return fit_encoder(
        {"names": train}, held, recipe, model_class=TermEmbedder, **place
    )
