"""Which drug causes or treats which disease: a first head on the shipped tagger, and its scores.

    python -m recipes.drug_relations $DATA/ner

Nothing here is shipped. A candidate is a drug and a disease of one document, by the ids of their
concepts; it counts once. The tagger's network reads each document once and is not changed. What it
says of a candidate's mentions, and where these mentions are, goes into two small classifiers, whose
log-odds are averaged. They learn from the train side of BC5CDR; the threshold and the calibration
come from train too, from classifiers that did not see the document (five folds). BioRED's devel
side has no relations here, so what treats a disease is measured on the folds of its train side.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from biomed import EntityTagger
from biomed.corpora.documents import Document, Span
from biomed.corpora.pubtator import read_pubtator
from biomed.ner.dictionaries import Dictionary, build_dictionary
from biomed.ner.entities import extents
from biomed.ner.linking import EntityLinker
from domainbert.cli.console import one_line_errors, say
from domainbert.models.card import table
from domainbert.statistics.bootstrap import resample
from domainbert.statistics.calibration import (
    calibration_error,
    fit_platt,
    platt,
)
from recipes.drug_relations.head import PairEncoder, fit_head
from recipes.drug_relations.pairs import (
    Candidates,
    candidates_of,
    gold_pairs,
    positions,
    rule_relations,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from domainbert.statistics import Floats
    from domainbert.statistics.bootstrap import Resampled

FOLDS = 5
THRESHOLDS = np.linspace(-2.5, 1.5, 81)  # log-odds
SAME = "same sentence"


@dataclass(frozen=True)
class Side:
    """The candidates of the documents of a side, with what is known of their pairs."""

    candidates: list[Candidates]
    vectors: np.ndarray = field(repr=False)
    places: np.ndarray = field(repr=False)

    @cached_property
    def outcome(self) -> np.ndarray:
        """Whether each pair is related."""
        return np.concatenate([c.outcome for c in self.candidates])

    @cached_property
    def number(self) -> np.ndarray:
        """The number of the document of each pair."""
        counts = [len(c.pairs) for c in self.candidates]
        return np.repeat(np.arange(len(counts)), counts)

    @cached_property
    def gold(self) -> np.ndarray:
        """The gold relations of each document, also those that no candidate has."""
        return np.array([len(c.related) for c in self.candidates])

    def counts(self, is_predicted: np.ndarray) -> np.ndarray:
        """Right, predicted and gold relations of each document."""
        size = len(self.candidates)
        right = np.bincount(self.number, is_predicted & self.outcome, size)
        predicted = np.bincount(self.number, is_predicted, size)
        return np.stack([right, predicted, self.gold], axis=1)


def side_of(candidates: list[Candidates], vectors: list[np.ndarray]) -> Side:
    """The rows of all documents under each other."""
    places = [positions(c) for c in candidates]
    return Side(candidates, np.concatenate(vectors), np.concatenate(places))


def scores(counts: np.ndarray) -> Resampled:
    """Precision, recall and F1, with resamples of documents."""

    def measure(weights: Floats) -> list[float]:
        right, predicted, gold = weights @ counts
        return [
            right / max(predicted, 1),
            right / max(gold, 1),
            2 * right / max(predicted + gold, 1),
        ]

    return resample(measure, np.arange(len(counts)))


def out_of_fold(side: Side) -> Floats:
    """The log-odds of each pair from classifiers that did not see its document."""
    folds = np.random.default_rng(0).integers(0, FOLDS, len(side.candidates))
    fold = folds[side.number]
    log_odds = np.zeros(len(fold))
    for number in range(FOLDS):
        is_train = fold != number
        head = fit_head(
            side.vectors[is_train],
            side.places[is_train],
            side.outcome[is_train],
        )
        log_odds[~is_train] = head(
            side.vectors[~is_train], side.places[~is_train]
        )
    return log_odds


def best_threshold(side: Side, log_odds: Floats) -> float:
    """The log-odds above which F1 is highest."""

    def f1(threshold: float) -> float:
        right, predicted, gold = side.counts(log_odds > threshold).sum(axis=0)
        return float(2 * right / (predicted + gold))

    return float(max(THRESHOLDS, key=f1))


def baselines(side: Side, rule: str) -> dict[str, np.ndarray]:
    """What each baseline predicts of each pair."""
    shared = np.concatenate([c.share_sentence() for c in side.candidates])
    by_rule = []
    for candidates in side.candidates:
        relations = rule_relations(candidates.document)
        by_rule += [(rule, pair) in relations for pair in candidates.pairs]
    return {
        "every pair": np.ones(len(shared), bool),
        SAME: shared,
        f"the rules' `{rule}`": np.array(by_rule, bool),
    }


def measure_rows(
    side: Side, predictions: dict[str, np.ndarray]
) -> list[list[str]]:
    """A row of the table for each method, with the difference of F1 to the same sentence."""
    resampled = {
        name: scores(side.counts(is_predicted))
        for name, is_predicted in predictions.items()
    }
    rows = []
    for name, measured in resampled.items():
        cells = [str(measured[k].interval()) for k in range(3)]
        if name != SAME:
            difference = measured[2] - resampled[SAME][2]
            cells.append(str(difference.interval()))
        rows.append([name, *cells, ""][:5])
    return rows


# --- end to end


def mesh_dictionary(data: Path) -> Dictionary:
    """The names of MONDO with an id of MeSH, and those of mentions on the train sides."""
    names = data.parent / "names"
    frame = build_dictionary(
        [names / "mondo.csv.gz"],
        mappings=names / "mondo_mappings.csv.gz",
        system="MESH",
    )
    pairs = list(zip(frame["name"], frame["id"], strict=True))
    for corpus in ("bc5cdr-ids", "ncbi-disease-ids"):
        for document in read_pubtator(data / corpus / "train.pubtator"):
            pairs += [
                (document.text[span.start : span.end], f"MESH:{span.id}")
                for span in document.spans
                if span.id and "|" not in span.id
            ]
    return Dictionary(pairs)


def tagged_readings(
    tagger: EntityTagger, documents: Sequence[Document], dictionary: Dictionary
) -> Iterator[tuple[Document, Document]]:
    """Each document with the tagger's mentions: with the ids of gold, and with linked ids."""
    linker = EntityLinker(dictionary)
    tagged = tagger.tag_many(document.text for document in documents)
    for document, entities in zip(documents, tagged, strict=True):
        gold = {(s.start, s.end, s.label): s.id for s in document.spans}
        spans = [Span(*extent) for extent in extents(entities)]
        with_gold_ids = [
            replace(span, id=gold.get((span.start, span.end, span.label), ""))
            for span in spans
        ]
        links = linker.link(
            [entity.text for entity in entities],
            labels=[entity.label for entity in entities],
        )
        linked = [
            replace(span, id=link.id.removeprefix("MESH:"))
            for span, link in zip(spans, links, strict=True)
            if link
        ]
        yield (
            replace(document, spans=tuple(with_gold_ids)),
            replace(document, spans=tuple(linked)),
        )


def read_sides(
    encoder: PairEncoder, documents: Iterable[Sequence[Document]], label: str
) -> list[Side]:
    """A side for each reading of documents; the first reading has the gold mentions."""
    rows = []
    for readings in documents:
        related = gold_pairs(readings[0], label)
        candidates = [candidates_of(reading, related) for reading in readings]
        rows.append((candidates, encoder.vectors(candidates)))
    return [
        side_of([c[n] for c, _ in rows], [v[n] for _, v in rows])
        for n in range(len(rows[0][0]))
    ]


HEAD = ["", "precision", "recall", "F1", "F1 less that of the same sentence"]


@one_line_errors
def main(
    data: Annotated[
        Path, typer.Argument(help="The folder with bc5cdr-ids and biored.")
    ],
) -> None:
    """Print what the head and the baselines find, with 95% intervals from resampled documents."""
    train = read_pubtator(data / "bc5cdr-ids" / "train.pubtator")
    devel = read_pubtator(data / "bc5cdr-ids" / "devel.pubtator")
    tagger = EntityTagger.from_pretrained()
    say("tagging devel")
    tagged = list(tagged_readings(tagger, devel, mesh_dictionary(data)))
    encoder = PairEncoder(tagger)
    say("reading train and devel")
    (known,) = read_sides(encoder, ([d] for d in train), "CID")
    gold, with_gold_ids, linked = read_sides(
        encoder,
        ([d, *others] for d, others in zip(devel, tagged, strict=True)),
        "CID",
    )
    say("fitting")
    log_odds = out_of_fold(known)
    threshold = best_threshold(known, log_odds)
    curve = fit_platt(log_odds, known.outcome)
    head = fit_head(known.vectors, known.places, known.outcome)
    sides = {
        "gold mentions": gold,
        "the tagger's mentions, ids of gold": with_gold_ids,
        "the tagger's mentions, linked by name": linked,
    }
    for name, side in sides.items():
        values = head(side.vectors, side.places)
        predictions = {
            **baselines(side, "reaction"),
            "head": values > threshold,
        }
        typer.echo(f"\nBC5CDR devel, {name}\n")
        typer.echo(table(HEAD, measure_rows(side, predictions)))
        if side is gold:
            error = calibration_error(side.outcome, platt(values, *curve))
            typer.echo(
                f"\ncalibration error {error:.3f} of {len(values)} pairs"
            )
    biored = read_pubtator(data / "biored" / "train.pubtator")
    (treats,) = read_sides(
        encoder, ([d] for d in biored), "Negative_Correlation"
    )
    values = out_of_fold(treats)
    threshold = best_threshold(treats, values)
    predictions = {
        **baselines(treats, "reason"),
        "head": values > threshold,
    }
    typer.echo(
        "\nBioRED train, five folds, the threshold from the same folds\n"
    )
    typer.echo(table(HEAD, measure_rows(treats, predictions)))


if __name__ == "__main__":
    typer.run(main)
