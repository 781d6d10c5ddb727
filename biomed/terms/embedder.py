"""TermEmbedder: a medical term -> its vector."""

from __future__ import annotations

import itertools
import logging
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from biomed.folder import BiomedFolder
from biomed.terms.pooling import BareEncoder, TermSettings, hidden_states, pool, published_pooling
from domainbert.encoders import window_limit
from domainbert.errors import UserError
from domainbert.inference import chunked, read_ahead
from domainbert.windows import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import pandas as pd
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from biomed.terms.pooling import Layers, Pooling
    from domainbert.windows import WindowedText

TASK = "terms"
DEFAULT_MODEL = "terms"
TRAIN_COMMAND = "biomed terms train DATA --recipe recipes/terms.toml --out MODEL"
log = logging.getLogger(__name__)
_warned: set[str] = set()


@dataclass(frozen=True)
class TermVectors:
    """The vectors of a run of terms, in the order given.

    Attributes:
        vectors: shape (terms, dimension), float32; a row of NaN where a term cannot be embedded.
        tokens: tokens of each term, special ones not counted, shape (terms,).
        windows: windows it was read in, shape (terms,); above 1 for a text longer than a window,
            whose vector pools them all.
        faults: why there is no vector, for each term; "" where there is one.
    """

    vectors: np.ndarray = field(repr=False)
    tokens: np.ndarray = field(repr=False)
    windows: np.ndarray = field(repr=False)
    faults: tuple[str, ...]


class TermEmbedder(BiomedFolder):
    """Medical terms as vectors, from any encoder.

    Make one with `from_pretrained`. A vector does not depend on the other terms of the call
    (within 1e-5 on a CPU). A text longer than a window is read in several, and pooled over all.

    Args:
        network: an encoder without a head.
        tokenizer: its fast tokenizer.
        settings: see `TermSettings`.
        name: what to call it in tables and figures.
        device: where to run; by default CUDA where there is one, else the CPU.
        batch_tokens: tokens of one batch, padding counted; by default by device.
    """

    task, train_command, settings_class = TASK, TRAIN_COMMAND, TermSettings

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        settings: TermSettings | None = None,
        name: str = "encoder",
        device: str | torch.device | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        from domainbert.windows import Windower

        super().__init__(
            network, tokenizer, settings=settings, device=device, batch_tokens=batch_tokens
        )
        self.name = name
        network.config.output_hidden_states = self.settings.layers != "last"
        limit = window_limit(network.config)
        self.windower = Windower(tokenizer, window=limit, limit=limit)

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""
        return int(self.network.config.hidden_size)

    def __repr__(self) -> str:
        """Name the encoder and how it is pooled."""
        settings = ", ".join(f"{name}={value!r}" for name, value in asdict(self.settings).items())
        return f"TermEmbedder({self.name!r}, {settings})"

    @classmethod
    def network_class(cls) -> Any:
        """An encoder without a head."""
        return BareEncoder

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path = DEFAULT_MODEL,
        *,
        pooling: Pooling | None = None,
        layers: Layers | None = None,
        unit_norm: bool | None = None,
        device: str | torch.device | None = None,
        batch_tokens: int | None = None,
    ) -> Self:
        """Load a shipped model or encoder by name, a folder, or a Hub id.

        An encoder that was not trained for similarity (it is no model of ours, and no
        sentence-transformers model) says so once in the log.

        Args:
            name: "terms" is trained on medical terms; "all-MiniLM-L6-v2" is the plain encoder.
            pooling: "mean", "cls" or "max"; by default what the model was trained with.
            layers: "last", "mean4" or "sum4"; by default what the model was trained with.
            unit_norm: scale vectors to length 1; by default as the model says, else False.
            device: see the class.
            batch_tokens: see the class.

        Raises:
            EncoderError: no such encoder, or one that cannot be used here.
        """
        from domainbert.encoders import find_encoder

        loaded = cls.load(name)
        if loaded.config:
            settings = cls.read_settings(loaded.config.settings)
        else:
            published = published_pooling(find_encoder(name))
            _warn_once(str(name), is_trained=published is not None)
            settings = TermSettings(pooling=published or "mean")
        asked = {"pooling": pooling, "layers": layers, "unit_norm": unit_norm}
        chosen = {key: value for key, value in asked.items() if value is not None}
        embedder = cls(
            loaded.model,
            loaded.tokenizer,
            settings=replace(settings, **chosen),
            name=str(name),
            device=device,
            batch_tokens=batch_tokens,
        )
        embedder.remember(loaded)
        return embedder

    def embed(
        self, terms: str | Sequence[str], *, sentences: Iterable[str] | None = None
    ) -> np.ndarray:
        """The vectors of terms.

        Args:
            terms: a term, or several.
            sentences: where given, a term's vector is the mean over those that contain it, of its
                own tokens there; see `biomed.terms.context.embed_in_context`. A term in none of
                them is embedded alone.

        Returns:
            Shape (terms, dimension), or (dimension,) for one term; float32.

        Raises:
            ValueError: a term has no text, is no string, or is not in the vocabulary at all; the
                message has its number.
        """
        if isinstance(terms, str):
            return self.embed([terms], sentences=sentences)[0]
        if sentences is not None:
            from biomed.terms.context import embed_in_context

            return embed_in_context(self, terms, sentences).vectors
        vectors = np.empty((len(terms), self.dimension), dtype=np.float32)
        start = longer = 0
        for part in self.embed_many(terms):
            check_faults(part.faults, first=start)
            vectors[start : start + len(part.vectors)] = part.vectors
            start, longer = start + len(part.vectors), longer + int((part.windows > 1).sum())
        if longer:
            window = self.windower.window
            log.warning(
                "%d of %d texts are longer than %d tokens: each of their vectors pools several "
                "windows",
                *(longer, len(terms), window),
            )
        return vectors

    def embed_many(self, terms: Iterable[Any]) -> Iterator[TermVectors]:
        """The vectors of any number of terms, piece by piece, in order, in flat memory.

        A term that cannot be embedded costs none of the others: its piece says why.
        """
        rows = chunked(terms, size=_characters, limit=self.runner.buffer_tokens)
        for texts, type_faults, read in read_ahead(self._tokenised(rows)):
            yield self._vectors(texts, type_faults, read)

    def embed_frame(self, frame: pd.DataFrame, *, column: str = "term") -> pd.DataFrame:
        """A table of terms with their vectors; see `biomed.terms.tables.embed_frame`."""
        from biomed.terms.tables import embed_frame

        return embed_frame(self, frame, column=column)

    def similarity(self, a: str, b: str) -> float:
        """The cosine of two terms, in [-1, 1]."""
        from biomed.terms.similarity import unit

        first, second = unit(self.embed([a, b]))
        return float(first @ second)

    def similarity_matrix(
        self, terms: Sequence[str], others: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """Cosines of all terms with all others (or with each other), named on both sides."""
        from biomed.terms.similarity import similarity_matrix

        return similarity_matrix(self, terms, others)

    def nearest(self, term: str, vocabulary: Sequence[str], *, k: int = 10) -> pd.DataFrame:
        """The k terms of a vocabulary that are most like a term: `rank, neighbour, similarity`.

        The term itself is left out. For many terms make one `biomed.TermIndex`.
        """
        from biomed.terms.similarity import TermIndex

        return TermIndex(self, vocabulary).nearest(term, k=k)

    def pooled(
        self, windows: Sequence[np.ndarray], *, network: PreTrainedModel | None = None
    ) -> np.ndarray:
        """The raw window level: token ids -> pooled hidden states.

        Args:
            windows: token ids with special tokens, each of shape (tokens,).
            network: use this one instead of the embedder's own (one in training, say).

        Returns:
            Shape (windows, dimension), float32; not scaled.
        """

        def read(output: Any, mask: torch.Tensor | None) -> torch.Tensor:
            hidden = hidden_states(output, layers=self.settings.layers)
            return pool(hidden, mask, pooling=self.settings.pooling)

        runner = self.runner if network is None else self.runner.with_model(network)
        rows = runner.run(windows, read=read)
        return np.stack(rows) if rows else np.empty((0, self.dimension), dtype=np.float32)

    def scaled(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors at the length that the settings ask for."""
        from biomed.terms.similarity import unit

        return unit(vectors) if self.settings.unit_norm else vectors

    def _tokenised(
        self, chunks: Iterable[list[Any]]
    ) -> Iterator[tuple[list[str], list[str], dict[str, WindowedText]]]:
        """Each chunk as texts, what is wrong with them, and each different text in windows."""
        for chunk in chunks:
            texts = [term if isinstance(term, str) else "" for term in chunk]
            different = list(dict.fromkeys(texts))  # a term that repeats is read once
            read = dict(zip(different, self.windower.split_many(different), strict=True))
            yield texts, [_type_fault(term) for term in chunk], read

    def _vectors(
        self, texts: list[str], type_faults: list[str], read: dict[str, WindowedText]
    ) -> TermVectors:
        faults = {text: _fault(windowed) for text, windowed in read.items()}
        known = {text: windowed for text, windowed in read.items() if not faults[text]}
        windows = [window.input_ids for windowed in known.values() for window in windowed.windows]
        counts = np.array([len(windowed.windows) for windowed in known.values()], dtype=np.int64)
        vectors = self.scaled(self._joined(self.pooled(windows), windows, counts))
        # The last row is what a term without a vector gets.
        table = np.vstack([vectors, np.full((1, self.dimension), np.nan, np.float32)])
        place = {text: row for row, text in enumerate(known)}
        return TermVectors(
            vectors=table[[place.get(text, -1) for text in texts]],
            tokens=np.array([read[text].tokens for text in texts]),
            windows=np.array([len(read[text].windows) for text in texts]),
            faults=tuple(
                fault or faults[text] for fault, text in zip(type_faults, texts, strict=True)
            ),
        )

    def _joined(
        self, rows: np.ndarray, windows: Sequence[np.ndarray], counts: np.ndarray
    ) -> np.ndarray:
        """One row a text from one row a window: a maximum, or a mean weighted by tokens."""
        if len(rows) == len(counts):
            return rows
        starts = np.cumsum(counts) - counts
        if self.settings.pooling == "max":
            return np.maximum.reduceat(rows, starts)
        weights = np.array([len(window) for window in windows], dtype=np.float32)[:, None]
        return np.add.reduceat(rows * weights, starts) / np.add.reduceat(weights, starts)


def check_faults(faults: Iterable[str], *, first: int = 0) -> None:
    """Refuse terms without a vector.

    Args:
        faults: one for each term; "" where there is none.
        first: number of the first of these terms.

    Raises:
        ValueError: naming the first bad term by its number.
    """
    for number, fault in zip(itertools.count(first), faults, strict=False):
        if fault:
            msg = f"term number {number} cannot be embedded: {fault}"
            raise UserError(msg)


def _fault(windowed: WindowedText) -> str:
    if not windowed.tokens:
        return "no text"
    unknown = sum(part.reason == UNKNOWN for part in windowed.unread)
    return "no word of it is in the encoder's vocabulary" if unknown >= windowed.tokens else ""


def _type_fault(term: object) -> str:
    missing = isinstance(term, str) or term is None or term != term
    return "" if missing else f"it is {type(term).__name__}, not a string"


def _characters(term: object) -> int:
    # A token is some four characters; two more are the special tokens'.
    return 2 + len(term) // 4 if isinstance(term, str) else 1


def _warn_once(name: str, *, is_trained: bool) -> None:
    if not is_trained and name not in _warned:
        _warned.add(name)
        log.warning(
            "%s was not trained for similarity: its cosines rank terms poorly; the shipped model "
            "is TermEmbedder.from_pretrained()",
            name,
        )
