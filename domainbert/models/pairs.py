"""Scores of pairs of texts that one network reads together (a cross-encoder)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from domainbert.errors import UserError
from domainbert.files import whole_text
from domainbert.models.model import Model, WindowSettings
from domainbert.settings import Positive
from domainbert.streams import chunked, read_ahead
from domainbert.text.windows import checked_text, own_tokenizer

if TYPE_CHECKING:
    from tokenizers import Encoding
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class PairSettings(WindowSettings):
    """How two texts are read; a window holds both texts and the special tokens.

    Attributes:
        weight: of the logit beside the cosine when the passages of a search are reranked; None
            reranks by the score alone.
    """

    weight: Positive | None = None


@dataclass(frozen=True, repr=False)
class PairWindow:
    """One window of a pair: token ids and the segment (0 first text, 1 second) of each token."""

    input_ids: np.ndarray
    segments: np.ndarray


@dataclass(frozen=True)
class PairResult:
    """The result for a pair of texts: the network's output, the largest of its windows."""

    logit: float

    @property
    def score(self) -> float:
        """The sigmoid of the logit, in (0, 1)."""
        return float(1 / (1 + np.exp(-self.logit)))


class PairWindower:
    """Splits pairs of texts into windows `[CLS] first [SEP] part of second [SEP]`.

    The special tokens are those that the tokenizer uses for pairs. Every token of both texts is
    read. `[SEP]` and the like in a text are read as text.

    Args:
        tokenizer: a fast tokenizer, from `domainbert.encoders.loading.load_tokenizer`.
        window: maximum tokens of a window, special tokens included.

    Attributes:
        longest_first: maximum tokens of the first text, so that windows advance over the second.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, *, window: int
    ) -> None:
        self.window = window
        # The second text has at least one token in each window.
        self.longest_first = (
            window - tokenizer.num_special_tokens_to_add(pair=True) - 1
        )
        self._tokenizer = own_tokenizer(tokenizer)
        self._pairs = own_tokenizer(tokenizer)
        self._pairs.enable_truncation(window, strategy="only_second")

    def fault_of_first(self, text: str) -> str:
        """Why a text cannot be the first one of a pair, as "has ..."; "" if it can."""
        encoding = self._tokenizer.encode(
            whole_text(text), add_special_tokens=False
        )
        tokens = len(encoding.ids)
        if 1 <= tokens <= self.longest_first:
            return ""
        return (
            f"has {tokens} tokens, expected 1 to {self.longest_first} in windows of "
            f"{self.window} tokens"
        )

    def split(
        self,
        first: object,
        second: object,
        *,
        number: int = 0,
    ) -> list[PairWindow]:
        """The windows of one pair; see `split_many`."""
        return self.split_many([(first, second)], start=number)[0]

    def split_many(
        self,
        pairs: Sequence[tuple[object, object]],
        *,
        start: int = 0,
    ) -> list[list[PairWindow]]:
        """The windows of each pair.

        Args:
            pairs: first and second texts.
            start: number of the first pair, for messages.

        Raises:
            UserError: a text that is not a string or has no token, or a first text that leaves
                no room in the window; the message has the number of the pair.
        """
        texts = []
        for number, pair in enumerate(pairs, start=start):
            first_name = f"the first text of pair number {number}"
            first = checked_text(pair[0], first_name)
            second = checked_text(
                pair[1], f"the second text of pair number {number}"
            )
            if fault := self.fault_of_first(first):
                raise UserError(
                    f"{first_name} {fault}: put the longer text second"
                )
            texts.append((whole_text(first), whole_text(second)))
        encodings = self._pairs.encode_batch(texts)
        for number, encoding in enumerate(encodings, start=start):
            if 1 not in encoding.sequence_ids:
                raise UserError(
                    f"the second text of pair number {number} has no character the model reads"
                )
        return list(map(_pair_windows, encodings))


def _pair_windows(encoding: Encoding) -> list[PairWindow]:
    """The windows of one pair; the tokenizer has cut the second text."""
    return [
        PairWindow(np.array(window.ids), np.array(window.type_ids))
        for window in (encoding, *encoding.overflowing)
    ]


class PairModel(Model[PairSettings]):
    """Reads two texts together and gives a score.

    A second text that is too long for one window is read in several windows, of which the
    largest logit counts. `from_pretrained` loads a folder written here, or any BERT sequence
    classifier with one output, such as a sentence-transformers cross-encoder for reranking.

    Args:
        network: Hugging Face's sequence classifier.
        tokenizer: its fast tokenizer.
        settings: see `PairSettings`.
        device: where to run; by default CUDA if available, else the CPU.
        batch_tokens: tokens of one batch, padding included; by default by device.

    Raises:
        UserError: a network with several outputs.
    """

    task = "pairs"
    head = "window"
    settings_class = PairSettings
    train_command = (
        "biomed sentences train PAIRS --kind cross-encoder --out MODEL"
    )

    def prepare(self) -> None:
        """The windows of pairs."""
        outputs = self._network.config.num_labels
        if outputs != 1:
            raise UserError(
                f"a model of pairs has one output, a score; this one has {outputs}"
            )
        self.windower = PairWindower(
            self._tokenizer, window=self.window_tokens()
        )

    @classmethod
    def network_class(cls) -> type[PreTrainedModel]:
        """BERT with a classification head on CLS."""
        from domainbert.encoders.classifier import CLSClassifier

        return CLSClassifier

    def predict(self, first: str, second: str) -> PairResult:
        """The result of one pair.

        Raises:
            UserError: an empty text, or a first text too long for the window.
        """
        return next(self.predict_many([(first, second)]))

    def predict_many(
        self, pairs: Iterable[tuple[str, str]]
    ) -> Iterator[PairResult]:
        """The results of many pairs, in their order, in flat memory.

        Raises:
            UserError: see `predict`; the message has the number of the pair.
        """
        return self.predict_windows(
            self.windower.split(*pair, number=number)
            for number, pair in enumerate(pairs)
        )

    def predict_windows(
        self, pairs: Iterable[Sequence[PairWindow]]
    ) -> Iterator[PairResult]:
        """The results of pairs that `windower` has split."""
        chunks = chunked(
            pairs,
            size=lambda windows: sum(
                len(window.input_ids) for window in windows
            ),
            limit=self.runner.buffer_tokens,
        )
        for chunk in read_ahead(chunks):
            windows = list(itertools.chain(*chunk))
            rows = self.runner.run(
                [window.input_ids for window in windows],
                token_types=[window.segments for window in windows],
                read=lambda output, _: output.logits[:, 0],
            )
            counts = np.array([len(pair_windows) for pair_windows in chunk])
            # In a mean, a last window of a few words would weigh as much as a full one.
            logits = np.maximum.reduceat(
                np.stack(rows), np.cumsum(counts) - counts
            )
            yield from map(PairResult, logits.tolist())
