"""The commands `biomed ner calibrate`, `dictionary` and `links`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from domainbert.console import one_line_errors, say, stdout
from domainbert.errors import UserError
from domainbert.files import check_output, write_json


@one_line_errors
def calibrate(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="Shipped name or model folder.")],
    golds: Annotated[
        list[Path], typer.Argument(metavar="GOLD...", help="Devel sides, never a test side.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write the calibrated model to this folder.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the reliability diagram (.png, .svg, .pdf).")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Also write the numbers to this file.")] = None,
) -> None:
    """Make an entity model's scores probabilities, and show how far they are from being so."""
    from biomed.corpora import read_gold
    from biomed.ner import calibration as maps
    from biomed.ner.network import WordTagger

    for path in filter(None, (figure, json)):
        check_output(path, golds)
    model = WordTagger.from_pretrained(name)
    found = maps.scored_entities(model, [read_gold(path) for path in golds])
    fitted = maps.fit_maps(found)
    curves = {"score": (found.scores, found.right)}
    curves["calibrated on the other half"] = (maps.cross_fitted(found), found.right)
    errors = {each: maps.calibration_error(*curve) for each, curve in curves.items()}
    stdout.print(f"{len(found.scores):,} entities, {found.right.mean():.1%} right")
    for each, error in errors.items():
        stdout.print(f"expected calibration error, {each}: {error:.3f}")
    if figure:
        maps.plot_reliability(curves, figure)
    if json:
        bins = {each: maps.bins_of(*curve) for each, curve in curves.items()}
        write_json({"maps": fitted, "errors": errors, "bins": bins}, json)
    if out:
        model.settings = model.settings.replaced(calibration=fitted)
        model.save_pretrained(out)
        say(f"calibrated model in {out}")


@one_line_errors
def dictionary(
    *,
    out: Annotated[Path, typer.Option(help="The table to write, with the columns name and id.")],
    medquad: Annotated[
        Path | None, typer.Option(help="MedQuAD (.jsonl.gz): names of UMLS concepts.")
    ] = None,
    icd9: Annotated[
        Path | None, typer.Option(help="ICD-9-CM long titles, a code and its title on each line.")
    ] = None,
    vocabulary: Annotated[
        bool, typer.Option("--vocabulary", help="The shipped vocabulary with its synonyms.")
    ] = False,
) -> None:
    """Write a dictionary for `biomed ner tag --dictionary`."""
    import pandas as pd

    from biomed.ner.dictionaries import icd9_names, medquad_names, vocabulary_names
    from domainbert.tables import write_table

    check_output(out, [path for path in (medquad, icd9) if path])
    pairs = [
        *(medquad_names(medquad) if medquad else ()),
        *(icd9_names(icd9) if icd9 else ()),
        *(vocabulary_names() if vocabulary else ()),
    ]
    if not pairs:
        raise UserError("name at least one source: --medquad, --icd9 or --vocabulary")
    write_table(pd.DataFrame(pairs, columns=["name", "id"]), out)
    say(f"{len(pairs):,} names of {len({i for _, i in pairs}):,} concepts; written to {out}")


@one_line_errors
def links(
    source: Annotated[
        Path, typer.Argument(metavar="DICTIONARY", help="A table with the columns name and id.")
    ],
    model: Annotated[
        str | None, typer.Option(help="Shipped name or folder of a term model; else by name only.")
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Held-out names at most.")] = 2000,
    json: Annotated[Path | None, typer.Option(help="Also write the scores to this file.")] = None,
) -> None:
    """Measure linking: hold out a name of each concept, and look it up in the rest."""
    from biomed.ner.dictionaries import hold_out, score_links
    from biomed.ner.linking import Dictionary
    from biomed.terms.embedder import TermEmbedder

    if json:
        check_output(json, [source])
    rest, held = hold_out(Dictionary.read(source), most=most)
    embedder = TermEmbedder.from_pretrained(model) if model else None
    table = Table("by", "names", "linked", "right", "accuracy", "precision")
    scores = score_links(rest, held, embedder=embedder)
    for score in scores:
        shares = (f"{score.accuracy:.3f}", f"{score.precision:.3f}")
        table.add_row(score.way, *map(str, (score.names, score.linked, score.correct)), *shares)
    stdout.print(table)
    if json:
        write_json(
            {score.way: {**vars(score), "accuracy": score.accuracy} for score in scores}, json
        )
