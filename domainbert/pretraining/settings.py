"""What a pretraining is told: the tables of its recipe."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

from domainbert.errors import UserError

# What a setting must be: in words, its type, and its least and largest value.
Legal = tuple[str, Any, float, float]
COUNT: Legal = ("a whole number above 0", Integral, 1, math.inf)
POSITIVE: Legal = ("a number above 0", Real, sys.float_info.min, sys.float_info.max)
ATTENTION = ("sdpa", "eager")
SHARE: Legal = ("a share in [0, 1)", Real, 0, math.nextafter(1, 0))
YES_NO: Legal = ("true or false", bool, 0, 1)
TEXT: Legal = ("text", str, 0, 0)
SEED: Legal = ("a whole number from 0 to 2^32 - 1", Integral, 0, 2**32 - 1)


def check_settings(settings: Any, legal: Mapping[str, Legal]) -> None:
    """Check each field of a settings table: a recipe is typed by hand.

    Args:
        settings: a dataclass.
        legal: what a field must be; one that is not there is a `COUNT`. "attention" is one of
            `ATTENTION` wherever it stands.

    Raises:
        ValueError: the first that is not, with what is legal.
    """
    for setting in fields(settings):
        value = getattr(settings, setting.name)
        if setting.name == "attention" and value not in ATTENTION:
            msg = f"attention must be one of {', '.join(ATTENTION)}, got {value!r}"
            raise UserError(msg)
        words, kind, least, largest = legal.get(setting.name, COUNT)
        # Python takes True for 1; who types it means no number.
        fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if not fits or (kind is not str and not least <= float(value) <= largest):
            msg = f"{setting.name} must be {words}, got {value!r}"
            raise UserError(msg)


PART: Legal = ("a share in (0, 1)", Real, sys.float_info.min, math.nextafter(1, 0))
NUMBER: Legal = ("a whole number, 0 or more", Integral, 0, math.inf)
LENGTH: Legal = ("a whole number of tokens, 16 or more", Integral, 16, math.inf)
LEGAL: dict[str, Legal] = {
    **dict.fromkeys(
        ("text", "patient_id", "stay_id", "note_id", "documents", "erase", "attention"), TEXT
    ),
    **dict.fromkeys(("lower_case", "pairs", "whole_words", "freeze_embeddings"), YES_NO),
    **dict.fromkeys(("short", "weight_decay", "dropout", "warmup"), SHARE),
    **dict.fromkeys(("held_out", "masked"), PART),
    **dict.fromkeys(("lines", "lora_rank"), NUMBER),
    **dict.fromkeys(("positions", "length"), LENGTH),
    "learning_rate": POSITIVE,
    "seed": SEED,
}


class _Checked:
    """A settings table whose values are checked: a recipe is typed by hand."""

    def __post_init__(self) -> None:
        check_settings(self, LEGAL)


@dataclass(frozen=True)
class CorpusSettings(_Checked):
    """Where the text is; a recipe's `[corpus]`.

    Attributes:
        text: column of a table that holds a document, or a list of documents, a row.
        patient_id: column, where there is one; so are the next two.
        stay_id: column.
        note_id: column.
        documents: how a plain text file is read: "file" (it is one document), "block" (a blank
            line ends a document) or "auto": a file of a folder is one document, and a file that
            is named itself has blocks.
        lines: a document of a plain text file is cut into documents of at most so many lines; 0
            leaves it whole.
        held_out: share of the patients that training never reads; where a document has no
            patient its stay decides, else its note, else its text.
        erase: a regular expression; what it finds in a sentence becomes a space.
    """

    text: str = "text"
    patient_id: str = "patient_id"
    stay_id: str = "stay_id"
    note_id: str = "note_id"
    documents: str = "auto"
    lines: int = 0
    held_out: float = 0.02
    erase: str = ""

    def __post_init__(self) -> None:
        """Check kinds and ranges."""
        super().__post_init__()
        if self.documents not in ("auto", "file", "block"):
            msg = f"documents must be auto, file or block, got {self.documents!r}"
            raise UserError(msg)


@dataclass(frozen=True)
class ScratchSettings(_Checked):
    """An encoder from nothing, with a vocabulary of its own; a recipe's `[scratch]`.

    Attributes:
        vocabulary: word pieces, special ones counted.
        lower_case: whether words are lower-cased, and lose their accents.
        layers: of the encoder.
        hidden: width of its rows; a multiple of `heads`.
        heads: of attention.
        intermediate: width inside its feed-forward blocks.
        positions: the longest sequence it can read, in tokens.
    """

    vocabulary: int = 30522
    lower_case: bool = True
    layers: int = 6
    hidden: int = 384
    heads: int = 12
    intermediate: int = 1536
    positions: int = 512

    def __post_init__(self) -> None:
        """Check kinds and ranges."""
        super().__post_init__()
        if self.hidden % self.heads:
            msg = f"hidden must be a multiple of heads ({self.heads}), got {self.hidden}"
            raise UserError(msg)


@dataclass(frozen=True)
class ExampleSettings(_Checked):
    """How training examples are made; a recipe's `[examples]`.

    Attributes:
        pairs: two segments in an example, half of the time from two documents, so that the next
            sentence can be predicted; without, one segment.
        copies: how often the corpus is cut into examples, each time at other places and with
            other pairs.
        short: share of the examples that are cut at a random length, so that short input is
            known too.
        masked: share of the tokens to predict.
        whole_words: hide words, not word pieces.
    """

    pairs: bool = True
    copies: int = 1
    short: float = 0.1
    masked: float = 0.15
    whole_words: bool = False


@dataclass(frozen=True)
class TrainingPlan(_Checked):
    """What the phases share; a recipe's `[training]`.

    Attributes:
        weight_decay: AdamW's.
        dropout: of hidden states; attention has none, which keeps its fast kernels.
        device_tokens: tokens of one pass on one device at most, padding counted; a step makes as
            many passes as its batch needs.
        evaluations: evaluations on held-out documents in a phase, each with a checkpoint.
        evaluation_tokens: held-out tokens that are read for one.
        lora_rank: train adapters of this rank on the encoder's linear layers, and merge them at
            the end; 0 trains its weights themselves.
        freeze_embeddings: leave the word embeddings, which are the output layer too, as they are.
        seed: of the examples, new weights, masks, order and dropout.
    """

    weight_decay: float = 0.01
    dropout: float = 0.1
    device_tokens: int = 8192
    evaluations: int = 20
    evaluation_tokens: int = 100_000
    lora_rank: int = 0
    freeze_embeddings: bool = False
    seed: int = 0


@dataclass(frozen=True)
class Phase(_Checked):
    """A stretch of training at one length; a recipe's `[short]` and `[long]`.

    Attributes:
        length: tokens of an example at most, special ones counted.
        steps: of the optimiser.
        batch_tokens: tokens of a step, padding counted, over all devices; at most, but for one
            example on each.
        warmup: share of the steps with a rising learning rate.
        learning_rate: peak, after the warm-up; falls to zero in a line.
        attention: while training, see `domainbert.training.settings.TrainingSettings`.
    """

    length: int = 128
    steps: int = 10_000
    batch_tokens: int = 8192
    warmup: float = 0.01
    learning_rate: float = 1e-4
    attention: str = "sdpa"
