"""Terms per second of `TermEmbedder` against `SentenceTransformer.encode`, in one run.

Both embed the same different terms with the weights of the shipped encoder, pooled alike, in fp32
on the CPU; sentence-transformers at the batch size that suits it best. Then the peak memory of
streaming 10,000 and 100,000 terms, each in a process of its own.

    python benchmarks/terms.py --out terms.json
"""

from __future__ import annotations

import argparse
import itertools
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from reporting import options, report, say, seconds_of, spread, versions_of
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
    *(
        "",
        " in childhood",
        " in pregnancy",
        ", left",
        ", right",
        ", unspecified",
        ", resolved",
    ),
    *(
        " with complications",
        " without complications",
        " after surgery",
        ", initial encounter",
    ),
    *(
        ", follow-up",
        " due to trauma",
        " of unknown origin",
        ", family history",
        ", status post",
    ),
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
        ours, theirs = (
            np.array(self.seconds[method]) for method in ("ours", "theirs")
        )
        peak_of_few, peak_of_many = (
            self.peaks.get(number) for number in (FEW, MANY)
        )
        return {
            "terms": f"{self.terms:,} of {self.tokens / self.terms:.1f} tokens",
            "terms/s": spread(self.terms / ours, ".0f"),
            "sentence-transformers": spread(self.terms / theirs, ".0f"),
            "×": spread(theirs / ours, ".2f"),
            "its batch": str(self.batch),
            "differ by": f"{self.worst_difference:.0e}",
            f"MiB at {FEW:,} and {MANY:,}": f"{peak_of_few:.0f} and {peak_of_many:.0f}"
            if peak_of_few and peak_of_many
            else "",
        }


def make_terms(number: int) -> list[str]:
    """Different terms: those of the vocabulary, and with words around them; in no order."""
    vocabulary = medical_terms()["term"].tolist()
    terms = [
        f"{b}{term}{a}"
        for b, a, term in itertools.product(BEFORE, AFTER, vocabulary)
    ]
    order = np.random.default_rng(0).permutation(len(terms))[:number]
    if len(order) < number:
        sys.exit(f"at most {len(terms)} terms, got {number}")
    return [terms[i] for i in order]


def load_ours() -> TermEmbedder:
    """The plain encoder, as sentence-transformers pools it."""
    return TermEmbedder.from_pretrained(
        DEFAULT_ENCODER, unit_norm=True, device="cpu"
    )


def compare(terms: list[str], *, rounds: int) -> Comparison:
    """Embed the terms both ways, in turn, after a warm-up."""
    ours = load_ours()
    theirs = SentenceTransformer(find_encoder().location, device="cpu")
    say("warming up, and sentence-transformers' best batch size")
    ours.embed(terms[:SAMPLE])
    theirs.encode(terms[:SAMPLE])
    trials = [
        seconds_of(partial(theirs.encode, terms[:SAMPLE], batch_size=size))
        for size in BATCHES
    ]
    batch = BATCHES[int(np.argmin(trials))]
    ways: dict[str, Callable[[], Any]] = {
        "ours": partial(ours.embed, terms),
        "theirs": partial(theirs.encode, terms, batch_size=batch),
    }
    results, seconds = race(ways, rounds=rounds)
    parts = ours.embed_many(terms[:SAMPLE])
    lengths = [text.tokens for part in parts for text in part.texts]
    tokens = 2 + float(np.mean(lengths))
    return Comparison(
        terms=len(terms),
        tokens=round(tokens * len(terms)),
        batch=batch,
        worst_difference=float(
            np.abs(results["ours"] - results["theirs"]).max()
        ),
        seconds=seconds,
        peaks={number: peak_of(number) for number in (FEW, MANY)}
        if len(terms) >= MANY
        else {},
    )


def race(
    ways: Mapping[str, Callable[[], Any]], *, rounds: int
) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """The last result of each way, and its seconds in each round."""
    results: dict[str, Any] = {}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(1, rounds + 1):
        say(f"round {number} of {rounds}")
        for name, action in ways.items():
            start = time.perf_counter()
            results[name] = action()
            seconds[name].append(time.perf_counter() - start)
    return results, seconds


def peak_of(number: int) -> float:
    """MiB at the peak of a fresh process that streams so many terms."""
    say(f"memory of {number:,} terms")
    command = [sys.executable, __file__, "--stream", str(number)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return float(done.stdout)


def stream(number: int) -> None:
    """Embed so many terms piece by piece, keep none, and print the peak memory."""
    terms = make_terms(number)
    embedded = sum(
        len(part.vectors) for part in load_ours().embed_many(iter(terms))
    )
    if embedded != number:
        sys.exit(f"{embedded} of {number} terms were embedded")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    """Measure, print the table, write the JSON; exit 1 where the vectors disagree."""
    parser = options("Time TermEmbedder against sentence-transformers.")
    parser.add_argument(
        "--terms", type=int, default=MANY, help=f"how many ({MANY})"
    )
    parser.add_argument("--stream", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.stream:
        stream(asked.stream)
        return
    number, rounds = (500, 1) if asked.quick else (asked.terms, asked.rounds)
    comparison = compare(make_terms(number), rounds=rounds)
    packages = versions_of("torch", "sentence-transformers")
    report(
        [comparison.row()],
        setting={"threads": torch.get_num_threads(), **packages},
        measured=asdict(comparison) | {"row": comparison.row()},
        out=asked.out,
    )
    if comparison.worst_difference > TOLERANCE:
        sys.exit(
            f"the two differ by {comparison.worst_difference:.1e}, over {TOLERANCE:.0e}"
        )


if __name__ == "__main__":
    main()
