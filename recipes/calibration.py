"""Calibration of entity scores: how often an entity with a score of 0.8 is right.

    python -m recipes.calibration MODEL DEVEL... --test TEST --out MODEL

Platt scaling (Platt 1999) of the log-odds of the network's score, for each entity type, fitted on
the entities that the network finds in devel sides. The map is monotone, so the order of the
entities of a type stays.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pandas as pd
import typer
from rich.table import Table

from biomed.corpora.corpus import Gold, read_gold
from biomed.corpora.documents import spans_of
from biomed.ner.evaluation import evaluate_documents, evaluate_words
from biomed.ner.tagger import EntityTagger
from domainbert.cli.console import one_line_errors, say, stdout
from domainbert.errors import UserError
from domainbert.files import check_output, write_json
from domainbert.models.manifest import Calibration, score_text
from domainbert.statistics.calibration import (
    calibrated,
    calibration_error,
    fit_platt,
    logit,
    reliability_curve,
)
from domainbert.statistics.figures import (
    COLOURS,
    DASHES,
    GREY,
    drawing,
    new_axes,
    save_figure,
)
from recipes import commands  # noqa: TC001, typer reads it
from recipes.notes.corpus import notes_gold, sections_gold

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_FEWEST = 50  # entities to fit a type on
_NOTE = (
    "Platt scaling for each entity type makes the score the probability that an entity is right; "
    "fitted on the {entities} entities that the model finds in {devel}. The expected calibration "
    "error before and after is {errors}; on devel each half was measured by a fit on the other. "
    "The table is of {table}."
)


@drawing()
def plot_reliability(
    curves: Mapping[str, tuple[np.ndarray, np.ndarray]], path: str | Path
) -> None:
    """Draw the share of right ones against the score, a line for each {name: (scores, right)}."""
    figure, (axes,) = new_axes((5, 4.2))
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
    for number, (name, (scores, right)) in enumerate(curves.items()):
        curve = reliability_curve(right, scores)
        axes.plot(
            curve["predicted"],
            curve["observed"],
            marker="o",
            markersize=4,
            color=COLOURS[number % len(COLOURS)],
            linestyle=DASHES[number % len(DASHES)],
            label=f"{name} (error {calibration_error(right, scores):.3f})",
        )
    axes.set(
        xlim=(0, 1),
        ylim=(0, 1.02),
        xlabel="score",
        ylabel="share that is right",
    )
    axes.legend(loc="upper left", frameon=False)
    save_figure(figure, path)


def scored_entities(
    model: EntityTagger, golds: Iterable[Gold]
) -> pd.DataFrame:
    """The entities that a network finds in corpora, of the types that each corpus annotates.

    Returns:
        Columns `label`, `score` (the network's own, before any calibration) and `right`,
        one row for each entity, in text order.
    """
    rows: list[tuple[str, float, bool]] = []
    model = copy(model)
    model.settings = model.settings.replaced(calibration={})
    for gold in golds:
        entities = model.entities(
            model.word_tokenizer.tokenize(text.words) for text in gold.texts
        )
        for text, spans in zip(gold.texts, entities, strict=True):
            right = set(spans_of(text.tags))
            rows += [
                (label, score, (first, end, label) in right)
                for first, end, label, score in spans
                if label in gold.types
            ]
    return pd.DataFrame(rows, columns=["label", "score", "right"])


def fit_maps(entities: pd.DataFrame) -> dict[str, list[float]]:
    """Slope and intercept on the log-odds of each type, from `scored_entities`.

    Raises:
        UserError: a type with fewer than 50 entities, with only right or only wrong ones, or with
            scores that allow no calibration (see `fit_platt`).
    """
    maps: dict[str, list[float]] = {}
    for label, part in entities.groupby("label"):
        if len(part) < _FEWEST or part["right"].nunique() < 2:
            msg = f"{label}: {len(part)} entities found; expected {_FEWEST}, right and wrong"
            raise UserError(msg)
        try:
            maps[str(label)] = list(
                fit_platt(logit(part["score"]), part["right"])
            )
        except UserError as error:
            raise UserError(f"{label}: {error}") from None
    if not maps:
        raise UserError(
            "the model finds no entity in these corpora; nothing to calibrate on"
        )
    return maps


def apply(
    maps: Mapping[str, Sequence[float]], entities: pd.DataFrame
) -> np.ndarray:
    """The calibrated scores, shape (entities,); those of types without a map stay."""
    result = entities["score"].to_numpy(copy=True)
    for label, (slope, intercept) in maps.items():
        chosen = (entities["label"] == label).to_numpy()
        result[chosen] = calibrated(result[chosen], slope, intercept)
    return result


def cross_fitted(entities: pd.DataFrame) -> np.ndarray:
    """Calibrated scores by maps that were fitted on the other half, every second entity."""
    half = np.arange(len(entities)) % 2 == 0
    result = np.empty(len(entities))
    for side in (half, ~half):
        result[side] = apply(fit_maps(entities[~side]), entities[side])
    return result


def calibrate(
    model: EntityTagger, devel: Sequence[Gold], test: Sequence[Gold] = ()
) -> tuple[Calibration, pd.DataFrame]:
    """Fit a model's scores on devel sides, and measure them on others.

    The model's settings and manifest are changed; precision, recall and F1 on the sides that are
    only measured go to its card.

    Raises:
        UserError: too few entities, see `fit_maps`, or two test sides of one name.

    Returns:
        The note of the manifest, the errors on each side, and bins of the calibrated scores on the
        sides that were only measured, or on devel if there are none; and the entities of these
        sides (see `scored_entities`), with their calibrated scores in the column `after`.
    """
    names = ["devel", *(gold.name for gold in test)]
    repeated_names = {name for name in names if names.count(name) > 1}
    if repeated_names:
        raise UserError(
            f"two sides are named {', '.join(repeated_names)}; rename one of the files"
        )
    entities = scored_entities(model, devel)
    maps = fit_maps(entities)
    # The card has the scores that users get: those of the calibrated model.
    model.settings = model.settings.replaced(calibration=maps)
    parts = {"devel": entities.assign(after=cross_fitted(entities))}
    for gold in test:
        scored = scored_entities(model, [gold])
        parts[gold.name] = scored.assign(after=apply(maps, scored))
        evaluate = evaluate_documents if gold.documents else evaluate_words
        scores = evaluate(model, gold)
        model.manifest.scores.add_row(gold.name, scores.card_row())
    sides = {name: _errors(part) for name, part in parts.items()}
    shown_names = names[1:] or names
    shown = pd.concat([parts[name] for name in shown_names])
    curve = reliability_curve(shown["right"], shown["after"])
    bins = curve[["predicted", "observed", "count"]].itertuples(index=False)
    error_texts = [
        f"{side['before']:.3f} and {side['after']:.3f} on {name}"
        for name, side in sides.items()
    ]
    note = _NOTE.format(
        entities=f"{len(entities):,}",
        devel=", ".join(gold.name for gold in devel),
        errors=", ".join(error_texts),
        table=", ".join(shown_names),
    )
    calibration = Calibration(
        note=note, errors=sides, bins=list(map(tuple, bins))
    )
    model.manifest.calibration = calibration
    return calibration, shown


def _errors(entities: pd.DataFrame) -> dict[str, float]:
    """How many entities of a side are right, and the calibration errors of their scores."""
    right = entities["right"]
    return {
        "entities": len(entities),
        "right": float(right.mean()),
        "before": calibration_error(right, entities["score"]),
        "after": calibration_error(right, entities["after"]),
    }


def thinned(gold: Gold, limit: int | None) -> Gold:
    """At most so many of the texts, evenly spread."""
    if limit is None or len(gold.texts) <= limit:
        return gold
    rows = np.linspace(0, len(gold.texts) - 1, limit).astype(int).tolist()
    return Gold(gold.name, tuple(gold.texts[row] for row in rows))


@one_line_errors
def main(
    name: commands.ModelName,
    golds: Annotated[
        list[Path],
        typer.Argument(
            metavar="GOLD...", help="Devel sides, never a test side."
        ),
    ],
    test: Annotated[
        list[Path] | None,
        typer.Option(
            help="A test side, whose scores go to the card; may be repeated."
        ),
    ] = None,
    data: Annotated[
        Path,
        typer.Option(
            help="Folder of the public data, with the texts of the real sections."
        ),
    ] = Path("../shared/data"),
    texts: Annotated[
        int | None,
        typer.Option(
            min=1, help="Maximum number of texts of each GOLD, evenly spread."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the calibrated model to this folder."),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw the reliability diagram (.png, .svg, .pdf)."),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(help="Also write the numbers to this file.")
    ] = None,
) -> None:
    """Calibrate an entity model's scores, and show the calibration error before and after."""
    test_paths = test or []
    for path in filter(None, (figure, json)):
        check_output(path, [*golds, *test_paths])
    model = EntityTagger.from_pretrained(name)
    devel = [thinned(_side(path, data), texts) for path in golds]
    test_sides = [_side(path, data) for path in test_paths]
    numbers, scored = calibrate(model, devel, test_sides)
    table = Table(
        "expected calibration error", "entities", "right", "before", "after"
    )
    for side, errors in numbers.errors.items():
        table.add_row(side, *map(score_text, errors.values()))
    stdout.print(table)
    if figure:
        right = scored["right"].to_numpy()
        curves = {
            "before": (scored["score"].to_numpy(), right),
            "calibrated": (scored["after"].to_numpy(), right),
        }
        plot_reliability(curves, figure)
    if json:
        document = {
            "maps": model.settings.calibration,
            "note": numbers.note,
            "sides": numbers.errors,
            "bins": numbers.bins,
        }
        write_json(document, json)
    if out:
        model.save_pretrained(out)
        say(f"calibrated model in {out}")


def _side(path: Path, data: Path) -> Gold:
    """A gold standard, named after its folder and file; a corpus of notes, or as `read_gold`."""
    folder_name = path.resolve().parent.name
    if path.suffix != ".jsonl":
        return replace(read_gold(path), name=f"{folder_name} {path.stem}")
    side: Any = path.stem
    if folder_name == "real-sections":
        return sections_gold(side, data)
    return notes_gold(side)


if __name__ == "__main__":
    typer.run(main)
