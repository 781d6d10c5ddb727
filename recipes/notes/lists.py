"""Give a model abbreviations of notes that nearly always mean a disease.

    python -m recipes.notes.lists MODEL DEVEL... --data ../shared/data --out MODEL

No list is written by hand, and nothing is trained. The scores on the devel sides in the model's
card are measured again. The model's scores must be calibrated again.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Annotated

import typer

from biomed.corpora.corpus import read_gold
from biomed.ner.evaluation import evaluate_words
from biomed.ner.tagger import EntityTagger
from domainbert.cli.console import one_line_errors, say
from recipes.notes.open_names import DISEASE, is_no_name, key, listed
from recipes.notes.sections import read_rows

SHARE = 0.9  # of a disease, in every inventory that has the abbreviation
# Chapters of diseases in MeSH's tree, and what MeSH files as no disease of its own: signs and
# symptoms, kinds of diseases ("infectious disease"), and processes of neoplasms.
_DISEASES = re.compile(r"(C(?!2[2-6])|F03)\d*\.")
_NO_DISEASES = re.compile(r"C23\.(888|550\.(291\.\d+$|727))")


def diseases(data: Path) -> set[str]:
    """Keys of the names of diseases in MONDO and MeSH, without findings, tests and procedures."""
    disease_names = set[str]()
    left_out = set[str]()
    for file in ("mondo", "mesh_diseases"):
        for row in read_rows(data / "names" / f"{file}.csv.gz"):
            names = {
                key(name)
                for name in (row["name"], *row["synonyms"].split("|"))
            }
            places = row.get("tree", "").split("|")
            if any(map(_NO_DISEASES.match, places)):
                left_out |= names
            elif file == "mondo" or any(map(_DISEASES.match, places)):
                disease_names |= names
    return {
        name
        for name in disease_names - left_out
        if listed(data).get(name) == DISEASE
    }


def abbreviations(data: Path) -> list[str]:
    """Abbreviations of diseases, as notes spell them, by shares in the inventories of notes.

    Left out: words that are merely cut short ("hep"), lower case, and spellings seen once.
    """
    names = diseases(data)
    shares: dict[str, dict[str, float]] = defaultdict(
        lambda: defaultdict(float)
    )
    spelt: dict[str, Counter[str]] = defaultdict(Counter)
    counted = set[str]()
    for file in sorted((data / "names" / "abbreviations").glob("*.txt")):
        for line in file.read_text("utf-8", errors="replace").splitlines():
            cells = line.split("\t") if "\t" in line else line.split(" ", 1)
            if len(cells) < 2 or cells[0] == "abbreviation":
                continue
            short = cells[0].casefold()
            sense = cells[1].strip().casefold()
            is_one = (
                key(sense) in names
                and not is_no_name(sense)
                and not sense.startswith(short)
            )
            if len(cells) > 2:
                counted.add(short)
                shares[short][file.stem] += float(cells[-1]) if is_one else 0.0
            else:  # no shares: every sense must be a disease
                shares[short][file.stem] += 1.0 if is_one else float("-inf")
            for variation in cells[2].split("|") if len(cells) > 4 else ():
                form, _, number = variation.rpartition("_")
                spelt[short][form.strip(".,;:-/ ")] += (
                    int(number) if number.isdigit() else 1
                )
    return sorted(
        form
        for short in counted
        if min(shares[short].values()) >= SHARE
        for form, number in spelt[short].items()
        if number > 1
        and form.isalnum()
        and not form.islower()
        and (len(form) > 2 or form.isupper())
    )


@one_line_errors
def main(
    name: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="Shipped name or model folder."),
    ],
    golds: Annotated[
        list[Path],
        typer.Argument(metavar="DEVEL...", help="Devel sides, IOB2."),
    ],
    data: Annotated[Path, typer.Option(help="Folder of the public data.")],
    out: Annotated[Path, typer.Option(help="Write the model to this folder.")],
) -> None:
    """Add the abbreviations, and measure the devel sides again."""
    forms = abbreviations(data)
    model = EntityTagger.from_pretrained(
        name, abbreviations={DISEASE: forms}, calibration={}
    )
    model.manifest.data.counts["listed abbreviations of diseases"] = len(forms)
    for path in golds:
        if path.suffix == ".tsv":
            scores = evaluate_words(model, read_gold(path))
            row = f"{path.resolve().parent.name} {path.stem}"
            model.manifest.scores.add_row(row, scores.card_row())
    model.save_pretrained(out)
    say(f"{len(forms):,} abbreviations, model in {out}")


if __name__ == "__main__":
    typer.run(main)
