"""Time of `explain` against `predict`, and how often it finds facts planted in a hospital.

    python benchmarks/explain.py
    python benchmarks/explain.py --stays 30           # does it run?

Takes 5 minutes on two cores. For stays of about 1,000 to 4,000 tokens of a made-up hospital,
`predict` and `explain` take turns. Then the first 30 true positives are explained: readmitted stays
with an alert. An explanation is right if one of its three top raising passages overlaps a sentence
that states, as true of the stay, a fact that raises the risk.

How to read the tables: "times" is how many times as long `explain` takes, the median of three
pairs. "with a planted fact" is the share of stays with a right explanation, "share of passages"
that of all top passages; both should be far above those of random sentences.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
from measuring import seconds_of
from reporting import command_line, ratios

from clinical import Passage, ReadmissionModel, build_cohort, synthesize
from clinical.datasets import sentences
from clinical.evidence.case import Piece, sentence_pieces
from clinical.stays.cohorts import usable_stays
from domainbert.models.card import table
from domainbert.progress import counted

if TYPE_CHECKING:
    import pandas as pd

    from clinical.datasets.sentences import Statement

TOP = 3
POSITIVES = 30
ROUNDS = 3
SIZES = (1000, 2000, 4000)


SPEED = ["tokens", "window", "predict, s", "explain, s", "times"]
FACTS = [
    "top passages by",
    "true positives",
    "with a planted fact",
    "share of passages",
]


def main() -> None:
    """Print both tables."""
    parser = command_line(__doc__)
    parser.add_argument("--model", default="readmission-demo")
    parser.add_argument(
        "--stays",
        type=int,
        default=300,
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=9,
    )
    asked = parser.parse_args()
    model = ReadmissionModel.from_pretrained(asked.model)
    with tempfile.TemporaryDirectory() as folder:
        planted = made_up(
            folder,
            stays=asked.stays,
            seed=asked.seed,
        )
        rows = usable_stays(build_cohort(folder).to_frame())
    print(table(SPEED, speed_rows(model, rows)))
    print()
    print(table(FACTS, fact_rows(model, rows, planted)))


def made_up(
    folder: str | Path,
    *,
    stays: int,
    seed: int,
) -> set[str]:
    """Write a hospital; the sentences that tell, as true, a fact that raises the risk."""
    planted: set[str] = set()
    drawn: list[list[Statement]] = []
    clause_sentence = sentences.clause_sentence
    noun_sentences = sentences.noun_sentences
    draw_frame = sentences._draw_frame

    def noted_clause(part: Statement, *options: Any) -> str:
        sentence = clause_sentence(part, *options)
        if raises_risk([part]):
            planted.add(sentence)
        return sentence

    def noted_frame(*options: Any) -> tuple[sentences.Frame, list[Statement]]:
        frame, parts = draw_frame(*options)
        drawn.append(parts)
        return frame, parts

    def noted_nouns(*options: Any) -> list[str]:
        drawn.clear()
        texts = noun_sentences(*options)
        for text, parts in zip(texts, drawn, strict=True):
            if raises_risk(parts):
                planted.add(text)
        return texts

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
    stays = rows["text"][:200]
    risks = [model.prepared(stay).risk for stay in stays]
    tokens = np.array([risk.coverage.tokens for risk in risks])
    longest = model.network.config.max_position_embeddings
    unsplit = ReadmissionModel(
        model.network,
        model.tokenizer,
        settings=model.settings.replaced(window=longest),
    )
    readers = [(size, model) for size in SIZES]
    readers.append((SIZES[1], unsplit))
    result = []
    for size, reader in counted(
        readers,
        what="speed",
        total=len(readers),
    ):
        nearest = int(np.abs(tokens - size).argmin())
        stay = stays[nearest]
        fast = []
        slow = []
        for _ in range(ROUNDS):
            fast.append(seconds_of(partial(reader.predict, stay)))
            slow.append(seconds_of(partial(reader.explain, stay)))
        row = [
            f"{tokens[nearest]:,}",
            str(reader.window_tokens()),
            f"{median(fast):.2f}",
            f"{median(slow):.2f}",
            f"{median(ratios(slow, fast)):.1f}",
        ]
        result.append(row)
    return result


def fact_rows(
    model: ReadmissionModel,
    rows: pd.DataFrame,
    planted: set[str],
) -> list[list[str]]:
    """How often the top passages of true positives contain a planted fact, by method."""
    positives = true_positives(model, rows)
    generator = np.random.default_rng(0)
    finders: dict[str, Callable[[list[str]], Sequence[Passage | Piece]]] = {
        "occlusion": partial(explained_passages, model),
        "random": partial(random_passages, model, generator),
    }
    result = []
    for method, find_passages in finders.items():
        hits = []
        for notes in counted(
            positives,
            what=method,
            total=len(positives),
        ):
            facts = places(notes, planted)
            passages = find_passages(notes)
            hits.append([meets_any(passage, facts) for passage in passages])
        of_stays = np.mean([any(stay_hits) for stay_hits in hits])
        of_passages = np.mean(np.concatenate(hits))
        row = [method, f"{len(hits)}", f"{of_stays:.0%}", f"{of_passages:.0%}"]
        result.append(row)
    return result


def true_positives(
    model: ReadmissionModel,
    rows: pd.DataFrame,
) -> list[list[str]]:
    """The notes of the first readmitted stays with an alert."""
    readmitted = rows.loc[rows["readmitted"] == 1, "text"]
    risks = model.predict_many(readmitted)
    scored = zip(
        readmitted,
        counted(
            risks,
            what="scoring",
            total=len(readmitted),
        ),
        strict=True,
    )
    return [notes for notes, risk in scored if risk.alert][:POSITIVES]


def explained_passages(
    model: ReadmissionModel,
    notes: list[str],
) -> Sequence[Passage]:
    """The top passages that raise the risk."""
    return model.explain(notes, top=TOP).raising


def random_passages(
    model: ReadmissionModel,
    generator: np.random.Generator,
    notes: list[str],
) -> list[Piece]:
    """Random sentences."""
    pieces = sentence_pieces(model.prepared(notes))
    numbers = generator.choice(len(pieces), TOP, replace=False)
    return [pieces[number] for number in numbers]


def places(notes: list[str], planted: set[str]) -> list[tuple[int, int, int]]:
    """Where sentences are in notes, whatever the line breaks: note, start, end."""
    flat = " ".join(" ".join(notes).split())
    positions = []
    for sentence in planted:
        if sentence not in flat:
            continue
        pattern = r"\s+".join(map(re.escape, sentence.split()))
        for number, note in enumerate(notes):
            matches = re.finditer(pattern, note)
            positions += [(number, *match.span()) for match in matches]
    return positions


def meets_any(
    passage: Passage | Piece,
    positions: Sequence[tuple[int, int, int]],
) -> bool:
    """Whether a passage overlaps a place: note, start, end."""
    for note, start, end in positions:
        overlaps = passage.start < end and start < passage.end
        if passage.note == note and overlaps:
            return True
    return False


if __name__ == "__main__":
    main()
