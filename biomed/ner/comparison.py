"""What a change of the recipe bought: trained models beside each other, from their manifests."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from biomed.ner.network import TASK
from domainbert.errors import UserError
from domainbert.storage import CONFIG_KEY

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
    configs = [_config(Path(folder)) for folder in folders]
    settings = [_settings(config) for config in configs]
    names = dict.fromkeys(key for of_one in settings for key in of_one)
    differ = [key for key in names if len({of_one.get(key) for of_one in settings}) > 1]
    rows = []
    for name, config, of_one in zip(_names(folders), configs, settings, strict=True):
        seeds = config["manifest"]["seeds"]
        differing = {key: of_one.get(key, "") for key in differ}
        rows.append({"model": name, **differing, "seeds": len(seeds), **_scores(seeds)})
    return pd.DataFrame(rows).fillna("")


def _names(folders: Sequence[str | Path]) -> list[str]:
    """The folders' names, or their whole paths where two have one name."""
    names = [Path(folder).resolve().name for folder in folders]
    return names if len(set(names)) == len(names) else [str(folder) for folder in folders]


def _config(folder: Path) -> dict[str, Any]:
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))[CONFIG_KEY]
        if config["task"] == TASK and config["manifest"]["seeds"]:
            return config
    except (OSError, ValueError, KeyError, TypeError):
        pass
    msg = f"{folder} is no model folder that `biomed ner train` wrote"
    raise UserError(msg)


def _settings(config: dict[str, Any]) -> dict[str, str]:
    """Everything that the user chose but the seed, by name, as text."""
    manifest, sha256 = config["manifest"], config["encoder_sha256"] or ""
    chosen: dict[str, Any] = {"encoder": f"{Path(config['encoder']).name} {sha256[:8]}".strip()}
    chosen |= config["settings"]
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
