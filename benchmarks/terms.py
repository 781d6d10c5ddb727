"""Speed and memory of `TermEmbedder` compared with `SentenceTransformer.encode`.

    python benchmarks/terms.py --out terms.json
    python benchmarks/terms.py --quick            # does it run?

Takes 10 minutes on two cores. Both embed the same different terms with the weights of the shipped
encoder, pooled alike, in fp32 on the CPU, in turn; sentence-transformers at the batch size that
suits it best ("its batch"). Then 10,000 and 100,000 terms are streamed, each in a process of its
own, which gives its peak memory.

How to read the table: "×" is how many times as fast ours is, within a round, the median with the
smallest and the largest. "differ by" is the largest difference of a number of two unit vectors; the
exit status is 1 if it is above 1e-5. The two peaks should be close: memory should not grow with the
number of terms. They are left out with fewer than 100,000 terms (--terms).
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from measuring import (
    fastest_size,
    in_new_process,
    resident_bytes,
    say,
    take_turns,
)
from reporting import options, rates, report, spread, times, versions_of
from sentence_transformers import SentenceTransformer

from biomed import TermEmbedder, medical_terms
from domainbert.encoders.loading import DEFAULT_ENCODER, find_encoder

BATCHES = (32, 64, 128, 256, 512)
SAMPLE = 2000  # terms on which sentence-transformers' batch size is chosen
# Terms whose memory is compared.
FEW = 10_000
MANY = 100_000
TOLERANCE = 1e-5
# Words around a term, so that a hundred thousand of them differ, as they do in a hospital's table.
BEFORE = (
    "",
    "acute ",
    "chronic ",
    "recurrent ",
    "suspected ",
    "history of ",
    "severe ",
    "mild ",
)
AFTER = (
    "",
    " in childhood",
    " in pregnancy",
    ", left",
    ", right",
    ", unspecified",
    ", resolved",
    " with complications",
    " without complications",
    " after surgery",
    ", initial encounter",
    ", follow-up",
    " due to trauma",
    " of unknown origin",
    ", family history",
    ", status post",
)


@dataclass(frozen=True)
class Comparison:
    """What was measured; lists hold one value a round.

    Attributes:
        terms: how many, all different.
        tokens: of all terms, special ones counted.
        batch: the batch size that suited sentence-transformers best.
        worst_difference: of a number of a unit vector, between the two.
        seconds: of "ours" and of "theirs".
        peaks: MiB of a process that streams so many terms.
    """

    terms: int
    tokens: int
    batch: int
    worst_difference: float
    seconds: dict[str, list[float]]
    peaks: dict[int, float]

    def row(self) -> dict[str, str]:
        """The line of the table."""
        ours = self.seconds["ours"]
        theirs = self.seconds["theirs"]
        length = self.tokens / self.terms
        peaks = [f"{self.peaks[number]:.0f}" for number in sorted(self.peaks)]
        return {
            "terms": f"{self.terms:,} of {length:.1f} tokens",
            "terms/s": spread(rates(self.terms, ours), ".0f"),
            "sentence-transformers": spread(rates(self.terms, theirs), ".0f"),
            "×": times(theirs, ours),
            "its batch": str(self.batch),
            "differ by": f"{self.worst_difference:.0e}",
            f"MiB at {FEW:,} and {MANY:,}": " and ".join(peaks),
        }


def make_terms(number: int) -> list[str]:
    """Different terms: those of the vocabulary, and with words around them; in no order."""
    vocabulary = medical_terms()["term"].tolist()
    parts = itertools.product(BEFORE, AFTER, vocabulary)
    terms = [f"{before}{term}{after}" for before, after, term in parts]
    if number > len(terms):
        sys.exit(f"expected at most {len(terms)} terms, got {number}")
    order = np.random.default_rng(0).permutation(len(terms))
    return [terms[position] for position in order[:number]]


def load_ours() -> TermEmbedder:
    """The plain encoder, as sentence-transformers pools it."""
    return TermEmbedder.from_pretrained(
        DEFAULT_ENCODER,
        unit_norm=True,
        device="cpu",
    )


def compare(terms: list[str], *, rounds: int) -> Comparison:
    """Embed the terms both ways, in turn, after a warm-up."""
    ours = load_ours()
    theirs = SentenceTransformer(find_encoder().location, device="cpu")
    say("warming up, and sentence-transformers' best batch size")
    sample = terms[:SAMPLE]
    ours.embed(sample)
    theirs.encode(sample)
    batch = fastest_size(
        lambda size: theirs.encode(sample, batch_size=size),
        BATCHES,
    )
    ways: dict[str, Callable[[], Any]] = {
        "ours": partial(ours.embed, terms),
        "theirs": partial(theirs.encode, terms, batch_size=batch),
    }
    results, seconds = take_turns(ways, rounds=rounds)
    differences = np.abs(results["ours"] - results["theirs"])
    peaks = {}
    if len(terms) >= MANY:
        peaks = {number: peak_of(number) for number in (FEW, MANY)}
    return Comparison(
        terms=len(terms),
        tokens=count_tokens(ours, terms),
        batch=batch,
        worst_difference=float(differences.max()),
        seconds=seconds,
        peaks=peaks,
    )


def count_tokens(embedder: TermEmbedder, terms: list[str]) -> int:
    """The tokens of all terms, from the mean of a sample, [CLS] and [SEP] counted."""
    lengths: list[int] = []
    for part in embedder.embed_many(terms[:SAMPLE]):
        lengths += [text.tokens for text in part.texts]
    return round((2 + float(np.mean(lengths))) * len(terms))


def peak_of(number: int) -> float:
    """MiB at the peak of a fresh process that streams so many terms."""
    say(f"memory of {number:,} terms")
    return in_new_process(__file__, "--stream", number)


def stream(number: int) -> None:
    """Embed so many terms piece by piece, keep none, and print the peak memory in MiB."""
    terms = make_terms(number)
    parts = load_ours().embed_many(iter(terms))
    n_embedded = sum(len(part.vectors) for part in parts)
    if n_embedded != number:
        sys.exit(f"{n_embedded} of {number} terms were embedded")
    print(resident_bytes(peak=True) / 2**20)


def main() -> None:
    """Measure, print the table, write the JSON; exit 1 where the vectors disagree."""
    parser = options(__doc__)
    parser.add_argument(
        "--terms",
        type=int,
        default=MANY,
        help=f"how many ({MANY})",
    )
    # A process of its own, for its memory.
    parser.add_argument(
        "--stream",
        type=int,
        help=argparse.SUPPRESS,
    )
    asked = parser.parse_args()
    if asked.stream:
        stream(asked.stream)
        return
    if asked.quick:
        asked.terms = 500
        asked.rounds = 1
    comparison = compare(make_terms(asked.terms), rounds=asked.rounds)
    packages = versions_of("torch", "sentence-transformers")
    row = comparison.row()
    report(
        [row],
        setting={"threads": torch.get_num_threads(), **packages},
        measured=asdict(comparison) | {"row": row},
        out=asked.out,
    )
    worst = comparison.worst_difference
    if worst > TOLERANCE:
        sys.exit(f"the two differ by {worst:.1e}, over {TOLERANCE:.0e}")


if __name__ == "__main__":
    main()
