"""Dictionaries from MedQuAD, ICD-9-CM and the shipped vocabulary, and how well one links.

python -m recipes.dictionaries build --medquad medquad.jsonl.gz --out names.csv
python -m recipes.dictionaries evaluate names.csv --model terms
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pandas as pd
import typer
from rich.table import Table

from biomed.ner.linking import Dictionary, EntityLinker
from biomed.terms.names import medical_terms, percent
from biomed.terms.similarity import TermModel
from domainbert.cli.console import one_line_errors, say, stdout
from domainbert.errors import UserError
from domainbert.files import check_output, write_json
from domainbert.tables import TableError, write_table
from recipes.relations import medquad_documents

if TYPE_CHECKING:
    from collections.abc import Iterable

    from domainbert.models.embedder import Embedder

Pairs = list[tuple[str, str]]
app = typer.Typer(no_args_is_help=True, help="Dictionaries for linking entities.")


def medquad_names(path: Path) -> Pairs:
    """The names of MedQuAD's topics (.jsonl.gz) and their UMLS concept numbers, as "UMLS:C…".

    Topics with several numbers are narrower than each of them, and are left out. The preferred
    name of a concept is the most frequent one.
    """
    names: dict[str, Counter[str]] = defaultdict(Counter)
    for document in medquad_documents(path):
        if len(document["cuis"]) == 1:
            known = names[f"UMLS:{document['cuis'][0]}"]
            known[document["focus"].strip()] += 2
            known.update({name.strip() for name in document["synonyms"]} - {""})
    return [(name, id_) for id_, known in names.items() for name, _ in known.most_common()]


def icd9_names(path: Path) -> Pairs:
    """The titles of ICD-9-CM codes, of the file of long titles of CMS, as "ICD9:" and the code."""
    pairs = []
    for number, line in enumerate(path.read_text("latin-1").splitlines(), start=1):
        code, _, title = line.partition(" ")
        if line.strip() and not (code.isalnum() and title.strip()):
            msg = f"{path.name}, line {number}: expected a code and its title"
            raise TableError(msg)
        if line.strip():
            dotted = code if len(code) < 4 else f"{code[:3]}.{code[3:]}"
            pairs.append((title.strip(), f"ICD9:{dotted}"))
    return pairs


def vocabulary_names() -> Pairs:
    """The shipped vocabulary with its synonyms; the id of a concept is its term."""
    rows = list(medical_terms().itertuples())
    terms = [(row.term, f"TERM:{row.term}") for row in rows]
    return terms + [(name, f"TERM:{row.term}") for row in rows for name in row.synonyms]


@dataclass(frozen=True)
class LinkScore:
    """How many held-out names were linked in one way, and how many of these rightly."""

    way: str
    names: int
    linked: int
    correct: int

    @property
    def accuracy(self) -> float:
        """Right links over all names."""
        return self.correct / max(self.names, 1)

    @property
    def precision(self) -> float:
        """Right links over all links."""
        return self.correct / max(self.linked, 1)


def hold_out(dictionary: Dictionary, *, most: int = 2000) -> tuple[Dictionary, Pairs]:
    """A dictionary without one name of each concept, and these names; chosen by a hash.

    Only concepts with two names or more lose one, and never the preferred one. At most `most`.
    Of UMLS concepts only those that the shipped `terms` model was not trained on.
    """
    pool: dict[str, list[str]] = defaultdict(list)
    for name, id_ in dictionary.pairs:
        if name != dictionary.preferred[id_] and not _was_trained(id_):
            pool[id_].append(name)
    held = [(min(names, key=_hash), id_) for id_, names in pool.items()]
    held = sorted(held, key=lambda pair: _hash(pair[0]))[:most]
    if not held:
        raise UserError("no concept of this dictionary has two names; there is nothing to hold out")
    left = set(held)
    return Dictionary(pair for pair in dictionary.pairs if pair not in left), held


def _was_trained(id_: str) -> bool:
    """Whether `terms` may have seen the concept's names: MedQuAD's, but for its validation part."""
    prefix, _, key = id_.partition(":")
    return prefix == "UMLS" and percent(key) >= 10  # see recipes/relations.py


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode(errors="replace")).hexdigest()


def score_links(
    dictionary: Dictionary, held: Iterable[tuple[str, str]], *, embedder: Embedder | None = None
) -> list[LinkScore]:
    """Accuracy on held-out names (see `hold_out`): by name, by vectors alone, and by both.

    By vectors each name is linked whatever its cosine; both together are counted at the linker's
    least similarity and at others.
    """
    held = list(held)
    by_name = EntityLinker(dictionary).link([name for name, _ in held])
    scores = [_counted("names", held, [link.id if link else None for link in by_name])]
    if embedder is None:
        return scores
    linker = EntityLinker(dictionary, embedder, min_similarity=0)
    nearest = linker.nearest([name for name, _ in held])
    scores.append(_counted("vectors", held, [link.id for link in nearest]))
    both = linker.link([name for name, _ in held])
    for least in (0.0, 0.6, 0.7, 0.75, 0.8, 0.9):
        ids = [link.id if link and link.score >= least else None for link in both]
        scores.append(_counted(f"both, score ≥ {least}", held, ids))
    return scores


def _counted(way: str, held: Pairs, ids: list[str | None]) -> LinkScore:
    correct = sum(found == right for found, (_, right) in zip(ids, held, strict=True))
    return LinkScore(way, len(held), sum(found is not None for found in ids), correct)


@app.command()
@one_line_errors
def build(
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


@app.command()
@one_line_errors
def evaluate(
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
    if json:
        check_output(json, [source])
    rest, held = hold_out(Dictionary.read(source), most=most)
    embedder = TermModel.from_pretrained(model) if model else None
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


if __name__ == "__main__":
    app()
