"""Explanations: their time, and whether they find what was planted in a made-up hospital.

    python benchmarks/explain.py [--model readmission-demo] [--stays 300] [--seed 9]

A true positive is a readmitted stay with an alert; its explanation is right if one of its three top
raising passages overlaps a sentence that tells, as true of the stay, a fact that raises the risk.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from clinical import Passage, ReadmissionModel, build_cohort, synthesize
from clinical.datasets import sentences
from clinical.evidence.case import Piece, sentence_pieces
from clinical.stays.cohorts import usable_stays
from domainbert.models.card import table
from domainbert.progress import counted

if TYPE_CHECKING:
    import pandas as pd

    from clinical.datasets.sentences import Statement

METHODS = ("occlusion", "random")
TOP = 3
POSITIVES = 30
ROUNDS = 3
SIZES = (1000, 2000, 4000)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="readmission-demo")
    parser.add_argument("--stays", type=int, default=300)
    parser.add_argument("--seed", type=int, default=9)
    asked = parser.parse_args()
    model = ReadmissionModel.from_pretrained(asked.model)
    with tempfile.TemporaryDirectory() as folder:
        planted = made_up(folder, stays=asked.stays, seed=asked.seed)
        rows = usable_stays(build_cohort(folder).to_frame())
    print(
        table(
            ["tokens", "window", "predict, s", "explain, s", "times"],
            speed_rows(model, rows),
        )
    )
    print()
    head = [
        "top passages by",
        "true positives",
        "with a planted fact",
        "share of passages",
    ]
    print(table(head, fact_rows(model, rows, planted)))


def made_up(folder: str | Path, *, stays: int, seed: int) -> set[str]:
    """Write a hospital; the sentences that tell, as true, a fact that raises the risk."""
    planted: set[str] = set()
    drawn: list[list[Statement]] = []
    clause_sentence = sentences.clause_sentence
    noun_sentences = sentences.noun_sentences
    draw_frame = sentences._draw_frame

    def noted_clause(part: Statement, *rest: Any) -> str:
        sentence = clause_sentence(part, *rest)
        if raises_risk([part]):
            planted.add(sentence)
        return sentence

    def noted_frame(*rest: Any) -> tuple[sentences.Frame, list[Statement]]:
        frame, parts = draw_frame(*rest)
        drawn.append(parts)
        return frame, parts

    def noted_nouns(*rest: Any) -> list[str]:
        drawn.clear()
        told = noun_sentences(*rest)
        pairs = zip(told, drawn, strict=True)
        planted.update(text for text, parts in pairs if raises_risk(parts))
        return told

    with patch.multiple(
        sentences,
        clause_sentence=noted_clause,
        noun_sentences=noted_nouns,
        _draw_frame=noted_frame,
    ):
        synthesize(folder, stays=stays, seed=seed)
    return planted


def raises_risk(parts: list[Statement]) -> bool:
    """Whether one of the statements is true of the stay and raises its risk."""
    return any(
        part.truth and not part.elsewhere and part.fact.weight > 0
        for part in parts
    )


def speed_rows(model: ReadmissionModel, rows: pd.DataFrame) -> list[list[str]]:
    """Seconds of `predict` and `explain`, taking turns, for stays nearest to each of `SIZES`."""
    tokens = np.array(
        [model.read(stay).risk.coverage.tokens for stay in rows["text"][:200]]
    )
    longest = model.network.config.max_position_embeddings
    unsplit = ReadmissionModel(
        model.network,
        model.tokenizer,
        settings=model.settings.replaced(window=longest),
    )
    result = []
    for size, reader in [
        *((size, model) for size in SIZES),
        (SIZES[1], unsplit),
    ]:
        chosen = int(np.abs(tokens - size).argmin())
        stay = rows["text"][chosen]
        pairs = [
            (clock(reader.predict, stay), clock(reader.explain, stay))
            for _ in range(ROUNDS)
        ]
        times = [
            f"{median(values):.2f}" for values in zip(*pairs, strict=True)
        ]
        ratio = median(slow / fast for fast, slow in pairs)
        result.append(
            [
                f"{tokens[chosen]:,}",
                str(reader.window_tokens()),
                *times,
                f"{ratio:.1f}",
            ]
        )
    return result


def clock(function: Callable[[list[str]], object], stay: list[str]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    function(stay)
    return time.perf_counter() - start


def fact_rows(
    model: ReadmissionModel, rows: pd.DataFrame, planted: set[str]
) -> list[list[str]]:
    """How often the top passages of true positives contain a planted fact, by method."""
    readmitted = rows[rows["readmitted"] == 1].reset_index(drop=True)
    risks = counted(
        model.predict_many(readmitted["text"]),
        what="scoring",
        total=len(readmitted),
    )
    positives = readmitted[[bool(risk.alert) for risk in risks]][:POSITIVES]
    generator = np.random.default_rng(0)
    result = []
    for method in METHODS:
        hits = []
        for stay in counted(
            positives.itertuples(), what=method, total=len(positives)
        ):
            facts = places(stay.text, planted)
            if method == "random":
                pieces = sentence_pieces(model.read(stay.text))
                passages = [
                    pieces[i]
                    for i in generator.choice(len(pieces), TOP, replace=False)
                ]
            else:
                passages = model.explain(stay.text, top=TOP).raising
            hits.append(
                [
                    any(meets(passage, position) for position in facts)
                    for passage in passages
                ]
            )
        right = np.mean([any(stay_hits) for stay_hits in hits])
        share = np.mean([hit for stay_hits in hits for hit in stay_hits])
        result.append([method, str(len(hits)), f"{right:.0%}", f"{share:.0%}"])
    return result


def places(notes: list[str], planted: set[str]) -> list[tuple[int, int, int]]:
    """Where sentences are in notes, whatever the line breaks: note, start, end."""
    flat = " ".join(" ".join(notes).split())
    present = [sentence for sentence in planted if sentence in flat]
    patterns = [
        r"\s+".join(map(re.escape, sentence.split())) for sentence in present
    ]
    return [
        (number, *match.span())
        for number, note in enumerate(notes)
        for pattern in patterns
        for match in re.finditer(pattern, note)
    ]


def meets(passage: Passage | Piece, position: tuple[int, int, int]) -> bool:
    """Whether a passage and a place overlap."""
    note, start, end = position
    return passage.note == note and passage.start < end and start < passage.end


if __name__ == "__main__":
    main()
