"""Hostile input by the seed: texts, stays and damaged tables that all hold the word MARK."""

from __future__ import annotations

import csv
import io
import json
import random

import numpy as np
import pandas as pd

MARK = "QUETZALCOATL"  # must never be seen in a reason, a message or a log
WORDS = "patient heart failure insulin was treated with 40 mg . , \n pain no the of".split(
    " "
)
ODD = (
    "\x00 \x07 \t \r \r\n \u00a0 \u200b \u202e \ufeff \ufffd \ud800 \udfff \U0001f600 \U00100000 "
    "é ß ﬁ 心 " + " ' \" , ; | <b> [MASK] [**name**] ___ --- .... 1. a\u0301"
).split(" ")


def text(chooser: random.Random, *, longest: int = 60) -> str:
    """A text of words, odd characters and runs of one character."""
    parts = [MARK]
    for _ in range(chooser.randrange(longest)):
        kind = chooser.random()
        if kind < 0.7:
            parts.append(chooser.choice(WORDS))
        elif kind < 0.9:
            parts.append(chooser.choice(ODD))
        else:
            parts.append(
                chooser.choice("ax.-_ \n") * chooser.randrange(1, 200)
            )
    chooser.shuffle(parts)
    return chooser.choice((" ", "", "\n")).join(parts)


def _raises() -> object:
    yield "first note"
    raise RuntimeError(MARK)


def stay(chooser: random.Random) -> object:
    """A stay: mostly notes, sometimes anything else."""
    strange = (
        None,
        float("nan"),
        pd.NA,
        pd.NaT,
        b"bytes",
        5,
        True,
        {},
        {"a": MARK},
        [],
        "",
        "   ",
        "___",
        [None],
        [[MARK]],
        np.array(MARK),
        np.array([MARK, None], dtype=object),
        object(),
        _raises(),
        [MARK, 3],
        ("a", "b"),
    )
    if chooser.random() < 0.4:
        return chooser.choice(strange)
    notes = [text(chooser) for _ in range(chooser.randrange(4))]
    return notes if chooser.random() < 0.7 else " ".join(notes)


def damaged_csv(chooser: random.Random, rows: list[dict[str, str]]) -> bytes:
    """The rows as CSV, with some lines broken."""
    file = io.StringIO()
    writer = csv.DictWriter(
        file, list(rows[0]), lineterminator=chooser.choice(("\n", "\r\n"))
    )
    writer.writeheader()
    writer.writerows(rows)
    lines = file.getvalue().encode("utf-8", "replace").split(b"\n")
    for _ in range(chooser.randrange(max(3, len(lines) // 6))):
        place = chooser.randrange(1, len(lines))
        damage = (
            b'"',
            b",",
            b"\r",
            b'a"b',
            b"\xff\xfe",
            b'x,"y',
            b"",
            b",,,,,,",
        )
        cut = chooser.randrange(len(lines[place]) + 1)
        lines[place] = (
            lines[place][:cut] + chooser.choice(damage) + lines[place][cut:]
        )
    return b"\n".join(lines)


def damaged_jsonl(chooser: random.Random, rows: list[dict[str, str]]) -> bytes:
    """The rows as JSON lines, with some lines broken and some values of other types."""
    lines = []
    for row in rows:
        line = json.dumps(row)
        kind = chooser.random()
        if kind < 0.1:
            line = line[: chooser.randrange(len(line))]
        elif kind < 0.2:
            value = chooser.choice(
                (1, 1.5, None, True, [MARK], [1, None], {"a": 1}, float("nan"))
            )
            line = json.dumps({**row, chooser.choice(list(row)): value})
        lines.append(line)
    return "\n".join(lines).encode("utf-8", "replace")
