"""`WordTagger`: a token-classification network that gives each word one IOB2 tag."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pydantic import Field

from biomed.corpora.documents import tags_of
from biomed.folder import BiomedFolder
from biomed.ner.decoding import NO_WORDS, Found, calibrated, find_entities
from biomed.ner.labels import read_labels
from biomed.ner.reading import Pieces, WordReader, best_window, cut
from domainbert.errors import UserError
from domainbert.inference import chunked
from domainbert.settings import Count, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from domainbert.inference import Device

    ScoresOf = Callable[[Sequence[Pieces]], np.ndarray]

TASK = "entities"


class EntitySettings(Settings):
    """The windows of an entity model.

    Attributes:
        window: maximum tokens of a window, [CLS] and [SEP] included; None is the encoder's limit.
        overlap: tokens shared by consecutive windows; None is an eighth of the window.
        calibration: of each entity type, slope and intercept that make a score a probability; see
            `biomed.ner.calibration`. Types without one keep the network's score.
    """

    window: Count | None = None
    overlap: int | None = None
    calibration: dict[str, list[float]] = Field(default_factory=dict)


class WordTagger(BiomedFolder):
    """A token-classification network, read at the first piece of each word; see `Model`.

    `labels` names and explains the outputs, see `biomed.ner.labels.read_labels`.

    Raises:
        UserError: labels that cannot be read, or windows larger than the encoder's limit.
    """

    task, settings_class = TASK, EntitySettings
    train_command = "biomed ner train CORPUS --encoder {encoder} --out MODEL"

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        labels: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(network, tokenizer, **options)
        names = network.config.id2label
        self._outputs = read_labels([names[number] for number in sorted(names)], labels)
        self.scheme, self.labels = self._outputs.scheme, self._outputs.names
        self.reader = WordReader(tokenizer)
        self.window = self.window_tokens()
        self.overlap = self.window // 8 if self.settings.overlap is None else self.settings.overlap
        cut(0, window=self.window, overlap=self.overlap)  # checks the settings

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        labels: str | None = None,
        device: Device = None,
        batch_tokens: int | None = None,
    ) -> Self:
        """See `Model.from_pretrained`; `labels` names and explains the network's outputs."""
        run = {"device": device, "batch_tokens": batch_tokens}
        return cls.from_loaded(cls.load(name), labels=labels, **run)

    def __repr__(self) -> str:
        """Entity types and window."""
        return f"WordTagger({', '.join(self.scheme.types)}, window={self.window})"

    @classmethod
    def network_class(cls) -> Any:
        """Any encoder for token classification."""
        from transformers import AutoModelForTokenClassification

        return AutoModelForTokenClassification

    @property
    def tokenizer_hash(self) -> bytes:
        """Equal for models that share their word pieces."""
        return hashlib.sha256(self.tokenizer.backend_tokenizer.to_str().encode()).digest()

    def log_probabilities(
        self, texts: Sequence[Pieces], *, network: PreTrainedModel | None = None
    ) -> np.ndarray:
        """Log-probability of each tag for each word that has a piece, text after text.

        Shape (words read, labels), float32. `network` replaces the model's own during training.
        """
        runner = self.runner if network is None else self.runner.with_model(network)
        ranges = [cut(len(t.ids), window=self.window, overlap=self.overlap) for t in texts]
        windows = [
            self.reader.window(text.ids[start:end])
            for text, cuts in zip(texts, ranges, strict=True)
            for start, end in cuts
        ]
        rows = iter(runner.run(windows, read=_log_softmax))
        parts = [np.zeros((0, len(self.labels)), dtype=np.float32)]
        for text, cuts in zip(texts, ranges, strict=True):
            first = text.first[text.is_read]
            choice = best_window(first, cuts)
            # Later windows hold later words, so the words stay in order.
            for number, (start, _) in enumerate(cuts):
                parts.append(next(rows)[1 + first[choice == number] - start])
        return self._outputs.tags(np.concatenate(parts))

    def tags(
        self, sentences: Sequence[Sequence[str]], *, scores_of: ScoresOf | None = None
    ) -> list[list[str]]:
        """The IOB2 tag of every word of sentences that are already split into words.

        A word without a piece (a control character) is I inside an entity, otherwise O.
        `scores_of` replaces `log_probabilities`, as for an ensemble.
        """
        if any(isinstance(words, str) for words in sentences):
            msg = "expected each sentence as a list of words, got a string; split it first"
            raise UserError(msg)
        found = self.entities_of(sentences, scores_of=scores_of)
        return [
            tags_of([span[:3] for span in spans], words=len(words))
            for words, spans in zip(sentences, found, strict=True)
        ]

    def entities_of(
        self, sentences: Iterable[Sequence[str]], **options: Any
    ) -> Iterator[list[tuple[int, int, str, float]]]:
        """The entities of each sentence, in constant memory; for the options see `entities`."""
        pieces, size = map(self.reader.read, sentences), self.runner.buffer_tokens
        for chunk in chunked(pieces, size=lambda text: 1 + len(text.ids), limit=size):
            none = [NO_WORDS] * len(chunk)
            yield from self.entities(chunk, breaks=none, joined=none, **options)

    def entities(
        self,
        texts: Sequence[Pieces],
        *,
        breaks: Sequence[np.ndarray],
        joined: Sequence[np.ndarray],
        scores_of: ScoresOf | None = None,
        raw: bool = False,
    ) -> list[list[tuple[int, int, str, float]]]:
        """First word, one past the last, type and score of each entity of each text.

        `breaks` are the numbers of the words of each text into which no entity continues, `joined`
        those before which none ends. With `raw` the scores are the network's own, not calibrated.
        """
        scores = (scores_of or self.log_probabilities)(texts)
        read = [np.flatnonzero(text.is_read) for text in texts]
        counts = np.array([len(words) for words in read])
        offsets = np.cumsum(counts) - counts
        # Words without a piece are not scored: breaks move to the next word that is.
        places = list(zip(offsets, read, breaks, joined, strict=True))
        starts = [at + np.searchsorted(own, np.append(0, words)) for at, own, words, _ in places]
        unique = np.unique(np.concatenate(starts))
        ends = [at + np.flatnonzero(np.isin(own, words)) for at, own, _, words in places]
        marked = {"starts": unique[unique < len(scores)], "joined": np.concatenate(ends)}
        found = find_entities(scores, scheme=self.scheme, **marked)
        numbers = np.searchsorted(offsets, found.first, side="right") - 1
        words = np.concatenate(read)
        ranges = words[found.first], words[found.last] + 1
        result: list[list[tuple[int, int, str, float]]] = [[] for _ in texts]
        score = found.score if raw else self._calibrated(found)
        columns = (column.tolist() for column in (numbers, *ranges, found.kind, score))
        for number, first, end, kind, score in zip(*columns, strict=True):
            result[number].append((first, end, self.scheme.types[kind], score))
        return result

    def _calibrated(self, found: Found) -> np.ndarray:
        score = found.score.copy()
        for number, kind in enumerate(self.scheme.types):
            if kind in self.settings.calibration:
                chosen = found.kind == number
                slope, intercept = self.settings.calibration[kind]
                score[chosen] = calibrated(score[chosen], slope, intercept)
        return score


def _log_softmax(output: Any, _: torch.Tensor | None) -> torch.Tensor:
    return output.logits.float().log_softmax(dim=-1)
