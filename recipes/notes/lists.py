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
from recipes import commands  # noqa: TC001, typer reads it
from recipes.notes.inventories import Sense, read_senses
from recipes.notes.open_names import DISEASE, is_no_name, key, listed
from recipes.public_data import read_rows

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
            names = {key(row["name"]), *map(key, row["synonyms"].split("|"))}
            codes = row.get("tree", "").split("|")
            if any(map(_NO_DISEASES.match, codes)):
                left_out |= names
            elif file == "mondo" or any(map(_DISEASES.match, codes)):
                disease_names |= names
    labels = listed(data)
    return {
        name
        for name in disease_names - left_out
        if labels.get(name) == DISEASE
    }


def abbreviations(data: Path) -> list[str]:
    """Abbreviations of diseases, as notes spell them, by shares in the inventories of notes.

    Left out: words that are merely cut short ("hep"), lower case, and spellings seen once.
    """
    names = diseases(data)
    # By abbreviation in lower case: the share of diseases in each inventory, and spellings.
    shares: dict[str, dict[str, float]] = defaultdict(
        lambda: defaultdict(float)
    )
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    counted = set[str]()
    for sense in read_senses(data):
        short = sense.abbreviation.casefold()
        is_disease = (
            key(sense.text) in names
            and not is_no_name(sense.text)
            and not sense.text.startswith(short)
        )
        shares[short][sense.inventory] += _share(sense, is_disease=is_disease)
        if sense.share is not None:
            counted.add(short)
        for form, count in sense.spellings:
            spellings[short][form.strip(".,;:-/ ")] += count
    return sorted(
        form
        for short in counted
        if min(shares[short].values()) >= SHARE
        for form, count in spellings[short].items()
        if count > 1 and _is_spelt_as_abbreviation(form)
    )


def _share(sense: Sense, *, is_disease: bool) -> float:
    """What a sense adds to the share of diseases.

    Of an inventory without shares, every sense must be a disease.
    """
    if sense.share is None:
        return 1.0 if is_disease else float("-inf")
    return sense.share * is_disease


def _is_spelt_as_abbreviation(form: str) -> bool:
    if not form.isalnum() or form.islower():
        return False
    return len(form) > 2 or form.isupper()


@one_line_errors
def main(
    name: commands.ModelName,
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
