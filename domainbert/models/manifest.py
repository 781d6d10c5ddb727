"""The manifest of a model: what it was trained on, how, and how it scored."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, JsonValue

from domainbert.settings import Settings
from domainbert.statistics.bootstrap import Interval

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from domainbert.encoders.bert import FastBert

Value = int | float | Interval
# A column of a table of scores, then a row, as the card shows them.
ScoreTable = dict[str, dict[str, Value]]


class Record(BaseModel):
    """A part of a manifest, checked when it is read and when an attribute is set.

    Unknown entries are ignored, so that `Manifest` reads those of every task.
    """

    model_config = ConfigDict(extra="ignore", validate_assignment=True)


class Card(Settings):
    """What people should know about a model; the `[card]` table of a recipe.

    Attributes:
        name: by which the model is loaded.
        title: what it is, in one line.
        data: what it was trained on.
        limits: what it is not for.
        licence: an SPDX identifier.
        rebuild: the command that trains it again.
    """

    name: str = ""
    title: str = ""
    data: str = ""
    limits: str = ""
    licence: str = ""
    rebuild: str = ""


class Data(Record):
    """What a model was trained on.

    Attributes:
        counts: numbers for the card, by what was counted.
    """

    counts: dict[str, int] = {}


class Stage(Record):
    """The settings of one stage of training; those that the card does not name are extras."""

    model_config = ConfigDict(extra="allow")

    epochs: float
    learning_rate: float
    batch_tokens: int
    seed: int


class Training(Record):
    """How a model was trained.

    Attributes:
        objective: its name, where the task has several.
        stages: the settings of each stage.
        facts: what identifies the data, the split and the objective of each stage.
        start: the model whose adapter training started from, if any.
        versions: the versions of Python and the libraries.
        validation: the scores that chose the weights; None where a score is undefined.
    """

    objective: str = ""
    stages: list[Stage] = []
    facts: list[dict[str, JsonValue]] = []
    start: str = ""
    versions: dict[str, str] = {}
    validation: Mapping[str, int | float | None] = {}


class Scores(Record):
    """How a model scored.

    Attributes:
        table: {column: {row: value}}.
        note: what was measured on.
    """

    table: ScoreTable = {}
    note: str = ""

    def rows(self) -> list[list[str]]:
        """The table as text, its head first; empty where nothing was measured."""
        if not self.table:
            return []
        columns = list(self.table.values())
        rows = [["", *self.table]]
        for name in dict.fromkeys(chain(*columns)):
            cells = [score_text(column.get(name)) for column in columns]
            rows.append([name, *cells])
        return rows

    def add_row(self, name: str, values: Mapping[str, Value]) -> None:
        """Add a row, {column: value}, to the table."""
        for column, value in values.items():
            self.table.setdefault(column, {})[name] = value


class Calibration(Record):
    """How the scores became probabilities.

    Attributes:
        note: the method, and its error.
        errors: numbers of each set of data that it was measured on.
        bins: mean probability, share that was right, and number, of each bin.
    """

    note: str = ""
    errors: dict[str, dict[str, int | float]] = {}
    bins: list[tuple[float, float, int]] = []

    def rows(self) -> list[list[str]]:
        """The bins as text."""
        return [
            [f"{mean:.2f}", f"{share:.2f}", str(number)]
            for mean, share, number in self.bins
        ]


class Example(Record):
    """An input and the numbers that the model gives for it, for self-tests."""

    record: dict[str, JsonValue]
    row: dict[str, float]


class Manifest(Record):
    """All that is known of a model beyond what loading needs; a task adds its own fields.

    Attributes:
        files: the SHA-256 of each file that loading reads, by its name in the model folder.
    """

    card: Card = Card()
    data: Data = Data()
    training: Training = Training()
    scores: Scores = Scores()
    calibration: Calibration = Calibration()
    example: Example | None = None
    files: dict[str, str] = {}


def score_text(value: Value | None) -> str:
    """A number, with its interval where it has one, as tables show it; "" for None."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value)


def network_sha256(network: PreTrainedModel | FastBert, tokenizer: str) -> str:
    """SHA-256 of what turns text into numbers: weights, architecture and tokenizer.

    `tokenizer` is its JSON. A shipped model has the same one in both of its classes.
    """
    import torch

    names = (
        "model_type",
        "hidden_act",
        "layer_norm_eps",
        "num_attention_heads",
    )
    architecture = [getattr(network.config, name, None) for name in names]
    digest = hashlib.sha256(repr(architecture).encode())
    digest.update(tokenizer.encode())
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        numbers = tensor.detach().cpu().contiguous().flatten()
        if len(numbers):  # an empty tensor has no view as bytes
            digest.update(numbers.view(torch.uint8).numpy().data)
    return digest.hexdigest()
