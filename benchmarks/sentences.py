"""Speed of `SentenceEncoder` against `SentenceTransformer.encode`, and the time of a search.

    python benchmarks/sentences.py --out sentences.json
    python benchmarks/sentences.py --only --students MODEL    # students and their teacher
    python benchmarks/sentences.py --quick                    # does it run?

Takes 30 minutes on two cores. Both encoders read the same PubMed sentences with the shipped weights
in fp32 on the CPU, in turn; sentence-transformers at its best batch size. Then 100 queries search
random vectors in an index folder, in turn with one plain product of the same matrices in memory.
--only runs some of these parts, or none, and --students compares models from `biomed sentences
distill`.

How to read the table: a row is a part; "ratio" compares ours with the reference within a round, the
median with the smallest and the largest. For students, higher is better in both columns. The exit
status is 1 if the vectors or the best hits differ.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from measuring import fastest_size, say, take_turns
from reporting import (
    add_data_option,
    markdown,
    options,
    rates,
    report,
    spread,
    times,
    versions_of,
)
from sentence_transformers import SentenceTransformer

from biomed import SentenceEncoder
from biomed.sentences.data import read_pairs, scores
from biomed.sentences.evaluation import spearman
from domainbert.encoders.loading import (
    DEFAULT_ENCODER,
    EncoderError,
    find_encoder,
)
from domainbert.models.pooling import unit
from domainbert.search.vectors import VectorIndex

BATCHES = (32, 64, 128, 256, 512)
SAMPLE = 1000
DIMENSION = 384
QUERIES = 100
PART = 250  # rows that an encoder gives at a time
TOLERANCE = 1e-5


def encoding(texts: list[str], *, rounds: int) -> dict[str, Any]:
    """Seconds of both ways, and the largest difference of a number of their unit vectors."""
    ours = SentenceEncoder.from_pretrained(
        DEFAULT_ENCODER,
        unit_norm=True,
        device="cpu",
    )
    theirs = SentenceTransformer(find_encoder().location, device="cpu")
    theirs.max_seq_length = ours.windower.window
    sample = texts[:SAMPLE]
    say("encoding: warming up, and sentence-transformers' best batch size")
    ours.encode(sample)
    batch = fastest_size(
        lambda size: theirs.encode(sample, batch_size=size),
        BATCHES,
    )
    ways: dict[str, Callable[[], Any]] = {
        "ours": partial(ours.encode, texts),
        "theirs": partial(theirs.encode, texts, batch_size=batch),
    }
    vectors, seconds = take_turns(ways, rounds=rounds)
    differences = np.abs(vectors["ours"] - vectors["theirs"])
    return {
        "texts": len(texts),
        "batch": batch,
        "seconds": seconds,
        "worst_difference": float(differences.max()),
    }


def searching(number: int, *, rounds: int) -> dict[str, Any]:
    """Seconds of the index and of one matrix product."""
    generator = np.random.default_rng(0)
    queries = unit(
        generator.standard_normal((QUERIES, DIMENSION), dtype=np.float32)
    )
    matrix = generator.standard_normal((number, DIMENSION), dtype=np.float32)
    say(f"searching {number:,} vectors: filling the index")
    with tempfile.TemporaryDirectory() as folder:
        index = VectorIndex.create(
            Path(folder) / "i",
            fingerprint="",
            dimension=DIMENSION,
        )
        index.add(_parts(matrix))
        matrix = unit(matrix)
        index.search(queries)

        def product() -> None:  # its 400 MB are not kept
            np.matmul(queries, matrix.T)

        ways: dict[str, Callable[[], Any]] = {
            "index": lambda: index.search(queries),
            "product": product,
        }
        _, seconds = take_turns(ways, rounds=rounds)
        hits = index.search(queries, k=1).rows[:, 0]
    best = (queries @ matrix.T).argmax(axis=1)
    n_right = int((hits == best).sum())
    return {
        "vectors": number,
        "seconds": seconds,
        "right": n_right,
    }


def _parts(matrix: np.ndarray) -> Iterator[tuple[np.ndarray, pd.DataFrame]]:
    """The vectors with their rows, as an encoder gives them."""
    for start in range(0, len(matrix), PART):
        vectors = matrix[start : start + PART]
        ids = range(start, start + len(vectors))
        rows = {
            "id": map(str, ids),
            "start": 0,
            "end": 0,
            "text": "",
        }
        yield vectors, pd.DataFrame(rows)


def students(
    data: Path,
    texts: list[str],
    models: list[str],
    *,
    rounds: int,
) -> dict[str, dict[str, Any]]:
    """Spearman's correlation on STS-B dev, and seconds for the texts, of each model.

    A static model has no windows and is read by sentence-transformers; every other one is ours.
    """
    pairs = read_pairs(data / "sentences" / "stsb_en_dev.tsv")
    rated = scores(pairs, 5)
    encoders = {name: _load(name) for name in models}
    measured: dict[str, dict[str, Any]] = {}
    for name, encoder in encoders.items():
        first = unit(encoder.encode(pairs["first"].tolist()))
        second = unit(encoder.encode(pairs["second"].tolist()))
        similarities = (first * second).sum(axis=1)
        score = spearman(similarities, rated)
        measured[name] = {"spearman": score, "texts": len(texts)}
    say("students")
    ways = {
        name: partial(encoder.encode, texts)
        for name, encoder in encoders.items()
    }
    _, seconds = take_turns(ways, rounds=rounds)
    for name, of_model in measured.items():
        of_model["seconds"] = seconds[name]
    return measured


def _load(name: str) -> Any:
    """Our encoder, or sentence-transformers' for a static model."""
    try:
        return SentenceEncoder.from_pretrained(name, device="cpu")
    except EncoderError:
        return SentenceTransformer(
            name,
            device="cpu",
            local_files_only=True,
        )


def _encoding_row(measured: dict[str, Any]) -> dict[str, str]:
    seconds = measured["seconds"]
    ratio = times(seconds["theirs"], seconds["ours"])
    reference = spread(seconds["theirs"], ".1f")
    return {
        "what": f"encoding {measured['texts']:,} sentences",
        "ours, s": spread(seconds["ours"], ".1f"),
        "reference, s": f"{reference} (batches of {measured['batch']})",
        "ratio": f"{ratio} times as fast",
    }


def _searching_row(measured: dict[str, Any]) -> dict[str, str]:
    seconds = measured["seconds"]
    ratio = times(seconds["index"], seconds["product"])
    return {
        "what": f"{QUERIES} queries in {measured['vectors']:,} vectors",
        "ours, s": spread(seconds["index"], ".2f"),
        "reference, s": spread(seconds["product"], ".2f"),
        "ratio": f"{ratio} times one product",
    }


def _student_row(name: str, measured: dict[str, Any]) -> dict[str, str]:
    speeds = rates(60 * measured["texts"], measured["seconds"])
    return {
        "model": Path(name).name,
        "STS-B dev, Spearman": f"{measured['spearman']:.3f}",
        "sentences a minute": spread(speeds, ",.0f"),
    }


ROWS = {
    "encoding": _encoding_row,
    "searching": _searching_row,
}
PARTS = tuple(ROWS)


def read_sentences(data: Path) -> list[str]:
    """The PubMed sentences."""
    path = data / "text" / "pubmed_sentences.txt.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        stripped = map(str.strip, lines)
        return [line for line in stripped if line]


def main() -> None:
    """Measure, print the table, write the JSON; exit 1 where results disagree."""
    parser = options(__doc__)
    add_data_option(parser)
    parser.add_argument(
        "--sentences",
        type=int,
        default=20_000,
        help="how many (20,000)",
    )
    parser.add_argument(
        "--vectors",
        type=int,
        default=1_000_000,
        help="how many (1,000,000)",
    )
    parser.add_argument(
        "--only",
        nargs="*",
        choices=PARTS,
        default=PARTS,
        help="parts to run",
    )
    parser.add_argument(
        "--students",
        nargs="+",
        default=[],
        help="compare these model folders",
    )
    asked = parser.parse_args()
    if asked.quick:
        asked.sentences = 500
        asked.vectors = 20_000
        asked.rounds = 1
    sentences = read_sentences(asked.data)[: asked.sentences]
    if asked.students:
        names = [DEFAULT_ENCODER, *asked.students]
        compared = students(asked.data, sentences, names, rounds=asked.rounds)
        rows = [_student_row(name, part) for name, part in compared.items()]
        print(markdown(rows), "\n")
    measured: dict[str, Any] = {}
    if "encoding" in asked.only:
        measured["encoding"] = encoding(sentences, rounds=asked.rounds)
    if "searching" in asked.only:
        measured["searching"] = searching(asked.vectors, rounds=asked.rounds)
    if measured:
        _report(measured, asked.out)


def _report(measured: dict[str, Any], out: Path | None) -> None:
    """Print the table of the parts, write the JSON; exit 1 where results disagree."""
    threads = {"threads": torch.get_num_threads()}
    report(
        [ROWS[name](numbers) for name, numbers in measured.items()],
        setting=threads | versions_of("torch", "sentence-transformers"),
        measured=measured,
        out=out,
    )
    worst = measured.get("encoding", {}).get("worst_difference", 0.0)
    n_right = measured.get("searching", {}).get("right", QUERIES)
    if worst > TOLERANCE or n_right < QUERIES:
        sys.exit(f"results differ: {worst:.1e}, {n_right} of {QUERIES}")


if __name__ == "__main__":
    main()
