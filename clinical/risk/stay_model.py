"""StayModel: what models of stays share, from the notes of a stay to the numbers of its windows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np

from clinical.risk.aggregation import DEFAULT_C
from clinical.risk.reading import (
    OtherLanguages,
    PreparedStay,
    Status,
    StayPreparer,
)
from domainbert.encoders.configs import window_limit
from domainbert.errors import UserError
from domainbert.models.model import Model, WindowSettings
from domainbert.settings import Positive
from domainbert.statistics.calibration import sigmoid
from domainbert.streams import chunked, read_ahead

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from transformers import PreTrainedModel

    from clinical.stays.stays import StayInput
    from domainbert.scoring.cache import WindowCache


class StayResult(Protocol):
    """What every result for a stay has."""

    @property
    def status(self) -> Status:
        """One of "ok", "empty" and "error"."""

    @property
    def reason(self) -> str:
        """Why the status is not "ok"; else a remark, or ""."""


AnySettings = TypeVar("AnySettings", bound="PreparationSettings")
AnyRisk = TypeVar("AnyRisk", bound=StayResult)


class PreparationSettings(WindowSettings):
    """How a model reads the notes of a stay.

    Attributes:
        window: largest window in tokens, [CLS] and [SEP] included; None is the encoder's limit.
        overlap: tokens that consecutive windows share.
        c: the constant c of the readmission rule, > 0.
        clean_notes: blank out meaningless marks (see `clinical.stays.stays.clean`).
        join_notes: window a stay's notes as one text, as the paper does with early notes.
        other_languages: how to treat a stay whose notes seem not to be in English: "remark",
            "error", or "accept" for a model of another language.
    """

    window: int | None = None
    overlap: int = 0
    c: Positive = DEFAULT_C
    clean_notes: bool = True
    join_notes: bool = False
    other_languages: OtherLanguages = "remark"


class StayModel(Model[AnySettings], Generic[AnySettings, AnyRisk]):
    """A network that reads the windows of a stay's notes; each task adds what follows from them.

    The network is Hugging Face's BERT for sequence classification (CLS -> dense -> tanh -> logits
    -> sigmoid), or the class for another encoder, such as ModernBERT with windows of 8,192 tokens.
    It has a logit for each label. The numbers of windows have the shape (windows,) with one label,
    and (windows, labels) with several.

    Args:
        network: with a logit for each label.
        tokenizer: its fast tokenizer.
        settings: an instance of `settings_class`.
        device: where to run; by default CUDA where there is one, else the CPU.
        batch_tokens: tokens of one batch, padding counted; by default by device.

    Attributes:
        cache: a `domainbert.scoring.cache.WindowCache`; windows in it are not scored again.
    """

    package = "clinical"
    head = "window"

    def prepare(self) -> None:
        """What prepares stays, and no cache."""
        from domainbert.text.windows import Windower

        settings = self.settings
        limit = window_limit(self._network.config)
        windower = Windower(
            self._tokenizer,
            window=settings.window or limit,
            overlap=settings.overlap,
            limit=limit,
        )
        self._preparer = StayPreparer(
            windower,
            settings.clean_notes,
            settings.join_notes,
            settings.other_languages,
        )
        self.cache: WindowCache | None = None

    @property
    def c(self) -> float:
        """The c of the readmission rule."""
        return self.settings.c

    @classmethod
    def network_class(cls) -> type[PreTrainedModel]:
        """BERT with a classification head on CLS, or another encoder with its own head."""
        from domainbert.encoders.classifier import AnyClassifier

        return AnyClassifier

    def predict(self, stay: StayInput) -> AnyRisk:
        """What the model says of one stay: one note, or a list of its notes in time order.

        A model that also reads columns takes a record: the notes as `text`, and its columns.
        A stay without text has the `status` "empty", as in `predict_many`.

        Raises:
            UserError: a note is not a string, or too long; a column is missing or not a number.
        """
        result = next(self.predict_many([stay]))
        if result.status == "error":
            raise UserError(f"this stay cannot be scored: {result.reason}")
        return result

    def predict_many(self, stays: Iterable[StayInput]) -> Iterator[AnyRisk]:
        """The same of many stays (each as for `predict`), in order, in flat memory.

        A stay that cannot be scored has a `status` and a `reason`, and does not affect the others.

        Raises:
            UserError: `stays` is a string or a table.
        """
        if isinstance(stays, str | bytes | dict) or hasattr(stays, "columns"):
            raise UserError(
                f"stays is a {type(stays).__name__}; expected a list of stays: predict for one "
                "stay, score_frame for a DataFrame"
            )
        return starmap(self.risk_of, self.scored(stays))

    @abstractmethod
    def risk_of(
        self, stay: PreparedStay, probabilities: np.ndarray
    ) -> AnyRisk:
        """What follows from the probabilities of the windows of a stay.

        The result has a `status` and a `reason`.
        """

    def scored(
        self, stays: Iterable[StayInput]
    ) -> Iterator[tuple[PreparedStay, np.ndarray]]:
        """Each stay cut into windows, and their probabilities, as `risk_of` takes them.

        The windows of a chunk of stays are scored together.
        """
        chunks = chunked(
            map(self.prepared, stays),
            size=lambda stay: 1 + stay.risk.coverage.tokens,
            limit=self.runner.buffer_tokens,
        )
        for chunk in read_ahead(chunks):
            windows = [ids for stay in chunk for ids in stay.input_ids]
            probabilities = self.predict_windows(windows)
            ends = np.cumsum([len(stay.windows) for stay in chunk])
            for stay, end in zip(chunk, ends, strict=True):
                yield stay, probabilities[end - len(stay.windows) : end]

    def prepared(self, stay: StayInput) -> PreparedStay:
        """Cut a stay (as for `predict`) into windows."""
        return self._preparer.prepare(stay)

    def predict_windows(self, windows: Sequence[ArrayLike]) -> np.ndarray:
        """The probabilities of windows, shape (windows,) or (windows, labels).

        Args:
            windows: token ids with [CLS] and [SEP], each of shape (tokens,): arrays of any type of
                integers, or lists.

        Raises:
            UserError: a window that does not hold whole numbers, or none.
        """
        token_ids = [_token_ids(window) for window in windows]
        if self.cache is not None:
            return sigmoid(self.cache.logits(token_ids, self.runner.logits))
        # Text that was copied forward is scored once.
        by_bytes = {window.tobytes(): window for window in token_ids}
        logits = self.runner.logits(list(by_bytes.values()))
        logit_of = dict(zip(by_bytes, logits, strict=True))
        return sigmoid([logit_of[window.tobytes()] for window in token_ids])

    def token_ids(
        self, stays: Iterable[str | Sequence[str]]
    ) -> list[list[np.ndarray]]:
        """The windows of each stay as token ids, each of shape (tokens,), for training."""
        return [self._preparer.prepare(stay).input_ids for stay in stays]

    def window_probabilities(
        self,
        windows: Sequence[Sequence[np.ndarray]],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities of the windows (from `token_ids`) of many stays, and windows per stay."""
        every_window = [window for stay in windows for window in stay]
        logits = self.runner.logits(every_window)
        return sigmoid(logits), np.array([len(stay) for stay in windows])


def _token_ids(window: ArrayLike) -> np.ndarray:
    ids = np.asarray(window)
    if ids.dtype.kind not in "iu" or ids.ndim != 1:
        raise UserError(
            f"a window holds {ids.dtype} of shape {ids.shape}; expected token ids in one row, "
            "such as [101, 2023, 102]"
        )
    return ids.astype(np.int64)
