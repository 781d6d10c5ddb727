"""`WordTagger`: a token-classification network that gives each word one IOB2 tag.

Words become word pieces, pieces become windows, and each word is read at its first piece, in the
window where it has the most context.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from biomed.ner.decoding import Outputs, find_entities
from biomed.ner.manifest import EntityManifest
from domainbert.errors import UserError
from domainbert.files import whole_text
from domainbert.models.model import Model, WindowSettings
from domainbert.statistics.calibration import calibrated
from domainbert.streams import chunked
from domainbert.text.windows import SPECIAL_TOKENS, own_tokenizer, plan_windows

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


WordSpan = tuple[int, int, str, float]
"""First word, one past the last, type and score of an entity."""

LISTED = 4.0  # log-odds, chosen on dev sides
FRAMED = 12.0  # log-odds of shorthand that its context decides
_FRAMED_TYPE = "Disease"


class EntitySettings(WindowSettings):
    """The windows of an entity model.

    Attributes:
        calibration: slope and intercept that make the scores of an entity type probabilities;
            see `recipes/calibration.py`. Types without one keep the network's score.
        abbreviations: the words that nearly always are of an entity type, as they are spelt.
            Their log-odds are raised by `LISTED` when tags are decoded.
    """

    calibration: dict[str, list[float]] = Field(default_factory=dict)
    abbreviations: dict[str, list[str]] = Field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class Pieces:
    """The word pieces of consecutive words.

    Attributes:
        ids: token ids of all words, without special tokens, shape (pieces,).
        first: index in `ids` of each word's first piece, shape (words,).
        is_read: whether a word has any piece; tokenizers drop control characters. Shape (words,).
        starts: the words into which no entity continues, in order; the first word is one.
        listed: for each word, the B tag of the type that lists it as an abbreviation, or 0.
        log_odds: what is added for that type, shape (words,).
    """

    ids: np.ndarray
    first: np.ndarray
    is_read: np.ndarray
    starts: np.ndarray
    listed: np.ndarray
    log_odds: np.ndarray

    def __len__(self) -> int:
        """Tokens, for the size of a chunk."""
        return 1 + len(self.ids)


class WordReader:
    """Tokenises words, each on its own: no piece spans two words, and `[SEP]` in a text is text.

    A tokenizer of bytes (RoBERTa, ModernBERT) reads a word with the space before it, if there is
    one, as it reads a whole text. Threads may share it; the pieces of recent words are remembered.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        listed: Mapping[str, int] | None = None,
        *,
        framed_tag: int = 0,
    ) -> None:
        self._listed = listed or {}
        self._framed_tag = framed_tag
        self._tokenizer = own_tokenizer(tokenizer)
        self.cls = tokenizer.cls_token_id
        self.sep = tokenizer.sep_token_id
        self._reads_spaces = "ByteLevel" in repr(self._tokenizer.pre_tokenizer)

    def read(
        self,
        words: Sequence[str],
        *,
        spaced: Sequence[bool] | None = None,
        breaks: Sequence[int] | np.ndarray = (),
        framed: Sequence[int] | np.ndarray = (),
    ) -> Pieces:
        """Tokenise words.

        Args:
            words: the words of one text, in order.
            spaced: whether each follows a space; by default all but the first do.
            breaks: numbers of the words into which no entity continues, in order.
            framed: numbers of the words that are diseases by their context.
        """
        tags = [self._listed.get(word, 0) for word in words]
        listed = np.array(tags, dtype=np.int64)
        log_odds = np.where(listed > 0, LISTED, 0.0)
        if len(framed) and self._framed_tag:
            listed[framed] = self._framed_tag
            log_odds[framed] = FRAMED
        if self._reads_spaces:
            if spaced is None:
                spaced = [number > 0 for number in range(len(words))]
            words = [
                " " * has_space + word
                for has_space, word in zip(spaced, words, strict=True)
            ]
        pieces = [_pieces(self._tokenizer, word) for word in words]
        lengths = np.array(list(map(len, pieces)), dtype=np.int64)
        ids = list(chain.from_iterable(pieces))
        starts = np.append(np.zeros(min(len(words), 1)), breaks).astype(np.int64)
        return Pieces(
            ids=np.array(ids, dtype=np.int64),
            first=np.cumsum(lengths) - lengths,
            is_read=lengths > 0,
            starts=starts,
            listed=listed,
            log_odds=log_odds,
        )

    def pieces_saved(self, left: str, right: str) -> int:
        """How many pieces fewer two parts of a word have together than each alone."""
        pieces = partial(_pieces, self._tokenizer)
        return len(pieces(left) + pieces(right)) - len(pieces(left + right))

    def window(self, ids: np.ndarray) -> np.ndarray:
        """Pieces between [CLS] and [SEP], shape (pieces + 2,)."""
        return np.concatenate(([self.cls], ids, [self.sep]))


@lru_cache(200_000)  # the vocabulary of a large corpus, some 50 MB
def _pieces(tokenizer: Tokenizer, word: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode(whole_text(word), add_special_tokens=False).ids)


def best_window(first: np.ndarray, ranges: Sequence[tuple[int, int]]) -> np.ndarray:
    """The window in which each word has the most context on its shorter side; the first if equal.

    The beginning and the end of the text count as unlimited context, so consecutive windows meet
    in the middle of their overlap. `first` is the index of each word's first piece, shape (words,),
    and `ranges` are the windows in order; the result has the number of each word's window.
    """
    starts, stops = np.array(ranges, dtype=np.int64).reshape(-1, 2).T
    return np.searchsorted((starts[1:] + stops[:-1] - 1) / 2, first)


class WordTagger(Model[EntitySettings]):
    """A token-classification network, read at the first piece of each word; see `Model`.

    Raises:
        UserError: outputs whose names cannot be read, or windows beyond the encoder's limit.
    """

    package = "biomed"
    task = "entities"
    trainer = "biomed.ner.training:fit"
    settings_class = EntitySettings
    manifest_class = EntityManifest
    manifest: EntityManifest
    train_command = "biomed ner train CORPUS --encoder {encoder} --out MODEL"

    def prepare(self) -> None:
        """The labels and the reader of words."""
        names = self.network.config.id2label
        self._outputs = Outputs([names[number] for number in sorted(names)])
        self.types = self._outputs.types
        self.labels = self._outputs.names
        abbreviations = self.settings.abbreviations
        unknown = sorted(abbreviations.keys() - set(self.types))
        if unknown:
            raise UserError(
                f"abbreviations of {unknown[0]!r}; expected {', '.join(self.types)}"
            )
        tags = {kind: 1 + 2 * number for number, kind in enumerate(self.types)}
        listed: dict[str, int] = {}
        for kind, words in abbreviations.items():
            listed |= dict.fromkeys(words, tags[kind])
        framed_tag = tags.get(_FRAMED_TYPE, 0)
        self.reader = WordReader(self.tokenizer, listed, framed_tag=framed_tag)
        self.window = self.window_tokens()

    @classmethod
    def network_class(cls) -> type[PreTrainedModel]:
        """Any encoder for token classification."""
        from transformers import AutoModelForTokenClassification

        return AutoModelForTokenClassification

    def log_probabilities(
        self, texts: Sequence[Pieces], *, network: PreTrainedModel | None = None
    ) -> list[np.ndarray]:
        """Log-probability of each tag for each word of each text, shape (words, tags), float32.

        Listed abbreviations are counted in. O and I of a word without a piece have 0. `network`
        replaces the model's own during training.
        """
        runner = self.runner.with_model(network)
        capacity = self.window - SPECIAL_TOKENS
        windows = []
        plans = []
        for text in texts:
            ranges = plan_windows(
                len(text.ids),
                capacity=capacity,
                overlap=self.window // 8,
            )
            plans.append(ranges)
            windows += [
                self.reader.window(text.ids[start:end]) for start, end in ranges
            ]
        rows = runner.run(
            windows, read=lambda output, _: output.logits.float().log_softmax(dim=-1)
        )
        outputs = iter(rows)
        return [
            self._tag_scores(text, ranges, outputs)
            for text, ranges in zip(texts, plans, strict=True)
        ]

    def _tag_scores(
        self,
        text: Pieces,
        ranges: Sequence[tuple[int, int]],
        outputs: Iterator[np.ndarray],
    ) -> np.ndarray:
        """The log-probabilities of a text's words, from the outputs of its windows."""
        first = text.first[text.is_read]
        window_numbers = best_window(first, ranges)
        word_outputs = np.zeros((len(first), len(self.labels)), dtype=np.float32)
        for number, (start, _) in enumerate(ranges):
            is_inside = window_numbers == number
            word_outputs[is_inside] = next(outputs)[1 + first[is_inside] - start]
        tag_count = 1 + 2 * len(self.types)
        scores = np.zeros((len(text.first), tag_count), dtype=np.float32)
        scores[~text.is_read, 1::2] = -np.inf  # O or, within an entity, I
        scores[text.is_read] = self._outputs.tags(word_outputs)
        _raise_listed(scores, text)
        return scores

    def entities(
        self, texts: Iterable[Pieces], *, network: PreTrainedModel | None = None
    ) -> Iterator[list[WordSpan]]:
        """The entities of each text, in constant memory.

        For `network` see `log_probabilities`.
        """
        for chunk in chunked(
            texts,
            size=len,
            limit=self.runner.buffer_tokens,
        ):
            scores = self.log_probabilities(chunk, network=network)
            for text, text_scores in zip(chunk, scores, strict=True):
                spans = find_entities(text_scores, starts=text.starts)
                yield [self._named(*span) for span in spans]

    def _named(
        self,
        first: int,
        end: int,
        number: int,
        score: float,
    ) -> WordSpan:
        """An entity with its type and the calibrated score."""
        kind = self.types[number]
        calibration = self.settings.calibration.get(kind)
        if calibration:
            score = float(calibrated(score, *calibration))
        return first, end, kind, score


def _raise_listed(scores: np.ndarray, text: Pieces) -> None:
    """Raise the log-odds of the types that list a word; the rows stay log-probabilities."""
    listed = np.flatnonzero(text.is_read & (text.listed > 0))
    begins = text.listed[listed]
    log_odds = text.log_odds[listed]
    scores[listed, begins] += log_odds
    scores[listed, begins + 1] += log_odds
    scores[listed] -= np.logaddexp.reduce(
        scores[listed],
        axis=1,
        keepdims=True,
    )
