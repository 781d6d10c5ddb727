"""Linking of gold mentions to MeSH: how many get the right concept, and how many links are right.

Each different pair of a name and its id counts once, in the first document that has it; mentions of
several concepts are left out, and so are ids that the dictionary does not have. The dictionary gets
further names of its concepts: those of a table without ids (--names), and those in each --corpus,
which decide where several concepts share a name.

    cd ../shared/data
    biomed ner dictionary names/mondo.csv.gz --mappings names/mondo_mappings.csv.gz
        --system MESH --out mesh.parquet
    python benchmarks/linking.py mesh.parquet ner/bc5cdr-ids/devel.pubtator
        --names names/mesh_diseases.csv.gz --corpus ner/bc5cdr-ids/train.pubtator
        --corpus ner/ncbi-disease-ids/train.pubtator
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from biomed.corpora.pubtator import read_pubtator
from biomed.ner.abbreviations import expanded, find_abbreviations
from biomed.ner.dictionaries import Dictionary, Link
from biomed.ner.linking import MIN_SCORE, EntityLinker
from biomed.terms.names import NameTable, normalised, split_names
from biomed.terms.similarity import TermEmbedder
from domainbert.models.card import table
from domainbert.tables import read_table

LEAST = (0.0, 0.3, 0.4, 0.5, MIN_SCORE, 0.7, 0.8)


def mentions(
    path: Path, dictionary: Dictionary
) -> Iterator[tuple[str, str, str]]:
    """Name, id, and name without abbreviations of its text, of each mention of a corpus."""
    ids = {
        code: id_ for id_, codes in dictionary.codes.items() for code in codes
    }
    ids |= {id_: id_ for id_ in dictionary.preferred}
    for document in read_pubtator(path):
        known = find_abbreviations(document.text)
        for span in document.spans:
            code = span.id if ":" in span.id else f"MESH:{span.id}"
            if code in ids:
                name = document.text[span.start : span.end]
                yield name, ids[code], expanded(name, known)


def with_names(dictionary: Dictionary, table: Path) -> Dictionary:
    """With the names of rows whose first name, or else most names, belong to one concept."""
    known = NameTable(dictionary.pairs)
    joined = []
    for row in read_table(table).itertuples():
        names = [row.name, *split_names(row.synonyms)]
        ids = known.find(row.name)[0]
        if len(ids) != 1:
            counts = Counter(
                id_ for name in names for id_ in known.find(name)[0]
            )
            ids = [
                id_
                for id_, count in counts.items()
                if count == max(counts.values())
            ]
        if len(ids) == 1:
            joined += [(name, ids[0]) for name in names]
    return Dictionary([*dictionary.pairs, *joined], codes=dictionary.codes)


def as_in(dictionary: Dictionary, corpora: list[Path]) -> Dictionary:
    """With the names in corpora, each for its most frequent id."""
    counts: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for path in corpora:
        for _, id_, name in mentions(path, dictionary):
            if form := normalised(name):
                counts[form][name, id_] += 1
    seen = {
        form: max(each, key=lambda pair: each[pair])
        for form, each in counts.items()
    }
    pairs = [
        (n, i)
        for n, i in dictionary.pairs
        if seen.get(normalised(n), (n, i))[1] == i
    ]
    return Dictionary([*pairs, *seen.values()], codes=dictionary.codes)


def row(way: str, links: list[Link | None], right: list[str]) -> list[str]:
    """Names, links, share of names that are right, share of links that are right."""
    linked = sum(link is not None for link in links)
    correct = sum(
        link is not None and link.id == id_
        for link, id_ in zip(links, right, strict=True)
    )
    shares = (correct / len(right), correct / max(linked, 1))
    return [
        way,
        f"{len(right)}",
        f"{linked}",
        *(f"{share:.3f}" for share in shares),
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dictionary", type=Path)
    parser.add_argument("gold", type=Path)
    parser.add_argument("--names", type=Path)
    parser.add_argument("--corpus", type=Path, action="append", default=[])
    parser.add_argument("--model", default="terms")
    asked = parser.parse_args()
    dictionary = Dictionary.read(asked.dictionary)
    if asked.names:
        dictionary = with_names(dictionary, asked.names)
    dictionary = as_in(dictionary, asked.corpus)
    found: dict[tuple[str, str], str] = {}
    for name, id_, plain in mentions(asked.gold, dictionary):
        found.setdefault((name, id_), plain)
    names, right = list(found.values()), [id_ for _, id_ in found]
    by_name = EntityLinker(dictionary)
    rows = [
        row("names alone", by_name.link([name for name, _ in found]), right)
    ]
    rows.append(row("abbreviations, names", by_name.link(names), right))
    embedder = TermEmbedder.from_pretrained(asked.model)
    links = EntityLinker(dictionary, embedder, min_score=0.0).link(names)
    for least in LEAST:
        kept = [
            link if link and link.score >= least else None for link in links
        ]
        rows.append(
            row(f"and vectors, score of at least {least}", kept, right)
        )
    print(table(["by", "names", "linked", "right", "precision"], rows))


if __name__ == "__main__":
    main()
