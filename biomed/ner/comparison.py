"""What a change of the recipe bought: trained models beside each other, from their manifests."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from biomed.ner.network import TASK
from domainbert.adapters import CONFIG_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence


def compare(folders: Sequence[str | Path]) -> pd.DataFrame:
    """One row a model: the settings in which the models differ, and entity F1 on every side.

    Args:
        folders: from `biomed ner train`.

    Returns:
        Columns `model`, each setting that is not the same for all ("" where a model has none),
        `seeds`, and `corpus side` for each corpus and side that some model was scored on: the
        mean over the seeds, with its standard deviation where there are several.

    Raises:
        ValueError: a folder that `biomed ner train` did not write.
    """
    manifests = {Path(folder).resolve().name: _manifest(Path(folder)) for folder in folders}
    settings = {name: _settings(manifest) for name, manifest in manifests.items()}
    names = dict.fromkeys(key for of_one in settings.values() for key in of_one)
    rows = []
    for name, manifest in manifests.items():
        each = {key: [one.get(key) for one in settings.values()] for key in names}
        differing = {
            key: settings[name].get(key, "")
            for key, values in each.items()
            if any(value != values[0] for value in values)
        }
        seeds = manifest["seeds"]
        rows.append({"model": name, **differing, "seeds": len(seeds), **_scores(seeds)})
    return pd.DataFrame(rows).fillna("")


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))[CONFIG_KEY]
        manifest = {**config["manifest"], "encoder": config["encoder"]}
        if config["task"] == TASK and manifest["seeds"]:
            return manifest
    except (OSError, ValueError, KeyError, TypeError):
        pass
    msg = f"{folder} is no model folder that `biomed ner train` wrote"
    raise ValueError(msg)


def _settings(manifest: dict[str, Any]) -> dict[str, str]:
    """Everything that the user chose but the seed, by name, as text."""
    chosen: dict[str, Any] = {"encoder": Path(manifest["encoder"]).name}
    chosen |= {f"{name}, times": corpus["repeat"] for name, corpus in manifest["corpora"].items()}
    chosen |= manifest["augmentation"] | manifest["training"]
    return {
        key: f"{value:g}" if isinstance(value, float) else str(value)
        for key, value in chosen.items()
        if key != "seed"
    }


def _scores(seeds: Sequence[dict[str, Any]]) -> dict[str, str]:
    scores = {}
    for side in ("devel", "test"):
        for corpus in seeds[0].get(side, {}):
            f1 = [run[side][corpus] for run in seeds]
            spread = f" ± {statistics.stdev(f1):.3f}" if len(f1) > 1 else ""
            scores[f"{corpus} {side}"] = f"{statistics.fmean(f1):.3f}{spread}"
    return scores


def markdown(table: pd.DataFrame) -> str:
    """The table as Markdown."""
    rows = [list(table.columns), ["---"] * len(table.columns), *table.astype(str).to_numpy()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
