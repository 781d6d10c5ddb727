"""A table of trained entity models: the settings in which they differ, and their F1."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from biomed.ner.network import TASK
from domainbert.console import one_line_errors
from domainbert.errors import UserError
from domainbert.markdown import table
from domainbert.storage import CONFIG_KEY


def compare(folders: Sequence[str | Path]) -> pd.DataFrame:
    """Compare the manifests of trained models, one row a model.

    Args:
        folders: written by `biomed ner train`.

    Returns:
        Columns `model`, each setting that differs ("" where a model has none), `seeds`, and
        `corpus side` for each side that was scored: mean F1 over the seeds, and its standard
        deviation if there are several.

    Raises:
        UserError: a folder that `biomed ner train` did not write.
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
    """The folders' names, or their paths if two have the same name."""
    names = [Path(folder).resolve().name for folder in folders]
    return names if len(set(names)) == len(names) else [str(folder) for folder in folders]


def _config(folder: Path) -> dict[str, Any]:
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))[CONFIG_KEY]
        if config["task"] == TASK and config["manifest"]["seeds"]:
            return config
    except (OSError, ValueError, KeyError, TypeError):
        pass
    msg = f"{folder}: expected a model folder written by `biomed ner train`"
    raise UserError(msg)


def _settings(config: dict[str, Any]) -> dict[str, str]:
    """All settings but the seed, as text."""
    sha256 = config["encoder_sha256"] or ""
    manifest = {**config["manifest"].get("facts", {}), **config["manifest"]}
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


@one_line_errors
def main(
    models: Annotated[list[Path], typer.Argument(help="Folders written by `biomed ner train`.")],
) -> None:
    """Print the comparison as Markdown."""
    found = compare(models)
    typer.echo(table(list(found), found.to_numpy()))


if __name__ == "__main__":
    typer.run(main)
