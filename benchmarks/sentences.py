"""Sentences per second against `SentenceTransformer.encode`, and the time of a search.

Both encoders read the same PubMed sentences with the shipped weights in fp32 on the CPU;
sentence-transformers at its best batch size. Then 100 queries search random vectors in an index
folder, beside one plain product of the same matrices in memory.
`--only` runs some of these parts, and `--students` compares models
from `biomed sentences distill`.

    python benchmarks/sentences.py --data ../shared/data --out sentences.json
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from reporting import (
    markdown,
    options,
    report,
    say,
    seconds_of,
    spread,
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
PIECE = 250  # rows that an encoder gives at a time
TOLERANCE = 1e-5


def encoding(texts: list[str], *, rounds: int) -> dict[str, Any]:
    """Seconds of both ways, and the largest difference of a number of their unit vectors."""
    ours = SentenceEncoder.from_pretrained(
        DEFAULT_ENCODER, unit_norm=True, device="cpu"
    )
    theirs = SentenceTransformer(find_encoder().location, device="cpu")
    theirs.max_seq_length = ours.windower.window
    sample = texts[:SAMPLE]
    ours.encode(sample)
    trials = [
        seconds_of(partial(theirs.encode, sample, batch_size=size))
        for size in BATCHES
    ]
    batch = BATCHES[int(np.argmin(trials))]
    vectors: dict[str, Any] = {}
    ways: dict[str, Callable[[], Any]] = {
        "ours": lambda: vectors.update(ours=ours.encode(texts)),
        "theirs": lambda: vectors.update(
            theirs=theirs.encode(texts, batch_size=batch)
        ),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        say(f"encoding, round {number + 1} of {rounds}")
        for name, action in ways.items():
            seconds[name].append(seconds_of(action))
    worst = float(np.abs(vectors["ours"] - vectors["theirs"]).max())
    return {
        "texts": len(texts),
        "batch": batch,
        "seconds": seconds,
        "worst_difference": worst,
    }


def searching(number: int, *, rounds: int) -> dict[str, Any]:
    """Seconds of the index and of one matrix product."""
    generator = np.random.default_rng(0)
    queries = unit(
        generator.standard_normal((QUERIES, DIMENSION), dtype=np.float32)
    )
    matrix = generator.standard_normal((number, DIMENSION), dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        index = VectorIndex.create(
            Path(folder) / "i", fingerprint="", dimension=DIMENSION
        )
        frame = pd.DataFrame(
            {"id": map(str, range(number)), "start": 0, "end": 0, "text": ""}
        )
        index.add(
            (matrix[start : start + PIECE], frame[start : start + PIECE])
            for start in range(0, number, PIECE)
        )
        matrix = unit(matrix)
        seconds: dict[str, list[float]] = {"index": [], "product": []}
        index.search(queries)
        for _ in range(rounds):
            seconds["index"].append(seconds_of(lambda: index.search(queries)))
            seconds["product"].append(seconds_of(lambda: queries @ matrix.T))
        best = index.search(queries, k=1).rows[:, 0]
        right = int((best == (queries @ matrix.T).argmax(axis=1)).sum())
    return {"vectors": number, "seconds": seconds, "right": right}


def students(
    data: Path, texts: list[str], models: list[str], *, rounds: int
) -> dict[str, dict[str, Any]]:
    """Spearman's correlation on STS-B dev, and seconds for the texts, of each model.

    A static model has no windows and is read by sentence-transformers; every other one is ours.
    """
    pairs = read_pairs(data / "sentences" / "stsb_en_dev.tsv")
    rated = scores(pairs, 5)
    encoders: dict[str, Any] = {}
    for name in models:
        try:
            encoders[name] = SentenceEncoder.from_pretrained(
                name, device="cpu"
            )
        except EncoderError:
            encoders[name] = SentenceTransformer(
                name, device="cpu", local_files_only=True
            )
    measured: dict[str, dict[str, Any]] = {}
    for name, encoder in encoders.items():
        first, second = (
            unit(encoder.encode(column))
            for column in (pairs["first"].tolist(), pairs["second"].tolist())
        )
        score = spearman((first * second).sum(axis=1), rated)
        measured[name] = {
            "spearman": score,
            "texts": len(texts),
            "seconds": [],
        }
    for number in range(rounds):
        say(f"students, round {number + 1} of {rounds}")
        for name, encoder in encoders.items():
            measured[name]["seconds"].append(
                seconds_of(partial(encoder.encode, texts))
            )
    return measured


def ratio(seconds: dict[str, list[float]], first: str, second: str) -> str:
    """First over second, round by round."""
    return spread(np.array(seconds[first]) / np.array(seconds[second]), ".2f")


def _encoding_row(measured: dict[str, Any]) -> dict[str, str]:
    seconds = measured["seconds"]
    return {
        "what": f"encoding {measured['texts']:,} sentences",
        "ours, s": spread(seconds["ours"], ".1f"),
        "reference, s": f"{spread(seconds['theirs'], '.1f')} (batches of {measured['batch']})",
        "ratio": f"{ratio(seconds, 'theirs', 'ours')} times as fast",
    }


def _searching_row(measured: dict[str, Any]) -> dict[str, str]:
    seconds = measured["seconds"]
    return {
        "what": f"{QUERIES} queries in {measured['vectors']:,} vectors",
        "ours, s": spread(seconds["index"], ".2f"),
        "reference, s": spread(seconds["product"], ".2f"),
        "ratio": f"{ratio(seconds, 'index', 'product')} times one product",
    }


def _student_row(name: str, measured: dict[str, Any]) -> dict[str, str]:
    speeds = 60 * measured["texts"] / np.array(measured["seconds"])
    return {
        "model": Path(name).name,
        "STS-B dev, Spearman": f"{measured['spearman']:.3f}",
        "sentences a minute": spread(speeds, ",.0f"),
    }


ROWS = {"encoding": _encoding_row, "searching": _searching_row}
PARTS = tuple(ROWS)


def main() -> None:
    """Measure, print the table, write the JSON; exit 1 where results disagree."""
    parser = options("Time SentenceEncoder and VectorIndex.")
    parser.add_argument(
        "--data", type=Path, default=Path("../shared/data"), help="data sets"
    )
    parser.add_argument(
        "--sentences", type=int, default=20_000, help="how many (20,000)"
    )
    parser.add_argument(
        "--vectors", type=int, default=1_000_000, help="how many (1,000,000)"
    )
    parser.add_argument(
        "--only", nargs="*", choices=PARTS, default=PARTS, help="parts to run"
    )
    parser.add_argument(
        "--students", nargs="+", default=[], help="compare these model folders"
    )
    asked = parser.parse_args()
    with gzip.open(
        asked.data / "text" / "pubmed_sentences.txt.gz", "rt"
    ) as lines:
        sentences = [line.strip() for line in lines if line.strip()]
    if asked.quick:
        asked.sentences = 500
        asked.vectors = 20_000
        asked.rounds = 1
    measured: dict[str, Any] = {}
    if "encoding" in asked.only:
        measured["encoding"] = encoding(
            sentences[: asked.sentences], rounds=asked.rounds
        )
    if "searching" in asked.only:
        measured["searching"] = searching(asked.vectors, rounds=asked.rounds)
    if asked.students:
        names = [DEFAULT_ENCODER, *asked.students]
        texts = sentences[: asked.sentences]
        compared = students(asked.data, texts, names, rounds=asked.rounds)
        print(
            markdown(
                [
                    _student_row(name, numbers)
                    for name, numbers in compared.items()
                ]
            ),
            "\n",
        )
    threads = {"threads": torch.get_num_threads()}
    if not measured:
        return
    report(
        [ROWS[name](numbers) for name, numbers in measured.items()],
        setting={**threads, **versions_of("torch", "sentence-transformers")},
        measured=measured,
        out=asked.out,
    )
    worst = measured.get("encoding", {}).get("worst_difference", 0.0)
    right = measured.get("searching", {}).get("right", QUERIES)
    if worst > TOLERANCE or right < QUERIES:
        sys.exit(f"results differ: {worst:.1e}, {right} of {QUERIES}")


if __name__ == "__main__":
    main()
