"""`WordTagger`: a token-classification network that gives each word one IOB2 tag."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.folder import BiomedFolder
from biomed.ner.decoding import TagScheme, best_path
from biomed.ner.reading import Pieces, WordReader, best_window, cut
from domainbert.errors import UserError
from domainbert.inference import chunked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


TASK = "entities"
TRAIN_COMMAND = "biomed ner train CORPUS --encoder {encoder} --out MODEL"


@dataclass(frozen=True)
class EntitySettings:
    """The windows of an entity model.

    Attributes:
        window: maximum tokens of a window, [CLS] and [SEP] included; None is the encoder's limit.
        overlap: tokens shared by consecutive windows; None is an eighth of the window.
    """

    window: int | None = None
    overlap: int | None = None


class WordTagger(BiomedFolder):
    """A token-classification network, read at the first piece of each word.

    Args:
        network: Hugging Face token classifier whose labels are IOB2 tags.
        tokenizer: its fast tokenizer.
        settings: windows.
        device: "cpu", "cuda", …; by default CUDA if available.
        batch_tokens: tokens of a batch, padding included; the default depends on the device.

    Raises:
        UserError: labels that are not IOB2, or windows larger than the encoder's limit.
    """

    task, train_command, settings_class = TASK, TRAIN_COMMAND, EntitySettings

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        settings: EntitySettings | None = None,
        device: str | torch.device | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        super().__init__(
            network, tokenizer, settings=settings, device=device, batch_tokens=batch_tokens
        )
        names = network.config.id2label
        self.scheme = TagScheme.of([names[number] for number in sorted(names)])
        self.labels = self.scheme.labels
        self.reader = WordReader(tokenizer)
        self.window = self.window_tokens()
        self.overlap = self.window // 8 if self.settings.overlap is None else self.settings.overlap
        cut(0, window=self.window, overlap=self.overlap)  # checks the settings

    def __repr__(self) -> str:
        """Entity types and window."""
        return f"WordTagger({', '.join(self.scheme.types)}, window={self.window})"

    @classmethod
    def network_class(cls) -> Any:
        """BERT for token classification."""
        from transformers import BertForTokenClassification

        return BertForTokenClassification

    @property
    def tokenizer_hash(self) -> bytes:
        """Equal for models that read the same pieces."""
        return hashlib.sha256(self.tokenizer.backend_tokenizer.to_str().encode()).digest()

    def log_probabilities(
        self, texts: Sequence[Pieces], *, network: PreTrainedModel | None = None
    ) -> np.ndarray:
        """Log-probability of each tag for each word that has a piece, text after text.

        Args:
            texts: from `reader.read`.
            network: use this network instead of the model's own, such as one in training.

        Returns:
            Shape (words read, labels), float32.
        """
        runner = self.runner if network is None else self.runner.with_model(network)
        ranges = [cut(len(t.ids), window=self.window, overlap=self.overlap) for t in texts]
        windows = [
            self.reader.window(text.ids[start:end])
            for text, cuts in zip(texts, ranges, strict=True)
            for start, end in cuts
        ]
        rows = iter(runner.run(windows, read=_log_softmax))
        parts = [np.zeros((0, len(self.scheme.labels)), dtype=np.float32)]
        for text, cuts in zip(texts, ranges, strict=True):
            parts += _words_of(text.first[text.is_read], cuts, [next(rows) for _ in cuts])
        return np.concatenate(parts)

    def tags(
        self, sentences: Sequence[Sequence[str]], *, network: PreTrainedModel | None = None
    ) -> list[list[str]]:
        """The IOB2 tag of every word of sentences that are already split into words.

        A word without a piece (a control character) is I inside an entity, otherwise O.

        Args:
            sentences: words; each sentence is read on its own.
            network: see `log_probabilities`.
        """
        return self.decoded(
            sentences, lambda pieces: self.log_probabilities(pieces, network=network)
        )

    def decoded(
        self,
        sentences: Sequence[Sequence[str]],
        scores_of: Callable[[Sequence[Pieces]], np.ndarray],
    ) -> list[list[str]]:
        """`tags` from other log-probabilities, such as those of an ensemble.

        Args:
            sentences: see `tags`.
            scores_of: a function like `log_probabilities`.
        """
        if any(isinstance(words, str) for words in sentences):
            msg = "expected each sentence as a list of words, got a string; split it first"
            raise UserError(msg)
        pieces = [self.reader.read(words) for words in sentences]
        result = []
        size = self.runner.buffer_tokens
        for chunk in chunked(pieces, size=lambda text: 1 + len(text.ids), limit=size):
            scores = scores_of(chunk)
            counts = np.array([int(text.is_read.sum()) for text in chunk])
            starts = (np.cumsum(counts) - counts)[counts > 0]
            path = best_path(scores, scheme=self.scheme, starts=starts)
            ends = np.cumsum(counts)
            for text, end, count in zip(chunk, ends, counts, strict=True):
                result.append(self._named(path[end - count : end], text.is_read))
        return result

    def _named(self, path: np.ndarray, is_read: np.ndarray) -> list[str]:
        read = [self.scheme.labels[number] for number in path]
        tags, following = [], "O"
        for known in is_read[::-1]:
            if known:
                following = read.pop()
                tags.append(following)
            else:
                tags.append(following if following.startswith("I-") else "O")
        return tags[::-1]


def _log_softmax(output: Any, _: torch.Tensor | None) -> torch.Tensor:
    return output.logits.float().log_softmax(dim=-1)


def _words_of(
    first: np.ndarray, ranges: Sequence[tuple[int, int]], rows: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Each word's row, taken from its best window, in the order of the words."""
    choice = best_window(first, ranges)
    # Later windows hold later words, so the words stay in order.
    return [
        row[1 + first[choice == number] - start]
        for number, ((start, _), row) in enumerate(zip(ranges, rows, strict=True))
    ]
