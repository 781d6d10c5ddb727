"""ReadmissionModel, the model that users hold: a stay's notes -> its 30-day readmission risk."""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import starmap
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from clinical.risk.aggregation import DEFAULT_C, aggregate
from clinical.risk.manifest import RiskManifest
from clinical.risk.reading import (
    ColumnEffect,
    OtherLanguages,
    ReadStay,
    RiskGroup,
    StayReader,
    StayRisk,
    WindowRisk,
)
from clinical.stays.choice import NoteChoice, outcome_of
from domainbert.encoders.loading import window_limit
from domainbert.errors import UserError
from domainbert.models.model import Model, WindowSettings
from domainbert.settings import Positive
from domainbert.statistics.calibration import calibrated, sigmoid
from domainbert.streams import chunked, read_ahead

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from transformers import PreTrainedModel

    from clinical.evidence.view import Explanation, StayView
    from clinical.stays.stays import StayInput
    from domainbert.scoring.cache import WindowCache

UNCALIBRATED = "this model has no calibrator: `probability` is the score, not a calibrated chance"
log = logging.getLogger(__name__)


class ReadingSettings(WindowSettings):
    """How a readmission model reads the notes of a stay.

    Attributes:
        window: largest window in tokens, [CLS] and [SEP] included; None is the encoder's limit.
        overlap: tokens that consecutive windows share.
        c: the constant c of the readmission rule, > 0.
        clean_notes: blank out meaningless marks (see `clinical.stays.stays.clean`).
        join_notes: window a stay's notes as one text, as the paper does with early notes.
        other_languages: what becomes of a stay whose notes seem not to be in English: "remark",
            "error", or "accept" for a model of another language.
    """

    window: int | None = None
    overlap: int = 0
    c: Positive = DEFAULT_C
    clean_notes: bool = True
    join_notes: bool = False
    other_languages: OtherLanguages = "remark"


class ReadmissionSettings(ReadingSettings):
    """What a readmission model does around its network; see `ReadingSettings` too.

    Attributes:
        calibration: slope and intercept on the logit scale; None without a calibrator.
        columns: what is read beside the notes, and how it shifts the calibrated log-odds.
        alert_threshold: the probability from which validation reached 80% precision; None if no
            probability did.
        after_discharge: when the outcome came in validation, by risk from 0 on; empty if that is
            not known.
        notes: which notes of a stay training read; None if its table did not say.
    """

    # It is a list in JSON.
    calibration: Annotated[tuple[float, float], Field(strict=False)] | None = (
        None
    )
    # Left out where there are none: the fingerprint of a model without columns stays.
    columns: Annotated[
        tuple[ColumnEffect, ...],
        Field(strict=False, exclude_if=lambda found: not found),
    ] = ()
    alert_threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    after_discharge: Annotated[
        tuple[RiskGroup, ...],
        Field(strict=False, exclude_if=lambda groups: not groups),
    ] = ()
    notes: NoteChoice | None = None


class ReadmissionModel(Model[ReadmissionSettings]):
    """ClinicalBERT's readmission model: windows, a one-logit head on CLS, and the readmission rule.

    `from_pretrained` loads one, and `fit` trains one (see `clinical.training.training.fit`). For
    one row per stay, per note or per passage of a table, `score_frame` has the tasks "readmission"
    (see `clinical.risk.task.ReadmissionTask`), "trajectory" and "explain".

    The network is Hugging Face's BERT for sequence classification with one label (CLS -> dense ->
    tanh -> logit -> sigmoid), or the class for another encoder, such as ModernBERT with windows of
    8,192 tokens.

    Args:
        network: with one label.
        tokenizer: its fast tokenizer.
        settings: see `ReadmissionSettings`.
        device: where to run; by default CUDA where there is one, else the CPU.
        batch_tokens: tokens of one batch, padding counted; by default by device.

    Attributes:
        cache: a `domainbert.scoring.cache.WindowCache`; windows in it are not scored again.
    """

    package = "clinical"
    task = "readmission"
    labels = ("readmitted",)
    train_command = (
        "clinical train COHORT.parquet --encoder {encoder} --out MODEL"
    )
    trainer = "clinical.training.training:fit"
    tasks: ClassVar = {
        "readmission": "clinical.risk.task:ReadmissionTask",
        "trajectory": "clinical.risk.task:TrajectoryTask",
        "explain": "clinical.evidence.task:ExplainTask",
    }
    settings_class = ReadmissionSettings
    manifest_class = RiskManifest
    manifest: RiskManifest

    def prepare(self) -> None:
        """The reader of stays, and no cache."""
        from domainbert.text.windows import Windower

        settings = self.settings
        limit = window_limit(self.network.config)
        windower = Windower(
            self.tokenizer,
            window=settings.window or limit,
            overlap=settings.overlap,
            limit=limit,
        )
        self._reader = StayReader(
            windower,
            settings.clean_notes,
            settings.join_notes,
            settings.other_languages,
        )
        self._has_warned = False
        self.cache: WindowCache | None = None

    @property
    def c(self) -> float:
        """The c of the readmission rule."""
        return self.settings.c

    @property
    def outcome(self) -> str:
        """What the probability is of; see `outcome_of`."""
        return outcome_of(self.settings.notes)

    @classmethod
    def network_class(cls) -> type[PreTrainedModel]:
        """BERT with a classification head on CLS, or another encoder with its own head."""
        from domainbert.encoders.classifier import AnyClassifier

        return AnyClassifier

    def predict(self, stay: StayInput) -> StayRisk:
        """The risk of one stay: one note, or a list of its notes in time order.

        A model that also reads columns takes a record: the notes as `text`, and its columns.
        A stay without text has the `status` "empty", as in `predict_many`.

        Raises:
            UserError: a note is not a string, or too long; a column is missing or not a number.
        """
        result = next(self.predict_many([stay]))
        if result.status == "error":
            raise UserError(f"this stay cannot be scored: {result.reason}")
        return result

    def predict_many(self, stays: Iterable[StayInput]) -> Iterator[StayRisk]:
        """The risks of many stays (each as for `predict`), in order, in flat memory.

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

    def explain(self, stay: StayInput, *, top: int = 5) -> Explanation:
        """The passages that raise and lower the risk of a stay; see `clinical.explain`."""
        # Named, not imported: a model does not depend on what explains it.
        explain = pkgutil.resolve_name("clinical.evidence.explain:explain")
        explanation: Explanation = explain(self, stay, top=top)
        return explanation

    def show(self, stay: StayInput) -> StayView:
        """The notes of a stay with those passages highlighted, for a notebook."""
        return self.explain(stay).show()

    def scored(
        self, stays: Iterable[Any]
    ) -> Iterator[tuple[ReadStay, np.ndarray]]:
        """Each stay cut into windows, and their probabilities, as `risk_of` takes them.

        The windows of a chunk of stays are scored together.
        """
        if self.settings.calibration is None and not self._has_warned:
            self._has_warned = True
            log.warning(UNCALIBRATED)
        chunks = chunked(
            map(self.read, stays),
            size=lambda stay: 1 + stay.risk.coverage.tokens,
            limit=self.runner.buffer_tokens,
        )
        for chunk in read_ahead(chunks):
            windows = [ids for stay in chunk for ids in stay.input_ids]
            probabilities = self.score_token_ids(windows)
            ends = np.cumsum([len(stay.windows) for stay in chunk])
            for stay, end in zip(chunk, ends, strict=True):
                yield stay, probabilities[end - len(stay.windows) : end]

    def read(self, stay: StayInput) -> ReadStay:
        """Cut a stay (as for `predict`) into windows, and weigh its columns."""
        return self._reader.read(stay).with_columns(
            self.settings.columns, stay
        )

    def score_token_ids(self, windows: Sequence[ArrayLike]) -> np.ndarray:
        """The probabilities of windows, shape (windows,).

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
        return [self._reader.read(stay).input_ids for stay in stays]

    def window_probabilities(
        self,
        windows: Sequence[Sequence[np.ndarray]],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities of the windows (from `token_ids`) of many stays, and windows per stay."""
        every_window = [window for stay in windows for window in stay]
        logits = self.runner.logits(every_window)
        return sigmoid(logits), np.array([len(stay) for stay in windows])

    def calibrated(self, score: ArrayLike, shift: Any = 0.0) -> np.ndarray:
        """The probabilities of scores, of any shape; the scores themselves without a calibrator.

        `shift` is what columns add to the log-odds, a number or one for each score.
        """
        if self.settings.calibration is None:
            return np.asarray(score)
        slope, intercept = self.settings.calibration
        return calibrated(score, slope, intercept + shift)

    def risk_of(self, stay: ReadStay, probabilities: np.ndarray) -> StayRisk:
        """The risk of a stay from the probabilities of its windows, shape (windows,)."""
        risk = self.combined(stay.risk, probabilities)
        if risk.status != "ok":
            return risk
        windows = [
            WindowRisk(note, window.start, window.end, float(p))
            for (note, window), p in zip(
                stay.windows, probabilities, strict=True
            )
        ]
        return replace(risk, windows=tuple(windows))

    def combined(self, risk: StayRisk, probabilities: np.ndarray) -> StayRisk:
        """A risk with the numbers that follow from windows, shape (windows,), but without these."""
        if risk.status != "ok":
            return risk
        finite = np.isfinite(probabilities)
        if not finite.all():
            reason = f"the model gave no number for window {np.argmin(finite)}"
            return replace(risk, status="error", reason=reason)
        score = aggregate(probabilities, self.c)
        probability = float(self.calibrated(score, risk.shift))
        threshold = self.settings.alert_threshold
        alert = None
        if threshold is not None:
            alert = probability >= threshold
        return replace(
            risk,
            probability=probability,
            score=score,
            p_max=float(probabilities.max()),
            p_mean=float(probabilities.mean()),
            calibrated=self.settings.calibration is not None,
            alert=alert,
            after_discharge=self.settings.after_discharge,
        )


def _token_ids(window: ArrayLike) -> np.ndarray:
    ids = np.asarray(window)
    if ids.dtype.kind not in "iu" or ids.ndim != 1:
        raise UserError(
            f"a window holds {ids.dtype} of shape {ids.shape}; expected token ids in one row, "
            "such as [101, 2023, 102]"
        )
    return ids.astype(np.int64)
