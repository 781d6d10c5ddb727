"""The commands `biomed ner dictionary` and `links`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from domainbert.console import one_line_errors, say, stdout
from domainbert.errors import UserError
from domainbert.files import check_output, write_json


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
    most: Annotated[int, typer.Option(min=1, help="Maximum number of held-out names.")] = 2000,
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
