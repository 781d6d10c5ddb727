"""Texts as vectors, one per text or one per passage."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from domainbert.encoders.configs import window_limit
from domainbert.encoders.loading import (
    DEFAULT_ENCODER,
    find_encoder,
)
from domainbert.errors import UserError
from domainbert.models.model import Model
from domainbert.models.pooling import (
    BareEncoder,
    EmbeddingSettings,
    join_windows,
    module_files,
    pool,
    read_modules,
    unit,
)
from domainbert.models.storage import resolve_model
from domainbert.streams import chunked, read_ahead
from domainbert.tables.ids import is_missing
from domainbert.text.windows import (
    UNKNOWN,
    WindowedText,
    Windower,
    too_long,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NO_TEXT = "no text"
log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class TextVectors:
    """The vectors of consecutive texts, or of their passages, in their order.

    Attributes:
        vectors: shape (texts, dimension), float32, a row of NaN where a text has no vector; or
            shape (passages of all texts, dimension).
        texts: the windows of each text; none where it has a fault. A passage is a window.
        faults: why a text has no vector, for each text; "" where it has one.
    """

    vectors: np.ndarray
    texts: list[WindowedText]
    faults: list[str]


class Embedder(Model[EmbeddingSettings]):
    """Texts as vectors, from any encoder.

    A vector does not depend on the other texts of the call (within 1e-5 on a CPU). A text longer
    than a window is read in several windows. With all weights saved (`merged=True`) the folder is
    an ordinary sentence-transformers model, which gives the same vectors there.

    Args:
        network: an encoder without a head.
        tokenizer: its fast tokenizer.
        **options: `settings` (see `EmbeddingSettings`), `device` and `batch_tokens` of `Model`.
    """

    task = "embedding"
    also = ("embedding", "sentences", "terms")
    default = DEFAULT_ENCODER
    head = "none"
    trains_further = True
    settings_class = EmbeddingSettings
    train_command = "biomed sentences train PAIRS --out MODEL"

    def prepare(self) -> None:
        """The windows of texts."""
        self.windower = self._windower(self.window_tokens())

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._network.config.hidden_size)

    def __repr__(self) -> str:
        """Name the encoder and how it is pooled."""
        shown = self.settings.model_dump(exclude_none=True).items()
        settings = ", ".join(f"{name}={value!r}" for name, value in shown)
        return f"{type(self).__name__}({self.name!r}, {settings})"

    @classmethod
    def network_class(cls) -> type[PreTrainedModel]:
        """An encoder without a head."""
        return BareEncoder

    @classmethod
    def settings_of(cls, name: str | Path) -> EmbeddingSettings:
        """Those of a sentence-transformers model; the defaults, with a warning, for any other."""
        published = read_modules(find_encoder(resolve_model(name, cls)))
        if published is None:
            log.warning(
                "%s was not trained for similarity: cosines rank texts poorly",
                name,
            )
        return published or EmbeddingSettings()

    def embed(self, texts: str | Sequence[str]) -> np.ndarray:
        """The vectors of texts, shape (texts, dimension), or (dimension,) for one text; float32.

        Raises:
            UserError: a text is empty, not a string, or not in the vocabulary at all; the message
                has its number.
        """
        if isinstance(texts, str):
            return self.embed([texts])[0]
        vectors, faults = self.embed_all(texts)
        check_faults(faults)
        return vectors

    def embed_all(
        self, texts: Sequence[object]
    ) -> tuple[np.ndarray, list[str]]:
        """The vectors of texts, and for each text why it has no vector, or "".

        Returns:
            Vectors of shape (texts, dimension), float32, NaN without a vector; and the reasons.
        """
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        faults: list[str] = []
        for part in self.embed_many(texts):
            start = len(faults)
            faults += part.faults
            vectors[start : len(faults)] = part.vectors
        return vectors, faults

    def embed_many(self, texts: Iterable[object]) -> Iterator[TextVectors]:
        """The vectors of any number of texts, piece by piece, in order, in flat memory.

        A text without a vector does not affect the others: its piece says why it has none.

        Raises:
            UserError: one string instead of a list of them.
        """
        for windowed, faults in self._tokenised(texts, self.windower):
            # A text that repeats is the same object, and gets one vector.
            distinct = {id(text): text for text in windowed if text.windows}
            vectors = self._text_vectors([*distinct.values()])
            vector_of = dict(zip(distinct, vectors, strict=True))
            missing = np.full(self.dimension, np.nan, np.float32)
            rows = [vector_of.get(id(text), missing) for text in windowed]
            yield TextVectors(np.stack(rows), windowed, faults)

    def embed_passages(
        self,
        texts: Iterable[object],
        *,
        window: int | None = None,
    ) -> Iterator[TextVectors]:
        """One vector per passage of each text, with its position in the text.

        Passages are consecutive and cover the text; they end at a sentence or line where possible.
        `window` is the longest passage in tokens, special ones included; by default that of the
        settings.

        Raises:
            UserError: one string instead of a list, or a window beyond the encoder's limit.
        """
        windower = self.windower
        if window is not None:
            windower = self._windower(window)
        for windowed, faults in self._tokenised(texts, windower):
            ids = [
                passage.input_ids
                for text in windowed
                for passage in text.windows
            ]
            vectors = self.scaled(self.pooled(ids))
            yield TextVectors(vectors, windowed, faults)

    def similarity(self, a: str, b: str) -> float:
        """The cosine of two texts, in [-1, 1]."""
        first, second = unit(self.embed([a, b]))
        return float(first @ second)

    def vectors_of(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors of texts that all have tokens, for scoring while a network trains.

        The shape is (texts, dimension), the type float32. A text without a token is a `UserError`.
        """
        windowed = self.windower.split_many(texts)
        check_faults("" if text.tokens else NO_TEXT for text in windowed)
        return self._text_vectors(windowed)

    def pooled(self, windows: Sequence[np.ndarray]) -> np.ndarray:
        """Pooled hidden states, not scaled, shape (windows, dimension), float32.

        `windows` are token ids with special tokens, each of shape (tokens,).
        """
        rows = self.runner.run(
            windows,
            read=lambda output, mask: pool(
                output.last_hidden_state.float(),
                mask,
                pooling=self.settings.pooling,
            ),
        )
        return np.array(rows, dtype=np.float32).reshape(-1, self.dimension)

    def scaled(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors of length 1 if the settings say so, unchanged otherwise."""
        if self.settings.unit_norm:
            return unit(vectors)
        return vectors

    def _text_vectors(self, texts: Sequence[WindowedText]) -> np.ndarray:
        """The vector of each text, joined from those of its windows, shape (texts, dimension)."""
        import torch

        windows = [
            window.input_ids for text in texts for window in text.windows
        ]
        rows = join_windows(
            torch.from_numpy(self.pooled(windows)),
            torch.tensor([len(window) for window in windows]),
            torch.tensor([len(text.windows) for text in texts]),
            pooling=self.settings.pooling,
        )
        return self.scaled(rows.numpy())

    def _extra_files(self) -> dict[str, str]:
        return module_files(
            self.settings,
            dimension=self.dimension,
            window=self.windower.window,
        )

    def _windower(self, window: int) -> Windower:
        limit = window_limit(self._network.config)
        return Windower(
            self._tokenizer,
            window=window,
            limit=limit,
        )

    def _tokenised(
        self,
        texts: Iterable[object],
        windower: Windower,
    ) -> Iterator[tuple[list[WindowedText], list[str]]]:
        """Chunks of texts in windows, and for each text why it has no vector, or ""."""
        check_many(texts)
        chunks = chunked(
            texts,
            size=_tokens,
            limit=self.runner.buffer_tokens,
        )
        return read_ahead(_split(chunk, windower) for chunk in chunks)


def check_many(texts: object) -> None:
    """Raise `UserError` for one string instead of several, which would be read by letters."""
    if isinstance(texts, str):
        raise UserError(
            "expected a list of texts, got one string; write [text]"
        )


def check_faults(faults: Iterable[str]) -> None:
    """Raise `UserError` for the first text with a fault, by its number."""
    for number, fault in enumerate(faults):
        if fault:
            raise UserError(f"text number {number} has no vector: {fault}")


def _split(
    chunk: list[object],
    windower: Windower,
) -> tuple[list[WindowedText], list[str]]:
    """The windows of each text of a chunk, and its fault or ""."""
    type_faults = [_type_fault(text) for text in chunk]
    texts = [
        text if isinstance(text, str) and not fault else ""
        for text, fault in zip(chunk, type_faults, strict=True)
    ]
    distinct = list(dict.fromkeys(texts))  # a text that repeats is read once
    windowed_of = {}
    fault_of = {}
    for text, windowed in zip(
        distinct, windower.split_many(distinct), strict=True
    ):
        fault_of[text] = _fault(windowed)
        if fault_of[text]:
            windowed = replace(windowed, windows=())
        windowed_of[text] = windowed
    faults = [
        fault or fault_of[text]
        for fault, text in zip(type_faults, texts, strict=True)
    ]
    return [windowed_of[text] for text in texts], faults


def _fault(windowed: WindowedText) -> str:
    """Why a text has no vector, by its tokens; "" if it has one."""
    if not windowed.tokens:
        return NO_TEXT
    unknown = sum(part.reason == UNKNOWN for part in windowed.unread)
    if unknown < windowed.tokens:
        return ""
    return "no word of it is in the encoder's vocabulary"


def _type_fault(text: object) -> str:
    """Why a cell is not a text that can be read; "" if it can, or is missing."""
    if isinstance(text, str):
        if reason := too_long(text):
            return f"it has {reason}"
        return ""
    if is_missing(text):
        return ""
    return f"it is {type(text).__name__}, not a string"


def _tokens(text: object) -> int:
    """About how many tokens a text has: four characters each, and two special ones."""
    return 2 + len(text) // 4 if isinstance(text, str) else 1
